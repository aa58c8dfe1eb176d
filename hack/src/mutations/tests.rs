use std::collections::BTreeSet;

use rstest::rstest;

use super::copy::WorkingCopy;
use super::list::{CodeGuard, GuardLocation, read_code_guards, violation_in_line};
use crate::workspace::Workspace;

#[test]
fn every_listed_guard_exists_and_the_list_is_long() {
    let guards = read_code_guards(Workspace::locate().unwrap().root()).unwrap();
    assert!(guards.len() >= 20, "{}", guards.len());
    let names: BTreeSet<_> = guards.iter().map(|guard| &guard.name).collect();
    assert_eq!(names.len(), guards.len(), "the names of guards are unique");
    assert!(guards.iter().all(|guard| !guard.locations.is_empty() && !guard.why.is_empty()));
    assert!(
        guards.iter().flat_map(|guard| &guard.locations).all(|location| location.find != location.replace)
    );
}

fn location(file: &str, find: &str, replace: &str) -> GuardLocation {
    GuardLocation { file: file.into(), find: find.to_owned(), replace: replace.to_owned() }
}

#[rstest]
#[case::unchanged("let a = b;", Some("let X;"))]
#[case::with_other_line_breaks("let a\n        = b;", Some("let X;"))]
#[case::no_space("let a= b;", None)]
#[case::twice("a = b; a = b;", None)]
#[case::missing("let a = c;", None)]
fn a_guard_is_found_regardless_of_line_breaks(#[case] text: &str, #[case] without: Option<&str>) {
    let location = location("lib.rs", "a =\n  b", "X");
    assert_eq!(location.remove_from(text).ok().as_deref(), without);
}

#[rstest]
#[case("violation: seed 7: I2: 4 machines of 3", Some("seed 7: I2: 4 machines of 3"))]
#[case("Error: up, without faults: [\"I8\"]", Some("Error: up, without faults: [\"I8\"]"))]
#[case("thread 'main' panicked at src/lib.rs:1:1:", Some("thread 'main' panicked at src/lib.rs:1:1:"))]
#[case("up: 12 writes of the controller", None)]
#[case("faults: 600 schedules, 0 violations, in 30.0s", None)]
fn violations_are_distinguished_from_other_lines(#[case] line: &str, #[case] expected: Option<&str>) {
    assert_eq!(violation_in_line(line).as_deref(), expected);
}

#[test]
fn a_mutation_is_reverted_and_the_working_tree_is_unchanged() {
    let workspace = Workspace::locate().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let copy = WorkingCopy::of(workspace.root(), folder.path()).unwrap();
    let text = |root: &std::path::Path| std::fs::read_to_string(root.join("Makefile")).unwrap();
    let original = text(workspace.root());
    let first = original.lines().next().unwrap();

    let locations =
        vec![location("Makefile", first, "first and"), location("Makefile", "first and", "second")];
    let guard = CodeGuard { name: String::new(), why: String::new(), locations };
    let elsewhere =
        vec![location("controller/engine/src/ledger.rs", "", ""), location("webhook/src/lib.rs", "", "")];
    let elsewhere = CodeGuard { name: String::new(), why: String::new(), locations: elsewhere };
    let packages = ["controller/engine/Cargo.toml", "webhook/Cargo.toml"].map(|name| copy.root().join(name));
    assert_eq!(copy.packages(&elsewhere).unwrap(), packages.into());
    assert!(copy.packages(&guard).is_err(), "the Makefile is in no package");

    let mutated = copy.change(&guard).unwrap();
    assert_eq!(text(copy.root()), original.replacen(first, "second", 1));
    drop(mutated);
    assert_eq!(text(copy.root()), original);
    assert_eq!(text(workspace.root()), original);
}
