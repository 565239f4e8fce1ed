//! Comments of a review with the real program: the next run reads them word for word, and the next round shows what
//! became of their lines.

use std::fs;
use std::sync::Arc;

use callboard_domain::actor::Actor;
use callboard_domain::command::{Command, ReviewDecide, ReviewSends, ReviewVerdict};
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::review::{DiffSide, ReviewComment, ReviewCommentId};
use callboard_store::clock::SystemClock;
use callboard_store::sqlite::SqliteStore;
use callboard_store::{Op, ReviewStore, ReviewerOf, Store};
use serde_json::{Value, json};

use crate::peer::{Peer, command};
use crate::story::Shop;

/// Writes a file, and keeps its prompt beside it. After a review it changes one line, and adds one above another.
const AGENT: &str = r#"prompt=$(cat)
printf '%s\n' "$prompt" > prompt.txt
case "$prompt" in
*"Why it came back"*) printf 'one\ndeux\nthree\nnew\nfour\n' > list.txt ;;
*) printf 'one\ntwo\nthree\nfour\n' > list.txt ;;
esac
git add -A && git commit -qm work || exit 4
echo 'It is written.'
echo '<complete/>'
"#;

fn comment(line: u32, quote: &str, text: &str) -> ReviewComment {
    ReviewComment {
        path: "list.txt".into(),
        side: DiffSide::New,
        first_line: line,
        last_line: line,
        blob: "3f2a1c9".into(),
        quote: quote.into(),
        text: text.into(),
    }
}

/// Sends the task back with these drafts, as the review page does.
fn send_back(shop: &Shop, task: TaskId, comments: &[ReviewComment]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store =
        SqliteStore::open(&shop.at(".callboard/callboard.db"), Arc::new(SystemClock)).unwrap();
    runtime.block_on(async {
        let org: Arc<str> = "default".into();
        let actor: Actor = "human:ana".parse().unwrap();
        for (n, comment) in comments.iter().enumerate() {
            let of = ReviewerOf { org: org.clone(), task, author: actor.clone() };
            let id = ReviewCommentId(Id(n as u128 + 1));
            store.review_draft_put(of, id, comment.clone()).await.unwrap();
        }
        let decision = ReviewDecide {
            task,
            verdict: ReviewVerdict::Reject { to: Phase::Working },
            feedback: "Nearly.".into(),
            checked: None,
            work: None,
            sends: ReviewSends {
                drafts: true,
                head: Some("abcd".into()),
                ..ReviewSends::default()
            },
            seen: Default::default(),
        };
        let command = Command::ReviewDecide(decision);
        let (tool, retry_key, policy) = ("test", None, Arc::default());
        store.apply(Op { org, actor, tool, retry_key, policy, command }).await.unwrap();
    });
}

#[test]
fn the_next_run_reads_comments_word_for_word() {
    let shop = Shop::open(AGENT);
    // A server of the board starts the agents.
    let mut mcp = command(shop.board.path());
    mcp.args(["mcp", "--toolsets", "board", "--actor", "agent:boss"]);
    let mut boss = Peer::over(mcp);
    boss.hello();
    let made: Value =
        serde_json::from_str(&shop.ok(&["task", "add", "Write a list", "--json"])).unwrap();
    let id = made["id"].as_str().unwrap();
    shop.runs(shop.run(id));
    let comments = [
        comment(1, "one", "Fine,\nbut why?"),
        comment(2, "two", "In French, please."),
        comment(4, "four", "Last?"),
    ];
    send_back(&shop, id.parse().unwrap(), &comments);
    shop.runs(shop.run(id));

    let place = shop.at(".callboard/worktrees").join(id).join("prompt.txt");
    let prompt = fs::read_to_string(place).unwrap();
    let sent = "## Why it came back\n\n```text\nNearly.\n\n\
                1. list.txt:1\n\n    one\n\nFine,\nbut why?\n\n\
                2. list.txt:2\n\n    two\n\nIn French, please.\n\n\
                3. list.txt:4\n\n    four\n\nLast?\n\n\
                The review is about commit abcd.\n```\n";
    assert!(prompt.contains(sent), "{prompt}");

    let shown = shop.ok(&["review", id]);
    let states = "\ncomments  1. list.txt:1, not touched: Fine,\n          \
                  2. list.txt:2, answered: In French, please.\n          \
                  3. list.txt:4, moved to line 5: Last?\n";
    assert!(shown.contains(states), "{shown}");
    let shown: Value = serde_json::from_str(&shop.ok(&["review", id, "--json"])).unwrap();
    let comments = shown["comments"].as_array().unwrap();
    let states: Vec<_> = comments.iter().map(|one| (&one["state"], &one["line"])).collect();
    let (not_touched, answered, moved) = (json!("not_touched"), json!("answered"), json!("moved"));
    let (none, five) = (Value::Null, json!(5));
    assert_eq!(states, [(&not_touched, &none), (&answered, &none), (&moved, &five)]);
    let first = &comments[0];
    assert_eq!((&first["round"], &first["by"]), (&json!(1), &json!("human:ana")));
    assert_eq!((&first["quote"], &first["head"]), (&json!("one"), &json!("abcd")));
}
