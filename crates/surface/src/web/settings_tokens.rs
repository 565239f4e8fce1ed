//! The tokens of an org: listed, made and shown once, revoked.

use std::collections::HashMap;
use std::time::Duration;

use callboard_domain::actor::Actor;
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::{Lane, Profile, Rights, Scope};
use callboard_domain::time::Timestamp;
use callboard_domain::token::{Token, TokenId, TokenState};
use callboard_engine::{EngineError, TokenText, TokenWish};
use maud::{Markup, html};

use super::Page;
use super::confirm::Confirm;
use super::parts::{Tone, actor, ago, moment, note, tag};
use super::settings::{SettingsSaid, section};

const DAY_S: u64 = 86_400;
/// How long a token may live: the word of the form, its words, and its seconds.
const LIVES: [(&str, &str, Option<u64>); 4] = [
    ("30d", "30 days", Some(30 * DAY_S)),
    ("1d", "1 day", Some(DAY_S)),
    ("90d", "90 days", Some(90 * DAY_S)),
    ("", "until it is revoked", None),
];

/// A token that was just made.
pub(super) struct NewToken {
    token: Token,
    text: TokenText,
}

pub(super) fn tokens(
    page: &Page,
    all: Option<&[Token]>,
    words: &SettingsSaid,
    now: Timestamp,
) -> Markup {
    let Some(all) = all else {
        let body = html! { p.box-body.soft { "Maintainers see and make tokens; you are " (page.reader.rights.profile().as_str()) "." } };
        return section("tokens", "Tokens", &html! {}, &body);
    };
    let issuer = page.engine.token_issuer();
    let body = html! {
        @if let SettingsSaid::Token(made) = words { div.box-body { (shown_once(made)) } }
        @if let Some(issuer) = issuer {
            p.box-body.soft { "Tokens of the issuer " bdi { (issuer) } " are accepted as well. They are not listed here." }
        }
        @if all.is_empty() && issuer.is_none() {
            p.box-body.soft { "There is no token: the server is open to this machine only." }
        } @else if !all.is_empty() {
            table.table {
                thead { tr {
                    th scope="col" { "For" } th scope="col" { "State" } th scope="col" { "May" }
                    th scope="col" { "Made" } th scope="col" { span.hidden { "Verbs" } }
                } }
                tbody { @for token in all { (row(page, token, now)) } }
            }
        }
        @if page.acts() { (form(all.is_empty() && issuer.is_none(), words)) }
    };
    section("tokens", "Tokens", &html! { "for callers over HTTP" }, &body)
}

fn shown_once(made: &NewToken) -> Markup {
    note(
        Tone::Proved,
        "lock",
        &html! {
            p role="status" { "The token for " bdi { (made.token.actor) } ". Copy it now: it is not shown again." }
            p { code.token-text { (made.text.reveal()) } }
            p.faint { "Callers send it as the header " code { "Authorization: Bearer TOKEN" } "." }
        },
    )
}

fn row(page: &Page, token: &Token, now: Timestamp) -> Markup {
    let state = token.state(now);
    let tone = match state {
        TokenState::Live => Tone::Proved,
        TokenState::Expired | TokenState::Revoked => Tone::Quiet,
    };
    html! {
        tr {
            td { (actor(&token.actor)) " " code.faint { (token.id) } }
            td {
                (tag(tone, state.as_str()))
                @if let (TokenState::Live, Some(at)) = (state, token.expires_at) { " " span.faint { "until " (moment(at)) } }
            }
            td.faint { (token.rights.profile().as_str()) }
            td.faint { (ago(token.created_at, now)) " by " bdi { (token.created_by) } }
            td { @if page.acts() && state == TokenState::Live {
                @let id = token.id.to_string();
                @let popover = format!("revoke-{id}");
                @let revoke = Confirm {
                    id: &popover, glyph: "lock", verb: "Revoke", busy: "Revoking",
                    action: "/settings/revoke", fields: &[("id", &id)], is_small: true,
                };
                (revoke.shown(&html! {
                    p { "Calls with the token of " bdi { (token.actor) } " are refused within seconds, in every process." }
                    p { "Tasks that its holder works on stay as they are. A revoked token does not come back." }
                }))
            } }
        }
    }
}

