//! Knowledge: what is known about a query, how sure, from where, and whether it is still so. A person writes an entry
//! down, or supersedes one.

use axum::Form;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::knowledge::{CONFIDENCE_DEFAULT, KnowledgeEntry, KnowledgeId};
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::Scope;
use callboard_domain::time::Timestamp;
use callboard_engine::{
    At, EngineError, KnowledgeDraft, KnowledgeForce, KnowledgeLine, KnowledgeLook, USES_SHOWN,
};
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::frame::{Screen, View};
use super::jobs::short;
use super::parts::{Choice, Tone, actor, ago, empty, icon, note, prose, tabs, tag, title_link};
use super::task_verbs::{once, plain};
use super::{Page, done, said};

const HITS_SHOWN: usize = 20;
const DAY_S: u32 = 86_400;
const BRIEF_CHARS: usize = 400;
const KEYS: &[(&str, &str)] = &[("f", "search"), ("w", "write an entry down")];

#[derive(Clone, Default, Deserialize)]
pub(super) struct KnowledgeRequest {
    #[serde(default)]
    q: String,
    #[serde(default)]
    tag: String,
    /// `current`, `superseded` or `expired`.
    #[serde(default)]
    state: String,
    /// The entry that the form supersedes.
    #[serde(default)]
    supersedes: String,
}

impl KnowledgeRequest {
    fn force(&self) -> KnowledgeForce {
        let known = KnowledgeForce::ALL.into_iter().find(|force| word(*force) == self.state);
        known.unwrap_or_default()
    }

    /// The address of these results with another tag or force.
    fn path(&self, tag: &str, force: KnowledgeForce) -> String {
        let force = Some(word(force)).filter(|_| force != KnowledgeForce::default());
        let pairs = [("q", Some(&*self.q)), ("tag", Some(tag)), ("state", force)];
        let pairs = pairs.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let coded = |(key, value): (&str, &str)| {
            format!("{key}={}", utf8_percent_encode(value, NON_ALPHANUMERIC))
        };
        let query: Vec<_> = pairs.filter(|(_, value)| !value.is_empty()).map(coded).collect();
        match query.is_empty() {
            true => "/knowledge".into(),
            false => format!("/knowledge?{}", query.join("&")),
        }
    }
}

/// A force in an address.
fn word(force: KnowledgeForce) -> &'static str {
    match force {
        KnowledgeForce::Current => "current",
        KnowledgeForce::Superseded => "superseded",
        KnowledgeForce::Expired => "expired",
    }
}

fn title_of(force: KnowledgeForce) -> &'static str {
    match force {
        KnowledgeForce::Current => "In force",
        KnowledgeForce::Superseded => "Superseded",
        KnowledgeForce::Expired => "Expired",
    }
}

/// An entry as its form sends it.
#[derive(Default, Deserialize)]
pub(super) struct KnowledgeForm {
    #[serde(default)]
    once: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    body: String,
    #[serde(default)]
    tags: String,
    #[serde(default)]
    confidence: String,
    /// Empty for an entry that stays true.
    #[serde(default)]
    days: String,
    #[serde(default)]
    supersedes: String,
}

pub(super) async fn list(page: Page, Query(asked): Query<KnowledgeRequest>) -> Response {
    let supersedes = asked.supersedes.clone();
    let form = KnowledgeForm { supersedes, ..KnowledgeForm::default() };
    shown(&page, StatusCode::OK, &asked, &form, None).await
}

/// Stores an entry, then shows it among the results for its title.
pub(super) async fn keep(page: Page, Form(form): Form<KnowledgeForm>) -> Response {
    match kept(&page, &form).await {
        Ok(entry) => {
            let next = KnowledgeRequest { q: entry.title, ..KnowledgeRequest::default() };
            done(&next.path("", KnowledgeForce::Current), "Kept. Agents find it from now on.")
        }
        Err(error) => {
            let (status, words) = said(&error);
            shown(&page, status, &KnowledgeRequest::default(), &form, Some(&words)).await
        }
    }
}

