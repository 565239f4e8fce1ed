//! An agent's output in a file of its run while the run goes on: readers on this machine see a line a moment after it
//! was printed, without more writes to the store. No secret gets into the file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard_engine::ports::{CUT, Printout};

use crate::run_log::Secrets;

/// How often new output is written: a reader that polls as often sees a line well within a second.
pub(crate) const WRITE_EVERY: Duration = Duration::from_millis(200);
/// A longer file begins anew: no reader follows that much live.
const BYTES_MAX: u64 = 8 * 1024 * 1024;

const NAME: &str = "printed";

pub(crate) fn path(run: &Path) -> PathBuf {
    run.join(NAME)
}

/// The writing end.
pub(crate) struct Live {
    file: Option<File>,
    /// Bytes held back: perhaps the beginning of a secret or of a character.
    held: Vec<u8>,
    length: u64,
}

impl Live {
    /// Creates the file. When it cannot be opened, the run goes on without live output.
    pub(crate) fn create(run: &Path) -> Self {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(path(run));
        if let Err(error) = &file {
            tracing::info!(%error, "cannot show an agent's output live");
        }
        Self { file: file.ok(), held: Vec::new(), length: 0 }
    }

    /// Writes fresh output; `is_cut` says that output before it was lost.
    pub(crate) fn write(&mut self, (fresh, is_cut): (Vec<u8>, bool), secrets: &Secrets) {
        self.held.extend(fresh);
        let whole = match std::str::from_utf8(&self.held) {
            Ok(_) => self.held.len(),
            // The rest of a character may still come.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.held.len(),
        };
        let text = String::from_utf8_lossy(&self.held[..whole]).into_owned();
        let shown = secrets.without_half(&text);
        let rest = text.as_bytes()[shown.len()..].to_vec();
        let rest = [rest, self.held[whole..].to_vec()].concat();
        let text = secrets.hidden(shown);
        self.held = rest;
        self.put(&text, is_cut);
    }

    /// Writes the rest: no more output comes that could complete a secret in the held bytes.
    pub(crate) fn finish(mut self, fresh: (Vec<u8>, bool), secrets: &Secrets) {
        self.write(fresh, secrets);
        let held = std::mem::take(&mut self.held);
        self.put(&String::from_utf8_lossy(&held), false);
    }

    fn put(&mut self, text: &str, is_cut: bool) {
        let Some(file) = self.file.as_mut().filter(|_| !text.is_empty()) else { return };
        let mut is_cut = is_cut;
        let mut put = || -> io::Result<u64> {
            if self.length > BYTES_MAX {
                file.set_len(0)?;
                file.seek(SeekFrom::Start(0))?;
                (self.length, is_cut) = (0, true);
            }
            let mark = if is_cut { CUT } else { "" };
            file.write_all(format!("{mark}{text}").as_bytes())?;
            Ok((mark.len() + text.len()) as u64)
        };
        match put() {
            Ok(written) => self.length += written,
            Err(error) => {
                tracing::info!(%error, "an agent's output is not shown live any more");
                self.file = None;
            }
        }
    }
}

/// The reading end. It keeps reading after the file was removed with its run.
pub(crate) struct LiveReader {
    file: File,
    at: u64,
    /// The beginning of an incomplete character.
    half: Vec<u8>,
}

impl LiveReader {
    /// `None` when the run is not on this machine, or has not begun.
    pub(crate) fn open(run: &Path) -> Option<Self> {
        let file = File::open(path(run)).ok()?;
        Some(Self { file, at: 0, half: Vec::new() })
    }
}

impl Printout for LiveReader {
    fn read(&mut self) -> io::Result<String> {
        if self.file.metadata()?.len() < self.at {
            // The file began anew.
            (self.at, self.half) = (0, Vec::new());
        }
        self.file.seek(SeekFrom::Start(self.at))?;
        let mut bytes = std::mem::take(&mut self.half);
        self.at += self.file.read_to_end(&mut bytes)? as u64;
        let whole = match std::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => bytes.len(),
        };
        self.half = bytes.split_off(whole);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn is_over(&self) -> bool {
        self.file.metadata().map_or(true, |data| data.nlink() == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Variables;

    fn secrets() -> Secrets {
        let mut secrets = Secrets::default();
        let variables: Variables = vec![("KEY".into(), "s3cret-and-more".into())];
        secrets.add_variables(&variables);
        secrets
    }

    #[test]
    fn a_reader_sees_what_was_written_and_no_secret() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(LiveReader::open(folder.path()).is_none());
        let (mut live, secrets) = (Live::create(folder.path()), secrets());
        let mut reader = LiveReader::open(folder.path()).expect("a reader");
        let mut step = |chunk: &[u8], shown: &str| {
            live.write((chunk.to_vec(), false), &secrets);
            assert_eq!(reader.read().expect("read"), shown, "after {chunk:?}");
        };
        step(b"one\n", "one\n");
        step(b"two s3cret", "two ");
        step(b"-and-more on\n", "[KEY] on\n");
        step(b"s3cret", "");
        step(b"s\n", "s3crets\n");
        step("x\u{fc}".as_bytes()[..2].as_ref(), "x");
        step(&"x\u{fc}".as_bytes()[2..], "\u{fc}");
        step(b"", "");
        assert!(!reader.is_over());
        std::fs::remove_file(path(folder.path())).expect("removed");
        live.finish((b"end s3c".to_vec(), false), &secrets);
        assert_eq!(reader.read().expect("read"), "end s3c");
        assert!(reader.is_over());
    }

    #[test]
    fn a_long_file_begins_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut live, secrets) = (Live::create(folder.path()), secrets());
        let mut reader = LiveReader::open(folder.path()).expect("a reader");
        live.write((vec![b'x'; BYTES_MAX as usize + 1], false), &secrets);
        assert_eq!(reader.read().expect("read").len() as u64, BYTES_MAX + 1);
        live.write((b"new\n".to_vec(), false), &secrets);
        assert_eq!(reader.read().expect("read"), format!("{CUT}new\n"));
    }
}
