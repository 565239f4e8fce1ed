//! How much a browser loads before it shows a page: the stylesheet and the scripts, packed as a proxy would send them.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

const KIB: usize = 1024;

/// The bytes of all files of a folder of the pages, packed.
fn packed(folder: &str) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web").join(folder);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    let mut pack = GzEncoder::new(Vec::new(), Compression::best());
    for file in files {
        pack.write_all(&fs::read(&file).expect("readable")).expect("memory takes every byte");
    }
    pack.finish().expect("memory takes every byte").len()
}

#[test]
fn style_and_scripts_stay_within_their_budgets() {
    for (folder, most) in [("style", 10 * KIB), ("js", 25 * KIB)] {
        let bytes = packed(folder);
        assert!(bytes > KIB, "{folder}: the files are missing");
        assert!(bytes <= most, "{folder}: {bytes} bytes packed, at most {most}: shorten a file");
    }
}
