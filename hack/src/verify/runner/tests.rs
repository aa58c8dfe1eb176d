use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rstest::rstest;

use super::super::output::{CaseOutcome, TestResult};
use super::*;

/// A test run that prints `first`, and `second` when tests are repeated; both end with the given code.
fn repeated(first: (&str, i32), second: (&str, i32)) -> anyhow::Result<()> {
    let (first, second) = ((first.0.to_owned(), first.1), (second.0.to_owned(), second.1));
    let command = move |arguments: &[&str]| {
        let (said, code) = if arguments.is_empty() { &first } else { &second };
        let mut command = Command::new("sh");
        command.args(["-c", r#"printf '%b' "$0"; exit "$1""#, said, &code.to_string()]);
        command
    };
    // Not to standard output: the outer test runner would count these lines as its own tests.
    run_test_phases(&[vec![Box::new(command)]], PATIENCE, &mut Vec::new(), &mut Vec::new())
}

#[test]
fn a_failed_test_run_is_a_failure() {
    repeated(("", 0), ("", 1)).unwrap();
    let error = repeated(("", 101), ("", 0)).unwrap_err();
    assert!(error.to_string().contains("101"), "{error}");
}

/// A track that prints `said` to standard output and `noise` to standard error, and one more line for each
/// repeated test.
fn track(said: &str, noise: &str, code: i32) -> Track {
    let (said, noise) = (said.to_owned(), noise.to_owned());
    Box::new(move |arguments| {
        let mut command = Command::new("sh");
        let again = format!("test {} ... ok\n", arguments.last().unwrap_or(&""));
        let (said, noise, code) =
            if arguments.is_empty() { (&*said, &*noise, code) } else { (&*again, "", 0) };
        let script = r#"printf '%s' "$0"; printf '%s' "$1" >&2; exit "$2""#;
        command.args(["-c", script, said, noise, &code.to_string()]);
        command
    })
}

#[test]
fn other_tracks_are_printed_after_the_first_and_their_failures_count() {
    let failing = |name: &str, noise: &str| {
        track(&format!("running 1 test\ntest {name} ... FAILED\ntest result: FAILED.\n"), noise, 101)
    };
    let passing = || track("running 1 test\ntest z ... ok\ntest result: ok.\n", "", 0);
    let mut said = Vec::new();
    run_test_phases(&[vec![passing(), failing("a", "noise")]], PATIENCE, &mut said, &mut Vec::new()).unwrap();
    let said = String::from_utf8(said).unwrap();
    let position = |part: &str| said.find(part).unwrap_or_else(|| panic!("no {part:?} in {said}"));
    assert!(position("test z ... ok") < position("test a ... FAILED"), "{said}");
    assert!(
        position("test a ... FAILED") < position("noise") && position("noise") < position("test a ... ok"),
        "{said}"
    );

    let all = |names: &[&str]| [names.iter().map(|name| failing(name, "")).collect()];
    run_test_phases(&all(&["a", "b"]), PATIENCE, &mut Vec::new(), &mut Vec::new()).unwrap();
    run_test_phases(&all(&["a", "b", "c"]), PATIENCE, &mut Vec::new(), &mut Vec::new()).unwrap_err();
}

#[test]
fn a_phase_starts_after_the_tracks_before_it_have_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let logging = |name: &'static str, code: i32| -> Track {
        let path = path.clone();
        Box::new(move |arguments| {
            let mut command = Command::new("sh");
            let script = r#"echo "$0 begins" >> "$1"; sleep 0.2; echo "$0 ends" >> "$1"
                [ -z "$3" ] || { echo "test $0 ... ok"; exit 0; }
                [ "$2" = 0 ] || { echo "running 1 test"; echo "test $0 ... FAILED"; echo "test result: FAILED."; }
                exit "$2""#;
            command.args(["-c", script, name]).arg(&path).arg(code.to_string()).arg(arguments.concat());
            command
        })
    };
    let mut out = Vec::new();
    run_test_phases(
        &[vec![logging("a", 0), logging("b", 0)], vec![logging("c", 101)]],
        PATIENCE,
        &mut out,
        &mut Vec::new(),
    )
    .unwrap();
    let log = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[..2].iter().all(|line| line.ends_with("begins")), "in parallel: {log}");
    assert_eq!(lines[4..], ["c begins", "c ends", "c begins", "c ends"], "{log}");
    let out = String::from_utf8(out).unwrap();
    assert!(
        out.contains("passed when they were repeated alone:\n  c (flaky: fix it)\ntest c ... ok\n"),
        "{out}"
    );
}

#[test]
fn repeated_tests_are_flaky_cases_and_a_test_that_fails_twice_is_a_failed_one() {
    let cases = |second: &'static str, code: i32| {
        let first = "     Running tests/x.rs (target/debug/deps/x-01)\nrunning 1 test\ntest a ... FAILED\ntest result: FAILED.\n";
        let track: Track = Box::new(move |arguments| {
            let (text, code) = if arguments.is_empty() { (first, 101) } else { (second, code) };
            let mut command = Command::new("sh");
            // Cargo prints the name of a binary to standard error.
            command.args(["-c", r#"printf '%b' "$0" >&2; exit "$1""#, text, &code.to_string()]);
            command
        });
        let mut cases = Vec::new();
        let result = run_test_phases(&[vec![track]], PATIENCE, &mut Vec::new(), &mut cases);
        (cases, result.is_ok())
    };
    let case = |outcome| TestResult { suite: "x".to_owned(), name: "a".to_owned(), outcome };
    assert_eq!(cases("test a ... ok\n", 0), (vec![case(CaseOutcome::Flaky(String::new()))], true));
    assert_eq!(cases("test a ... FAILED\n", 101), (vec![case(CaseOutcome::Failed(String::new()))], false));
}

#[test]
fn the_runner_recognizes_the_report_of_a_starved_machine() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let source = fs::read_to_string(workspace.join("e2e/cluster/src/deadline.rs")).unwrap();
    assert!(source.contains(&format!("pub const STARVED: &str = {STARVED:?};")));
}

