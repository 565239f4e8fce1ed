//! What a caller may do, besides who it is. Scopes hold in every toolset, and so does a profile below
//! `pair_worker`, which only reads. The higher profiles matter to the board and relay, the agent type to the crew.
//! A caller bound to a task changes no other.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::command::Command;
use crate::ids::TaskId;
use crate::refusal::Refusal;

/// Makes an enum of words with `as_str`, `parse` and the list `ALL` in order.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$note:meta])* $variant:ident => $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$note])* #[serde(rename = $word)] $variant,)* }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            pub fn parse(text: &str) -> Option<Self> {
                match text { $($word => Some($name::$variant),)* _ => None }
            }
        }
    };
}

words! {
    Scope {
        TasksRead => "tasks:read",
        TasksWrite => "tasks:write",
        KnowledgeRead => "knowledge:read",
        KnowledgeWrite => "knowledge:write",
        /// The counts of the server, which are those of every org.
        MetricsRead => "metrics:read",
        /// Write commands into checks. Running the checks of a task is `tasks:write`.
        CommandsRun => "commands:run",
    }
}

impl Scope {
    /// The scopes of a caller that names none: everything in its own org.
    pub const USUAL: &'static [Scope] = &[
        Scope::TasksRead,
        Scope::TasksWrite,
        Scope::KnowledgeRead,
        Scope::KnowledgeWrite,
        Scope::CommandsRun,
    ];

    /// The least profile that can use the scope.
    pub fn least_profile(self) -> Profile {
        match self {
            Scope::TasksRead | Scope::KnowledgeRead | Scope::MetricsRead => Profile::Viewer,
            Scope::TasksWrite | Scope::KnowledgeWrite | Scope::CommandsRun => Profile::PairWorker,
        }
    }
}

words! {
    /// Each includes those before it.
    Profile {
        Viewer => "viewer",
        Planner => "planner",
        PairWorker => "pair_worker",
        Operator => "operator",
        Maintainer => "maintainer",
    }
}

words! {
    /// What a person does with a task on a page or in a terminal. Agents have the verbs of their toolset.
    PersonVerb {
        /// Notes, words to an agent, drafts of comments.
        Write => "write",
        RunChecks => "run_checks",
        /// Start an agent, stop an agent, take a task back from its holder.
        RunAgent => "run_agent",
        /// Change a task, its order and its dependencies.
        Edit => "edit",
        Attest => "attest",
        Approve => "approve",
        SendBack => "send_back",
        /// Answer the question of an agent.
        Answer => "answer",
        /// Make the tasks of a plan, or put the plan away.
        DecidePlan => "decide_plan",
        /// Add an agent to the crew, or remove one.
        ChangeCrew => "change_crew",
        Merge => "merge",
        Rebase => "rebase",
        Remove => "remove",
    }
}

impl PersonVerb {
    /// The least profile of a person who uses the verb. The pages, the board's tools and the engine ask here.
    pub const fn least_profile(self) -> Profile {
        match self {
            Self::Write | Self::RunChecks | Self::RunAgent => Profile::PairWorker,
            Self::Edit
            | Self::Attest
            | Self::Approve
            | Self::SendBack
            | Self::Answer
            | Self::DecidePlan
            | Self::ChangeCrew => Profile::Operator,
            Self::Merge | Self::Rebase | Self::Remove => Profile::Maintainer,
        }
    }
}

words! {
    /// How far a caller is trusted, whatever profile it asks for.
    Lane {
        Kagan => "kagan",
        KaganAdmin => "kagan_admin",
    }
}

words! {
    AgentType {
        Supervisor => "SUPERVISOR",
        Orchestrator => "ORCHESTRATOR",
        Worker => "WORKER",
    }
}

