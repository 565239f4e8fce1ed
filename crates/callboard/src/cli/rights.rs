//! The rights of callers of a server without tokens: `--lane`, `--profile` and `--as-type`.

use callboard_domain::rights::{AgentType, Lane, Profile, Rights};

#[derive(clap::Args, Clone, Debug, Default)]
pub struct RightsArgs {
    /// What callers may be trusted with at most: kagan or kagan_admin (admin) [default: kagan]
    #[arg(long, value_parser = lane)]
    lane: Option<Lane>,
    /// What they are trusted with: viewer and planner only read, in every toolset; pair_worker, operator, maintainer [default: what their lane allows]
    #[arg(long, value_parser = profile)]
    profile: Option<Profile>,
    /// What an agent that the crew does not know becomes at its first call: SUPERVISOR, ORCHESTRATOR, WORKER [default: SUPERVISOR]
    #[arg(long, value_name = "TYPE", value_parser = agent_type)]
    as_type: Option<AgentType>,
}

impl RightsArgs {
    pub fn is_typed(&self) -> bool {
        self.lane.is_some() || self.profile.is_some() || self.as_type.is_some()
    }

    /// Sets the rights of a connection; returns a message when the lane allows less than was requested.
    pub fn apply(&self, rights: &mut Rights) -> Option<String> {
        rights.lane = self.lane.unwrap_or(Lane::Kagan);
        rights.profile_wanted = self.profile;
        rights.agent_type = Some(self.as_type.unwrap_or(AgentType::Supervisor));
        capped(rights)
    }
}

/// The message for a request of more than the lane allows.
pub fn capped(rights: &Rights) -> Option<String> {
    let wanted = rights.profile_wanted.filter(|wanted| *wanted > rights.profile())?;
    Some(format!(
        "The profile {} was requested, but the lane {} allows at most {}, which applies instead.",
        wanted.as_str(),
        rights.lane.as_str(),
        rights.profile().as_str()
    ))
}

/// Reads a lane; `admin` is a short word for `kagan_admin`.
pub fn lane(text: &str) -> Result<Lane, String> {
    let known = || Lane::ALL.iter().map(|lane| lane.as_str()).collect::<Vec<_>>();
    let word = if text == "admin" { Lane::KaganAdmin.as_str() } else { text };
    Lane::parse(word).ok_or_else(|| format!("lanes are {}", known().join(", ")))
}

/// Reads an agent type, in upper or lower case.
pub fn agent_type(text: &str) -> Result<AgentType, String> {
    let known = || AgentType::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>();
    let found = AgentType::parse(&text.trim().to_ascii_uppercase());
    found.ok_or_else(|| format!("types are {}", known().join(", ")))
}

fn profile(text: &str) -> Result<Profile, String> {
    let known = || Profile::ALL.iter().map(|profile| profile.as_str()).collect::<Vec<_>>();
    Profile::parse(text).ok_or_else(|| format!("profiles are {}", known().join(", ")))
}