async fn kept(page: &Page, form: &KnowledgeForm) -> Result<KnowledgeEntry, EngineError> {
    let number = |field: &str, text: &str| -> Result<Option<u32>, EngineError> {
        let invalid = |_| {
            let message = format!("{field} must be a whole number");
            Refusal::InvalidInput { field: Some(field.into()), message }.into()
        };
        Some(text.trim())
            .filter(|text| !text.is_empty())
            .map(str::parse)
            .transpose()
            .map_err(invalid)
    };
    let supersedes = match form.supersedes.trim() {
        "" => None,
        id => Some(id.parse::<KnowledgeId>().map_err(|_| unknown(id))?),
    };
    let body = Some(plain(&form.body)).filter(|body| !body.trim().is_empty());
    let confidence = number("confidence", &form.confidence)?;
    let days = number("days", &form.days)?;
    let draft = KnowledgeDraft {
        title: form.title.trim().to_owned(),
        body: body.unwrap_or_else(|| form.title.trim().to_owned()),
        tags: form
            .tags
            .split([',', ' '])
            .filter(|tag| !tag.is_empty())
            .map(str::to_owned)
            .collect(),
        confidence: confidence.map(|confidence| u8::try_from(confidence).unwrap_or(u8::MAX)),
        expires_at: days.map(|days| page.engine.now().plus_s(days.saturating_mul(DAY_S))),
        task: None,
        supersedes,
    };
    let op = once(page, &form.once)?;
    Ok(page.engine.knowledge_store(&op, draft).await?.entry)
}

fn unknown(id: &str) -> EngineError {
    let message = format!("there is no entry {id}; search for it and use its button");
    Refusal::InvalidInput { field: Some("supersedes".into()), message }.into()
}

/// The page of knowledge. `fault` is the message about a form that was refused.
async fn shown(
    page: &Page,
    status: StatusCode,
    asked: &KnowledgeRequest,
    form: &KnowledgeForm,
    fault: Option<&str>,
) -> Response {
    let tag = Some(asked.tag.trim().to_lowercase()).filter(|tag| !tag.is_empty());
    let (op, force) = (page.op(), asked.force());
    let found = page.engine.knowledge_look(&op, &asked.q, tag.as_deref(), force, HITS_SHOWN).await;
    let found = match found {
        Ok(found) => found,
        Err(error) => return page.failure(Screen::Knowledge, &error).await,
    };
    let older = match form.supersedes.parse() {
        Ok(id) => page.engine.knowledge_get(&op, id).await.ok().flatten(),
        Err(_) => None,
    };
    let content = html! {
        div.bar {
            form.filter action="/knowledge" role="search" data-find {
                (icon("search"))
                @if !asked.tag.is_empty() { input type="hidden" name="tag" value=(asked.tag); }
                @if force != KnowledgeForce::default() { input type="hidden" name="state" value=(word(force)); }
                input.input type="search" name="q" value=(asked.q) aria-label="Search knowledge"
                    placeholder="Search what is known" autocomplete="off" maxlength="2000" data-key="f";
            }
            div #states data-live { (states(asked, &found.it)) }
            @if page.acts() { @match may_not(page) {
                None => a.button.button-small.bar-end href="#write" data-key="w" { (icon("plus")) "Write one down" kbd { "w" } },
                Some(why) => span.row.bar-end { button.button.button-small disabled { (icon("plus")) "Write one down" } span.faint { (why) } },
            } }
        }
        div #found data-live { (entries(page, asked, &found)) }
        // A refused form keeps what was typed.
        @if writes(page) || fault.is_some() { (write_form(page, form, older.as_ref(), fault)) }
    };
    let mut view = View::of(Screen::Knowledge, Screen::Knowledge.title(), content);
    view.facts = facts(&found.it);
    view.keys = KEYS;
    view.twin = "callboard search \"…\"";
    page.show(status, view).await
}

/// Why the reader may not write entries down, if so.
fn may_not(page: &Page) -> Option<String> {
    match page.reader.rights.judge("web", Scope::KnowledgeWrite).err()? {
        Refusal::ProfileDenied { needed, held, .. } => {
            Some(format!("needs {}, you are {}", needed.as_str(), held.as_str()))
        }
        Refusal::AuthorizationDenied { scope, .. } => Some(format!("needs the scope {scope}")),
        refusal => Some(refusal.message()),
    }
}

fn writes(page: &Page) -> bool {
    page.acts() && may_not(page).is_none()
}

fn facts(found: &KnowledgeLook) -> Markup {
    html! {
        span #known-facts data-live {
            (found.entries) @if found.entries == 1 { " entry" } @else { " entries" }
            @if found.is_words_only { " · words only; no model installed" }
            @if found.is_degraded { " · degraded: the model did not answer in time, so only words decide" }
        }
    }
}

