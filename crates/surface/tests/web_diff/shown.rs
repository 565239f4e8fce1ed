//! Patches of git as a page shows them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use callboard_surface::web::diff::{
    DiffCaps, DiffFile, DiffKind, DiffSaid, DiffSide, DiffView, FileFacts, PaintPair, TreeEntry,
    anchor, files, paint, parse, tree,
};
use maud::{Markup, html};

use crate::Repo;

/// What stands around a diff; nothing by default.
#[derive(Default)]
struct Around {
    facts: HashMap<String, FileFacts>,
    said: DiffSaid,
    paints: HashMap<String, PaintPair>,
    acts: HashMap<String, Markup>,
}

impl Around {
    fn view(&self, caps: DiffCaps, is_split: bool) -> DiffView<'_> {
        DiffView {
            part: 0,
            written: None,
            kept: &[("ws", "0")],
            is_split,
            context: 3,
            caps,
            before: 0,
            next: None,
            may_comment: true,
            has_ticks: true,
            facts: &self.facts,
            said: &self.said,
            paints: &self.paints,
            acts: &self.acts,
        }
    }
}

const NO_CAPS: DiffCaps =
    DiffCaps { file_lines: usize::MAX, page_lines: usize::MAX, files: usize::MAX };

fn entries(files: &[DiffFile]) -> Vec<TreeEntry> {
    let entry = |file: &DiffFile| TreeEntry {
        path: file.path.clone(),
        lines: (file.kind != DiffKind::Binary).then_some((file.added as u64, file.removed as u64)),
        kind: file.kind,
        is_here: true,
    };
    files.iter().map(entry).collect()
}

const OLD: &str = "//! A limit.\n\npub fn public(state: AppState) -> Router {\n    Router::new()\n        \
    .layer(TraceLayer::new_for_http())\n        .with_state(state)\n}\n";
const NEW: &str = "//! A limit.\n\npub fn public(state: AppState) -> Router {\n    Router::new()\n        \
    .layer(ServiceBuilder::new())\n        .layer(limit(\"429\", 1.5))\n        .with_state(state)\n}";

/// A change of several sorts, with comments and a reader's facts.
fn world() -> (Vec<DiffFile>, Around) {
    let repo = Repo::new(&[
        ("src/router.rs", OLD),
        ("src/old name.rs", "fn a() {}\nfn b() {}\nfn c() {}\nfn d() {}\n"),
        ("Cargo.lock", "version = 3\n"),
        ("logo.png", "\0a"),
        ("seen.md", "one\n"),
    ]);
    repo.write("src/router.rs", NEW);
    std::fs::remove_file(repo.path().join("src/old name.rs")).expect("removes");
    repo.write("src/new & <name>.rs", "fn a() {}\nfn b() {}\nfn c() {}\nfn e() {}\n");
    repo.write("Cargo.lock", "version = 4\n");
    repo.write("logo.png", "\0b");
    repo.write("seen.md", "one\r\n\u{202e}<script>\n");
    let files = parse(&repo.patch(), |_| false).expect("a patch of git");
    let later = Instant::now() + Duration::from_secs(3600);
    let painted = |text: &str| paint("router.rs", text, later).map(Arc::new);
    let said = |words: &str| html! { div.say { (words) } };
    let comments = BTreeMap::from([
        ((DiffSide::Left, 5), said("why not both?")),
        ((DiffSide::Right, 6), said("a comment")),
        ((DiffSide::Right, 99), said("on older lines")),
    ]);
    let router = "src/router.rs".to_owned();
    let facts = [
        (router.clone(), FileFacts { is_news: true, comments: 3, ..FileFacts::default() }),
        ("seen.md".to_owned(), FileFacts { is_viewed: true, ..FileFacts::default() }),
    ];
    let around = Around {
        facts: HashMap::from(facts),
        said: HashMap::from([(router.clone(), comments)]),
        paints: HashMap::from([(
            router.clone(),
            PaintPair { old: painted(OLD), new: painted(NEW) },
        )]),
        acts: HashMap::from([(router, html! { form.acts { button { "Viewed" } } })]),
    };
    (files, around)
}

