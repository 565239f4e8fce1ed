//! How much a browser loads before it shows a page: the stylesheet and the scripts, packed as a proxy would send them.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

const KIB: usize = 1024;

fn packed(text: &[u8]) -> usize {
    let mut pack = GzEncoder::new(Vec::new(), Compression::best());
    pack.write_all(text).expect("memory takes every byte");
    pack.finish().expect("memory takes every byte").len()
}

/// The texts of all scripts of the pages.
fn scripts() -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web/js");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    files.iter().flat_map(|file| fs::read(file).expect("readable")).collect()
}

#[test]
fn style_and_scripts_stay_within_their_budgets() {
    let style = callboard_surface::web::style();
    for (name, text, most) in
        [("style", style.as_bytes(), 10 * KIB), ("scripts", scripts().as_slice(), 25 * KIB)]
    {
        let bytes = packed(text);
        assert!(bytes > KIB, "{name}: the files are missing");
        assert!(bytes <= most, "{name}: {bytes} bytes packed, at most {most}: shorten a file");
    }
}

#[test]
fn the_served_style_has_rules_and_no_comments() {
    let style = callboard_surface::web::style();
    assert!(style.contains(".frame{display:grid;") && style.contains("@media"), "{style}");
    assert!(!style.contains("/*") && !style.contains("\n "), "{style}");
}

#[test]
fn every_property_that_the_served_style_uses_is_set_there() {
    let style = callboard_surface::web::style();
    let used = |text: &str| {
        let names = text.split("var(").skip(1);
        names
            .filter_map(|rest| rest.split([')', ',']).next())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert!(used(style).len() > 100, "{style}");
    let icons = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web/icons.svg"));
    for name in used(style).iter().chain(&used(&icons.expect("readable"))) {
        let is_set = ["{", ";"].iter().any(|sign| style.contains(&format!("{sign}{name}:")));
        assert!(is_set, "{name}");
    }
}
