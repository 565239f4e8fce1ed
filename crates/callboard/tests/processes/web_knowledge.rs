//! The page of knowledge on a real server: search, entries in force and older ones, writing and superseding.

use crate::peer::board;
use crate::tokens::token;
use crate::web::{HERE, Site, cli};

const HOSTILE: &str = "<script>alert(1)</script>";

#[test]
fn knowledge_is_found_written_and_superseded_on_the_page() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    let empty = site.get("/knowledge").text;
    assert!(empty.contains("Nothing is known yet") && empty.contains("words only"), "{empty}");
    let learn = ["learn", "Proxy headers", "--body", HOSTILE, "--tag", "http"];
    let old = cli(folder.path(), &learn)["id"].as_str().unwrap().to_owned();
    cli(folder.path(), &["learn", "Tests share one limiter", "--tag", "test"]);

    let newest = site.get("/knowledge").text;
    assert!(newest.contains("2 entries") && newest.contains("&lt;script&gt;"), "{newest}");
    assert!(!newest.contains(HOSTILE), "{newest}");
    let found = site.get("/knowledge?q=proxy+headers").text;
    assert!(found.contains(&old) && !found.contains("Tests share"), "{found}");
    assert!(found.contains("score ") && found.contains("sure 80 %"), "{found}");
    let tagged = site.get("/knowledge?tag=test").text;
    assert!(tagged.contains("Tests share") && !tagged.contains(&old), "{tagged}");
    let none = site.get("/knowledge?q=%3Cb%3Eunheard").text;
    assert!(none.contains("Nothing known matches") && none.contains("&lt;b&gt;unheard"), "{none}");

    let form = site.get(&format!("/knowledge?supersedes={old}")).text;
    assert!(form.contains("Supersede <q>") && form.contains("value=\"Proxy headers\""), "{form}");
    let entry = |title, supersedes: &'static str| {
        [
            ("once", "k1"),
            ("title", title),
            ("body", "one\r\ntwo"),
            ("tags", "HTTP, proxy"),
            ("confidence", "70"),
            ("days", "3"),
            ("supersedes", supersedes),
        ]
    };
    let blank = site.post("/knowledge", HERE, &entry(" ", ""));
    assert_eq!(blank.status, 400, "{}", blank.text);
    assert!(blank.text.contains("Nothing was changed") && blank.text.contains("HTTP, proxy"));
    assert_eq!(site.post("/knowledge", HERE, &entry("t", "kn_1")).status, 400);
    let old: &'static str = old.leak();
    // A form that is sent twice keeps one entry.
    for _ in 0..2 {
        let kept = site.post("/knowledge", HERE, &entry("Forwarded, not X-Forwarded-For", old));
        assert_eq!((kept.status, kept.to.starts_with("/knowledge?q=Forwarded")), (303, true));
    }
    let found = site.get("/knowledge?q=forwarded").text;
    assert!(found.contains("3 entries") && found.contains("sure 70 %"), "{found}");
    assert!(found.contains("expires in 2 d") && found.contains("one two"), "{found}");
    assert!(!site.get("/knowledge?q=proxy+headers").text.contains(old), "no longer in force");
    let superseded = site.get("/knowledge?q=proxy+headers&state=superseded").text;
    assert!(superseded.contains(old) && superseded.contains("superseded by"), "{superseded}");
    let expired = site.get("/knowledge?state=expired").text;
    assert!(expired.contains("No entry is expired"), "{expired}");
}

#[test]
fn a_reader_without_the_scope_changes_and_sees_nothing() {
    let folder = board();
    cli(folder.path(), &["learn", "A secret"]);
    let (_, reader) = token(folder.path(), &["--actor", "human:ana", "--scopes", "knowledge:read"]);
    let (_, other) = token(folder.path(), &["--actor", "human:ben", "--scopes", "tasks:read"]);
    let site = Site::of(folder.path()).with(&reader);
    assert!(site.get("/knowledge").text.contains("A secret"));
    let refused = site.post("/knowledge", HERE, &[("title", "mine"), ("body", "b")]);
    assert_eq!(refused.status, 403, "{}", refused.text);
    assert!(refused.text.contains("value=\"mine\""), "{}", refused.text);
    let site = site.with(&other);
    let hidden = site.get("/knowledge");
    assert_eq!(hidden.status, 403);
    assert!(!hidden.text.contains("A secret"));
}
