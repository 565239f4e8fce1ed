//! Webhooks over the wire: another implementation accepts the signature, a letter is sent once, and never to a
//! forbidden address.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::post;
use callboard_domain::runs::delivery::Receipt;
use callboard_engine::ports::{Courier, Letter};
use callboard_runner::{Webhooks, judge_secret};
use standardwebhooks::Webhook;

type Got = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// A receiver that answers with the status in its path; `/302` redirects to `/200`.
async fn receiver() -> (String, Got) {
    async fn take(
        State(got): State<Got>,
        axum::extract::Path(status): axum::extract::Path<u16>,
        headers: HeaderMap,
        body: Bytes,
    ) -> impl IntoResponse {
        got.lock().expect("nobody panics with it").push((headers, body));
        (StatusCode::from_u16(status).expect("a status"), [(header::LOCATION, "/200")])
    }
    let got = Got::default();
    let app = Router::new().route("/{status}", post(take)).with_state(got.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, app).await });
    (format!("http://{address}"), got)
}

fn new_secret() -> String {
    Webhooks::new(false, None).new_secret().expect("a secret")
}

fn letter(url: String) -> Letter {
    let sent_at = jiff::Timestamp::now().as_second();
    let body = r#"{"type":"job.finished"}"#.to_owned();
    Letter { url, id: "msg_1".into(), sent_at, body }
}

#[tokio::test]
async fn another_implementation_accepts_the_signature() {
    let (base, got) = receiver().await;
    let secret = new_secret();
    let sent = Webhooks::new(true, None).deliver(&letter(format!("{base}/200")), &secret).await;
    assert_eq!(sent, Receipt::Taken);
    let (headers, body) = got.lock().expect("free").pop().expect("one letter");
    let judge = Webhook::new(&secret).expect("a secret");
    judge.verify(&body, &headers).expect("it is ours");
    assert_eq!(headers["webhook-id"], "msg_1");
    assert_eq!(headers["content-type"], "application/json");
    let other = Webhook::new(&new_secret()).expect("a secret");
    other.verify(&body, &headers).expect_err("signed with another secret");
}

#[tokio::test]
async fn the_answer_decides() {
    let (base, got) = receiver().await;
    let secret = new_secret();
    let hooks = Webhooks::new(true, None);
    for (status, expected) in [
        (204, Receipt::Taken),
        (410, Receipt::Unwanted),
        (500, Receipt::Failed("answered 500 Internal Server Error".into())),
        (302, Receipt::Failed("answered 302 Found".into())),
    ] {
        let sent = hooks.deliver(&letter(format!("{base}/{status}")), &secret).await;
        assert_eq!(sent, expected);
    }
    assert_eq!(got.lock().expect("free").len(), 4, "a redirect is not followed");
}

#[tokio::test]
async fn private_addresses_are_not_connected_to() {
    let (base, got) = receiver().await;
    let secret = new_secret();
    let port = base.rsplit_once(':').expect("a port").1.to_owned();
    let hooks = Webhooks::new(false, None);
    for url in [
        format!("{base}/200"),
        format!("http://localhost:{port}/200"),
        format!("http://[::1]:{port}/200"),
        // Names to our parser, addresses to a resolver.
        format!("http://127.1:{port}/200"),
        format!("http://2130706433:{port}/200"),
        "http://10.1/200".into(),
        format!("http://[::ffff:127.0.0.1]:{port}/200"),
        "http://169.254.169.254/latest".into(),
    ] {
        let sent = hooks.deliver(&letter(url.clone()), &secret).await;
        let refused =
            matches!(&sent, Receipt::Failed(words) if words.contains("private or link-local"));
        assert!(refused, "{url}: {sent:?}");
    }
    assert!(got.lock().expect("free").is_empty());
}

#[tokio::test]
async fn whoever_is_not_there_is_tried_later() {
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", gone.local_addr().expect("an address"));
    drop(gone);
    let secret = new_secret();
    let sent = Webhooks::new(true, None).deliver(&letter(url), &secret).await;
    assert!(matches!(sent, Receipt::Failed(_)), "{sent:?}");
    let odd =
        Webhooks::new(true, None).deliver(&letter("http://127.0.0.1:1/".into()), "whsec_%").await;
    assert_eq!(odd, Receipt::Failed("must be whsec_ and base64".into()));
}

#[test]
fn a_chosen_secret_is_judged() {
    judge_secret(&new_secret()).expect("our own are good");
    judge_secret("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("the mark may be missing");
    for (secret, words) in [("whsec_%", "base64"), ("", "base64"), ("whsec_c2hvcnQ=", "24 to 64")] {
        let fault = judge_secret(secret).expect_err("no good");
        assert!(fault.contains(words), "{secret}: {fault}");
    }
}
