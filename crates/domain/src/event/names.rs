//! The names of events, with the moment each is written and the keys its data may have.

/// Makes `EventName` of the table below.
macro_rules! event_names {
    ($($variant:ident => $name:literal, $when:literal, [$($key:literal),*];)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EventName { $($variant),* }

        impl EventName {
            pub const ALL: &'static [EventName] = &[$(EventName::$variant),*];

            pub fn as_str(self) -> &'static str {
                match self { $(EventName::$variant => $name),* }
            }

            pub fn parse(text: &str) -> Option<Self> {
                match text { $($name => Some(EventName::$variant),)* _ => None }
            }

            /// The moment the event is written, as a sentence.
            pub fn when(self) -> &'static str {
                match self { $(EventName::$variant => $when),* }
            }

            /// The keys that the event's data may have. An event need not have all of them.
            pub fn keys(self) -> &'static [&'static str] {
                match self { $(EventName::$variant => &[$($key),*]),* }
            }
        }
    };
}

event_names! {
    TaskCreated => "task.created", "A task is created.", ["title", "status", "deps", "parent"];
    TaskUpdated => "task.updated", "Fields of a task are edited.", ["fields"];
    TaskDeleted => "task.deleted", "A task is removed.", ["title"];
    TaskCompleted => "task.completed",
        "The holder of a lease completes its task.",
        ["kind", "bytes"];
    TaskCanceled => "task.canceled", "The holder of a lease cancels its task.", ["was"];
    TaskReopened => "task.reopened", "A completed task is reopened.", [];
    TaskClaimed => "task.claimed", "A task gets an assignee.", ["assignee"];
    TaskReleased => "task.released", "A task loses its assignee.", ["assignee"];
    TaskStatusChanged => "task.status_changed",
        "A task moves to another status.",
        ["from", "to", "phase", "at", "blocked"];
    TaskReady => "task.ready", "The last open dep or blocker of a task is gone.", ["unblocked_by"];
    TaskNoted => "task.noted", "A note is added to a task's history.", ["text"];
    TaskTold => "task.told", "A message for the agent of a task is left.", ["text"];
    TaskHeard => "task.heard", "An agent receives the messages that waited.", ["job", "messages"];
    TaskBlocked => "task.blocked", "A task is blocked.", ["by", "reason"];
    TaskUnblocked => "task.unblocked", "The block of a task is lifted.", [];
    TaskScratchpad => "task.scratchpad", "The notes beside a task change.", ["chars"];
    TaskDependencyAdded => "task.dependency_added", "A dep is added.", ["dep"];
    TaskDependencyRemoved => "task.dependency_removed", "A dep is removed.", ["dep"];
    CheckRan => "check.ran", "A command check ran.", ["index", "result", "tree", "took_ms"];
    CheckAttested => "check.attested", "A manual check is attested.", ["index", "result"];
    AttemptStarted => "attempt.started", "An attempt begins.", ["kind", "fence"];
    AttemptHeartbeat => "attempt.heartbeat", "The actor of an attempt reports.", ["progress"];
    AttemptEnded => "attempt.ended", "An attempt ends.", ["how"];
    AttemptExpired => "attempt.expired", "The lease of an attempt is over.", ["holder"];
    VerificationQueued => "verification.queued", "A verification is queued.", ["job"];
    VerificationSkipped => "verification.skipped", "A completed task needs no verification.", [];
    VerificationPending => "verification.pending",
        "A verification has no verdict yet.",
        ["reason", "again_in_s"];
    VerificationPassed => "verification.passed",
        "A verification passes, or a person approves.",
        ["approved_by"];
    VerificationFailed => "verification.failed", "A verification fails.", ["reason"];
    CommentAdded => "comment.added", "A comment is added.", ["comment", "kind"];
    CommentResolved => "comment.resolved", "A comment is resolved.", ["comment"];
    JobQueued => "job.queued", "A job of the server is queued.", ["job", "kind", "state", "tries"];
    JobTaken => "job.taken",
        "A runner takes a job of the server.",
        ["job", "kind", "state", "tries"];
    JobKept => "job.kept",
        "A runner renews the lease of a job.",
        ["job", "kind", "state", "tries", "attempt"];
    JobEnded => "job.ended",
        "A job of the server ends, or the processes of a run are gone.",
        ["job", "kind", "state", "tries", "attempt", "summary", "artifacts", "started_at", "finished_at", "gone"];
    JobSubmitted => "job.submitted",
        "A job for an agent, or the stop of an agent, is requested.",
        ["job", "kind", "state", "tries", "attempt", "idempotencyKey", "priority", "role", "waits"];
    JobStarted => "job.started",
        "A runner starts the job, or goes on with it.",
        ["job", "kind", "state", "tries", "attempt", "fence", "resumed"];
    JobStale => "job.stale",
        "The runner of a job is silent or went away.",
        ["job", "state", "attempt"];
    JobHeld => "job.held",
        "Processes of an earlier run hold a job back.",
        ["job", "state", "attempt", "left"];
    JobUsed => "job.used",
        "The agent of a run reported its tokens and its cost, in millionths of a US dollar.",
        ["job", "state", "attempt", "agent", "input_tokens", "output_tokens", "cost_micros"];
    JobCommitted => "job.committed",
        "A run ends with commits; `leftovers` says that the server committed changes the agent had left.",
        ["job", "state", "attempt", "head", "commits", "leftovers"];
    JobRequeued => "job.requeued",
        "A lost job goes back to the queue.",
        ["job", "kind", "state", "tries", "attempt"];
    JobSucceeded => "job.succeeded",
        "A job succeeds; for work in a workspace, its agent is at work.",
        ["job", "kind", "state", "tries", "attempt", "summary", "artifacts", "started_at", "finished_at"];
    JobFailed => "job.failed",
        "A job fails.",
        ["job", "kind", "state", "tries", "attempt", "summary", "artifacts", "started_at", "finished_at", "reason"];
    JobCanceled => "job.canceled",
        "A job is canceled.",
        ["job", "kind", "state", "tries", "attempt", "summary", "artifacts", "started_at", "finished_at"];
    JobExpired => "job.expired",
        "A job exceeds its time to live.",
        ["job", "state", "attempt", "summary", "artifacts", "started_at", "finished_at"];
    JobArtifact => "job.artifact",
        "An artifact of a job is stored.",
        ["job", "state", "attempt", "artifact", "size", "sha256"];
    JobPr => "job.pr",
        "The pull request of a job is opened or changes.",
        ["job", "state", "attempt", "artifact", "status", "forge", "number"];
    PrOpened => "pr.opened",
        "The pull request of a task is opened.",
        ["forge", "number", "url", "branch", "base", "awaited", "commit"];
    PrUpdated => "pr.updated",
        "The pull request of a task changes.",
        ["forge", "number", "url", "branch", "base", "awaited", "commit"];
    PrMerged => "pr.merged",
        "The pull request of a task is merged.",
        ["forge", "number", "url", "branch", "base", "awaited", "commit"];
    PrClosed => "pr.closed",
        "The pull request of a task is closed.",
        ["forge", "number", "url", "branch", "base", "awaited", "commit"];
    JobAsked => "job.asked",
        "The agent of a job asks a question.",
        ["job", "state", "attempt", "question"];
    JobAnswered => "job.answered",
        "A question of a job is answered.",
        ["job", "state", "attempt", "question", "granted"];
    ReviewRequested => "review.requested", "A review is requested.", ["by"];
    ReviewApproved => "review.approved",
        "A review approves the work.",
        ["unmerged", "by", "advice"];
    ReviewRejected => "review.rejected", "A review rejects the work.", ["by", "advice", "comments"];
    ReviewMerged => "review.merged", "Reviewed work is merged, in one commit for each repository.",
        ["commit", "commits", "pushed"];
    ReviewRebased => "review.rebased", "Reviewed work is rebased.", [];
    ReviewFailed => "review.failed", "Work cannot be merged or rebased.", ["action", "files"];
    SessionCreated => "session.created",
        "A session of a person and an agent begins.",
        ["agent", "fence"];
    SessionKilled => "session.killed", "A session of a person and an agent ends.", [];
    CallRefused => "call.refused",
        "A call of a tool is refused.",
        ["tool", "code", "task", "action"];
    WebhookQueued => "webhook.queued",
        "A message to a webhook is queued.",
        ["job", "mail", "task", "delivery", "to"];
    WebhookDelivered => "webhook.delivered",
        "A webhook takes a message.",
        ["job", "mail", "task", "delivery", "to", "tries", "outcome", "again_at"];
    WebhookFailed => "webhook.failed",
        "A webhook does not take a message.",
        ["job", "mail", "task", "delivery", "to", "tries", "outcome", "again_at"];
    KnowledgeStored => "knowledge.stored",
        "An entry of knowledge is stored.",
        ["knowledge", "title", "source"];
    KnowledgeSuperseded => "knowledge.superseded",
        "An entry of knowledge is superseded.",
        ["knowledge", "by"];
    SettingsUpdated => "settings.updated", "Settings of the board change.", ["changes"];
    ProjectCreated => "project.created", "A project is created.", ["project", "name", "repos"];
    ProjectOpened => "project.opened", "An actor opens a project.", ["project", "name"];
    PlanProposed => "plan.proposed", "A plan is proposed.", ["plan", "tasks", "todos"];
    PlanApproved => "plan.approved",
        "A plan is approved and its tasks are created.",
        ["plan", "tasks"];
    PlanRejected => "plan.rejected", "A plan is rejected.", ["plan", "words"];
    CallAnswered => "call.answered",
        "A read is answered and `board.audit_reads` is on.",
        ["tool", "task"];
    AgentAdded => "agent.added",
        "An agent is added to the crew.",
        ["agentId", "type", "epicId", "taskId"];
    AgentRemoved => "agent.removed", "An agent is removed from the crew.", ["agentId"];
    MailSent => "mail.sent", "A mail is sent.", ["mailId", "toAgentId", "isForHuman", "subject"];
    MailRead => "mail.read",
        "A mail is read for the first time.",
        ["mailId", "toAgentId", "isForHuman"];
    DecisionLogged => "decision.logged", "A decision is logged by hand.", ["logId", "agentId"];
    AgentFreed => "agent.freed",
        "A worker is freed from a task it can no longer work on.",
        ["agentId", "taskId"];
    TaskAssigned => "task.assigned",
        "A task is assigned to a worker of the crew.",
        ["agentId", "fence"];
    EpicStatusChanged => "epic.status_changed", "An epic moves to another state.", ["from", "to"];
    EpicCompleted => "epic.completed", "An epic is completed.", ["url", "completed", "failed"];
}
