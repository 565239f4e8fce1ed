//! The frame of every page: the rail with the screens, the top bar, the palette and the help.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use callboard_domain::event::EventName;
use callboard_domain::rights::PersonVerb;
use callboard_engine::time::rfc3339_ms;
use callboard_engine::{BoardProjects, EngineError, NavCounts, ProjectSeen};
use maud::{DOCTYPE, Markup, html};

use super::events::concerned;
use super::inbox;
use super::parts::{actor, icon};
use super::task_verbs::why_not;
use super::{CONTENT_POLICY, Page, REFERRER_POLICY, cookie_of, flash};
use crate::http::SignIn;

/// How many projects the switch offers.
/// The projects that were opened last come first.
const PROJECTS_SHOWN: usize = 50;

/// A screen of the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Screen {
    Inbox,
    Board,
    Agents,
    Mail,
    Jobs,
    Knowledge,
    Plans,
    Graph,
    Audit,
    Metrics,
    Settings,
}

/// A screen in the navigation: its address, title, glyph, the second key of `g …`, and a line about it.
struct NavEntry {
    path: &'static str,
    title: &'static str,
    glyph: &'static str,
    key: &'static str,
    about: &'static str,
}

impl Screen {
    /// In the order of the navigation.
    pub const ALL: &'static [Self] = &[
        Self::Inbox,
        Self::Board,
        Self::Agents,
        Self::Mail,
        Self::Plans,
        Self::Graph,
        Self::Jobs,
        Self::Knowledge,
        Self::Audit,
        Self::Metrics,
        Self::Settings,
    ];
    /// The screens of every day; on a phone they are the bar at the bottom.
    const MAIN: &'static [Self] = &[Self::Inbox, Self::Board, Self::Agents, Self::Mail];
    const WORK: &'static [Self] = &[Self::Plans, Self::Graph, Self::Jobs];
    const RECORD: &'static [Self] = &[Self::Knowledge, Self::Audit, Self::Metrics];

    /// The one table of screens: rail, palette and help are made from it.
    fn entry(self) -> NavEntry {
        let entry = |path, title, glyph, key, about| NavEntry { path, title, glyph, key, about };
        match self {
            Self::Inbox => entry("/", "Inbox", "inbox", "g i", "What needs a person."),
            Self::Board => {
                entry("/board", "Board", "board", "g b", "Every open task and why it waits.")
            }
            Self::Agents => entry("/agents", "Agents", "agents", "g a", "Who does what now."),
            Self::Mail => {
                entry("/mail", "Mail", "mail", "g m", "Letters between people and agents.")
            }
            Self::Jobs => entry("/jobs", "Jobs", "job", "g j", "Runs of agents and their queue."),
            Self::Knowledge => {
                entry("/knowledge", "Knowledge", "book", "g k", "What is known, and how sure.")
            }
            Self::Graph => entry("/graph", "Graph", "graph", "g g", "What open tasks wait for."),
            Self::Plans => entry("/plans", "Plans", "plan", "g p", "What planners propose."),
            Self::Audit => entry("/audit", "Audit", "audit", "g u", "Who did what, when, and why."),
            Self::Metrics => entry(
                "/stats",
                "Metrics",
                "metrics",
                "g t",
                "Whether it gets faster, and what fails.",
            ),
            Self::Settings => entry(
                "/settings",
                "Settings",
                "settings",
                "g s",
                "Health, rules, tokens and webhooks.",
            ),
        }
    }

    pub fn path(self) -> &'static str {
        self.entry().path
    }

    pub fn title(self) -> &'static str {
        self.entry().title
    }
}

/// One page inside the frame.
pub(super) struct View<'a> {
    pub screen: Screen,
    /// The heading, and the title of the document.
    pub title: &'a str,
    /// The pages above this one, as links. A page with a trail has its heading in the content.
    pub trail: Vec<(String, String)>,
    /// One line of standing facts beside the title.
    pub facts: Markup,
    pub content: Markup,
    /// The keys of this page with what they do. Each presses a button or link with `data-key`.
    pub keys: &'static [(&'static str, &'static str)],
    /// The command that shows this page's facts in a terminal.
    pub twin: &'a str,
    /// The address of a script for this page besides those of all pages.
    pub script: Option<&'static str>,
    /// Whether the standing facts begin with the number of agents at work.
    pub says_at_work: bool,
    /// Whether the standing facts end with how many places for agents are taken.
    pub says_places: bool,
}

impl<'a> View<'a> {
    /// A page with the title as its heading, without keys or a script of its own.
    pub fn of(screen: Screen, title: &'a str, content: Markup) -> Self {
        let (trail, facts) = (Vec::new(), html! {});
        Self {
            screen,
            title,
            trail,
            facts,
            content,
            keys: &[],
            twin: "callboard status",
            script: None,
            says_at_work: false,
            says_places: false,
        }
    }
}

