//! Which `Host` and `Origin` a request may carry. A page on another site whose name resolves to this machine (DNS
//! rebinding) sends its own name, and is refused by it. Pure.

use std::fmt;
use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};

use super::HttpOptions;
use crate::web;

/// The names and origins that this server answers to.
pub(crate) struct Hosts {
    /// `http.allowed_hosts` and the host of the public address; loopback names are allowed without being listed.
    allowed: Vec<HostPort>,
    /// The host of the pages, when they have a name of their own.
    page: Option<HostPort>,
    /// The scheme by which browsers reach this server.
    scheme: &'static str,
    /// `http.allowed_origins` and the public address, in the spelling of `plain`.
    origins: Vec<String>,
    /// A public listener without a list serves every name.
    any: bool,
}

/// Lower-case host, without the brackets of IPv6, and the port if one was written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HostPort {
    host: String,
    port: Option<u16>,
}

/// Why a request is refused by its headers. Each variant has the name as the client wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostFault {
    Host(String),
    Origin(String),
    /// A request of an agent under the name of the pages.
    PagesOnly(String),
}

impl HostFault {
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::Host(_) | Self::PagesOnly(_) => "HOST_NOT_ALLOWED",
            Self::Origin(_) => "ORIGIN_NOT_ALLOWED",
        }
    }
}

impl fmt::Display for HostFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => {
                write!(f, "host '{host}' is not allowed; add it to http.allowed_hosts")
            }
            Self::Origin(origin) => {
                write!(f, "origin '{origin}' is not allowed; add it to http.allowed_origins")
            }
            Self::PagesOnly(host) => {
                write!(
                    f,
                    "'{host}' serves only pages (web.host); agents must use another host name"
                )
            }
        }
    }
}

impl Hosts {
    pub(super) fn new(options: &HttpOptions, public_url: Option<&str>) -> Self {
        let public = public_url.map(|url| origin_of(&plain(url)));
        let public_host = public.as_deref().and_then(|origin| origin.split("://").nth(1));
        let hosts = options.allowed_hosts.iter().map(String::as_str).chain(public_host);
        let origins = options.allowed_origins.iter().map(|origin| plain(origin));
        Self {
            allowed: hosts.filter_map(HostPort::parse).collect(),
            page: options.page_host.as_deref().and_then(HostPort::parse),
            scheme: match &public {
                Some(origin) if origin.starts_with("https://") => "https",
                _ => "http",
            },
            origins: origins.chain(public.clone()).collect(),
            // The names of a public address are not known beforehand. `serve` opens no such listener without tokens.
            any: !options.listener_is_loopback && options.allowed_hosts.is_empty(),
        }
    }

    /// Judges the name, then the path under that name, then the origin.
    pub(crate) fn judge(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), HostFault> {
        let named = named(uri, headers);
        let host = HostPort::parse(&named).filter(|host| self.is_ours(host));
        let Some(host) = host else { return Err(HostFault::Host(named)) };
        // Browsers send a cookie to every port of a name. Under a name for pages alone no other program gets it.
        if self.is_page(&host) && !web::is_for_people(uri.path()) {
            return Err(HostFault::PagesOnly(named));
        }
        // Browsers send an origin. Programs such as agents' clients have none and are judged by host and token alone.
        match headers.get(header::ORIGIN) {
            None => Ok(()),
            Some(origin) => {
                let origin = String::from_utf8_lossy(origin.as_bytes());
                if self.is_same_or_allowed(&origin, &host) {
                    Ok(())
                } else {
                    Err(HostFault::Origin(origin.into_owned()))
                }
            }
        }
    }

    /// The address of a page that was requested under another name than that of the pages. Programs follow `/events`
    /// too, so that path answers under every name.
    pub(super) fn elsewhere(&self, uri: &Uri, headers: &HeaderMap) -> Option<String> {
        let page = self.page.as_ref()?;
        let asked = HostPort::parse(&named(uri, headers))?;
        if self.is_page(&asked) || !web::is_for_people(uri.path()) || uri.path() == "/events" {
            return None;
        }
        // Behind a port mapping the asked port is the one that reaches this server.
        let port = page.port.or(asked.port).map(|port| format!(":{port}")).unwrap_or_default();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Some(format!("{}://{}{port}{path}", self.scheme, page.host))
    }

