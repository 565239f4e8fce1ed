//! The files that pages load: one stylesheet, the icons, the scripts. All are part of the program.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use callboard_domain::hash::fnv1a;
use flate2::Compression;

use super::packed::{gzip, takes_gzip};

/// One stylesheet of several sources: what all screens share first, then a file for each screen.
/// The order matters: a later file overrides an earlier one.
const STYLE: &str = concat!(
    include_str!("style/tokens.css"),
    include_str!("style/base.css"),
    include_str!("style/frame.css"),
    include_str!("style/parts.css"),
    include_str!("style/board.css"),
    include_str!("style/inbox.css"),
    include_str!("style/task.css"),
    include_str!("style/review.css"),
    include_str!("style/diff.css"),
    include_str!("style/jobs.css"),
    include_str!("style/mail.css"),
    include_str!("style/knowledge.css"),
    include_str!("style/agents.css"),
    include_str!("style/graph.css"),
    include_str!("style/plans.css"),
    include_str!("style/audit.css"),
    include_str!("style/stats.css"),
    include_str!("style/settings.css"),
);
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Each file with its path, its type and its text.
const FILES: &[(&str, &str, &str)] = &[
    ("/style.css", CSS, STYLE),
    ("/icons.svg", SVG, include_str!("icons.svg")),
    ("/icon.svg", SVG, include_str!("icon.svg")),
    ("/js/stream.js", SCRIPT, include_str!("js/stream.js")),
    ("/js/page.js", SCRIPT, include_str!("js/page.js")),
    ("/js/live.js", SCRIPT, include_str!("js/live.js")),
    ("/js/review.js", SCRIPT, include_str!("js/review.js")),
    ("/js/graph.js", SCRIPT, include_str!("js/graph.js")),
    ("/js/log.js", SCRIPT, include_str!("js/log.js")),
    ("/js/find.js", SCRIPT, include_str!("js/find.js")),
];

/// The custom property that files besides the stylesheet name.
const KEPT_NAME: &str = "surface";
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The stylesheet as browsers get it: without comments, indentation and the spaces around signs, and with short names
/// for its properties.
pub fn style() -> &'static str {
    static SERVED: LazyLock<String> = LazyLock::new(|| {
        let mut served = String::with_capacity(STYLE.len());
        let mut rest = STYLE;
        // A comment that is not closed would swallow the rest of the stylesheet; a browser reads it in that way, too.
        while let Some((before, comment)) = rest.split_once("/*") {
            served.push_str(before);
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
        }
        served.push_str(rest);
        let mut served = served.lines().map(str::trim).collect::<Vec<_>>().join("\n");
        for sign in ['{', '}', ';'] {
            let parts = served.split(sign).map(str::trim).collect::<Vec<_>>();
            served = parts.join(&sign.to_string());
        }
        // No text of `content` has these signs.
        let shorter = [
            (": ", ":"),
            (", ", ","),
            (",\n", ","),
            (";}", "}"),
            (" > ", ">"),
            (" ~ ", "~"),
            ("(> ", "(>"),
            (" + .", "+."),
            (" + li", "+li"),
            (" + tr", "+tr"),
            (" / ", "/"),
            (" < ", "<"),
            (" >= ", ">="),
            ("(0.", "(."),
            (",0.", ",."),
            (":0.", ":."),
            (" 0.", " ."),
        ];
        short_names(
            &shorter.iter().fold(served, |served, (long, short)| served.replace(long, short)),
        )
    });
    &SERVED
}

/// Gives each custom property a name of one letter, in the order in which the text first names them. The icons use
/// `KEPT_NAME`.
fn short_names(text: &str) -> String {
    let mut parts = text.split("--");
    let mut short = parts.next().unwrap_or_default().to_owned();
    let mut names = vec![KEPT_NAME];
    for part in parts {
        let end = part.find(|c: char| c != '-' && !c.is_ascii_lowercase()).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        let at = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        short.push_str("--");
        match at {
            0 => short.push_str(name),
            _ => short.push(char::from(LETTERS[at - 1])),
        }
        short.push_str(rest);
    }
    short
}

/// Whether a path is one of these files.
pub(super) fn is_asset(path: &str) -> bool {
    FILES.iter().any(|(file, ..)| *file == path)
}

/// A file as it is sent.
struct Asset {
    kind: &'static str,
    text: &'static str,
    /// Packed once, at the start, with the best and slowest level. No secret is in it, so BREACH does not matter here.
    packed: Vec<u8>,
    /// Says which text this is, so that a browser that has the text is not sent it again.
    tag: HeaderValue,
}

impl Asset {
    fn new(kind: &'static str, text: &'static str) -> Self {
        // The tag tells builds apart, it protects nothing.
        let hash = fnv1a(text.bytes());
        let tag = HeaderValue::try_from(format!("W/\"{hash:016x}\"")).expect("digits are plain");
        Self { kind, text, packed: gzip(text.as_bytes(), Compression::best()), tag }
    }

    /// Assets are served with `no-cache`, so a new binary is never shown with an old stylesheet: a browser asks each
    /// time, and is told when it has the text already.
    fn answer(&self, asked: &HeaderMap) -> Response {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        // A browser takes the file for what the header says, whatever its text looks like.
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(header::ETAG, self.tag.clone());
        // The weak tag holds for the packed and the plain form of one text.
        if asked.get(header::IF_NONE_MATCH) == Some(&self.tag) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        if takes_gzip(asked) {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            return (headers, self.packed.clone()).into_response();
        }
        (headers, self.text).into_response()
    }
}

pub(super) fn routes() -> Router {
    FILES.iter().fold(Router::new(), |router, (path, kind, text)| {
        let text = if *kind == CSS { style() } else { text };
        let asset = Arc::new(Asset::new(kind, text));
        router.route(path, get(async move |asked: HeaderMap| asset.answer(&asked)))
    })
}