fn form(is_first: bool, words: &SettingsSaid) -> Markup {
    // A form of another section has no actor.
    let typed = match words {
        SettingsSaid::Fault { form, .. } => Some(form).filter(|form| form.contains_key("actor")),
        SettingsSaid::Nothing | SettingsSaid::Token(_) => None,
    };
    let kept = |name: &str| typed.and_then(|form| form.get(name)).map(|text| text.trim());
    let profile_kept = kept("profile").and_then(Profile::parse).unwrap_or(Profile::PairWorker);
    html! {
        details.box-body #token-add open[typed.is_some()] {
            summary { "Make a token" }
            form.stack method="post" action="/settings/token" {
                @if is_first {
                    (note(Tone::Late, "warn", &html! { "This is the first token: from then on every HTTP request needs one, and \
                        pages need a sign-in. callboard mcp needs none." }))
                }
                div.row {
                    div.field {
                        label for="token-actor" { "Actor" }
                        input.input #token-actor name="actor" required placeholder="agent:ci-1" autocomplete="off" value=[kept("actor")];
                    }
                    div.field {
                        label for="token-profile" { "Profile" }
                        select.input #token-profile name="profile" { @for profile in Profile::ALL {
                            option selected[*profile == profile_kept] { (profile.as_str()) }
                        } }
                    }
                    div.field {
                        label for="token-lives" { "Lives" }
                        select.input #token-lives name="lives" { @for (word, words, _) in LIVES { option value=(word) selected[kept("lives") == Some(word)] { (words) } } }
                    }
                }
                div { button.button data-busy="Making" { "Make the token" } }
            }
        }
    }
}

/// Makes a token with no more rights than the person has.
pub(super) async fn add(
    page: &Page,
    form: &HashMap<String, String>,
) -> Result<NewToken, EngineError> {
    page.judge_admin("token_add")?;
    let given = |name: &str| form.get(name).map(|text| text.trim()).unwrap_or_default();
    let actor: Actor = given("actor")
        .parse()
        .map_err(|error| EngineError::from(Refusal::invalid_field("actor", format!("{error}"))))?;
    let unknown = |field: &str| Refusal::invalid_field(field, format!("{field} is unknown"));
    let profile = Profile::parse(given("profile")).ok_or_else(|| unknown("profile"))?;
    let lives = LIVES.iter().find(|(word, ..)| *word == given("lives"));
    let (_, _, lives_s) = lives.ok_or_else(|| unknown("lives"))?;
    let own = &page.reader.rights;
    let scopes = Scope::USUAL.iter().copied().filter(|scope| own.scopes.contains(scope));
    let lane = match profile > Lane::Kagan.ceiling() {
        true => Lane::KaganAdmin,
        false => Lane::Kagan,
    };
    let wish = TokenWish {
        org: page.reader.org.to_string(),
        actor,
        rights: Rights {
            scopes: scopes.collect(),
            lane,
            profile_wanted: Some(profile),
            agent_type: None,
            toolsets: own.toolsets.clone(),
            task: None,
        },
        lives: lives_s.map(Duration::from_secs),
    };
    let (token, text) = page.engine.token_add(&page.reader.actor, wish).await?;
    Ok(NewToken { token, text })
}

pub(super) async fn revoke(
    page: &Page,
    form: &HashMap<String, String>,
) -> Result<String, EngineError> {
    page.judge_admin("token_revoke")?;
    let missing = || EngineError::from(Refusal::invalid_field("id", "there is no such token"));
    let id = form.get("id").ok_or_else(missing)?;
    let id: TokenId = id.parse().map_err(|_| missing())?;
    let all = page.engine.token_list_in(&page.op()).await?;
    let token = all.iter().find(|token| token.id == id).ok_or_else(missing)?;
    page.engine.token_revoke(&page.reader.actor, id).await?;
    Ok(format!("The token of {} is revoked.", token.actor))
}
