//! Every way a command can fail, with the words for people and the codes for scripts.

use callboard_domain::ids::TaskId;
use callboard_domain::refusal::{Refusal, UnmetCheck};
use callboard_domain::task::attempt::Health;
use callboard_engine::EngineError;
use callboard_engine::store::StoreError;
use serde_json::{Map, Value, json};

/// The exit codes scripts rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything that has no code of its own: git, a file, a fault of this program.
    Failure = 1,
    /// The arguments or the settings; clap's own errors have this code, too.
    Usage = 2,
    /// Something that was named is not there: a task, a plan, an executor.
    NotFound = 3,
    /// The actor may not do this.
    Auth = 4,
    /// The state of the task, or another holder of it, stands in the way.
    Conflict = 5,
    /// Deps that are open, or checks that do not pass.
    Gate = 6,
    /// The store cannot be reached or is damaged.
    Unavailable = 7,
    /// A wait ended without the event that it waited for.
    TimedOut = 8,
    /// 128 and the number of SIGINT, as shells do.
    Interrupted = 130,
}

/// Why a command did not do what was asked.
#[derive(Clone, Debug)]
pub enum Failure {
    Said(Box<Complaint>),
    /// Nothing is printed: the reader of our output is gone, or the failure was printed already.
    Silent(u8),
}

/// What is printed of a failure, for people on stderr and with `--json` as one object.
#[derive(Clone, Debug)]
pub struct Complaint {
    pub exit: Exit,
    /// The code of the refusal, as in answers of tools: scripts of both kinds look at one set of words.
    pub code: String,
    pub message: String,
    pub hint: Option<String>,
    /// Whether the command may succeed later without any change of its arguments.
    pub retryable: bool,
    /// Facts for programs, such as the holder of a task.
    pub details: Option<Value>,
}

impl Failure {
    pub fn new(exit: Exit, code: &str, message: impl Into<String>) -> Self {
        Self::Said(Box::new(Complaint {
            exit,
            code: code.into(),
            message: message.into(),
            hint: None,
            retryable: false,
            details: None,
        }))
    }

    /// Arguments that cannot be carried out as they were given.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "INVALID_INPUT", message)
    }

    /// A setting that is wrong; the message names the key and where it was set.
    pub fn config(message: impl std::fmt::Display) -> Self {
        Self::new(Exit::Usage, "INVALID_CONFIG", format!("invalid config: {message}"))
            .hint("callboard config shows every key")
    }

    /// A failure of the machine: a file, a socket.
    pub fn io(what: impl std::fmt::Display, error: &std::io::Error) -> Self {
        Self::new(Exit::Failure, "IO_ERROR", format!("{what}: {error}"))
    }

    /// The way out, as a command where there is one.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        if let Self::Said(complaint) = &mut self {
            complaint.hint = Some(hint.into());
        }
        self
    }

    /// A second hint, after the first one.
    pub fn or_hint(mut self, hint: impl AsRef<str>) -> Self {
        if let Self::Said(complaint) = &mut self {
            let hint = hint.as_ref();
            let hint =
                complaint.hint.take().map_or(hint.to_owned(), |one| format!("{one}; {hint}"));
            complaint.hint = Some(hint);
        }
        self
    }

    /// Replaces ID in the hint by this task.
    pub fn about(mut self, task: TaskId) -> Self {
        if let Self::Said(complaint) = &mut self {
            let named = complaint.hint.take().map(|hint| hint.replace(" ID", &format!(" {task}")));
            complaint.hint = named;
        }
        self
    }

    /// Says that the command may succeed later without any change.
    pub fn retryable(mut self) -> Self {
        if let Self::Said(complaint) = &mut self {
            complaint.retryable = true;
        }
        self
    }

    /// An error that a toolset has already put in its own words.
    pub fn rendered(exit: Exit, error: &Value) -> Self {
        let text = |name: &str| error[name].as_str().map(str::to_owned);
        Self::Said(Box::new(Complaint {
            exit,
            code: text("code").unwrap_or_default(),
            message: text("message").unwrap_or_default(),
            hint: text("hint"),
            retryable: error["retryable"] == true,
            details: error.get("details").cloned(),
        }))
    }

    pub fn details(mut self, details: Value) -> Self {
        if let Self::Said(complaint) = &mut self {
            complaint.details = Some(details);
        }
        self
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Said(complaint) => complaint.exit as u8,
            Self::Silent(code) => *code,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Said(complaint) => write!(f, "{}: {}", complaint.code, complaint.message),
            Self::Silent(code) => write!(f, "ended with {code}"),
        }
    }
}