    fn is_page(&self, host: &HostPort) -> bool {
        self.page.as_ref().is_some_and(|page| page.covers(host))
    }

    /// Loopback names need no listing: a page of another site cannot have them as its own.
    fn is_ours(&self, host: &HostPort) -> bool {
        let is_listed = self.allowed.iter().any(|allowed| allowed.covers(host));
        self.any || host.is_loopback() || is_listed || self.is_page(host)
    }

    /// Whether an origin is this server's or allowed. On loopback `localhost` and `127.0.0.1` are one machine, but
    /// another port is another program.
    fn is_same_or_allowed(&self, origin: &str, host: &HostPort) -> bool {
        if self.origins.contains(&plain(origin)) {
            return true;
        }
        // `null`, which sandboxed frames and local files send, has no scheme and is refused here.
        let Some((scheme, place)) = plain(origin)
            .split_once("://")
            .and_then(|(scheme, rest)| Some((scheme.to_owned(), HostPort::parse(rest)?)))
        else {
            return false;
        };
        // Browsers leave the default port out of `Origin` and of `Host`.
        let default_port = if scheme == "https" { 443 } else { 80 };
        let same_port = place.port.unwrap_or(default_port) == host.port.unwrap_or(default_port);
        let same_host = place.host == host.host || (place.is_loopback() && host.is_loopback());
        same_port && same_host
    }
}

impl HostPort {
    fn parse(text: &str) -> Option<Self> {
        let authority: Authority = text.trim().parse().ok()?;
        // `user@host` is no host, and a page cannot send it either.
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return None;
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        Some(Self { host: host.to_ascii_lowercase(), port: authority.port_u16() })
    }

    /// Whether a host is this one; without a port it matches every port.
    fn covers(&self, host: &HostPort) -> bool {
        self.host == host.host && self.port.is_none_or(|port| host.port == Some(port))
    }

    fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// The name in a request, as it was written.
fn named(uri: &Uri, headers: &HeaderMap) -> String {
    match headers.get(header::HOST) {
        Some(host) => String::from_utf8_lossy(host.as_bytes()).into_owned(),
        // A request line may carry the whole address instead of a `Host`.
        None => uri.authority().map(Authority::to_string).unwrap_or_default(),
    }
}

/// The address without its path.
fn origin_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    format!("{scheme}://{}", rest.split('/').next().unwrap_or(rest))
}

