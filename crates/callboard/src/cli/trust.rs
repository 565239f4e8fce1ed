//! `callboard trust`: a user's consent to what came with a repository.

use std::fs;

use serde_json::json;

use super::context::Context;
use crate::compose::{self, App};
use crate::config::{Settings, StoreUrl};
use crate::output::{Exit, Failure, Object, Out};
use crate::place::{self, Place};
use crate::trust::{CONFIG, Mark};

/// Trust the settings, prompts and store that came with this repository
///
/// Settings in .callboard/config.toml that run programs, name addresses or variables, or loosen
/// confinement count after this, and so do the files in .callboard/prompts/. A store that was not
/// made at this place runs its queued commands after this. A file that changes later is asked for
/// again. What you write into .callboard/config.local.toml or your own configuration counts anyway.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  callboard trust --show\n  callboard trust")]
pub struct TrustArgs {
    /// Print what would be trusted, and trust nothing
    #[arg(long, conflicts_with = "forget")]
    show: bool,
    /// Trust it no longer
    #[arg(long)]
    forget: bool,
}

pub async fn cmd_trust(context: &Context, args: TrustArgs) -> Result<(), Failure> {
    let place = Place::find()?.ok_or_else(place::missing)?;
    let settings = context.settings(Some(&place), None)?;
    let marks = Marks::of(&place, &settings);
    if args.forget {
        for mark in marks.all() {
            mark.forget().map_err(|error| Failure::io("cannot forget", &error))?;
        }
        return marks.say(context, &settings, "no longer trusted");
    }
    if args.show {
        show(&context.out, &place, &settings)?;
        return marks.say(context, &settings, "not trusted yet");
    }
    for mark in marks.all() {
        mark.trust().map_err(|error| Failure::io("cannot record the trust", &error))?;
    }
    marks.say(context, &settings, "trusted")
}

/// The marks of a project.
struct Marks {
    settings: Option<Mark>,
    store: Option<Mark>,
}

impl Marks {
    fn of(place: &Place, settings: &Settings) -> Self {
        let store = (settings.store == StoreUrl::Default)
            .then(|| compose::store_path(settings, Some(place)))
            .flatten();
        Self {
            settings: Mark::of_settings(place),
            store: store.as_deref().and_then(Mark::of_store),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Mark> {
        self.settings.iter().chain(&self.store)
    }

    fn say(&self, context: &Context, settings: &Settings, word: &str) -> Result<(), Failure> {
        let is_trusted = |mark: &Option<Mark>| mark.as_ref().is_none_or(Mark::is_trusted);
        let (files, store) = (is_trusted(&self.settings), is_trusted(&self.store));
        if context.out.json {
            let asks = &settings.untrusted;
            let document = json!({"settings": files, "store": store, "asks": asks});
            return context.out.object(Object::Trust, document);
        }
        let out = &context.out;
        match settings.untrusted.as_slice() {
            [] => out.line("the settings ask for nothing that needs trust")?,
            asks => out.line(&format!("{word}: {}", asks.join(", ")))?,
        }
        match (&self.store, store) {
            (None, _) => Ok(()),
            (Some(_), true) => out.line("the store is trusted"),
            (Some(_), false) => out.line("the store is not trusted; queued commands do not run"),
        }
    }
}

/// Prints the file unchanged, so that a person judges the text and not our reading of it.
pub fn show(out: &Out, place: &Place, settings: &Settings) -> Result<(), Failure> {
    if out.json || settings.untrusted.is_empty() {
        return Ok(());
    }
    let path = place.folder().join(CONFIG);
    let text = fs::read_to_string(&path)
        .map_err(|error| Failure::io(format!("cannot read {}", path.display()), &error))?;
    out.line(&format!("{} asks for trust:", path.display()))?;
    text.lines().try_for_each(|line| out.line(&format!("  {}", super::view::plain(line))))
}

/// Warns in one line of what does not count or does not run yet.
pub fn say(out: &Out, settings: &Settings, app: &App) {
    if let Some(words) = words(settings, app) {
        out.warning(&words);
    }
}

/// The warning for agents and people alike.
pub fn words(settings: &Settings, app: &App) -> Option<String> {
    let asks = settings.untrusted.join(", ");
    let store = (!app.is_trusted)
        .then(|| "a store that was not made here: its queued commands do not run".to_owned());
    let asks = (!asks.is_empty()).then(|| format!("settings of .callboard/: {asks}"));
    let parts: Vec<String> = [asks, store].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| {
        let parts = parts.join("; and ");
        format!("not trusted: {parts}. callboard trust --show prints it, callboard trust allows it")
    })
}

/// The failure of a command that can do nothing but run what is queued.
pub fn store_is_foreign() -> Failure {
    let words = "this store was not made here, so its queued commands do not run";
    Failure::new(Exit::Auth, "NOT_TRUSTED", words)
        .hint("callboard trust, if you trust the owner of the store")
}
