//! Reads which files a git patch changes, and how many lines.

use callboard_engine::ports::FileDiff;

/// The files in the order of the patch. `lines` is `None` for a binary file.
pub fn files(patch: &str) -> Vec<FileDiff> {
    let mut files: Vec<FileDiff> = Vec::new();
    // The lines left of a hunk; inside one a line may look like anything.
    let (mut old, mut new) = (0u64, 0u64);
    for line in patch.lines() {
        if old + new > 0 {
            let lines = files.last_mut().and_then(|file| file.lines.as_mut());
            let Some((added, removed)) = lines else { continue };
            match line.as_bytes().first() {
                Some(b'+') => (*added, new) = (*added + 1, new.saturating_sub(1)),
                Some(b'-') => (*removed, old) = (*removed + 1, old.saturating_sub(1)),
                Some(b'\\') => {}
                _ => (old, new) = (old.saturating_sub(1), new.saturating_sub(1)),
            }
        } else if let Some(names) = line.strip_prefix("diff --git ") {
            // A guess, since a path may hold ` b/` itself. Lines of the header below correct it, where there are any.
            let path = names.rsplit_once(" b/").map_or(names, |(_, path)| path).to_owned();
            files.push(FileDiff { path, was: None, lines: Some((0, 0)) });
        } else if let Some(file) = files.last_mut() {
            if let Some(range) = line.strip_prefix("@@ -") {
                (old, new) = hunk(range).unwrap_or_default();
            } else if let Some(path) = line.strip_prefix("+++ b/") {
                // git ends a path with blanks in it with a tab.
                file.path = path.trim_end_matches('\t').to_owned();
            } else if let Some(path) = line.strip_prefix("rename from ") {
                file.was = Some(path.to_owned());
            } else if let Some(path) = line.strip_prefix("rename to ") {
                file.path = path.to_owned();
            } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
                file.lines = None;
            }
        }
    }
    files
}

/// `1,3 +1,4 @@` as 3 and 4; an omitted number is 1.
fn hunk(range: &str) -> Option<(u64, u64)> {
    let (old, rest) = range.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let count = |side: &str| match side.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => Some(1),
    };
    Some((count(old)?, count(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_lines_are_counted() {
        let patch = "\
diff --git a/a.txt b/a.txt
index 1..2 100644
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 one
--- two
+++ b/other
 three
@@ -9 +9,2 @@ fn x()
-nine
+9
+10
\\ No newline at end of file
diff --git a/old name b/new name
similarity index 100%
rename from old name
rename to new name
diff --git a/p.png b/p.png
new file mode 100644
GIT binary patch
literal 4
LcmZQzU|?Wi@
diff --git a/empty b/empty
new file mode 100644
";
        let said: Vec<String> = files(patch)
            .iter()
            .map(|file| format!("{} {:?} {:?}", file.path, file.was.as_deref(), file.lines))
            .collect();
        let wanted = [
            "a.txt None Some((3, 2))",
            "new name Some(\"old name\") Some((0, 0))",
            "p.png None None",
            "empty None Some((0, 0))",
        ];
        assert_eq!(said, wanted);
    }
}
