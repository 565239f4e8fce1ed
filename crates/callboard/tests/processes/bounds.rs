//! How much one caller may hold of a real server: half requests, slow bodies, wrong tokens.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::http::{Server, agent};
use crate::peer::{board, command};
use crate::tokens::token;

/// Far longer than any deadline that a test sets.
const PATIENCE: Duration = Duration::from_secs(20);

fn serve(folder: &Path, settings: &[(&str, &str)]) -> Server {
    let mut serve = command(folder);
    serve.args(["serve", "--listen", "127.0.0.1:0"]).envs(settings.iter().copied());
    serve.stderr(Stdio::null());
    Server::over(serve)
}

fn connect(server: &Server, sends: &str) -> TcpStream {
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(sends.as_bytes()).unwrap();
    stream
}

/// What the server says before it closes the connection.
fn until_closed(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("still open after {PATIENCE:?}: {error}"),
        Ok(_) => {}
    }
    String::from_utf8(said).unwrap()
}

#[test]
fn half_requests_are_closed_and_others_are_served_meanwhile() {
    let folder = board();
    let server = serve(folder.path(), &[("CALLBOARD_HTTP_HEAD_TIMEOUT_SEC", "2")]);
    let start = Instant::now();
    let half: Vec<TcpStream> =
        (0..300).map(|_| connect(&server, "GET / HTTP/1.1\r\nHost: lo")).collect();
    let alive = agent().get(format!("{}/livez", server.url)).call().unwrap();
    assert_eq!(alive.status(), 200);
    for stream in half {
        assert_eq!(until_closed(stream), "");
    }
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

#[test]
fn a_body_that_never_ends_is_answered_and_closed() {
    let folder = board();
    let server = serve(folder.path(), &[("CALLBOARD_HTTP_BODY_TIMEOUT_SEC", "1")]);
    for path in ["/mcp", "/mcp/execute", "/login"] {
        let kind = match path {
            "/login" => "application/x-www-form-urlencoded",
            _ => "application/json",
        };
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: 100\r\n\r\n{{"
        );
        let said = until_closed(connect(&server, &head));
        let status = said.split(' ').nth(1).unwrap_or_default();
        assert_eq!(status, if path == "/login" { "400" } else { "408" }, "{path}: {said}");
    }
}

#[test]
fn the_oldest_stranger_of_an_address_makes_room() {
    let folder = board();
    token(folder.path(), &["--actor", "human:ana"]);
    let settings = [("CALLBOARD_HTTP_UNAUTHENTICATED_MAX", "3")];
    let server = serve(folder.path(), &settings);
    let strangers: Vec<TcpStream> = (0..4).map(|_| connect(&server, "GET /livez HT")).collect();
    let start = Instant::now();
    let mut strangers = strangers.into_iter();
    assert_eq!(until_closed(strangers.next().unwrap()), "");
    assert!(start.elapsed() < Duration::from_secs(8), "no deadline closed it");
    let mut newest = strangers.next_back().unwrap();
    newest.write_all(b"TP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    assert!(until_closed(newest).starts_with("HTTP/1.1 200"));
}

#[test]
fn an_address_with_many_wrong_tokens_waits_and_good_tokens_do_not() {
    let folder = board();
    let (_, good) = token(folder.path(), &["--actor", "agent:good"]);
    let server = serve(folder.path(), &[("CALLBOARD_HTTP_WRONG_TOKEN_LIMIT", "3")]);
    let ask = |token: &str| {
        let request = agent().get(format!("{}/events?after=x", server.url));
        request.header("Authorization", format!("Bearer {token}")).call().unwrap()
    };
    // The stream's own refusal: it got as far as that.
    assert_eq!(ask(&good).status(), 400);
    let wrong = |n: usize| format!("{}{n:02}", &good[..good.len() - 2]);
    for _ in 0..5 {
        assert_eq!(ask(&wrong(0)).status(), 401, "one mistake, however often it is repeated");
    }
    assert_eq!([1, 2].map(|n| ask(&wrong(n)).status().as_u16()), [401, 401]);
    let refused = ask(&wrong(3));
    assert_eq!(refused.status(), 429);
    assert!(refused.headers().contains_key("retry-after"));
    let form = agent().post(format!("{}/login", server.url));
    assert_eq!(form.send_form([("token", wrong(4))]).unwrap().status(), 429);
    assert_eq!(ask(&good).status(), 400, "a token that opened before opens on");
}