impl Page {
    /// The page in its frame. Faults of the frame's own reads are swallowed: the content is what the reader came for.
    pub(super) async fn show(&self, status: StatusCode, view: View<'_>) -> Response {
        // An org without a task has no project yet, and a store that is away names none.
        let projects = self.engine.project_list(&self.op(), PROJECTS_SHOWN).await;
        let projects = projects.unwrap_or_default();
        let open = projects.iter().find(|seen| seen.is_open);
        let project = open.map_or_else(|| "Callboard".to_owned(), |seen| seen.project.name.clone());
        let counts = self.counts().await.unwrap_or_default();
        let rail = self.rail(&view, &project, &counts);
        let body = html! {
            a.skip href="#main" { "Skip to content" }
            div.frame {
                (rail)
                (self.top(&view, &counts))
                main #main tabindex="-1" {
                    @if let Some(words) = flash(&self.headers) {
                        p.flash role="status" { (icon("check")) (words) }
                    }
                    (view.content)
                }
            }
            (palette())
            (self.projects(&projects))
            (self.help(&view))
        };
        // Without a known event there is no point to resume from, and the page stays as it was read.
        let live = self.seen.map(|seen| (concerned(view.screen), seen));
        let chosen = Chosen {
            theme: cookie_of(&self.headers, "callboard_theme"),
            keys_off: cookie_of(&self.headers, "callboard_keys") == Some("off"),
        };
        let mut response = document(status, view.title, &project, chosen, live, view.script, &body);
        if flash(&self.headers).is_some() {
            // The words are said once: a reload shows the page without them.
            let over = HeaderValue::from_static("callboard_flash=; Path=/; Max-Age=0");
            response.headers_mut().append(header::SET_COOKIE, over);
        }
        response
    }

    /// The numbers beside the screens. People share one inbox of mail, an agent has its own.
    pub(super) async fn counts(&self) -> Result<NavCounts, EngineError> {
        let snoozed = inbox::snoozed(self).await?;
        let mut counts = self.engine.nav_counts(&self.op(), BoardProjects::All, snoozed).await?;
        if let Some(own) = self.inbox() {
            counts.mail_unread = self.engine.mail_unread(&self.op(), Some(&own)).await?;
        }
        Ok(counts)
    }

    /// The navigation. A count is there also while it is zero, so that the live script finds its place.
    fn rail(&self, view: &View<'_>, project: &str, counts: &NavCounts) -> Markup {
        let item = |screen: Screen| {
            let NavEntry { path, title, glyph, key, .. } = screen.entry();
            html! {
                li {
                    a href=(path) data-key=(key) aria-current=[(view.screen == screen).then_some("page")] {
                        (icon(glyph)) (title)
                        @match screen {
                            Screen::Inbox => span.count.count-you #inbox-count data-live {
                                @if counts.inbox > 0 { (counts.inbox) span.hidden { " need you" } }
                            },
                            Screen::Mail => span.count #unread data-live
                                title=[(counts.mail_unread > 0).then(|| format!("{} unread", counts.mail_unread))] {
                                @if counts.mail_unread > 0 { (counts.mail_unread) span.hidden { " unread" } }
                            },
                            Screen::Plans => span.count #plans-open data-live {
                                @if counts.plans_open > 0 { (counts.plans_open) span.hidden { " wait for a decision" } }
                            },
                            Screen::Settings => span.count #health data-live {
                                @if let Some((word, lines)) = self.health { (lines) " " (word) }
                            },
                            Screen::Agents => span.count #at-work data-live {
                                @if counts.agents_at_work > 0 { (counts.agents_at_work) span.hidden { " at work" } }
                            },
                            Screen::Jobs => span.count #jobs-active data-live {
                                @if counts.jobs_active > 0 { (counts.jobs_active) span.hidden { " active" } }
                            },
                            Screen::Board | Screen::Knowledge | Screen::Graph | Screen::Audit | Screen::Metrics => {}
                        }
                    }
                }
            }
        };
        html! {
            nav.rail aria-label="Main" {
                button.rail-project type="button" popovertarget="projects" {
                    (icon("mark")) bdi { (project) } span.hidden { ": choose a project" } (icon("down"))
                }
                ul.rail-main {
                    @for screen in Screen::MAIN { (item(*screen)) }
                    li.rail-more { button popovertarget="help" { (icon("more")) "More" } }
                }
                h2 { "Work" }
                ul { @for screen in Screen::WORK { (item(*screen)) } }
                h2 { "Record" }
                ul { @for screen in Screen::RECORD { (item(*screen)) } }
                ul.rail-end {
                    (item(Screen::Settings))
                    li { button popovertarget="help" data-key="?" {
                        (icon("help")) "Keys and help" span.count { kbd { "?" } }
                    } }
                    li { (self.who()) }
                }
            }
        }
    }

    /// The project that new tasks go to, and the ways to another one.
    fn projects(&self, projects: &[ProjectSeen]) -> Markup {
        let row = |seen: &ProjectSeen| {
            let words = html! { (icon("board")) bdi { (seen.project.name) } span.id { (seen.project.prefix) } };
            html! {
                li {
                    @if seen.is_open || !self.acts() {
                        a href={ (Screen::Board.path()) "?projects=" (seen.project.id) }
                            aria-current=[seen.is_open.then_some("true")] { (words) }
                    } @else {
                        form method="post" action="/projects/open" {
                            button name="project" value=(seen.project.id) { (words) }
                        }
                    }
                }
            }
        };
        html! {
            div.palette #projects popover role="dialog" aria-label="Projects" {
                h2 { "Project" }
                ul { @for seen in projects { (row(seen)) } }
                h2 { "Together" }
                ul { li { a href={ (Screen::Board.path()) "?projects=all" } { (icon("board")) "All projects" } } }
            }
        }
    }

    /// Who acts here, and the way out.
    fn who(&self) -> Markup {
        match self.sign_in {
            SignIn::Session => html! {
                form.rail-who method="post" action="/logout" {
                    span { (actor(&self.reader.actor)) (self.profile()) } span.hidden { (self.reader.actor) }
                    button.button.button-bare.button-small { "Sign out" }
                }
            },
            SignIn::Token => {
                html! { p.rail-who { span { (actor(&self.reader.actor)) (self.profile()) } } }
            }
            SignIn::Local => html! {
                div.rail-who { p.faint { "Read only. " code { "callboard open" } " in a terminal signs you in." } }
            },
        }
    }

    /// The profile of the reader, which says what the reader may do.
    fn profile(&self) -> Markup {
        html! { span.faint { (self.reader.rights.profile().as_str()) } }
    }

    /// The bar above the content: where the reader is, search, the live switch and the new task.
    fn top(&self, view: &View<'_>, counts: &NavCounts) -> Markup {
        html! {
            header.top {
                @if view.trail.is_empty() {
                    h1 { bdi { (view.title) } }
                } @else {
                    nav.trail aria-label="Where you are" { @for (n, (href, words)) in view.trail.iter().enumerate() {
                        @if n > 0 { (icon("right")) }
                        a href=(href) aria-current=[(n + 1 == view.trail.len()).then_some("page")] { bdi { (words) } }
                    } }
                }
                p.faint #facts data-live {
                    @if view.says_at_work { (at_work(counts)) @if !view.facts.0.is_empty() { " · " } }
                    (view.facts)
                    @if view.says_places {
                        @if !view.facts.0.is_empty() { " · " }
                        span title="Runs of agents under way, and how many may be at a time (general.max_concurrent_agents)" {
                            (counts.agents_running) " of " (counts.places) " places taken"
                        }
                    }
                }
                div.top-end {
                    button.jump type="button" popovertarget="palette" data-key="/" {
                        (icon("search")) span { "Search or jump to" } kbd { "/" }
                    }
                    @if self.seen.is_some() {
                        button.live type="button" title="Pause or resume updates" data-key="p" { span { (self.as_of()) } }
                    }
                    @if self.acts() { @match why_not(self, PersonVerb::Write) {
                        Some(why) => button.button type="button" disabled title=(why) { (icon("plus")) span { "New task" } },
                        None => a.button.button-main href="/tasks/new" data-key="n" { (icon("plus")) span { "New task" } kbd { "n" } },
                    } }
                }
            }
        }
    }

    /// When the page was made. A script makes it the state of the stream.
    fn as_of(&self) -> Markup {
        let text = rfc3339_ms(self.engine.now());
        html! { "As of " time datetime=(text) { (text[11..19]) } " UTC" }
    }

    /// The keys of the page, every screen, and who acts here: on a phone the rail has no room for them.
    fn help(&self, view: &View<'_>) -> Markup {
        let everywhere = [
            ("/", "search, also Ctrl K"),
            ("?", "this help"),
            ("n", "new task"),
            ("j k", "next and previous row"),
            ("p", "pause updates"),
            ("s", "show rows that wait"),
            ("Ctrl Enter", "send the form"),
            ("Esc", "close what is open"),
        ];
        let keys = |rows: &[(&str, &str)]| {
            html! { div.keys { @for (key, words) in rows { div { span { (words) } kbd { (key) } } } } }
        };
        html! {
            div #help popover role="dialog" aria-label="Keys and help" {
                div.popover-body.stack {
                    div.help-about { h2 { (view.screen.title()) } p.soft { (view.screen.entry().about) " In a terminal: " code { (view.twin) } } }
                    // A phone has no keys.
                    @if !view.keys.is_empty() { div.wide.stack-tight { h2 { "On this page" } (keys(view.keys)) } }
                    div.wide.stack-tight { h2 { "Everywhere" } (keys(&everywhere)) }
                    div.stack-tight {
                        h2 { "Screens" }
                        div.keys.screens { @for screen in Screen::ALL.iter().copied() {
                            @let NavEntry { path, title, glyph, key, .. } = screen.entry();
                            div { a href=(path) aria-current=[(view.screen == screen).then_some("page")] { (icon(glyph)) (title) } kbd { (key) } }
                        } }
                    }
                    div.phone.stack-tight {
                        button.button type="button" popovertarget="projects" { (icon("board")) "Choose a project" }
                        (self.who())
                    }
                }
            }
        }
    }
}

