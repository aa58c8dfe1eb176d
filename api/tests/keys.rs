//! Every key below `vmpool.dev` that the products use or the documentation names has a constant in this
//! crate.

#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The files with the constants.
const CONSTANTS: [&str; 3] = ["src/ext/keys.rs", "src/kubevirt/keys.rs", "src/diskimage/keys.rs"];

/// The sources of the products, the chart and the documentation.
const SOURCES: [&str; 7] = ["controller", "apiserver", "webhook", "runtime", "cli", "charts/vmpool", "docs"];

/// What follows the prefix and is no key of an object that clients read: the version of the API group,
/// sources of events, and a label by which the chart selects its own Services.
const OTHERS: [&str; 4] = ["apiserver", "controller", "metrics", "v1alpha1"];

fn text_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_test =
            ["tests", "tests.rs", "testing", "target"].contains(&&*name) || name.ends_with("_tests.rs");
        if path.is_dir() && !is_test {
            text_files(&path, found);
        } else if !is_test && [".rs", ".md", ".yaml", ".tpl"].iter().any(|end| name.ends_with(end)) {
            found.push(path);
        }
    }
}

/// The keys in a text, without the prefix.
fn keys(text: &str) -> BTreeSet<String> {
    let is_part = |byte: char| byte.is_ascii_alphanumeric() || byte == '-' || byte == '.';
    let places = text.match_indices("vmpool.dev/").filter(|(place, _)| !text[..*place].ends_with(is_part));
    let names = places.map(|(place, prefix)| {
        let rest = &text[place + prefix.len()..];
        let end = rest
            .find(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '-')
            .unwrap_or(rest.len());
        // A hyphen at the end removes an annotation on the command line, or precedes an ordinal.
        rest[..end].trim_end_matches('-').to_owned()
    });
    names.filter(|name| !name.is_empty()).collect()
}

#[test]
fn a_key_is_found_after_its_prefix() {
    let text = "`vmpool.dev/retry`, vmpool.dev/protected-until- and simulator.vmpool.dev/knob, vmpool.dev/*";
    assert_eq!(keys(text), BTreeSet::from(["retry".to_owned(), "protected-until".to_owned()]));
}

#[test]
fn every_used_key_has_a_constant() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let constants = CONSTANTS.map(|file| std::fs::read_to_string(root.join(file)).unwrap()).concat();
    let known = keys(&constants);
    let mut files = Vec::new();
    for source in SOURCES {
        text_files(&root.join("..").join(source), &mut files);
    }
    let mut seen = BTreeSet::new();
    for file in files {
        for key in keys(&std::fs::read_to_string(&file).unwrap()) {
            let is_known = known.contains(&key) || OTHERS.contains(&&*key);
            assert!(is_known, "{}: vmpool.dev/{key} has no constant in vmpool-api", file.display());
            seen.insert(key);
        }
    }
    assert!(seen.contains("protected-until") && seen.contains("max-protection"), "{seen:?}");
}