/// `CALLBOARD_BLESS=1` rewrites the golden.
fn golden(name: &str, shown: &Markup) {
    let mut text = shown.0.clone();
    for tag in [
        "<section",
        "<details",
        "<table",
        "<tr",
        "</tbody",
        "<p",
        "<ul",
        "<li",
        "</details",
        "</section",
    ] {
        text = text.replace(tag, &format!("\n{tag}"));
    }
    let text = text.trim_start().to_owned() + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name);
    if std::env::var_os("CALLBOARD_BLESS").is_some() {
        std::fs::write(&path, &text).expect("writes a golden");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == text, "{name} changed; review it and run with CALLBOARD_BLESS=1");
}

#[test]
fn a_few_files_are_shown_as_the_goldens_say() {
    let (found, around) = world();
    let mut rest = entries(&found[..1]);
    rest[0].path = "left/out.rs".into();
    rest[0].is_here = false;
    golden("diff.unified.html", &files(&found, &rest, &around.view(DiffCaps::PAGE, false)));
    golden("diff.split.html", &files(&found, &[], &around.view(DiffCaps::PAGE, true)));
    let all: Vec<_> = entries(&found).into_iter().chain(rest).collect();
    golden("diff.tree.html", &tree(&all, &around.view(DiffCaps::PAGE, false)));
}

#[test]
fn no_comment_is_lost_and_nothing_escapes() {
    let (found, around) = world();
    for is_split in [false, true] {
        for file_lines in [0, 1, 4, usize::MAX] {
            let caps = DiffCaps { file_lines, ..NO_CAPS };
            let page = files(&found, &[], &around.view(caps, is_split)).into_string();
            for words in ["why not both?", "a comment", "on older lines"] {
                assert_eq!(page.matches(words).count(), 1, "{words} {file_lines}: {page}");
            }
            assert!(!page.contains("<script>") && !page.contains('\u{202e}'), "{page}");
        }
    }
    let reader = DiffView { may_comment: false, ..around.view(NO_CAPS, false) };
    assert!(!files(&found, &[], &reader).into_string().contains("comment="));
}

