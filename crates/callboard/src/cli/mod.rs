//! The command tree and how one command runs. One command, one file: `XArgs`, whose doc comment
//! is its help, and `cmd_x`.

mod agent;
mod approve;
mod backup;
mod bench;
mod block;
mod call;
mod check;
mod claim;
mod complete;
mod completions;
mod config;
mod connect;
mod context;
mod decisions;
mod demo;
mod diff;
mod doctor;
mod done;
mod duration;
mod epic;
mod export;
mod gc;
mod groups;
mod hook;
mod id_ref;
mod import;
mod init;
mod job;
mod job_list;
mod learn;
mod log;
mod logs;
mod mail;
mod man;
mod mcp;
mod migrate;
mod model;
mod names;
mod next;
mod note;
mod open;
mod patch;
mod plan;
mod pull;
mod rebase;
#[cfg(test)]
mod reference;
mod reject;
mod release;
mod remote;
mod repository;
mod restore;
mod review;
mod review_comments;
mod rights;
mod run;
mod search;
mod serve;
mod signal;
mod status;
mod stop;
mod task;
mod task_ref;
mod tell;
mod token;
mod trust;
mod up;
mod view;
mod wait;
mod waiting;
mod webhook;
mod worker;

use std::process::ExitCode;
use std::time::Duration;

use callboard_runner::Telemetry;
use clap::error::ErrorKind;
use clap::{FromArgMatches, Parser, Subcommand};
use tokio::runtime::{Builder, Runtime};

use crate::config::without_password;
use crate::logging;
use crate::output::{Color, Exit, Failure, Out};
use context::Context;

/// One place where coding agents get their work, prove it and hand it over
#[derive(Parser)]
#[command(name = "callboard", version, max_term_width = 100)]
#[command(after_help = "Start with:\n  callboard up\n  callboard task add \"My first task\"")]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

/// `callboard hook` alone. An agent waits for every hook, and the tree of all commands takes a millisecond to build.
#[derive(Parser)]
struct HookCli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(flatten)]
    hook: hook::HookArgs,
}

#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
struct GlobalArgs {
    /// Print JSON: one document, or one line per event in follow mode
    #[arg(long, global = true)]
    json: bool,
    /// When to use colours: auto, always, never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        hide_default_value = true
    )]
    color: Color,
    /// Who acts, like human:ana or agent:x [default: $CALLBOARD_ACTOR, else you]
    #[arg(long, global = true)]
    actor: Option<String>,
    /// Where tasks are kept [default: .callboard/callboard.db]
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,
    /// Organisation to act in [default: default]
    #[arg(long, global = true, default_value = "default", hide_default_value = true)]
    org: String,
}

#[derive(Subcommand)]
enum Command {
    Up(up::UpArgs),
    Open(open::OpenArgs),
    Demo(demo::DemoArgs),
    Init(init::InitArgs),
    Trust(trust::TrustArgs),
    Serve(serve::ServeArgs),
    Mcp(mcp::McpArgs),
    Hook(hook::HookArgs),
    Doctor(doctor::DoctorArgs),
    Status(status::StatusArgs),
    #[command(subcommand)]
    Task(task::TaskCommand),
    Next(next::NextArgs),
    Claim(claim::ClaimArgs),
    Release(release::ReleaseArgs),
    Note(note::NoteArgs),
    Block(block::BlockArgs),
    Unblock(block::UnblockArgs),
    Done(done::DoneArgs),
    Wait(wait::WaitArgs),
    #[command(subcommand)]
    Check(check::CheckCommand),
    Log(log::LogArgs),
    Review(review::ReviewArgs),
    Approve(approve::ApproveArgs),
    Reject(reject::RejectArgs),
    Rebase(rebase::RebaseArgs),
    #[command(subcommand)]
    Pull(pull::PullCommand),
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    Run(run::RunArgs),
    Stop(stop::StopArgs),
    Tell(tell::TellArgs),
    #[command(subcommand)]
    Epic(epic::EpicCommand),
    #[command(subcommand)]
    Agent(agent::AgentCommand),
    Mail(mail::MailArgs),
    Decisions(decisions::DecisionsArgs),
    #[command(subcommand)]
    Job(job::JobCommand),
    Logs(logs::LogsArgs),
    Diff(diff::DiffArgs),
    #[command(subcommand)]
    Webhook(webhook::WebhookCommand),
    Worker(worker::WorkerArgs),
    Learn(learn::LearnArgs),
    Search(search::SearchArgs),
    Call(call::CallArgs),
    Config(config::ConfigArgs),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Gc(gc::GcArgs),
    #[command(subcommand)]
    Token(token::TokenCommand),
    #[command(subcommand)]
    Model(model::ModelCommand),
    Backup(backup::BackupArgs),
    Restore(restore::RestoreArgs),
    Migrate(migrate::MigrateArgs),
    Bench(callboard_bench::BenchArgs),
    #[command(hide = true)]
    BenchFill(bench::FillArgs),
    #[command(hide = true)]
    BenchLoad,
    #[command(hide = true)]
    BenchServer,
    #[command(hide = true)]
    BenchWaiter,
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Complete(complete::CompleteArgs),
    #[command(hide = true)]
    Man(man::ManArgs),
}

