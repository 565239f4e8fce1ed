//! `callboard token`: the tokens that let callers in over HTTP.

use std::time::Duration;

use callboard_domain::actor::Actor;
use callboard_domain::crew::AgentId;
use callboard_domain::rights::{AgentType, Lane, Profile, Rights, Scope};
use callboard_domain::token::Token;
use callboard_engine::TokenWish;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::time::rfc3339_ms;
use callboard_surface::tool::{Tool, Toolset};
use callboard_surface::toolsets;
use clap::Subcommand;
use serde_json::{Value, json};

use super::context::{Context, Open};
use super::duration::duration;
use super::rights;
use crate::identity;
use crate::output::{Exit, Failure, List, Object, Style, Table};

/// Tokens belong to the whole server: `--org` names the org of a token's holder, not the org of the command.
const HOME: &str = "default";

/// Manage the tokens that let agents and people in over HTTP
///
/// From the first token on, every HTTP request needs one.
#[derive(Subcommand)]
pub enum TokenCommand {
    Add(TokenAddArgs),
    List(TokenListArgs),
    Revoke(RevokeArgs),
}

/// Make a token; it is shown once and never again
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  callboard token add --actor agent:ci-1 --scopes tasks:read --expires-in 30d"
)]
pub struct TokenAddArgs {
    /// What its holder may do: tasks:read, tasks:write, commands:run, … [default: everything]
    #[arg(long, value_delimiter = ',')]
    scopes: Vec<String>,
    /// How far its holder is trusted: kagan or kagan_admin [default: kagan]
    #[arg(long)]
    lane: Option<String>,
    /// viewer and planner only read, in every toolset; pair_worker, operator or maintainer [default: what the lane allows]
    #[arg(long)]
    profile: Option<String>,
    /// SUPERVISOR, ORCHESTRATOR or WORKER [default: none]
    #[arg(long, value_name = "TYPE")]
    as_type: Option<String>,
    /// Vocabularies it speaks, separated by commas [default: all]
    #[arg(long)]
    toolsets: Option<String>,
    /// The one task that its holder may change; its holder creates none
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// How long it lives, like 3s, 2h or 30d [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    expires_in: Option<Duration>,
}

/// List all tokens that were ever made, newest first
#[derive(clap::Args, Debug)]
pub struct TokenListArgs {}

/// End a token, everywhere, within seconds
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard token revoke tok_01j9x2k7m3n4p5q6r7s8t9v0wx")]
pub struct RevokeArgs {
    /// The token's id, as `token list` shows it
    id: String,
}

impl TokenCommand {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            TokenCommand::Add(args) => cmd_token_add(context, args).await,
            TokenCommand::List(TokenListArgs {}) => cmd_token_list(context).await,
            TokenCommand::Revoke(args) => cmd_token_revoke(context, args).await,
        }
    }
}

async fn cmd_token_add(context: &Context, args: TokenAddArgs) -> Result<(), Failure> {
    let actor = context.actor_flag().ok_or_else(|| {
        let unnamed = Failure::usage("name the actor of the token with --actor");
        unnamed.hint("callboard token add --actor agent:NAME")
    })?;
    let actor: Actor = actor.trim().parse().map_err(|e| Failure::usage(format!("{e}")))?;
    let open = context.open_in(HOME).await?;
    let wish = TokenWish {
        org: context.org().to_owned(),
        actor,
        rights: rights(&open, &args).await?,
        lives: args.expires_in,
    };
    // The first token changes who may use the server, which people notice only when their page asks for it.
    if !context.out.json && !open.engine().needs_tokens().await? {
        context.out.note(
            "this is the first token: from now on every HTTP request needs one, the web page too; \
             callboard mcp needs none",
        );
    }
    let (token, text) = open.engine().token_add(&giver()?, wish).await?;
    if context.out.json {
        let mut document = document(&token, "live");
        document["token"] = text.reveal().into();
        return context.out.object(Object::Token, document);
    }
    if let Some(words) = rights::capped(&token.rights) {
        context.out.note(&words);
    }
    context.out.line(text.reveal())?;
    context.out.note(&format!("{} is for {}; it is not shown again", token.id, token.actor));
    context.out.note("send it as the header  Authorization: Bearer TOKEN");
    context.out.note("what it may do:");
    for (toolset, words) in by_toolset(&open, &token).await? {
        context.out.note(&format!("  {toolset:<10} {words}"));
    }
    Ok(())
}