fn states(asked: &KnowledgeRequest, found: &KnowledgeLook) -> Markup {
    let choices = KnowledgeForce::ALL.into_iter().zip(found.counts).map(|(force, count)| Choice {
        href: asked.path(&asked.tag, force),
        word: title_of(force),
        count: (count > 0).then(|| count.to_string()),
        is_current: asked.force() == force,
    });
    tabs("Which entries", choices)
}

fn entries(page: &Page, asked: &KnowledgeRequest, found: &At<KnowledgeLook>) -> Markup {
    let lines = &found.it.lines;
    let (query, force) = (asked.q.trim(), asked.force());
    let all =
        found.it.counts[KnowledgeForce::ALL.iter().position(|one| *one == force).unwrap_or(0)];
    html! {
        @if !asked.tag.is_empty() {
            p.known-more { "Only with " (tag(Tone::Plain, html! { bdi { (asked.tag) } })) " " a href=(asked.path("", force)) { "Show every tag" } }
        }
        @if lines.is_empty() { (none(query, force, found.it.entries)) }
        ul.known data-rows { @for line in lines { (entry(page, asked, line, found.now)) } }
        @if all > lines.len() {
            p.known-more.faint { "The first " (lines.len()) " of " (all) ". More words or a tag narrow the list." }
        }
    }
}

fn none(query: &str, force: KnowledgeForce, entries: u32) -> Markup {
    match (entries, query, force) {
        (0, ..) => empty(
            "book",
            "Nothing is known yet",
            &html! {
                p { "Agents leave what they learned with " code { "complete_task" } " and " code { "store_knowledge" } "." }
                p { code { "callboard learn \"…\"" } " or the form below writes an entry down." }
            },
        ),
        (_, "", force) => empty(
            "book",
            &format!("No entry is {}", title_of(force).to_lowercase()),
            &html! { p { "Entries in force are behind the first tab." } },
        ),
        (_, query, _) => empty(
            "book",
            "Nothing known matches",
            &html! { p { "No entry has the words " q { bdi { (query) } } ". Fewer words find more; " a href="/knowledge" { "the newest entries" } " are listed without a query." } },
        ),
    }
}

fn entry(page: &Page, asked: &KnowledgeRequest, line: &KnowledgeLine, now: Timestamp) -> Markup {
    let KnowledgeLine { entry, score, snippet, task, newer, .. } = line;
    let shown = snippet.as_deref().unwrap_or(&entry.body);
    let brief: String = shown.chars().take(BRIEF_CHARS).collect();
    let is_cut = !brief.split_whitespace().eq(entry.body.split_whitespace());
    html! {
        li id=(entry.id) {
            @if let Some(score) = score {
                @let high = (score.clamp(0.0, 1.0) * 14.0).round();
                svg.known-score aria-hidden="true" { rect x="0" y=(14.0 - high) width="5" height=(high) {} }
            }
            div {
                h2 { bdi { (entry.title) } }
                @if brief.trim() != entry.title.trim() { p.soft { bdi { (brief) } @if brief.len() < shown.len() { "…" } } }
                @if is_cut { details { summary { "The whole entry" } (prose(&entry.body)) } }
                div.known-facts {
                    @for word in &entry.tags { a.tag href=(asked.path(word, asked.force())) { bdi { (word) } } }
                    @if let Some(task) = task { span { "from " (title_link(task)) } }
                    span { "by " (actor(&entry.created_by)) ", " (ago(entry.created_at, now)) ", sure " (entry.confidence) " %" }
                    @if let Some(at) = entry.expires_at { (expiry(at, now)) }
                    @if let Some(newer) = newer {
                        @let path = KnowledgeRequest { q: newer.title.clone(), ..KnowledgeRequest::default() }.path("", KnowledgeForce::Current);
                        span { "superseded by " a href=(path) { bdi { (newer.title) } } }
                    }
                    (used_by(line, now))
                    span.id title=(entry.id) { (short(&entry.id.to_string())) }
                    @if writes(page) && entry.superseded_by.is_none() {
                        a href={ "/knowledge?supersedes=" (entry.id) "#write" } { "Supersede" span.hidden { " " bdi { (entry.title) } } }
                    }
                }
            }
            @if let Some(score) = score { span.number { span.hidden { "score " } (format!("{score:.2}")) } }
        }
    }
}

