//! How a pull is named, and when it is enough: `input => outcome`.

use crate::forge::{
    ForgeCheck, ForgeCheckState, ForgeKind, ForgeReason, ForgeRef, ForgeState, ForgeVerdict,
    judge_merged, project_of,
};
use crate::limits::FORGE_REF_CHARS_MAX;
use ForgeKind::{GitHub, GitLab};

fn rows(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.split_once("=>").map(|(a, b)| (a.trim(), b.trim())).expect("a => b"))
}

fn shown(pull: Option<ForgeRef>) -> String {
    pull.map_or("no".into(), |pull| format!("{} {}", pull.project, pull.number))
}

fn parses(kind: ForgeKind, table: &str) {
    for (text, expected) in rows(table) {
        assert_eq!(shown(ForgeRef::parse(kind, text).ok()), expected, "\nat: {text}");
    }
}

#[test]
fn a_repository_is_named_by_its_path_at_the_forge() {
    for (kind, table) in [
        (
            GitHub,
            "
            owner/repo          => ok
            emu_corp/r.e_p-o    => ok
            owner               => no
            owner/repo/more     => no
            owner/              => no
            ../../user          => no
            owner/repo?page=2   => no
            https://github.com/o/r/pull/1 => no
            ",
        ),
        (
            GitLab,
            "
            group/project       => ok
            group/sub/project   => ok
            project             => no
            group/../project    => no
            group/-project      => no
            ",
        ),
    ] {
        for (named, expected) in rows(table) {
            let judged = kind.judge_project(named);
            let said = if judged.is_ok() { "ok" } else { "no" };
            assert_eq!(said, expected, "\nat: {named}");
        }
        let long = format!("owner/{}", "r".repeat(FORGE_REF_CHARS_MAX));
        assert!(kind.judge_project(&long).is_err());
    }
}

#[test]
fn a_pull_request_has_a_short_name_and_a_url() {
    parses(
        GitHub,
        "
        owner/repo#123                                      => owner/repo 123
        o-1/.github#7                                       => o-1/.github 7
        emu_corp/r.e_p-o#18446744073709551615               => emu_corp/r.e_p-o 18446744073709551615
        https://github.com/o/r/pull/1                       => o/r 1
        HTTPS://GitHub.com/o/r/pull/1                       => o/r 1
        http://ghe.corp.example:8443/o/r/pull/1             => o/r 1
        https://github.com/o/r/pull/1/                      => o/r 1
        https://github.com/o/r/pull/1/files                 => o/r 1
        https://github.com/o/r/pull/1/files#diff-2a..3b     => o/r 1
        https://github.com/o/r/pull/1/commits/4f0c?x=a/../b => o/r 1
        https://github.com/o/r/pull/1?notification_id=2     => o/r 1
        https://github.com/o/r/pull/1#issuecomment-3        => o/r 1
        https://github.com/o/pull/pull/9                    => o/pull 9
        ",
    );
    parses(
        GitHub,
        "
                                                            => no
        #1                                                  => no
        repo#1                                              => no
        a/b/c#1                                             => no
        owner/repo                                          => no
        owner/repo#                                         => no
        owner/repo#0                                        => no
        owner/repo#01                                       => no
        owner/repo#+1                                       => no
        owner/repo#-1                                       => no
        owner/repo#1x                                       => no
        owner/repo#1#2                                      => no
        owner/repo#18446744073709551616                     => no
        owner/repo!1                                        => no
        owner/../x#1                                        => no
        ../repo#1                                           => no
        ./repo#1                                            => no
        owner/#1                                            => no
        -o/repo#1                                           => no
        own er/repo#1                                       => no
        owner/repo #1                                       => no
        owner/re%2fpo#1                                     => no
        owner/r\u{e9}po#1                                   => no
        https://github.com/o/r                              => no
        https://github.com/o/r/issues/1                     => no
        https://github.com/o/r/pulls/1                      => no
        https://github.com/o/r/pull/                        => no
        https://github.com/o/r/pull/x                       => no
        https://github.com/o/r/pull/1x                      => no
        https://github.com/o/r/pull/1/../2                  => no
        https://github.com/o/../pull/1                      => no
        https://github.com/a/b/c/pull/1                     => no
        https://github.com//r/pull/1                        => no
        https:///o/r/pull/1                                 => no
        https://me@github.com/o/r/pull/1                    => no
        https://github.com/o/r/pull/1/files x               => no
        ftp://github.com/o/r/pull/1                         => no
        github.com/o/r/pull/1                               => no
        see https://github.com/o/r/pull/1                   => no
        https://gitlab.com/o/r/-/merge_requests/1           => no
        ",
    );
}

