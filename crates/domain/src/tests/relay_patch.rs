//! Which files a patch touches, and whether it may: `header | header => paths`.

use crate::relay::patch::{files, line_count};
use crate::relay::scope::ScopeRule;
use crate::relay::spec::Scope;

fn rows(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.split_once("=>").map(|(a, b)| (a.trim(), b.trim())).expect("a => b"))
}

fn patch(row: &str) -> String {
    row.split(" | ").map(|line| format!("{}\n", line.replace("\\t", "\t"))).collect()
}

fn scope(read_paths: &[&str], file_globs: &[&str]) -> ScopeRule {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    ScopeRule::new(&Scope {
        read_paths: owned(read_paths),
        file_globs: Some(owned(file_globs)),
        disallow_reformatting: false,
    })
}

#[test]
fn both_sides_of_every_file_are_read() {
    let table = r#"
        --- a/x | +++ b/x | @@ -1 +1 @@ | -a | +b                 => x x
        --- a/x\t2026-01-01 | +++ b/x\t2026-01-01 | @@ -1 +1 @@   => x x
        --- /dev/null | +++ b/new | @@ -0,0 +1 @@ | +a            => - new
        --- a/old | +++ /dev/null | @@ -1 +0,0 @@ | -a            => old -
        diff --git a/s p b/s p | old mode 100644 | new mode 100755 => s p s p
        diff --git a/e b/e | new file mode 100644                  => - e
        diff --git a/e b/e | deleted file mode 100644              => e -
        diff --git a/o b/n | similarity index 100% | rename from o | rename to n => o n
        diff --git a/o b/n | copy from o | copy to n               => o n
        diff --git a/l b/l | new file mode 120000 | --- /dev/null | +++ b/l | @@ -0,0 +1 @@ | +x => - l link
        diff --git a/l b/l | index 1..2 120000 | --- a/l | +++ b/l => l l link
        diff --git a/f b/f | old mode 100644 | new mode 120000     => f f link
        diff --git "a/\303\244" "b/\303\244" | --- "a/\303\244" | +++ "b/\303\244" => ä ä
        diff --git "a/\056git/config" "b/\056git/config" | new mode 100755 => .git/config .git/config
        --- a/x | +++ b/x | @@ -1,2 +1 @@ | --- a/no | +++ b/no | -y => x x
        --- a/x | +++ b/x | @@ -1 +1 @@ | -a | +b | --- a/y | +++ b/y | @@ -1 +1 @@ => x x, y y
        diff --git a/b b/b | GIT binary patch | literal 3 | zcmZ => b b
        --- /etc/x | +++ /etc/x                                    => /etc/x /etc/x
        --- a/../x | +++ b/../x                                    => ../x ../x
        no header at all                                           =>
    "#;
    for (row, expected) in rows(table) {
        let shown: Vec<String> = files(&patch(row))
            .iter()
            .map(|file| {
                let name = |side: &Option<String>| side.clone().unwrap_or("-".into());
                let link = if file.is_link { " link" } else { "" };
                format!("{} {}{link}", name(&file.old), name(&file.new))
            })
            .collect();
        assert_eq!(shown.join(", "), expected, "\nat: {row}");
    }
    assert_eq!(line_count(&patch("--- a/x | +++ b/x | @@ -1 +1 @@ | -a | +b")), 5);
    assert_eq!(line_count(""), 0);
}

#[test]
fn a_scope_is_places_and_globs_in_them() {
    let rule = scope(&["src/", "./tsconfig.json"], &["**/*.ts", "**/*.tsx"]);
    let table = "
        src/a.ts          => yes
        src/deep/er/a.tsx => yes
        tsconfig.json     => yes
        src/a.js          => no
        src               => yes
        srcs/a.ts         => no
        a.ts              => no
        tsconfig.json/a   => no
    ";
    for (path, expected) in rows(table) {
        assert_eq!(rule.holds(path), expected == "yes", "{path}");
    }
    assert!(scope(&[], &[]).holds("any/thing"));
    assert!(scope(&["."], &["*.md"]).holds("README.md"));
    assert!(!scope(&["."], &["*.md"]).holds("docs/README.md"), "one star stays in one folder");
    assert!(scope(&["docs"], &[]).holds("docs/a/b"));
}

#[test]
fn the_first_offence_is_named() {
    let table = "
        --- a/src/a | +++ b/src/a                                     => fine
        --- a/src/a | +++ b/src/a | --- a/b | +++ b/b                 => b is outside the scope
        diff --git a/src/o b/n | rename from src/o | rename to n      => n is outside the scope
        diff --git a/o b/src/n | rename from o | rename to src/n      => o is outside the scope
        --- /dev/null | +++ b/.git/config                             => .git/config is git's own
        --- /dev/null | +++ b/src/.GIT/config                         => src/.GIT/config is git's own
        --- /etc/x | +++ /etc/x                                       => /etc/x is absolute
        --- a//etc/x | +++ b//etc/x                                   => /etc/x is absolute
        --- a/../x | +++ b/../x                                       => ../x leaves the repository
        --- a/src/../../x | +++ b/src/../../x                         => src/../../x leaves the repository
        diff --git a/src/l b/src/l | new file mode 120000             => src/l is a symbolic link
        --- a/src/link | +++ b/src/link                               => src/link is, or lies behind, a symbolic link
        --- a/src/link/x | +++ b/src/link/x                           => src/link/x is, or lies behind, a symbolic link
    ";
    let rule = scope(&["src"], &[]);
    for (row, expected) in rows(table) {
        let found = rule.first_offence(&files(&patch(row)), &|path| path == "src/link");
        let shown = found.map_or("fine".into(), |found| format!("{} {}", found.path, found.why));
        assert_eq!(shown, expected, "\nat: {row}");
    }
}