/// The output of a binary in which the named tests failed, each with `output`.
fn failed_with(names: &[&str], output: &str) -> String {
    let lines = |line: &dyn Fn(&str) -> String| names.iter().map(|name| line(name)).collect::<String>();
    format!(
        "running {} tests\n{}\nfailures:\n\n{}failures:\n{}\ntest result: FAILED.\n",
        names.len(),
        lines(&|name| format!("test {name} ... FAILED\n")),
        lines(&|name| format!("---- {name} stdout ----\n{output}\n\n")),
        lines(&|name| format!("    {name}\n")),
    )
}

#[rstest]
#[case::more_tests_than_the_limit_for_flaky_ones(
    3,
    "not so after 60.0s (the machine was starved: tasks waited ...)",
    true
)]
#[case::more_tests_than_the_limit_for_a_starved_machine(9, "the machine was starved", false)]
#[case::failed_for_another_reason(3, "3 is not 4", false)]
fn failures_on_a_starved_machine_are_repeated_alone(
    #[case] count: usize,
    #[case] output: &str,
    #[case] passes: bool,
) {
    let names: Vec<String> = (0..count).map(|index| format!("t{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let first = failed_with(&names, output);
    let second: String = names.iter().flat_map(|name| ["test ", name, " ... ok\n"]).collect();
    assert_eq!(repeated((&first, 101), (&second, 0)).is_ok(), passes);
    // There is only one repetition.
    assert!(repeated((&first, 101), (&first, 101)).is_err());
}

#[rstest]
#[case::flaky(
    "running 2 tests\ntest a ... FAILED\ntest b ... ok\ntest result: FAILED.\n",
    "test a ... ok\n",
    0,
    true
)]
#[case::broken(
    "running 1 test\ntest a ... FAILED\ntest result: FAILED.\n",
    "test a ... FAILED\n",
    101,
    false
)]
#[case::not_found_in_the_repetition(
    "running 1 test\ntest a ... FAILED\ntest result: FAILED.\n",
    "running 0 tests\n",
    0,
    false
)]
#[case::too_many(
    "test a ... FAILED\ntest b ... FAILED\ntest c ... FAILED\n",
    "test a ... ok\ntest b ... ok\ntest c ... ok\n",
    0,
    false
)]
#[case::another_binary_crashed(
    "running 1 test\ntest a ... FAILED\ntest result: FAILED.\nrunning 3 tests\n",
    "test a ... ok\n",
    0,
    false
)]
fn a_few_failed_tests_are_repeated(
    #[case] first: &str,
    #[case] second: &str,
    #[case] code: i32,
    #[case] passes: bool,
) {
    assert_eq!(repeated((first, 101), (second, code)).is_ok(), passes);
}

/// A test runner whose binary prints `said` and never ends, and which passes if a single test is selected.
/// The shell's messages about killed children are discarded.
fn endless(said: &'static str) -> Track {
    Box::new(move |arguments| {
        let mut command = Command::new("sh");
        match arguments.last() {
            None => command.args(["-c", r#"exec 2>/dev/null; printf '%b' "$0"; sleep 1000; exit 101"#, said]),
            Some(name) => command.args(["-c", r#"echo "test $0 ... ok""#, name]),
        };
        command
    })
}

#[cfg(target_os = "linux")]
#[rstest]
#[case::one(
    "running 2 tests\ntest a ... ok\ntest b has been running for over 60 seconds\n",
    "Tests that did not end: b\n",
    true
)]
#[case::c_has_not_started(
    "running 3 tests\ntest a ... ok\ntest b has been running for over 60 seconds\n",
    "Tests that did not end: b\n",
    false
)]
#[case::no_test_is_reported_as_slow(
    "running 2 tests\ntest a ... ok\n",
    "Tests that did not end: unknown\n",
    false
)]
#[case::the_slow_test_has_ended(
    "running 1 test\ntest b has been running for over 60 seconds\ntest b ... ok\n",
    "Tests that did not end: unknown\n",
    false
)]
fn a_test_that_never_ends_is_killed_and_named(
    #[case] said: &'static str,
    #[case] told: &str,
    #[case] passes: bool,
) {
    let mut out = Vec::new();
    let outcome = run_test_phases(&[vec![endless(said)]], Duration::from_secs(2), &mut out, &mut Vec::new());
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains(told), "{out}");
    assert!(out.contains("sleep 1000") && out.contains("thread sleep"), "{out}");
    assert_eq!(outcome.is_ok(), passes, "{outcome:?}\n{out}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_runner_does_not_wait_for_leftover_processes() {
    let track: Track = Box::new(|_| {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 8 & echo 'running 0 tests'; echo 'test result: ok.'"]);
        command
    });
    let mut out = Vec::new();
    run_test_phases(&[vec![track]], Duration::from_secs(1), &mut out, &mut Vec::new()).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("a process that it started still runs"), "{out}");
}