/// The rows of a table: their sign and their code, without tags.
fn rows(page: &str) -> Vec<String> {
    let page = page.replace("</td><td class=\"no", "</td></tr><td class=\"no");
    let cells = page.split("<td class=\"sign").skip(1);
    let plain = |cell: &str| {
        let cell = cell.split_once('>').map_or("", |(_, text)| text);
        let mut text = String::new();
        let mut is_tag = false;
        for c in cell.split("</td></tr>").next().unwrap_or_default().chars() {
            match c {
                '<' => is_tag = true,
                '>' => is_tag = false,
                c if !is_tag => text.push(c),
                _ => {}
            }
        }
        text
    };
    cells.map(plain).collect()
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

#[test]
fn every_changed_line_is_shown_exactly_once() {
    let mut dice = Dice(7);
    let mut fresh = 0;
    for _ in 0..12 {
        let mut line = || {
            fresh += 1;
            format!("u{fresh} of {} words;", fresh % 5)
        };
        let mut texts: Vec<Vec<String>> = Vec::new();
        for _ in 0..4 {
            texts.push((0..dice.roll(60)).map(|_| line()).collect());
        }
        let whole =
            |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let named: Vec<_> =
            texts.iter().zip(1..).map(|(text, n)| (format!("{n}.rs"), whole(text))).collect();
        let named: Vec<_> = named.iter().map(|(name, text)| (&**name, &**text)).collect();
        let repo = Repo::new(&named);
        for (text, n) in texts.iter_mut().zip(1..) {
            for _ in 0..dice.roll(9) {
                let at = dice.roll(text.len() + 1);
                match dice.roll(3) {
                    0 => text.insert(at, line()),
                    1 if at < text.len() => drop(text.remove(at)),
                    _ if at < text.len() => text[at] = text[at].replace("words", "other words"),
                    _ => {}
                }
            }
            repo.write(&format!("{n}.rs"), whole(text));
        }
        let patch = repo.patch();
        let is_changed = |line: &&str| line.starts_with("+u") || line.starts_with("-u");
        let mut wanted: Vec<_> =
            patch.lines().filter(is_changed).map(|line| line.replacen('-', "−", 1)).collect();
        wanted.sort();
        let found = parse(&patch, |_| false).expect("a patch of git");
        let around = Around::default();
        for is_split in [false, true] {
            let page = files(&found, &[], &around.view(NO_CAPS, is_split)).into_string();
            let mut shown = rows(&page);
            shown.retain(|row| row.starts_with(['+', '−']));
            shown.sort();
            assert_eq!(shown, wanted, "split: {is_split}");
        }
    }
}

fn elements(page: &str) -> usize {
    page.matches('<').count() - page.matches("</").count()
}

/// New files of so many lines each.
fn patch(files: usize, lines: usize) -> String {
    let lines: String = (0..lines).map(|n| format!("+let x = {n};\n")).collect();
    let count = lines.lines().count();
    let file = |n: usize| {
        format!(
            "diff --git a/src/{n:04}.rs b/src/{n:04}.rs\nnew file mode 100644\n--- /dev/null\n\
             +++ b/src/{n:04}.rs\n@@ -0,0 +1,{count} @@\n{lines}"
        )
    };
    (0..files).map(file).collect()
}

#[test]
fn a_page_keeps_to_its_caps() {
    let around = Around::default();
    let table = [
        // Files and lines of each; files and lines that are shown, files in the list.
        (400, 13, 400, 5_200, 0),
        (401, 1, 400, 400, 1),
        (600, 100, 200, 20_000, 400),
        (3, 1_600, 3, 4_500, 0),
        (30, 1_500, 13, 19_500, 17),
    ];
    for (count, lines, files_shown, lines_shown, listed) in table {
        let found = parse(&patch(count, lines), |_| false).expect("a patch");
        for is_split in [false, true] {
            let page = files(&found, &[], &around.view(DiffCaps::PAGE, is_split)).into_string();
            assert_eq!(page.matches("<section class=\"file\"").count(), files_shown);
            assert_eq!(page.matches(">+</td>").count(), lines_shown, "{count} files of {lines}");
            assert_eq!(page.matches("<li>").count(), listed);
            let cells = if is_split { 7 } else { 5 };
            let bound = lines_shown * cells + files_shown * 20 + listed * 5 + 10;
            assert!(elements(&page) <= bound, "{} of {bound}", elements(&page));
        }
    }
    let found = parse(&patch(1, 1_600), |_| false).expect("a patch");
    let page = files(&found, &[], &around.view(DiffCaps::PAGE, false)).into_string();
    assert!(page.contains("1500 of 1600 lines are shown."), "{page}");
    let load = format!("\"?ws=0&amp;file=src/0000.rs#{}\">Load this file", anchor("src/0000.rs"));
    assert!(page.contains(&load), "{page}");
    let page = files(&found, &[], &around.view(DiffCaps::FILE, false)).into_string();
    assert_eq!(page.matches(">+</td>").count(), 1_600);
    let many = parse(&patch(3_000, 1), |_| false).expect("a patch");
    let page = files(&many, &[], &around.view(DiffCaps::PAGE, false)).into_string();
    assert_eq!(page.matches("<li>").count(), 2_000);
    assert!(page.contains("And 600 files that are not listed."));
    let page = tree(&entries(&many), &around.view(DiffCaps::PAGE, false)).into_string();
    assert_eq!(page.matches("<li>").count(), 2_000);
}