impl Complaint {
    /// `{"error":{code,message,hint,retryable,details}}`.
    pub fn to_json(&self) -> Value {
        let mut body = Map::new();
        body.insert("code".into(), self.code.as_str().into());
        body.insert("message".into(), self.message.as_str().into());
        body.insert("hint".into(), json!(self.hint));
        body.insert("retryable".into(), self.retryable.into());
        body.insert("details".into(), json!(self.details));
        json!({ "error": body })
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        EngineError::from(refusal).into()
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let exit = exit_of(&error);
        match error {
            EngineError::Refused(refusal) => Self::Said(Box::new(Complaint {
                exit,
                code: refusal.code().into(),
                message: refusal.message(),
                hint: hint_for(&refusal),
                retryable: refusal.retryable(),
                details: refusal.details(),
            })),
            EngineError::Unavailable(words) => Self::Said(Box::new(Complaint {
                exit,
                code: "UNAVAILABLE".into(),
                message: words,
                hint: Some("callboard doctor".into()),
                retryable: true,
                details: None,
            })),
            EngineError::Git(words) => Self::Said(Box::new(Complaint {
                exit,
                code: "GIT_FAILED".into(),
                message: words,
                hint: Some("callboard doctor".into()),
                retryable: true,
                details: None,
            })),
            EngineError::Damaged(words) => Self::new(exit, "STORE_DAMAGED", words)
                .hint("callboard doctor, then callboard restore FILE"),
            // A person at a terminal sees the words of the log.
            EngineError::Internal(words) => {
                Self::new(exit, "INTERNAL_ERROR", words).hint("callboard doctor")
            }
            EngineError::Canceled => Self::new(exit, "CANCELED", "interrupted"),
        }
    }
}

const NEWER_STORE: &str = "install the newer callboard; to stay with this one, callboard restore FILE with a backup of its time";

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let is_newer = matches!(error, StoreError::Newer(_));
        let failure = Self::from(EngineError::from(error));
        // The doctor would only say the same.
        if is_newer { failure.hint(NEWER_STORE) } else { failure }
    }
}

/// The exit code of an error, by who has to act: the caller, another holder, a gate, or the machine.
pub fn exit_of(error: &EngineError) -> Exit {
    match error {
        EngineError::Refused(refusal) => exit_of_refusal(refusal),
        EngineError::Unavailable(_) | EngineError::Damaged(_) => Exit::Unavailable,
        EngineError::Git(_) | EngineError::Internal(_) => Exit::Failure,
        EngineError::Canceled => Exit::Interrupted,
    }
}

