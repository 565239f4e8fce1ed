//! The names that a git branch may have.

/// Whether git accepts a branch of this name: the rules of `git check-ref-format --branch`. Two names that git accepts
/// are refused: `@`, which is short for `HEAD`, and a name with a control character outside ASCII.
pub fn is_branch_name(name: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let is_char = |c: char| !c.is_control() && !" ~^:?*[\\".contains(c);
    name.split('/').all(is_part)
        && name.chars().all(is_char)
        && !name.starts_with('-')
        && !name.ends_with('.')
        && !name.contains("..")
        && !name.contains("@{")
        && !matches!(name, "@" | "HEAD")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runner's tests ask git about these names too.
    #[test]
    fn a_branch_has_a_name_that_git_accepts() {
        for name in [
            "main",
            "callboard/SHOP-12-add-version-flag",
            "rel/1.x",
            "a./b",
            "a/-b",
            "a@b",
            "a/HEAD",
            "head",
            "x-",
            "lock",
            "ümlaut",
            "no\u{a0}break",
            "refs/heads/x",
        ] {
            assert!(is_branch_name(name), "{name:?}");
        }
        for name in [
            "", "-x", "/x", "x/", "a//b", ".x", "a/.b", "x.", "x.lock", "a.lock/b", "a..b", "a b",
            "a\tb", "a\u{7f}b", "a\u{85}b", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "@",
            "@{-1}", "a@{1}", "HEAD",
        ] {
            assert!(!is_branch_name(name), "{name:?}");
        }
    }
}