async fn cmd_token_list(context: &Context) -> Result<(), Failure> {
    let open = context.open_in(HOME).await?;
    let now = open.engine().store().now();
    let tokens = open.engine().token_list().await?;
    if context.out.json {
        let items: Vec<Value> =
            tokens.iter().map(|token| document(token, token.state(now).as_str())).collect();
        return context.out.list(List::Tokens, items, Value::Null);
    }
    let mut table = Table::new(&["ID", "STATE", "ORG", "ACTOR", "EXPIRES", "MAY"]);
    for token in &tokens {
        let expires = token.expires_at.map_or("never".into(), |at| context.out.when(at, now));
        table.row([
            (token.id.to_string(), Style::Plain),
            (token.state(now).as_str().into(), Style::Plain),
            (token.org.to_string(), Style::Plain),
            (token.actor.to_string(), Style::Plain),
            (expires, Style::Dim),
            (may(&token.rights), Style::Dim),
        ]);
    }
    if table.is_empty() {
        context.out.note("no tokens; callboard token add --actor agent:NAME makes one");
    }
    context.out.raw(&table.render(&context.out))
}

async fn cmd_token_revoke(context: &Context, args: RevokeArgs) -> Result<(), Failure> {
    let open = context.open_in(HOME).await?;
    let id = open.token_id(&args.id).await?;
    let gone = || {
        Failure::new(
            Exit::NotFound,
            "TOKEN_NOT_FOUND",
            format!("the token {id} does not exist any more"),
        )
    };
    let token = open.engine().token_revoke(&giver()?, id).await?.ok_or_else(gone)?;
    if context.out.json {
        return context.out.object(Object::Token, document(&token, "revoked"));
    }
    context.out.line(&format!("{} of {} is revoked", token.id, token.actor))
}

/// The actor that hands tokens out; `--actor` names their holder.
fn giver() -> Result<Actor, Failure> {
    identity::of_person(None)
}

async fn rights(open: &Open, args: &TokenAddArgs) -> Result<Rights, Failure> {
    let unknown = |flag: &str, text: &str, known: Vec<&str>| {
        Failure::usage(format!("{flag} '{text}' is unknown; write {}", known.join(", ")))
    };
    let lane = args.lane.as_deref().map(|text| {
        let known = || Lane::ALL.iter().map(|lane| lane.as_str()).collect();
        rights::lane(text).map_err(|_| unknown("--lane", text, known()))
    });
    let profile = args.profile.as_deref().map(|text| {
        let known = || Profile::ALL.iter().map(|profile| profile.as_str()).collect();
        Profile::parse(text).ok_or_else(|| unknown("--profile", text, known()))
    });
    let agent_type = args.as_type.as_deref().map(|text| {
        let known = || AgentType::ALL.iter().map(|kind| kind.as_str()).collect();
        AgentType::parse(text).ok_or_else(|| unknown("--as-type", text, known()))
    });
    let toolsets = match args.toolsets.as_deref().filter(|names| names.trim() != "all") {
        None => None,
        Some(names) => {
            let found =
                toolsets::parse(names).map_err(|e| Failure::usage(format!("--toolsets: {e}")))?;
            Some(found.iter().map(|toolset| toolset.name.to_owned()).collect())
        }
    };
    let task = match &args.task {
        None => None,
        Some(typed) => Some(open.task_id(typed).await?),
    };
    Ok(Rights {
        scopes: identity::scopes(&args.scopes)?,
        lane: lane.transpose()?.unwrap_or(Lane::Kagan),
        profile_wanted: profile.transpose()?,
        agent_type: agent_type.transpose()?,
        toolsets,
        task,
    })
}