impl Lane {
    pub fn ceiling(self) -> Profile {
        match self {
            Lane::Kagan => Profile::PairWorker,
            Lane::KaganAdmin => Profile::Maintainer,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    pub scopes: Vec<Scope>,
    pub lane: Lane,
    /// The profile that was asked for; `profile()` is the one that holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_wanted: Option<Profile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<AgentType>,
    /// `None`: every toolset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolsets: Option<Vec<String>>,
    /// The one task this caller works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
}

impl Default for Rights {
    fn default() -> Self {
        Self {
            scopes: Scope::USUAL.to_vec(),
            lane: Lane::Kagan,
            profile_wanted: None,
            agent_type: None,
            toolsets: None,
            task: None,
        }
    }
}

/// Refuses a name that several clients share, for a verb that needs exactly one client (`Command::needs_one_client`): what
/// one of them holds would be held by all.
pub fn judge_one_client(is_shared: bool, verb: &str, actor: &Actor) -> Result<(), Refusal> {
    match is_shared {
        true => Err(Refusal::SharedActor { verb: verb.into(), actor: actor.clone() }),
        false => Ok(()),
    }
}

impl Rights {
    /// Whether a caller has the scope and a profile that can use it.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) && self.profile() >= scope.least_profile()
    }

    pub fn judge(&self, verb: &str, scope: Scope) -> Result<(), Refusal> {
        self.judge_from(verb, scope, scope.least_profile())
    }

    /// As `judge`, for a verb that needs another profile than its scope does.
    pub fn judge_from(&self, verb: &str, scope: Scope, needed: Profile) -> Result<(), Refusal> {
        let held = self.profile();
        if !self.scopes.contains(&scope) {
            return Err(Refusal::AuthorizationDenied { verb: verb.into(), scope: scope.as_str() });
        }
        match held < needed {
            true => Err(Refusal::ProfileDenied { verb: verb.into(), needed, held }),
            false => Ok(()),
        }
    }

    /// Judges a verb of a person. `tool` is the caller's own word for the verb.
    pub fn judge_verb(&self, tool: &str, verb: PersonVerb) -> Result<(), Refusal> {
        self.judge_from(tool, Scope::TasksWrite, verb.least_profile())
    }

    /// Judges everything that a command requires except the task it changes.
    pub fn judge_command(
        &self,
        verb: &str,
        scope: Scope,
        command: &Command,
    ) -> Result<(), Refusal> {
        self.judge_from(verb, scope, command.least_profile(scope))?;
        match command.writes_commands() {
            true => self.judge(verb, Scope::CommandsRun),
            false => Ok(()),
        }
    }

    /// Refuses a caller that is bound to another task.
    pub fn judge_task(&self, task: TaskId) -> Result<(), Refusal> {
        match self.task {
            Some(bound) if bound != task => {
                Err(Refusal::OutsideTask { task: task.to_string(), bound })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a caller that is bound to a task, because the object of the call belongs to none.
    pub fn judge_outside(&self, what: &str) -> Result<(), Refusal> {
        match self.task {
            Some(bound) => Err(Refusal::OutsideTask { task: what.into(), bound }),
            None => Ok(()),
        }
    }

    /// The lower of the requested profile and the ceiling of the lane.
    pub fn profile(&self) -> Profile {
        let ceiling = self.lane.ceiling();
        self.profile_wanted.map_or(ceiling, |wanted| wanted.min(ceiling))
    }

    /// Whether a caller reads only its own mail and decisions. That is so for an agent that showed a token; people and
    /// the administrators' lane read those of all agents.
    pub fn is_kept_to_own(&self, actor: &Actor, has_token: bool) -> bool {
        has_token && !actor.is_human() && self.lane != Lane::KaganAdmin
    }

    pub fn may_speak(&self, toolset: &str) -> bool {
        self.toolsets.as_ref().is_none_or(|names| names.iter().any(|name| name == toolset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lane_caps_the_profile() {
        for (lane, wanted, got) in [
            ("kagan", "", "pair_worker"),
            ("kagan", "viewer", "viewer"),
            ("kagan", "maintainer", "pair_worker"),
            ("kagan_admin", "", "maintainer"),
            ("kagan_admin", "operator", "operator"),
        ] {
            let rights = Rights {
                lane: Lane::parse(lane).expect("a lane"),
                profile_wanted: Profile::parse(wanted),
                ..Rights::default()
            };
            assert_eq!(rights.profile().as_str(), got, "{lane} {wanted}");
        }
    }

    /// Each profile with the verbs that it adds to those of the profile before it.
    #[test]
    fn a_verb_of_a_person_needs_a_profile() {
        let mut before: Vec<&str> = Vec::new();
        for (profile, added) in [
            (Profile::Viewer, ""),
            (Profile::Planner, ""),
            (Profile::PairWorker, "write run_checks run_agent"),
            (Profile::Operator, "edit attest approve send_back answer decide_plan change_crew"),
            (Profile::Maintainer, "merge rebase remove"),
        ] {
            let (lane, profile_wanted) = (Lane::KaganAdmin, Some(profile));
            let rights = Rights { lane, profile_wanted, ..Rights::default() };
            let may = |verb: &&PersonVerb| rights.judge_verb("web", **verb).is_ok();
            let mut found: Vec<&str> =
                PersonVerb::ALL.iter().filter(may).map(|verb| verb.as_str()).collect();
            before.extend(added.split_whitespace());
            found.sort_unstable();
            before.sort_unstable();
            assert_eq!(found, before, "{profile:?}");
        }
        let only_reads = Rights { scopes: vec![Scope::TasksRead], ..Rights::default() };
        let refused = only_reads.judge_verb("web", PersonVerb::Write);
        assert!(matches!(refused, Err(Refusal::AuthorizationDenied { .. })), "{refused:?}");
    }

    #[test]
    fn an_agent_with_a_token_reads_only_its_own_mail() {
        for (actor, lane, has_token, is_kept) in [
            ("agent:w1", Lane::Kagan, true, true),
            ("agent:w1", Lane::Kagan, false, false),
            ("agent:w1", Lane::KaganAdmin, true, false),
            ("human:ana", Lane::Kagan, true, false),
            ("human:ana", Lane::KaganAdmin, true, false),
            ("human:ana", Lane::Kagan, false, false),
        ] {
            let rights = Rights { lane, ..Rights::default() };
            let actor = actor.parse().expect("an actor");
            assert_eq!(rights.is_kept_to_own(&actor, has_token), is_kept, "{actor} {lane:?}");
        }
    }

    /// Each profile with each scope: a token's profile holds in every toolset.
    #[test]
    fn a_profile_below_pair_worker_only_reads() {
        for (profile, may) in [
            ("viewer", "tasks:read knowledge:read"),
            ("planner", "tasks:read knowledge:read"),
            ("pair_worker", "tasks:read tasks:write knowledge:read knowledge:write commands:run"),
            ("operator", "tasks:read tasks:write knowledge:read knowledge:write commands:run"),
            ("maintainer", "tasks:read tasks:write knowledge:read knowledge:write commands:run"),
        ] {
            let profile_wanted = Profile::parse(profile);
            let lane = Lane::KaganAdmin;
            let rights = Rights { lane, profile_wanted, ..Rights::default() };
            let has = |scope: &&Scope| rights.may(**scope);
            let found: Vec<_> = Scope::ALL.iter().filter(has).map(|scope| scope.as_str()).collect();
            assert_eq!(found.join(" "), may, "{profile}");
        }
    }

    #[test]
    fn rights_are_kept_as_words() {
        let rights = Rights {
            scopes: vec![Scope::TasksRead],
            agent_type: Some(AgentType::Worker),
            toolsets: Some(vec!["graph".into()]),
            ..Rights::default()
        };
        let text = serde_json::to_string(&rights).expect("plain data");
        assert_eq!(
            text,
            r#"{"scopes":["tasks:read"],"lane":"kagan","agent_type":"WORKER","toolsets":["graph"]}"#
        );
        assert_eq!(serde_json::from_str::<Rights>(&text).expect("reads back"), rights);
        assert!(rights.may_speak("graph") && !rights.may_speak("board"));
    }
}