/// The match names every refusal, so that a new one gets its exit code on purpose.
fn exit_of_refusal(refusal: &Refusal) -> Exit {
    match refusal {
        Refusal::InvalidInput { .. }
        | Refusal::UnknownState { .. }
        | Refusal::InvalidSpec { .. }
        | Refusal::ParentCycle { .. }
        | Refusal::MixedArguments { .. }
        | Refusal::InvalidRepoPath { .. }
        | Refusal::InvalidSetting { .. }
        | Refusal::CrewInput { .. }
        | Refusal::AlreadyOver { .. } => Exit::Usage,
        Refusal::TaskNotFound { .. }
        | Refusal::ParentNotFound { .. }
        | Refusal::ProjectNotFound { .. }
        | Refusal::SessionNotFound { .. }
        | Refusal::CheckLogNotFound { .. }
        | Refusal::RemovedByRetention { .. }
        | Refusal::DanglingDependency { .. }
        | Refusal::JobNotFound { .. }
        | Refusal::PlanNotFound { .. }
        | Refusal::AgentNotFound { .. }
        | Refusal::MailNotFound { .. }
        | Refusal::EpicNotFound { .. }
        | Refusal::ExecutorMissing { .. }
        | Refusal::CommentNotFound { .. } => Exit::NotFound,
        Refusal::AuthorizationDenied { .. }
        | Refusal::ProfileDenied { .. }
        | Refusal::SharedActor { .. }
        | Refusal::OutsideTask { .. }
        | Refusal::ActorMismatch { .. }
        | Refusal::ClientMismatch { .. }
        | Refusal::NotSessionOwner { .. }
        | Refusal::MailOfAnother { .. }
        | Refusal::CrewDenied { .. }
        | Refusal::NotTaskAuthor { .. }
        | Refusal::NotCommentAuthor { .. } => Exit::Auth,
        Refusal::AlreadyClaimed { .. }
        | Refusal::TaskClosed { .. }
        | Refusal::Closed { .. }
        | Refusal::SessionActive { .. }
        | Refusal::SessionTerminal { .. }
        | Refusal::DependencyCycle { .. }
        | Refusal::Conflict { .. }
        | Refusal::NotHolder { .. }
        | Refusal::StaleFence { .. }
        | Refusal::NotActionable { .. }
        | Refusal::IllegalMove { .. }
        | Refusal::AlreadyStarted { .. }
        | Refusal::BlockersMax { .. }
        | Refusal::QuotaExceeded(_)
        | Refusal::TooManyJobs { .. }
        | Refusal::NoPlace { .. }
        | Refusal::TooManyCalls { .. }
        | Refusal::NoQuestion { .. }
        | Refusal::NotCancelable { .. }
        | Refusal::HasDependents { .. }
        | Refusal::ReviewNotReady { .. }
        | Refusal::ReviewDecided { .. }
        | Refusal::WorkMoved { .. }
        | Refusal::TaskChanged { .. }
        | Refusal::NotApproved { .. }
        | Refusal::AgentAtWork { .. }
        | Refusal::NotAuto { .. }
        | Refusal::NotPair { .. }
        | Refusal::NotRunning { .. }
        | Refusal::PlanDecided { .. }
        | Refusal::AgentExists { .. }
        | Refusal::AgentState { .. }
        | Refusal::MergeConflict { .. }
        | Refusal::KeyReused { .. }
        | Refusal::AnswerNotKept { .. }
        | Refusal::JobLost { .. } => Exit::Conflict,
        Refusal::DepsNotClosed { .. } | Refusal::ChecksNotPassed { .. } => Exit::Gate,
        Refusal::CheckInfrastructure { .. }
        | Refusal::WorkspaceNotReady { .. }
        | Refusal::NoCommit { .. } => Exit::Failure,
    }
}

