//! The graph on a real server: a picture, the list that says the same, and the parts of a large board.

use serde_json::json;

use crate::peer::board;
use crate::web_agents::{HOSTILE, Visitor, add, call};

fn nodes(page: &str) -> usize {
    page.matches("<foreignObject").count()
}

#[test]
fn tasks_are_drawn_with_what_they_wait_for() {
    let folder = board();
    let at = folder.path();
    let visitor = Visitor::of(at);
    assert!(visitor.get("/graph").text.contains("No open task"));
    let first = add(at, HOSTILE, &[]);
    add(at, "Alone", &[]);
    assert!(!visitor.get("/board").text.contains("Longest way"));
    assert!(visitor.get("/graph").text.contains("No task waits for another"));
    let second = add(at, "Second", &["--dep", &first]);
    add(at, "Third", &["--dep", &second, "--dep", &first]);
    add(at, "Beside", &["--dep", &first]);

    let page = visitor.get("/graph").text;
    assert!(page.contains("&lt;script&gt;") && !page.contains(HOSTILE), "{page}");
    assert!(!page.contains("style="), "measures are attributes of the picture: {page}");
    assert_eq!((nodes(&page), page.matches("<path class=\"is-way\"").count()), (4, 2), "{page}");
    for words in ["Longest way to", "3 tasks, one after the other", "4 of 5 open tasks"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(page.contains("Start it: 2 tasks can start then"), "{page}");

    // The board says the same of the longest way, for the open project.
    let board = visitor.get("/board").text;
    assert!(board.contains("Longest way: 3 tasks to <bdi>Third</bdi>"), "{board}");
    assert!(board.contains("href=\"/graph\" title=\"Longest way"), "{board}");
    let all = visitor.get("/board?projects=all").text;
    assert!(!all.contains("Longest way"), "{all}");

    // The arrow keys go along the edges, by the ids of the nodes.
    let ends = |name: &str| {
        let starts = page.split(name).skip(1).map(|part| part.split('"').next().unwrap());
        starts.map(|ids| ids.split_whitespace().count()).sum::<usize>()
    };
    assert_eq!((ends("data-deps=\""), ends("data-next=\"")), (4, 4), "{page}");
    assert!(page.contains("src=\"/js/graph.js\""), "{page}");

    let near = visitor.get("/graph?around=P-5&depth=1").text;
    assert_eq!(nodes(&near), 2, "{near}");
    let list = visitor.get("/graph?around=P-5&depth=1&as=list").text;
    assert_eq!((nodes(&list), list.matches("<tr id=\"row-").count()), (0, 2), "{list}");
    assert!(list.contains("href=\"/graph?around=P-5&amp;depth=1\""), "{list}");
    assert_eq!(visitor.get("/graph?around=P-99").status, 404);

    let done = json!({"taskId": first});
    call(at, "agent:w1", "claim_task", &done);
    let page = visitor.get("/graph").text;
    assert!(page.contains("w1") && page.contains("Let it finish: 2 tasks"), "{page}");
    call(at, "agent:w1", "complete_task", &json!({"taskId": first, "output": "done"}));
    assert_eq!(nodes(&visitor.get("/graph").text), 2, "a closed task holds nothing");
    assert!(visitor.get("/board").text.contains("Longest way: 2 tasks to"));
}