/// The tasks whose attempts were given the entry, the newest first.
fn used_by(line: &KnowledgeLine, now: Timestamp) -> Markup {
    html! {
        @for (n, (used, task)) in line.uses.iter().enumerate() {
            span.known-use {
                @if n == 0 { "used by " }
                (title_link(task)) " (" (actor(&used.actor)) ", " (ago(used.at, now)) ")"
            }
        }
        @if line.has_more_uses { span.faint { "and by more tasks; the newest " (USES_SHOWN) " are shown" } }
    }
}

fn expiry(at: Timestamp, now: Timestamp) -> Markup {
    match at <= now {
        true => html! { span { "expired " (ago(at, now)) } },
        false => html! { span { "expires in " (super::parts::span(at.ms_since(now))) } },
    }
}

fn write_form(
    page: &Page,
    form: &KnowledgeForm,
    older: Option<&KnowledgeEntry>,
    fault: Option<&str>,
) -> Markup {
    let once = match form.once.is_empty() || fault.is_none() {
        true => page.engine.fresh_id().to_string(),
        // A form that was refused changed nothing; its key is still free.
        false => form.once.clone(),
    };
    let is_first = fault.is_none();
    let kept = |typed: &str, known: Option<String>| match is_first {
        true => known.unwrap_or_default(),
        false => typed.to_owned(),
    };
    let confidence = || older.map_or(CONFIDENCE_DEFAULT, |entry| entry.confidence).to_string();
    html! {
        section.known-write.stack #write aria-labelledby="write-title" {
            h2 #write-title { @match older {
                Some(entry) => { "Supersede " q { bdi { (entry.title) } } },
                None => "Write one down",
            } }
            @if let Some(words) = fault {
                (note(Tone::Failed, "warn", &html! { p role="alert" { (words) " Nothing was changed." } }))
            }
            form.stack-tight method="post" action="/knowledge" {
                input type="hidden" name="once" value=(once);
                @if !form.supersedes.is_empty() { input type="hidden" name="supersedes" value=(form.supersedes); }
                div.field {
                    label for="known-title" { "What is so, in one line" }
                    input.input #known-title name="title" required maxlength="200" autocomplete="off"
                        value=(kept(&form.title, older.map(|entry| entry.title.clone())));
                }
                div.field {
                    label for="known-body" { "When it matters, and how it shows" }
                    textarea.input #known-body name="body" rows="3" { (kept(&form.body, older.map(|entry| entry.body.clone()))) }
                }
                div.known-fields {
                    div.field {
                        label for="known-tags" { "Tags" }
                        input.input #known-tags name="tags" autocomplete="off" placeholder="http, proxy"
                            value=(kept(&form.tags, older.map(|entry| entry.tags.join(", "))));
                    }
                    div.field {
                        label for="known-confidence" { "How sure, 0 to 100" }
                        input.input #known-confidence name="confidence" type="number" min="0" max="100"
                            value=(kept(&form.confidence, Some(confidence())));
                    }
                    div.field {
                        label for="known-days" { "True for days" }
                        input.input #known-days name="days" type="number" min="1" max="36500" placeholder="for good" value=(kept(&form.days, None));
                    }
                }
                div.row {
                    button.button.button-main data-busy="Keeping" { "Keep it" }
                    span.faint { "An entry never changes; a better one supersedes it." }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_query_tag_and_force() {
        let asked = |q: &str| KnowledgeRequest { q: q.into(), ..KnowledgeRequest::default() };
        let table = [
            (asked(""), "", KnowledgeForce::Current, "/knowledge"),
            (asked("a b&c"), "", KnowledgeForce::Current, "/knowledge?q=a%20b%26c"),
            (asked(""), "x", KnowledgeForce::Expired, "/knowledge?tag=x&state=expired"),
        ];
        for (asked, tag, force, path) in table {
            assert_eq!(asked.path(tag, force), path);
        }
    }

    #[test]
    fn an_unknown_state_shows_what_is_in_force() {
        for (state, force) in [
            ("", KnowledgeForce::Current),
            ("superseded", KnowledgeForce::Superseded),
            ("expired", KnowledgeForce::Expired),
            ("<b>", KnowledgeForce::Current),
        ] {
            let asked = KnowledgeRequest { state: state.into(), ..KnowledgeRequest::default() };
            assert_eq!(asked.force(), force, "{state}");
        }
    }
}
