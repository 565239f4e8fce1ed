//! The commands and links by which a person gets to a session.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use callboard_engine::ports::PairBackend;

/// The command that opens the session, and further useful ones.
pub(super) fn commands(
    backend: PairBackend,
    name: &str,
    place: &Path,
    prompt: &Path,
) -> (String, Vec<String>) {
    let [place, prompt] = [place, prompt].map(|path| quoted(&path.display().to_string()));
    let editor = |program: &str| {
        (format!("{program} --new-window {place} {prompt}"), vec![format!("cat {prompt}")])
    };
    match backend {
        PairBackend::Tmux => {
            (format!("tmux attach-session -t {name}"), vec!["Ctrl+b d".to_owned()])
        }
        PairBackend::Vscode => editor("code"),
        PairBackend::Cursor => editor("cursor"),
    }
}

/// Links for a client that shows them. Editors open their own scheme; a tmux session has no link.
pub(super) fn links(
    backend: PairBackend,
    place: &Path,
    prompt: &Path,
) -> Vec<(&'static str, String)> {
    let mut links = vec![
        ("worktree_file_url", format!("file://{}", encoded(place))),
        ("prompt_file_url", format!("file://{}", encoded(prompt))),
    ];
    links.push(match backend {
        PairBackend::Tmux => ("tmux_docs", "https://github.com/tmux/tmux/wiki".into()),
        PairBackend::Vscode => ("vscode_prompt_uri", format!("vscode://file{}", encoded(prompt))),
        PairBackend::Cursor => ("cursor_prompt_uri", format!("cursor://file{}", encoded(prompt))),
    });
    links
}

/// One word for a shell.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The path for a URL, byte for byte: a path need not be UTF-8.
fn encoded(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_words_and_addresses() {
        let (place, prompt) = (Path::new("/srv/my shop"), Path::new("/srv/my shop/ü's.md"));
        let (command, more) = commands(PairBackend::Vscode, "callboard-CB-1", place, prompt);
        assert_eq!(command, r"code --new-window '/srv/my shop' '/srv/my shop/ü'\''s.md'");
        assert_eq!(more, [r"cat '/srv/my shop/ü'\''s.md'"]);
        let links = links(PairBackend::Cursor, place, prompt);
        let wanted = [
            ("worktree_file_url", "file:///srv/my%20shop".to_owned()),
            ("prompt_file_url", "file:///srv/my%20shop/%C3%BC%27s.md".to_owned()),
            ("cursor_prompt_uri", "cursor://file/srv/my%20shop/%C3%BC%27s.md".to_owned()),
        ];
        assert_eq!(links, wanted);
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("$(rm x)"), "'$(rm x)'");
    }
}
