//! Runs every fuzz entry with samples, and with samples that were changed at random. `PROPTEST_CASES` sets
//! their number.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use rstest::rstest;
use vmpool_fuzz_entries::seeds::Seeds;
use vmpool_fuzz_entries::{FUZZ_TARGETS, FuzzTarget};

static ROOT: LazyLock<&Path> = LazyLock::new(|| Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));
static SEEDS: LazyLock<Seeds> = LazyLock::new(|| Seeds::read(*ROOT).expect("the samples can be read"));

/// Texts that are meaningful somewhere.
const TOKENS: &[&str] = &[
    "null",
    "-1",
    "18446744073709551615",
    "1e999",
    "\"\"",
    "{}",
    "[]",
    "[[]]",
    "true",
    "\\u0000",
    "\"",
    "\\",
    "%",
    "..",
    ":",
    "@",
    "9999-12-31T23:59:59Z",
    "9223372036854775807",
    "kubevirt.io/",
    "1.5Ei",
    "{\"a\":",
    "ü",
];

/// One change of an input.
#[derive(Clone, Debug)]
enum Edit {
    /// Replaces one byte.
    Byte(prop::sample::Index, u8),
    /// Removes the bytes between two places.
    Cut(prop::sample::Index, prop::sample::Index),
    /// Inserts a text.
    Insert(prop::sample::Index, &'static str),
    /// Repeats the bytes between two places.
    Repeat(prop::sample::Index, prop::sample::Index),
}

impl Edit {
    fn apply(&self, input: &mut Vec<u8>) {
        let place = |index: &prop::sample::Index, input: &[u8]| index.index(input.len() + 1);
        match self {
            Self::Byte(at, byte) if !input.is_empty() => {
                let at = at.index(input.len());
                input[at] = *byte;
            }
            Self::Byte(..) => {}
            Self::Cut(one, other) => {
                let (one, other) = (place(one, input), place(other, input));
                drop(input.drain(one.min(other)..one.max(other)));
            }
            Self::Insert(at, text) => {
                let at = place(at, input);
                drop(input.splice(at..at, text.bytes()));
            }
            Self::Repeat(one, other) => {
                let (one, other) = (place(one, input), place(other, input));
                let copy = input[one.min(other)..one.max(other)].to_vec();
                drop(input.splice(one..one, copy));
            }
        }
    }
}

fn edit() -> impl Strategy<Value = Edit> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        (place(), any::<u8>()).prop_map(|(at, byte)| Edit::Byte(at, byte)),
        (place(), place()).prop_map(|(one, other)| Edit::Cut(one, other)),
        (place(), prop::sample::select(TOKENS)).prop_map(|(at, text)| Edit::Insert(at, text)),
        (place(), place()).prop_map(|(one, other)| Edit::Repeat(one, other)),
    ]
}

fn entry(name: &str) -> &'static FuzzTarget {
    FUZZ_TARGETS.iter().find(|entry| entry.name == name).expect("the entry exists")
}

#[rstest]
fn every_entry_returns_for_its_samples_and_for_changed_ones(
    #[values(
        "pool",
        "machine",
        "disk",
        "list",
        "removal_record",
        "settings",
        "instance_type",
        "template",
        "review",
        "url",
        "autoscaler",
        "waiting_claims"
    )]
    name: &str,
) {
    let (run, seeds) = (entry(name).run, SEEDS.of(name));
    assert!(seeds.len() >= 3, "{name} has {} samples", seeds.len());
    for seed in &seeds {
        run(seed);
    }
    let input = (prop::sample::select(seeds), prop::collection::vec(edit(), 1..6));
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let result = runner.run(&input, |(mut input, edits)| {
        for edit in &edits {
            edit.apply(&mut input);
        }
        run(&input);
        Ok(())
    });
    result.unwrap();
}

#[test]
fn every_entry_has_a_fuzz_target_and_a_case_above() {
    let manifest = fs::read_to_string(ROOT.join("fuzz/Cargo.toml")).unwrap();
    let cases = fs::read_to_string(ROOT.join("e2e/fuzz-entries/tests/entries.rs")).unwrap();
    for FuzzTarget { name, .. } in FUZZ_TARGETS {
        let path = format!("fuzz_targets/{name}.rs");
        assert!(
            manifest.contains(&format!("name = \"{name}\"\npath = \"{path}\"")),
            "{name} is not in fuzz/Cargo.toml"
        );
        assert!(ROOT.join("fuzz").join(path).is_file(), "{name} has no fuzz target");
        assert!(cases.contains(&format!("\"{name}\"")), "{name} has no case");
    }
}