/// An origin in one spelling, for comparison as text.
fn plain(origin: &str) -> String {
    origin.trim().trim_end_matches('/').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    /// `listener  allowed hosts  allowed origins  host  origin  verdict`, `-` for none.
    const CASES: &str = "
        loopback  -            -                     localhost:3001      -                      ok
        loopback  -            -                     127.0.0.1:3001      -                      ok
        loopback  -            -                     127.9.9.9           -                      ok
        loopback  -            -                     [::1]:3001          -                      ok
        loopback  -            -                     LOCALHOST:3001      http://localhost:3001  ok
        loopback  -            -                     127.0.0.1:3001      http://localhost:3001  ok
        loopback  -            -                     localhost           http://localhost       ok
        loopback  -            -                     localhost:3001      http://localhost:5173  origin
        loopback  -            http://localhost:5173 localhost:3001      http://localhost:5173  ok
        loopback  -            HTTPS://App.Example/  localhost:3001      https://app.example    ok
        loopback  -            -                     localhost:3001      http://evil.example    origin
        loopback  -            -                     localhost:3001      null                   origin
        loopback  -            -                     evil.example        http://evil.example    host
        loopback  -            -                     evil.example        -                      host
        loopback  -            -                     localhost.evil.com  -                      host
        loopback  -            -                     me@localhost        -                      host
        loopback  -            -                     -                   -                      host
        loopback  cb.example   -                     cb.example:8080     -                      ok
        loopback  cb.example:1 -                     cb.example:8080     -                      host
        public    -            -                     any.example         -                      ok
        public    -            -                     any.example         https://any.example    ok
        public    -            -                     any.example         https://other.example  origin
        public    cb.example   -                     any.example         -                      host
        public    cb.example   -                     cb.example          https://cb.example     ok
        public    cb.example   -                     localhost:3001      -                      ok
    ";

    #[test]
    fn hosts_and_origins() {
        for case in CASES.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let columns: Vec<&str> = case.split_whitespace().collect();
            let [listener, allowed_host, allowed_origin, host, origin, verdict] = columns[..]
            else {
                panic!("six columns: {case}");
            };
            let some = |text: &str| (text != "-").then(|| text.to_owned());
            let options = HttpOptions {
                listener_is_loopback: listener == "loopback",
                allowed_hosts: some(allowed_host).into_iter().collect(),
                allowed_origins: some(allowed_origin).into_iter().collect(),
                ..HttpOptions::default()
            };
            let mut headers = HeaderMap::new();
            for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
                if let Some(value) = some(value) {
                    headers.insert(name, HeaderValue::from_str(&value).expect("ascii"));
                }
            }
            let judged = Hosts::new(&options, None).judge(&Uri::from_static("/mcp"), &headers);
            let judged = match judged {
                Ok(()) => "ok",
                Err(HostFault::Host(_)) => "host",
                Err(HostFault::Origin(_)) => "origin",
                Err(HostFault::PagesOnly(_)) => "pages",
            };
            assert_eq!(judged, verdict, "{case}");
        }
    }

    #[test]
    fn pages_with_a_name_of_their_own_are_asked_for_there() {
        let named = |host: &str, public: Option<&str>| {
            let page_host = Some(host.to_owned());
            Hosts::new(&HttpOptions { page_host, ..HttpOptions::default() }, public)
        };
        let ask = |hosts: &Hosts, host: &'static str, path: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            let uri = Uri::from_static(path);
            hosts.judge(&uri, &headers).map(|()| hosts.elsewhere(&uri, &headers))
        };
        let hosts = named("callboard.localhost", None);
        let (own, other) = ("callboard.localhost:3001", "127.0.0.1:3001");
        for path in ["/", "/mail/1", "/events", "/open?code=x"] {
            assert_eq!(ask(&hosts, own, path), Ok(None), "{path}");
        }
        for path in ["/mcp", "/mcp/execute", "/metrics", "/mailbox"] {
            assert_eq!(ask(&hosts, own, path), Err(HostFault::PagesOnly(own.into())), "{path}");
            assert_eq!(ask(&hosts, other, path), Ok(None), "{path}");
        }
        let led = "http://callboard.localhost:3001/open?code=x";
        assert_eq!(ask(&hosts, other, "/open?code=x"), Ok(Some(led.into())));
        assert_eq!(ask(&hosts, other, "/events"), Ok(None));
        let hosts = named("pages.example", Some("https://board.example"));
        let led = "https://pages.example/mail";
        assert_eq!(ask(&hosts, "board.example", "/mail"), Ok(Some(led.into())));
        let hosts = named("callboard.localhost:81", None);
        let led = "http://callboard.localhost:81/";
        assert_eq!(ask(&hosts, other, "/"), Ok(Some(led.into())));
    }

    #[test]
    fn the_public_address_is_a_host_and_an_origin() {
        let hosts = Hosts::new(&HttpOptions::default(), Some("https://Board.example/callboard/"));
        let judge = |host: &'static str, origin: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            hosts.judge(&Uri::from_static("/mcp"), &headers).is_ok()
        };
        assert!(judge("board.example", "https://board.example"));
        // A proxy may send the name of the machine behind it.
        assert!(judge("127.0.0.1:3001", "https://board.example"));
        assert!(!judge("board.example", "https://other.example"));
        assert!(!judge("other.example", "https://board.example"));
    }
}