/// The hint in the CLI's commands, where the refusal's own hint speaks of tools.
/// The match names every refusal, so that the hint of a new one is chosen on purpose. `ID` is replaced by `about`.
fn hint_for(refusal: &Refusal) -> Option<String> {
    let hint = match refusal {
        Refusal::TaskNotFound { .. } | Refusal::ParentNotFound { .. } => "callboard task list",
        Refusal::SessionNotFound { .. } => "callboard call list_sessions '{}'",
        Refusal::DanglingDependency { .. } => {
            "callboard task list shows what a task can depend on; nothing was created"
        }
        Refusal::DepsNotClosed { .. } => {
            "close the dependencies first, or callboard next for work that can start"
        }
        Refusal::ChecksNotPassed { checks, .. } => return Some(hint_for_checks(checks)),
        Refusal::AlreadyClaimed { .. } => "callboard next",
        Refusal::TaskClosed { .. } | Refusal::Closed { .. } => {
            "reopen the task first: callboard task move ID STATUS"
        }
        Refusal::ExecutorMissing { found, .. } => {
            return Some(match found.first() {
                Some(first) => format!("callboard run ID --agent {first}"),
                None => "install an agent, or name a program as [executors.NAME] in \
                         .callboard/config.toml; callboard config shows the keys"
                    .into(),
            });
        }
        Refusal::SessionActive { health: Health::Stalled, .. } => {
            "the session is stalled: callboard call begin with \"takeover\": true replaces it"
        }
        Refusal::SessionActive { .. } => {
            "finish or cancel the session: callboard call finish, callboard call cancel"
        }
        Refusal::IllegalMove { .. }
        | Refusal::ReviewNotReady { .. }
        | Refusal::ReviewDecided { .. }
        | Refusal::WorkMoved { .. }
        | Refusal::TaskChanged { .. }
        | Refusal::AgentAtWork { .. } => "callboard task show ID",
        Refusal::NotApproved { .. } => "callboard approve ID --merge",
        Refusal::JobNotFound { .. } => "callboard job list",
        Refusal::NoQuestion { .. } => "callboard job show JOB",
        Refusal::NotCancelable { .. } => "callboard job show JOB shows the state of the job",
        Refusal::NotRunning { .. } => "callboard job list shows what runs",
        Refusal::PlanNotFound { .. } => "callboard plan list",
        Refusal::PlanDecided { .. } => "callboard plan show PLAN",
        Refusal::AgentNotFound { .. } => "callboard agent list",
        Refusal::MailNotFound { .. } => "callboard mail list",
        Refusal::EpicNotFound { .. } => "callboard epic list",
        Refusal::Conflict { .. } => "callboard task show ID, then try again",
        Refusal::CheckLogNotFound { .. } => "callboard check run ID writes a new log",
        Refusal::InvalidInput { .. }
        | Refusal::UnknownState { .. }
        | Refusal::DependencyCycle { .. }
        | Refusal::AgentExists { .. }
        | Refusal::MailOfAnother { .. }
        | Refusal::AgentState { .. }
        | Refusal::CrewInput { .. }
        | Refusal::CrewDenied { .. }
        | Refusal::MergeConflict { .. }
        | Refusal::ActorMismatch { .. }
        | Refusal::ClientMismatch { .. }
        | Refusal::NotSessionOwner { .. }
        | Refusal::SessionTerminal { .. }
        | Refusal::CheckInfrastructure { .. }
        | Refusal::WorkspaceNotReady { .. }
        | Refusal::NoCommit { .. }
        | Refusal::NotHolder { .. }
        | Refusal::StaleFence { .. }
        | Refusal::NotActionable { .. }
        | Refusal::AlreadyStarted { .. }
        | Refusal::AlreadyOver { .. }
        | Refusal::BlockersMax { .. }
        | Refusal::CommentNotFound { .. }
        | Refusal::NotCommentAuthor { .. }
        | Refusal::NotTaskAuthor { .. }
        | Refusal::QuotaExceeded(_)
        | Refusal::JobLost { .. }
        | Refusal::InvalidSpec { .. }
        | Refusal::TooManyJobs { .. }
        | Refusal::NoPlace { .. }
        | Refusal::TooManyCalls { .. }
        | Refusal::ProfileDenied { .. }
        | Refusal::SharedActor { .. }
        | Refusal::ProjectNotFound { .. }
        | Refusal::ParentCycle { .. }
        | Refusal::HasDependents { .. }
        | Refusal::NotAuto { .. }
        | Refusal::NotPair { .. }
        | Refusal::OutsideTask { .. }
        | Refusal::MixedArguments { .. }
        | Refusal::InvalidRepoPath { .. }
        | Refusal::InvalidSetting { .. }
        | Refusal::KeyReused { .. }
        | Refusal::AnswerNotKept { .. }
        | Refusal::RemovedByRetention { .. }
        | Refusal::AuthorizationDenied { .. } => return refusal.hint(),
    };
    Some(hint.into())
}

/// Names the logs of failed checks and the commands for the checks that a person has to answer.
fn hint_for_checks(checks: &[UnmetCheck]) -> String {
    let logs: Vec<&str> = checks.iter().filter_map(|check| check.log.as_deref()).collect();
    let manual: Vec<String> = checks
        .iter()
        .filter(|check| check.log.is_none())
        .map(|check| match check.index {
            Some(index) => format!("callboard check attest ID {index}"),
            // A check without an index is the contract's own: a person approves the task as a whole.
            None => "callboard approve ID".into(),
        })
        .collect();
    let mut steps = Vec::new();
    if !logs.is_empty() {
        steps.push(format!("read {}", logs.join(", ")));
    }
    if !manual.is_empty() {
        steps.push(manual.join(", "));
    }
    steps.push("then callboard done ID again".into());
    steps.join("; ")
}
