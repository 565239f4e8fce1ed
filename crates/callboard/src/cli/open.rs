//! `callboard open`: signs a person in on the pages, by a code that works once.

use callboard_engine::Engine;
use callboard_engine::context::Principal;
use callboard_runner::open_in_browser;
use serde_json::json;

use super::context::Context;
use crate::config::Settings;
use crate::output::{Exit, Failure, Object};
use crate::place::{self, Place};
use crate::served::Served;

/// Sign in on the pages of this project's server
///
/// Prints an address with a code. The code works once and for ten minutes, and only for you on this
/// machine: the browser that opens the address acts on the pages as you do at the terminal, until
/// web.session_hours are over or you sign out. On a terminal it opens the address in a browser.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  callboard open\n  callboard open --print")]
pub struct OpenArgs {
    /// Open no browser
    #[arg(long)]
    print: bool,
}

pub async fn cmd_open(context: &Context, args: OpenArgs) -> Result<(), Failure> {
    let place = Place::find()?.ok_or_else(place::missing)?;
    let settings = context.settings(Some(&place), None)?;
    let served = Served::running(&place, &settings, context.org()).ok_or_else(|| {
        let words = "no server serves this project, so there is no page to open";
        Failure::new(Exit::NotFound, "NOT_SERVED", words).hint("callboard up starts one")
    })?;
    let open = context.open().await?;
    let address = code_address(open.engine(), &context.person()?, &served, &settings).await?;
    if context.out.json {
        return context.out.object(Object::Page, json!({"url": address}));
    }
    context.out.line(&address)?;
    context.out.note("the address works once and for ten minutes");
    let opens = !args.print && may_open(context);
    show(context, &address, opens, "--print");
    Ok(())
}

/// The address that signs this person in, once.
pub(super) async fn code_address(
    engine: &Engine,
    person: &Principal,
    served: &Served,
    settings: &Settings,
) -> Result<String, Failure> {
    let code = engine.page_code(person).await?;
    Ok(format!("{}/open?code={}", served.page_url(settings), code.reveal()))
}

/// Whether a person can look at a browser: on a terminal, and not in CI.
pub(super) fn may_open(context: &Context) -> bool {
    context.out.terminal && !context.out.json && !is_ci()
}

fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

pub(super) fn show(context: &Context, address: &str, opens: bool, flag: &str) {
    if opens && open_in_browser(address) {
        context.out.note(&format!("opened the page in your browser; {flag} turns that off"));
    }
}
