//! The gate's part for browsers: page sessions, the cookie that holds one, and the codes and tokens that begin one. A
//! page session opens pages, and no route for agents.

use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use callboard_domain::page::PageGrant;
use callboard_engine::context::Principal;
use callboard_engine::{EngineError, PageSessionId, PageText, TokenFault};

use super::connection::Connection;
use super::gate::{Admitted, Board, Denied, Gate, ISSUER_AWAY, Known, source};
use super::peer::Owner;
use crate::web;

/// How a reader of the pages was admitted, which decides whether forms are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignIn {
    /// As the local user while there are no tokens: reads, and sends no form.
    Local,
    /// With a token in the request itself, as programs do.
    Token,
    /// With a page session.
    Session,
}

/// The message and the status for a person who is refused.
pub(crate) type NotIn = (StatusCode, &'static str);

const WRONG_TOKEN: NotIn = (StatusCode::UNAUTHORIZED, "That token does not open this board.");
const WRONG_CODE: NotIn = (
    StatusCode::UNAUTHORIZED,
    "This code is not valid: a code works once, within ten minutes. Run callboard open in a terminal \
     for a new one.",
);
const TOO_MANY: NotIn =
    (StatusCode::TOO_MANY_REQUESTS, "Too many wrong tokens came from your address. Wait a minute.");
const NOT_OWN: NotIn = (
    StatusCode::FORBIDDEN,
    "A code is for the user who started the server, on the same machine. Sign in with a token: \
     callboard token add makes one.",
);
const AWAY: NotIn = (
    StatusCode::SERVICE_UNAVAILABLE,
    "The store cannot be reached, so signing in and out does not work. Try again in a moment.",
);

const NO_KEYS: NotIn = (
    StatusCode::SERVICE_UNAVAILABLE,
    "The keys of the token issuer cannot be fetched, so its tokens do not open the board now. Try again in a moment.",
);

impl Gate {
    /// The caller by page session, on routes for people. `None` without a session; while there are no tokens also with
    /// an ended one, because the local user reads without.
    pub(super) async fn by_session(
        &self,
        board: &Board,
        parts: &Parts,
        are_needed: bool,
    ) -> Result<Option<Admitted>, Denied> {
        let shown =
            web::is_for_people(parts.uri.path()).then(|| self.shown_session(&parts.headers));
        let Some(shown) = shown.flatten() else { return Ok(None) };
        let id = PageSessionId::of(shown);
        let found = self.session_principal(board, id, parts, are_needed).await;
        match found {
            Ok(principal) => {
                let sign_in = SignIn::Session;
                Ok(Some(Admitted { principal, is_named: true, sign_in, session: Some(id) }))
            }
            // Otherwise an old cookie would close the board to its own user.
            Err(Denied::SessionOver) if !are_needed => Ok(None),
            Err(denied) => Err(denied),
        }
    }

    /// The caller that a page session stands for. Wrong ids count against their address, as wrong tokens do.
    async fn session_principal(
        &self,
        board: &Board,
        id: PageSessionId,
        parts: &Parts,
        are_needed: bool,
    ) -> Result<Principal, Denied> {
        let Board { tokens, pages, local } = board;
        if pages.is_known_wrong(id) {
            return Err(Denied::SessionOver);
        }
        // Without tokens only the server's own user gets this far, so wrong sessions are not counted.
        let source = source(&parts.extensions).filter(|_| are_needed);
        if let Some(source) = source.filter(|_| !pages.opened_before(id)) {
            self.wrong.judge(source).map_err(|wait| Denied::TooManyWrong { wait })?;
        }
        let Some(key) = pages.session(id).await? else {
            if let Some(source) = source {
                // Judged above; a concurrent one may have been the last.
                let _ = self.wrong.count(source);
            }
            return Err(Denied::SessionOver);
        };
        match key.grant {
            // A session never outlives the token that began it.
            PageGrant::Token(token) => {
                let token = tokens.live(token).await?.ok_or(Denied::SessionOver)?;
                self.principal_of(token)
            }
            // The row keeps the rights of the terminal that printed the code.
            PageGrant::Terminal(rights) => {
                let local = Principal::clone(local);
                Ok(Principal { org: key.org, actor: key.actor, rights, ..local })
            }
        }
    }

    /// Begins a page session for a token entered in the sign-in form.
    pub(crate) async fn sign_in(
        &self,
        shown: &str,
        connection: &Connection,
    ) -> Result<PageText, NotIn> {
        let Known::Board(board) = &self.known else { return Err(WRONG_TOKEN) };
        let token = self.token(&board.tokens, shown, Some(connection.source())).await;
        let token = token.map_err(|denied| match denied {
            Denied::TooManyWrong { .. } => TOO_MANY,
            Denied::Away(_) => AWAY,
            Denied::Token(ISSUER_AWAY) => NO_KEYS,
            // Unknown, expired and revoked tokens get one answer.
            _ => WRONG_TOKEN,
        })?;
        board.pages.open_by_token(&token).await.map_err(|error| away(&error))
    }

    /// Begins the page session of a code. A peer that the code is not for does not consume it.
    pub(crate) async fn open(
        &self,
        code: &str,
        connection: &Connection,
    ) -> Result<PageText, NotIn> {
        let Known::Board(board) = &self.known else { return Err(WRONG_CODE) };
        // A code was printed on a terminal of this machine, and programs that open browsers show their arguments to
        // every user.
        if !self.is_for_anybody && !self.is_own_user(connection) {
            return Err(NOT_OWN);
        }
        let source = connection.source();
        self.wrong.judge(source).map_err(|_| TOO_MANY)?;
        let opened = board.pages.open_by_code(code).await.map_err(|error| away(&error))?;
        opened.ok_or_else(|| {
            // Judged above; a concurrent one may have been the last.
            let _ = self.wrong.count(source);
            WRONG_CODE
        })
    }

    /// Ends the session of a browser.
    pub(crate) async fn sign_out(&self, headers: &HeaderMap) -> Result<(), NotIn> {
        let (Known::Board(board), Some(shown)) = (&self.known, self.shown_session(headers)) else {
            return Ok(());
        };
        board.pages.end(PageSessionId::of(shown)).await.map_err(|error| away(&error))
    }

    /// Refuses other users of the machine while there are no tokens that identify callers.
    pub(super) async fn judge_user(&self, parts: &Parts) -> Result<(), Denied> {
        match &self.known {
            Known::Board(board) if !board.tokens.are_needed().await? => self.judge_owner(parts),
            _ => Ok(()),
        }
    }

    /// Refuses a connection of another user than the server's own, and a request without a known connection.
    pub(super) fn judge_owner(&self, parts: &Parts) -> Result<(), Denied> {
        let connection = parts.extensions.get::<Arc<Connection>>();
        let is_own = || connection.is_some_and(|connection| self.is_own_user(connection));
        if self.is_for_anybody || is_own() { Ok(()) } else { Err(Denied::OtherUser) }
    }

    fn is_own_user(&self, connection: &Connection) -> bool {
        match connection.owner() {
            // Only Linux tells the user; elsewhere every local user is trusted.
            Owner::Own | Owner::Untold => true,
            Owner::Other | Owner::Unknown => false,
        }
    }

    /// The cookie that stores a session, or removes it. Cookies ignore ports, so the name has the port: two boards of
    /// one machine must not overwrite each other's.
    pub(crate) fn cookie(&self, session: Option<&PageText>, headers: &HeaderMap) -> HeaderValue {
        let is_public = self.public_url.as_ref().is_some_and(|url| url.starts_with("https://"));
        let forwarded = headers.get("x-forwarded-proto");
        // A forged header only adds `Secure`, and the forger alone is then without a session.
        let is_forwarded = forwarded.is_some_and(|scheme| scheme == "https");
        let secure = if is_public || is_forwarded { "; Secure" } else { "" };
        let (value, age) = match (session, &self.known) {
            (Some(session), Known::Board(board)) => {
                (session.reveal(), board.pages.lives().as_secs())
            }
            _ => ("", 0),
        };
        let name = &self.cookie_name;
        let cookie =
            // `SameSite=Strict`: a form on another site is sent without the session. `HttpOnly`: no script reads it.
            format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}");
        HeaderValue::try_from(cookie).expect("a session's id is plain letters")
    }

    /// The page session in the cookies of a request, which may come in several headers.
    fn shown_session<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let cookies = headers.get_all(header::COOKIE).iter();
        cookies
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(';'))
            .find_map(|pair| pair.trim().strip_prefix(&*self.cookie_name)?.strip_prefix('='))
            .filter(|session| !session.is_empty())
    }
}

/// The cause goes to the log alone: this text is shown to callers that are not signed in.
fn away(error: &EngineError) -> NotIn {
    tracing::warn!(%error, "cannot begin or end a page session");
    AWAY
}

impl Denied {
    /// The message above the sign-in form.
    pub(super) fn for_people(&self) -> Option<&'static str> {
        match self {
            Denied::Token(TokenFault::Unknown) => Some("That token is not known here."),
            Denied::Token(TokenFault::Expired(_)) => Some("That token has expired."),
            Denied::Token(TokenFault::Revoked(_)) => Some("That token was revoked."),
            Denied::Token(TokenFault::Issuer(fault)) => Some(fault.words()),
            Denied::SessionOver => Some("Your session has ended. Sign in again."),
            Denied::NoToken
            | Denied::OtherUser
            | Denied::TooMany { .. }
            | Denied::TooManyWrong { .. }
            | Denied::TooManyStreams { .. }
            | Denied::Actor(_)
            | Denied::Away(_)
            | Denied::Damaged(_)
            | Denied::Broken(_) => None,
        }
    }
}