/// How many agents are at work, in the words of every screen: those that hold a task, are not silent and wait for no
/// answer.
pub(super) fn at_work(counts: &NavCounts) -> String {
    match counts.agents_at_work {
        0 => "no agent at work".to_owned(),
        1 => "1 agent at work".to_owned(),
        many => format!("{many} agents at work"),
    }
}

/// Search from everywhere. Without a script the form leads to the page of results.
fn palette() -> Markup {
    html! {
        div.palette #palette popover role="dialog" aria-label="Search" {
            form action="/search" role="search" {
                (icon("search"))
                // The focus moves while the palette opens, so that no letter of a quick typist presses a key of the page.
                input name="q" autofocus aria-label="Search tasks, agents, jobs and pages" placeholder="Search or jump to" autocomplete="off";
            }
            div data-here {}
            div data-found { (places("")) }
            // A phone has no keys.
            p.wide.faint.box-body aria-hidden="true" { span.hints {
                span { kbd { "↑ ↓" } " choose" } span { kbd { "Enter" } " open" } span { kbd { "Esc" } " close" }
            } }
        }
    }
}

/// The screens whose titles hold these words, as links.
pub(super) fn places(words: &str) -> Markup {
    let fits = |screen: &Screen| screen.title().to_lowercase().contains(&words.to_lowercase());
    let found: Vec<Screen> = Screen::ALL.iter().copied().filter(fits).collect();
    html! {
        @if !found.is_empty() {
            h2 { "Go to" }
            ul { @for screen in found {
                @let NavEntry { path, title, glyph, key, .. } = screen.entry();
                li { a href=(path) { (icon(glyph)) (title) span { kbd { (key) } } } }
            } }
        }
    }
}