#[test]
fn a_merge_request_may_be_deep_in_groups() {
    parses(
        GitLab,
        "
        group/project!42                                                  => group/project 42
        group/sub/deep/project!42                                         => group/sub/deep/project 42
        https://gitlab.com/group/project/-/merge_requests/42              => group/project 42
        https://gitlab.com/a/b/c/d/-/merge_requests/42/diffs              => a/b/c/d 42
        https://git.corp.example/a/b/-/merge_requests/42/diffs?tab=x#n_1  => a/b 42
        http://10.0.0.1:8080/a/b/-/merge_requests/42#note_7               => a/b 42
        ",
    );
    parses(
        GitLab,
        "
        project!42                                            => no
        group/project#42                                      => no
        group//project!42                                     => no
        group/../project!42                                   => no
        group/-/project!42                                    => no
        group/project!42/..                                   => no
        https://gitlab.com/group/project/-/merge_requests/    => no
        https://gitlab.com/project/-/merge_requests/1         => no
        https://gitlab.com/group/project/-/issues/42          => no
        https://gitlab.com/a/../b/-/merge_requests/42         => no
        https://gitlab.com/a/b/-/merge_requests/42/../43      => no
        https://github.com/o/r/pull/1                         => no
        ",
    );
}

#[test]
fn a_refusal_shows_what_was_given_and_what_would_do() {
    let refused = |kind, text: &str| ForgeRef::parse(kind, text).expect_err("refused").to_string();
    assert_eq!(
        refused(GitHub, "#12\u{1b}[2J\n"),
        "'#12\\u{1b}[2J\\n' names no GitHub pull request: write owner/repo#123 or its URL"
    );
    assert_eq!(
        refused(GitLab, "x"),
        "'x' names no GitLab merge request: write group/project!42 or its URL"
    );
    let longest = format!("https://github.com/o/r/pull/1?{}", "x".repeat(FORGE_REF_CHARS_MAX - 30));
    assert!(ForgeRef::parse(GitHub, &longest).is_ok());
    assert_eq!(
        refused(GitHub, &format!("{longest}x")),
        "a reference to a pull request has at most 1000 characters"
    );
    assert!(refused(GitHub, &"é\n".repeat(400)).len() < 500, "a refusal is bounded");
    for broken in ["o/r\0#1", "o/r#1\n", "\to/r#1", "https://github.com/o/r/pull/1/\u{85}"] {
        assert!(ForgeRef::parse(GitHub, broken).is_err(), "{broken:?}");
    }
}

