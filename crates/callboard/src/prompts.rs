//! `.callboard/prompts/<name>.md`: texts of the project that replace prompts. Read once, when a server
//! starts. They are trusted like the configuration beside them: agents do what they say.

use std::fs;
use std::io::Read;
use std::path::Path;

use callboard_surface::prompt::{self, OWN_BYTES_MAX, OwnPrompts};

use crate::output::Failure;
use crate::place::Place;

const FOLDER: &str = "prompts";

pub fn read(place: &Place) -> Result<OwnPrompts, Failure> {
    let folder = place.folder().join(FOLDER);
    let mut texts = Vec::new();
    for name in prompt::names() {
        if let Some(text) = read_one(&folder.join(format!("{name}.md")))? {
            texts.push((name, text));
        }
    }
    Ok(OwnPrompts::new(texts))
}

/// Reads one prompt. Refuses a link or a pipe: a link may show agents a file from elsewhere, and a pipe may never end.
fn read_one(path: &Path) -> Result<Option<String>, Failure> {
    let bad = |why: String| {
        let failure = Failure::config(format!("{} {why}", path.display()));
        failure.hint("correct the file, or remove it to use the built-in prompt")
    };
    match fs::symlink_metadata(path) {
        Err(_) => return Ok(None),
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(bad("is not a plain file".into())),
    }
    let file = fs::File::open(path).map_err(|error| bad(format!("cannot be read: {error}")))?;
    let mut bytes = Vec::new();
    // One byte more than allowed shows that a file is too long, without reading all of it.
    let most = OWN_BYTES_MAX as u64 + 1;
    file.take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| bad(format!("cannot be read: {error}")))?;
    if bytes.len() > OWN_BYTES_MAX {
        return Err(bad(format!("has more than {OWN_BYTES_MAX} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| bad("is not UTF-8".into()))?;
    // An empty file counts as none, so the built-in prompt is used.
    Ok((!text.trim().is_empty()).then_some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_plain_files_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place { root: folder.path().to_owned() };
        assert_eq!(read(&place).expect("no folder"), OwnPrompts::default());
        let prompts = place.folder().join(FOLDER);
        fs::create_dir_all(&prompts).expect("a folder");
        let path = prompts.join("plan.md");
        fs::write(&path, "Plan as we do.\n").expect("a file");
        fs::write(prompts.join("start-work.md"), " \n").expect("a file");
        fs::write(prompts.join("other.md"), "Unknown").expect("a file");
        let own = OwnPrompts::new(vec![("plan", "Plan as we do.\n".into())]);
        assert_eq!(read(&place).expect("a good folder"), own);
        for (bytes, why) in [
            (vec![b'x'; OWN_BYTES_MAX + 1], "has more than 32768 bytes"),
            (vec![0xff, 0xfe], "is not UTF-8"),
        ] {
            fs::write(&path, bytes).expect("a file");
            let said = format!("{:?}", read(&place).expect_err("refused"));
            assert!(said.contains(why), "{said}");
        }
        fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink("/etc/hostname", &path).expect("a link");
        let said = format!("{:?}", read(&place).expect_err("refused"));
        assert!(said.contains("is not a plain file"), "{said}");
    }
}