/// What the holder of a token may do in each toolset, in words. The type of a crew's agent is the one that the crew
/// knows, whatever the token says.
async fn by_toolset(open: &Open, token: &Token) -> Result<Vec<(&'static str, String)>, Failure> {
    let principal = Principal {
        org: token.org.clone(),
        rights: token.rights.clone(),
        token: Some(token.id),
        ..Principal::local(token.actor.clone())
    };
    let mut op = OpContext::new(principal, "token");
    if let Some(agent) = open.engine().agent_find(&op, &AgentId::of(&token.actor)).await? {
        op.principal.rights.agent_type = Some(agent.kind);
    }
    let told = |toolset: &&'static Toolset| (toolset.name, in_toolset(toolset, &op.principal));
    Ok(toolsets::ALL.iter().map(told).collect())
}

fn in_toolset(toolset: &Toolset, principal: &Principal) -> String {
    let rights = &principal.rights;
    if !rights.may_speak(toolset.name) {
        return "nothing; --toolsets does not name it".into();
    }
    if toolset.hooks.callers.is_some() && rights.agent_type.is_none() {
        return "nothing before the agent has a type, by --as-type or callboard agent add".into();
    }
    let shown = toolset.shown(principal);
    let writes: Vec<&str> =
        shown.iter().filter(|tool| !tool.hints.read_only).map(|tool| tool.name).collect();
    let mut words = match writes[..] {
        [] if shown.is_empty() => return "nothing".into(),
        [] => "read".into(),
        // One or two tools are named.
        [_] | [_, _] => format!("read, {}", writes.join(", ")),
        _ => "read and write".to_owned(),
    };
    if toolset.tools.iter().any(|tool| tool.profile.is_some()) {
        words.push_str(&format!(", as {}", rights.profile().as_str()));
    }
    words.push_str(&format!(": {} of {} tools", shown.len(), toolset.tools.len()));
    if !writes.is_empty() {
        words.extend(rights.task.map(|task| format!("; changes {task} alone")));
        words.push_str(match rights.may(Scope::CommandsRun) {
            _ if !toolset.tools.iter().any(takes_commands) => "",
            true => "; writes commands into checks, which the server runs",
            false => "; writes no command into a check",
        });
    }
    words
}

/// Whether a tool has an argument for checks, which may hold commands.
fn takes_commands(tool: &Tool) -> bool {
    let input = (tool.input)();
    input.get("properties").is_some_and(|properties| properties.get("checks").is_some())
}

fn may(rights: &Rights) -> String {
    let mut words: Vec<String> = Vec::new();
    match &rights.toolsets {
        None => words.push("all toolsets".into()),
        Some(names) => words.push(names.join(",")),
    }
    words.push(rights.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(","));
    words.push(rights.profile().as_str().into());
    words.extend(rights.agent_type.map(|kind| kind.as_str().to_owned()));
    words.extend(rights.task.map(|task| format!("only {task}")));
    words.join(" · ")
}

fn document(token: &Token, state: &str) -> Value {
    json!({
        "id": token.id.to_string(),
        "state": state,
        "org": token.org,
        "actor": token.actor,
        "scopes": token.rights.scopes,
        "lane": token.rights.lane,
        "profile": token.rights.profile(),
        "agent_type": token.rights.agent_type,
        "toolsets": token.rights.toolsets,
        "task": token.rights.task,
        "created_at": rfc3339_ms(token.created_at),
        "created_by": token.created_by,
        "expires_at": token.expires_at.map(rfc3339_ms),
        "revoked_at": token.revoked.as_ref().map(|revoked| rfc3339_ms(revoked.at)),
        "revoked_by": token.revoked.as_ref().map(|revoked| revoked.by.clone()),
    })
}