/// How long tasks of the runtime may take to end when a command is over.
const RUNTIME_END: Duration = Duration::from_millis(300);

pub fn run() -> ExitCode {
    let cli = match hook_alone().map_or_else(whole, Ok) {
        Ok(cli) => cli,
        Err(error) if is_hook() && !is_question(&error) => return passed(&error),
        Err(error) => return misused(&error),
    };
    let out = Out::new(cli.global.json, cli.global.color);
    let Some(command) = cli.command else {
        let help = groups::command().render_help().to_string();
        return finish(&out, out.raw(&help));
    };
    // Only servers export: a command of a person is over before a collector has heard of it.
    let telemetry = if command.is_server() { Telemetry::of_environment() } else { None };
    logging::start(command.log_level(), telemetry.as_ref());
    let runtime = match command.runtime() {
        Ok(runtime) => runtime,
        Err(error) => return finish(&out, Err(Failure::io("cannot start", &error))),
    };
    let context = Context::new(cli.global, out, telemetry);
    let result = runtime.block_on(async {
        let exporting = context.telemetry.as_ref().map(Telemetry::start);
        let result = match command.run(&context).await {
            Ok(()) => Ok(()),
            Err(failure) => Err(context.for_people(failure).await),
        };
        if let Some(exporting) = exporting {
            exporting.finish().await;
        }
        result
    });
    let code = finish(&out, result);
    runtime.shutdown_timeout(RUNTIME_END);
    drop(context);
    code
}

fn whole() -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&groups::command().try_get_matches()?)
}

/// The arguments of a hook; `None` for another command, and for what the whole tree has to explain.
fn hook_alone() -> Option<Cli> {
    if !is_hook() {
        return None;
    }
    let HookCli { global, hook } = HookCli::try_parse_from(std::env::args_os().skip(1)).ok()?;
    Some(Cli { global, command: Some(Command::Hook(hook)) })
}

/// Whether a client calls a hook. Hook files begin their commands with `callboard hook`.
fn is_hook() -> bool {
    std::env::args_os().nth(1).is_some_and(|first| first == "hook")
}

/// Clients take exit code 2 of a hook as a refusal: of an edit, or of the end of a turn. A hook file of another version
/// must not hold up an agent.
fn passed(error: &clap::Error) -> ExitCode {
    Out::new(false, Color::Auto).note(without_passwords(&error.to_string()).trim_end());
    ExitCode::SUCCESS
}

fn is_question(error: &clap::Error) -> bool {
    matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
}

fn finish(out: &Out, result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            out.failure(&failure);
            failure.exit_code().into()
        }
    }
}

/// Prints clap's message: help and version are data, the rest is a mistake.
fn misused(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    let asked = is_question(error);
    let said = error.to_string();
    let text = without_passwords(&said);
    if asked || (!wants_json && text == said) {
        error.exit();
    }
    if !wants_json {
        Out::new(false, Color::Auto).note(text.trim_end());
        return (Exit::Usage as u8).into();
    }
    let words = text.lines().next().unwrap_or_default();
    let failure = Failure::usage(words.strip_prefix("error: ").unwrap_or(words));
    finish(&Out::new(true, Color::Auto), Err(failure.hint("callboard --help")))
}

/// Hides passwords: clap repeats unknown arguments, and one may be the address of a store.
fn without_passwords(said: &str) -> String {
    let hide =
        |said: String, argument: String| said.replace(&argument, &without_password(&argument));
    std::env::args_os()
        .filter_map(|argument| argument.into_string().ok())
        .filter(|argument| argument.contains("://"))
        .fold(said.to_owned(), hide)
}