/// The choices of a browser, kept in cookies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chosen<'a> {
    pub theme: Option<&'a str>,
    /// Single letters press no buttons.
    pub keys_off: bool,
}

/// A whole document. `live` are the events that renew the page, and the last event before the page was read.
pub(super) fn document(
    status: StatusCode,
    title: &str,
    project: &str,
    chosen: Chosen<'_>,
    live: Option<(Vec<EventName>, u64)>,
    script: Option<&str>,
    body: &Markup,
) -> Response {
    // The cookie is a browser's text, and becomes an attribute.
    let theme = chosen.theme.filter(|theme| matches!(*theme, "light" | "dark"));
    let names = |events: &[EventName]| {
        events.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" data-theme=[theme] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · " (project) @if project != "Callboard" { " · Callboard" } }
                link rel="icon" href="/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/style.css";
                @if live.is_some() { script type="module" src="/js/live.js" {} }
                @if script.is_some() { script type="module" src=[script] {} }
            }
            body data-keys=[chosen.keys_off.then_some("off")]
                data-stream=[live.as_ref().map(|_| super::events::stream())]
                data-seen=[live.as_ref().map(|(_, seen)| seen)]
                data-events=[live.as_ref().map(|(events, _)| names(events))] {
                (body)
            }
        }
    };
    let mut headers = HeaderMap::new();
    // `no-store`: a page shows the rights of one session, and must not be found in a cache after its end.
    let kept = [
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, REFERRER_POLICY),
        (header::CACHE_CONTROL, "no-store"),
    ];
    headers.extend(kept.map(|(name, value)| (name, HeaderValue::from_static(value))));
    // No text of an agent reaches a terminal or a browser with control characters.
    let shown =
        page.into_string().replace(|c: char| c.is_control() && c != '\n' && c != '\t', "\u{fffd}");
    (status, headers, Html(shown)).into_response()
}
