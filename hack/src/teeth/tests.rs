use std::collections::BTreeSet;

use rstest::rstest;

use super::catalogue::{Guard, read, violation};
use super::copy::Copy;
use crate::workspace::Workspace;

#[test]
fn every_guard_is_where_the_list_says_and_many_are_listed() {
    let guards = read(Workspace::locate().unwrap().root()).unwrap();
    assert!(guards.len() >= 20, "{}", guards.len());
    let names: BTreeSet<_> = guards.iter().map(|guard| &guard.name).collect();
    assert_eq!(names.len(), guards.len(), "every guard has a name of its own");
    assert!(guards.iter().all(|guard| guard.find != guard.replace && !guard.why.is_empty()));
}

#[rstest]
#[case::as_it_is("let a = b;", Some("let X;"))]
#[case::broken_otherwise("let a\n        = b;", Some("let X;"))]
#[case::no_space("let a= b;", None)]
#[case::twice("a = b; a = b;", None)]
#[case::gone("let a = c;", None)]
fn a_guard_is_found_however_its_lines_are_broken(#[case] text: &str, #[case] without: Option<&str>) {
    let guard = |find: &str, replace: &str| Guard {
        name: String::new(),
        why: String::new(),
        file: "lib.rs".into(),
        find: find.to_owned(),
        replace: replace.to_owned(),
    };
    assert_eq!(guard("a =\n  b", "X").remove_from(text).ok().as_deref(), without);
}

#[rstest]
#[case("violation: seed 7: I2: 4 machines of 3", Some("seed 7: I2: 4 machines of 3"))]
#[case("Error: up, undisturbed: [\"I8\"]", Some("Error: up, undisturbed: [\"I8\"]"))]
#[case("thread 'main' panicked at src/lib.rs:1:1:", Some("thread 'main' panicked at src/lib.rs:1:1:"))]
#[case("up: 12 writes of the controller", None)]
#[case("faults: 600 schedules, 0 violations, in 30.0s", None)]
fn violations_are_told_from_other_lines(#[case] line: &str, #[case] expected: Option<&str>) {
    assert_eq!(violation(line).as_deref(), expected);
}

#[test]
fn a_broken_file_is_whole_again_afterwards_and_the_tree_stays_as_it_is() {
    let workspace = Workspace::locate().unwrap();
    let guards = read(workspace.root()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let copy = Copy::of(workspace.root(), folder.path()).unwrap();
    let text = |root: &std::path::Path| std::fs::read_to_string(root.join(&guards[0].file)).unwrap();
    let whole = text(workspace.root());

    let broken = copy.change(&guards[0]).unwrap();
    assert_eq!(text(copy.root()), guards[0].remove_from(&whole).unwrap());
    drop(broken);
    assert_eq!(text(copy.root()), whole);
    assert_eq!(text(workspace.root()), whole);
}