impl Command {
    async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Command::Up(args) => up::cmd_up(context, args).await,
            Command::Open(args) => open::cmd_open(context, args).await,
            Command::Demo(args) => demo::cmd_demo(context, args).await,
            Command::Init(args) => init::cmd_init(context, args).await,
            Command::Trust(args) => trust::cmd_trust(context, args).await,
            Command::Serve(args) => serve::cmd_serve(context, args).await,
            Command::Mcp(args) => mcp::cmd_mcp(context, args).await,
            Command::Hook(args) => hook::cmd_hook(context, args).await,
            Command::Doctor(args) => doctor::cmd_doctor(context, args).await,
            Command::Status(args) => status::cmd_status(context, args).await,
            Command::Task(command) => command.run(context).await,
            Command::Next(args) => next::cmd_next(context, args).await,
            Command::Claim(args) => claim::cmd_claim(context, args).await,
            Command::Release(args) => release::cmd_release(context, args).await,
            Command::Note(args) => note::cmd_note(context, args).await,
            Command::Block(args) => block::cmd_block(context, args).await,
            Command::Unblock(args) => block::cmd_unblock(context, args).await,
            Command::Done(args) => done::cmd_done(context, args).await,
            Command::Wait(args) => wait::cmd_wait(context, args).await,
            Command::Check(command) => command.run(context).await,
            Command::Log(args) => log::cmd_log(context, args).await,
            Command::Review(args) => review::cmd_review(context, args).await,
            Command::Approve(args) => approve::cmd_approve(context, args).await,
            Command::Reject(args) => reject::cmd_reject(context, args).await,
            Command::Rebase(args) => rebase::cmd_rebase(context, args).await,
            Command::Pull(command) => command.run(context).await,
            Command::Plan(command) => command.run(context).await,
            Command::Run(args) => run::cmd_run(context, args).await,
            Command::Stop(args) => stop::cmd_stop(context, args).await,
            Command::Tell(args) => tell::cmd_tell(context, args).await,
            Command::Epic(command) => command.run(context).await,
            Command::Agent(command) => command.run(context).await,
            Command::Mail(args) => mail::cmd_mail(context, args).await,
            Command::Decisions(args) => decisions::cmd_decisions(context, args).await,
            Command::Job(command) => command.run(context).await,
            Command::Logs(args) => logs::cmd_logs(context, args).await,
            Command::Diff(args) => diff::cmd_diff(context, args).await,
            Command::Webhook(command) => command.run(context).await,
            Command::Worker(args) => worker::cmd_worker(context, args).await,
            Command::Learn(args) => learn::cmd_learn(context, args).await,
            Command::Search(args) => search::cmd_search(context, args).await,
            Command::Call(args) => call::cmd_call(context, args).await,
            Command::Import(args) => import::cmd_import(context, args).await,
            Command::Export(args) => export::cmd_export(context, args).await,
            Command::Gc(args) => gc::cmd_gc(context, args).await,
            Command::Config(args) => config::cmd_config(context, args).await,
            Command::Token(command) => command.run(context).await,
            Command::Model(command) => command.run(context),
            Command::Backup(args) => backup::cmd_backup(context, args).await,
            Command::Restore(args) => restore::cmd_restore(context, args).await,
            Command::Migrate(args) => migrate::cmd_migrate(context, args).await,
            Command::Bench(args) => bench::cmd_bench(context, args).await,
            Command::BenchFill(args) => bench::cmd_fill(context, args).await,
            Command::BenchLoad => bench::cmd_load().await,
            Command::BenchServer => bench::cmd_server().await,
            Command::BenchWaiter => bench::cmd_waiter().await,
            Command::Completions(args) => completions::cmd_completions(context, args),
            Command::Complete(args) => complete::cmd_complete(context, &args),
            Command::Man(args) => man::cmd_man(context, args),
        }
    }

    fn is_http_server(&self) -> bool {
        matches!(self, Command::Serve(_) | Command::Up(_) | Command::Worker(_))
    }

    fn is_server(&self) -> bool {
        self.is_http_server() || matches!(self, Command::Mcp(_))
    }

    fn log_level(&self) -> &'static str {
        match self {
            Command::Mcp(_) | Command::Hook(_) => "error",
            _ if self.is_http_server() => "warn,callboard=info",
            _ => "warn",
        }
    }

    /// The runtime. An HTTP server spreads its calls over the machine. Everything else runs on one thread: for `mcp`
    /// the writer's own thread is the other half, and each change of threads would cost an agent more time than its
    /// call takes.
    fn runtime(&self) -> std::io::Result<Runtime> {
        let mut builder = if self.is_http_server() {
            Builder::new_multi_thread()
        } else {
            Builder::new_current_thread()
        };
        builder.enable_all().build()
    }
}
