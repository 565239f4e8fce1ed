//! The real model when it is installed, and a fake endpoint with every fault.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use callboard_engine::ports::{EmbedFault, Embedder};
use callboard_runner::embed::{
    InstallError, KNOWN, ModelEmbedder, ModelFolder, OpenAiEmbedder, OpenAiPlace, install,
};

use crate::skipped::skipped;

/// `CALLBOARD_TEST_MODEL` names the folder; `scripts/test` fetches it.
fn model() -> Option<PathBuf> {
    let folder = std::env::var_os("CALLBOARD_TEST_MODEL").filter(|folder| !folder.is_empty());
    if folder.is_none() {
        skipped("CALLBOARD_TEST_MODEL names no model (scripts/model prints its folder)");
    }
    folder.map(PathBuf::from)
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// The first eight numbers of each text's vector, as candle computes them from the same files.
const REFERENCE: [[f32; 8]; 4] = [
    [-0.083351, 0.004952, 0.016616, -0.016548, 0.016068, -0.079601, -0.047362, -0.106396],
    [-0.064888, 0.020827, 0.037292, 0.027386, -0.027506, -0.102256, -0.043703, -0.072619],
    [0.087028, 0.020675, 0.030206, 0.084576, -0.021993, -0.027244, 0.000209, -0.049189],
    [-0.023407, -0.001921, 0.081464, -0.019782, -0.006787, -0.036621, 0.071375, -0.055417],
];

#[tokio::test]
async fn the_real_model_gives_the_vectors_it_is_known_for() {
    let Some(folder) = model() else { return };
    let embedder = ModelEmbedder::new(ModelFolder::find(&folder).expect("a model"));
    let texts = [
        "The provider retries a webhook for 3 days.",
        "For how many days does the provider retry a webhook?",
        "Cats sleep all day.",
        "Überraschung: naïve café (日本語) → parseHTTPRequest",
    ];
    let texts: Vec<String> = texts.map(str::to_owned).to_vec();
    let vectors = embedder.embed(texts).await.expect("embedded");
    assert!(vectors.iter().all(|v| v.len() == 384 && (cosine(v, v) - 1.0).abs() < 1e-4));
    for (vector, known) in vectors.iter().zip(REFERENCE) {
        for (got, expected) in vector.iter().zip(known) {
            assert!((got - expected).abs() < 1e-4, "{got} is not {expected}");
        }
    }
    let (near, far) = (cosine(&vectors[0], &vectors[1]), cosine(&vectors[0], &vectors[2]));
    assert!(near > far + 0.2, "{near} {far}");
}

#[test]
fn only_known_weights_are_installed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, models) = (folder.path().join("from"), folder.path().join("models"));
    assert!(matches!(install(&from, &models), Err(InstallError::File { .. })));
    std::fs::create_dir(&from).expect("a folder");
    for file in ["model.safetensors", "tokenizer.json", "config.json"] {
        std::fs::write(from.join(file), "not a model").expect("written");
    }
    assert!(matches!(install(&from, &models), Err(InstallError::Unknown { .. })));
    assert_eq!(ModelFolder::installed(&models), None);
    let Some(real) = model() else { return };
    for _ in 0..2 {
        let installed = install(&real, &models).expect("installed");
        assert_eq!(ModelFolder::installed(&models), Some(installed.clone()));
        assert!(installed.id.starts_with(KNOWN[0].name));
    }
}

#[tokio::test]
async fn a_folder_that_is_no_model_says_so_when_used() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(ModelFolder::find(folder.path()).is_err());
    for file in ["model.safetensors", "tokenizer.json", "config.json"] {
        std::fs::write(folder.path().join(file), "{}").expect("written");
    }
    let embedder = ModelEmbedder::new(ModelFolder::find(folder.path()).expect("three files"));
    let answer = embedder.embed(vec!["x".into()]).await;
    assert!(matches!(answer, Err(EmbedFault::Unavailable(words)) if words.contains("config.json")));
}

/// An endpoint whose `reply` makes each answer from the request's number and body.
fn endpoint(
    reply: impl Fn(usize, &str) -> (u16, String) + Send + 'static,
) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut reader = BufReader::new(stream.try_clone().expect("a copy"));
            let (mut head, mut length) = (String::new(), 0);
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
            for line in head.lines() {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap_or(0);
                }
            }
            let mut body = vec![0; length];
            let _ = reader.read_exact(&mut body);
            let number = counted.fetch_add(1, Ordering::SeqCst);
            let (code, text) = reply(number, &String::from_utf8_lossy(&body));
            let head = format!(
                "HTTP/1.1 {code} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                text.len()
            );
            let _ = stream.write_all((head + &text).as_bytes());
        }
    });
    (url, asked)
}

fn at(url: String) -> OpenAiEmbedder {
    OpenAiEmbedder::new(OpenAiPlace { url, model: "m".into(), key: Some("secret".into()) })
}

#[tokio::test]
async fn an_endpoint_is_asked_in_its_words() {
    let (url, _) = endpoint(|_, body| {
        assert!(body.contains(r#""model":"m""#) && body.contains(r#"["a","b"]"#), "{body}");
        let two = r#"{"data":[{"index":1,"embedding":[0,1]},{"index":0,"embedding":[1,0]}]}"#;
        (200, two.into())
    });
    let vectors = at(url).embed(vec!["a".into(), "b".into()]).await;
    assert_eq!(vectors, Ok(vec![vec![1.0, 0.0], vec![0.0, 1.0]]), "in the order asked");
}

#[tokio::test]
async fn an_endpoint_that_fails_is_left_alone() {
    let (url, asked) = endpoint(|number, _| match number {
        0 => (400, "too long".into()),
        1 => (200, r#"{"data":[]}"#.into()),
        _ => (500, "no".into()),
    });
    let embedder = at(url);
    let ask = async || embedder.embed(vec!["x".into()]).await;
    assert!(matches!(ask().await, Err(EmbedFault::Unusable(_))), "this text, not the endpoint");
    for _ in 0..10 {
        assert!(matches!(ask().await, Err(EmbedFault::Unavailable(_))));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 4, "three failures in a row are enough");
    let gone = at("http://127.0.0.1:1/v1".into()).embed(vec!["x".into()]).await;
    assert!(matches!(gone, Err(EmbedFault::Unavailable(_))));
}