#[test]
fn the_first_url_in_a_text_counts() {
    let found = |kind, table: &str| {
        for (text, expected) in rows(table) {
            assert_eq!(shown(ForgeRef::find_in(kind, text)), expected, "\nat: {text}");
        }
    };
    found(
        GitHub,
        r#"
        nothing to see                                                      => no
        o/r#1 is no URL                                                     => no
        Opened https://github.com/o/r/pull/12.                              => o/r 12
        https://github.com/o/r/pull/12                                      => o/r 12
        see [the PR](https://github.com/o/r/pull/12), please                => o/r 12
        **https://github.com/o/r/pull/12** and https://github.com/o/r/pull/13 => o/r 12
        {"url":"https://github.com/o/r/pull/12\n","n":1}                    => o/r 12
        <http://ghe.corp/o/r/pull/12/files>                                 => o/r 12
        已打开https://github.com/o/r/pull/12，谢谢                            => o/r 12
        https://github.com/o/r and then https://github.com/o/r/pull/12      => o/r 12
        https://github.com/o/r/pull/new/x https://github.com/o/r/pull/12    => o/r 12
        https://github.com/o/r/pull/12abc                                   => no
        https://github.com/o/r/pull/12_3                                    => no
        ://github.com/o/r/pull/1                                            => no
        éhttps://é/o/r/pull/1 http://h/o/r/pull/2                           => o/r 2
        https://gitlab.com/o/r/-/merge_requests/1                           => no
        "#,
    );
    found(
        GitLab,
        "
        View: https://gitlab.com/a/b/c/-/merge_requests/7!                  => a/b/c 7
        https://h/a b https://h/c/d/-/merge_requests/8                      => c/d 8
        https://github.com/o/r/pull/12                                      => no
        ",
    );
    let far = format!("{} https://h/o/r/pull/1", "https://h/é/".repeat(100_000));
    assert_eq!(shown(ForgeRef::find_in(GitHub, &far)), "o/r 1");
}

/// `merged|open|closed branch name=state… files:a,b` against `branch`, required checks and files.
fn pull(text: &str) -> ForgeState {
    let mut words = text.split_whitespace();
    let state = words.next().expect("a state");
    let mut pull = ForgeState {
        merged: state == "merged",
        open: state == "open",
        target_branch: words.next().expect("a branch").into(),
        ..ForgeState::default()
    };
    for word in words {
        if let Some(files) = word.strip_prefix("files:") {
            pull.files = files.split(',').map(str::to_owned).collect();
        } else if word == "cut" {
            pull.files_cut = true;
        } else {
            let (name, state) = word.split_once('=').expect("name=state");
            let state = match state {
                "green" => ForgeCheckState::Green,
                "red" => ForgeCheckState::Red,
                "running" => ForgeCheckState::Running,
                other => panic!("no state {other}"),
            };
            pull.checks.push(ForgeCheck { name: name.into(), state });
        }
    }
    pull
}

fn judged(row: &str) -> String {
    let (given, wanted) = row.split_once('|').expect("given | wanted");
    let (mut branch, mut checks, mut files) = (None, Vec::new(), Vec::new());
    for word in wanted.split_whitespace() {
        match word.split_once(':') {
            Some(("branch", name)) => branch = Some(name),
            Some(("checks", names)) => checks = names.split(',').map(str::to_owned).collect(),
            Some(("files", names)) => files = names.split(',').map(str::to_owned).collect(),
            _ => panic!("nothing is called {word}"),
        }
    }
    let said = |ForgeReason { code, words }| format!("{code} ({words})");
    match judge_merged(&pull(given), branch, &checks, &files) {
        ForgeVerdict::Passed => "passed".into(),
        ForgeVerdict::Pending(reason) => format!("pending {}", said(reason)),
        ForgeVerdict::Failed(reason) => format!("failed {}", said(reason)),
    }
}

#[test]
fn merged_green_and_complete_is_enough_and_nothing_less() {
    let table = "
        merged main |                                   => passed
        merged main | branch:main                       => passed
        merged dev  | branch:main                       => failed pr_not_merged (merged into dev, not into main)
        merged main a=red | branch:main                 => passed
        merged main a=green b=green | checks:a,b        => passed
        merged main a=green b=red | checks:a            => passed
        merged main a=green b=red | checks:a,b          => failed checks_failed (red checks: b)
        merged main a=green b=running | checks:a,b      => pending pr_not_merged (checks still running: b)
        merged main a=green | checks:a,b                => pending pr_not_merged (checks not there yet: b)
        merged main a=running | checks:a,b              => pending pr_not_merged (checks still running: a; checks not there yet: b)
        merged main a=red | checks:a,b                  => failed checks_failed (red checks: a)
        merged main a=green a=red | checks:a            => failed checks_failed (red checks: a)
        merged main a=running a=green | checks:a        => pending pr_not_merged (checks still running: a)
        merged main a=green a=green | checks:a          => passed
        merged main A=green | checks:a                  => pending pr_not_merged (checks not there yet: a)
        merged main files:x,y | files:x                 => passed
        merged main files:x,y | files:y,x               => passed
        merged main files:x,y | files:x,z               => failed pr_not_merged (unchanged: z)
        merged main files:x cut | files:x               => passed
        merged main files:x cut | files:z               => failed pr_not_merged (not among the changed files listed: z)
        merged main a=red | checks:a files:x            => failed pr_not_merged (unchanged: x)
        merged dev a=running | branch:main checks:a     => failed pr_not_merged (merged into dev, not into main)
        open main |                                     => pending pr_not_merged (still open)
        open main a=green files:x | branch:main checks:a files:x => pending pr_not_merged (still open)
        open main | files:x                             => pending pr_not_merged (still open)
        open dev | branch:main                          => pending pr_not_merged (still open, towards dev, not main)
        open main a=running | checks:a                  => pending pr_not_merged (still open)
        open main a=red | checks:a                      => failed checks_failed (red checks: a)
        closed main |                                   => failed pr_not_merged (closed without a merge)
        closed main a=red | checks:a                    => failed pr_not_merged (closed without a merge)
        closed main a=running | checks:a                => failed pr_not_merged (closed without a merge)
        merged main | files:1,2,3,4,5,6,7,8,9,10,11,12  => failed pr_not_merged (unchanged: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more)
    ";
    for (row, expected) in rows(table) {
        let answer = judged(row).replacen("verification.", "", 1);
        assert_eq!(answer, expected, "\nat: {row}");
    }
    assert!(judged("open main |").starts_with("pending verification.pr_not_merged "));
    assert!(judged("open main a=red | checks:a").starts_with("failed verification.checks_failed "));
}

#[test]
fn a_project_is_found_in_an_address() {
    let table = "
        https://github.com/acme/shop.git           acme/shop   acme/shop
        https://github.com/acme/shop/              acme/shop   acme/shop
        git@github.com:acme/shop.git               acme/shop   acme/shop
        ssh://git@gitlab.com:22/a/b/c.git          -           a/b/c
        https://github.com/acme                    -           -
        https://github.com/acme/../shop            -           -
        /home/ana/shop                             -           -
        file:///home/ana/shop.git                  -           home/ana/shop
    ";
    for line in table.lines().filter(|line| !line.trim().is_empty()) {
        let columns: Vec<&str> = line.split_whitespace().collect();
        for (kind, wanted) in [(ForgeKind::GitHub, columns[1]), (ForgeKind::GitLab, columns[2])] {
            let found = project_of(kind, columns[0]);
            assert_eq!(found.as_deref().unwrap_or("-"), wanted, "{kind} {line}");
        }
    }
}
