use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rstest::rstest;

use super::hygiene::{Module, declared, has_tests, ignored, modules, rust_files};
use super::report::Report;
use super::runner::{self, Failures, PATIENCE};
use super::steps::STEPS;
use super::walls::breaches;

#[test]
fn a_file_that_no_module_declares_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    };
    let root = write("lib.rs", "pub(crate) mod a;\n#[cfg(test)]\nmod tests;\n// mod lost;\n");
    let a = write("a.rs", "mod deep;\n");
    let deep = write("a/deep/mod.rs", "mod deeper;\n");
    let deeper = write("a/deep/deeper.rs", "");
    let tests = write("tests.rs", "");
    let lost = write("lost.rs", "");

    let found = declared(std::slice::from_ref(&root)).unwrap();

    assert!(!found.contains(&lost), "{found:?}");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [deeper, deep, a, root, tests]);
}

#[test]
fn nested_packages_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a/b.rs", "a/notes.md", "inner/Cargo.toml", "inner/main.rs", "c.rs"] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    assert_eq!(
        rust_files(folder.path()).unwrap(),
        [folder.path().join("a/b.rs"), folder.path().join("c.rs")]
    );
    assert!(rust_files(&folder.path().join("missing")).unwrap().is_empty());
}

#[test]
fn module_declarations_are_parsed() {
    let text = "mod a;\npub mod b;\npub(in crate::x) mod c;\nmod inline {\n}\n#[path = \"other/d.rs\"]\nmod d;\n#[cfg(test)]\nmod e;\n";
    let named = |name: &str| Module::Named(name.to_owned());
    assert_eq!(
        modules(text),
        [named("a"), named("b"), named("c"), Module::At("other/d.rs".to_owned()), named("e")]
    );
}

#[test]
fn ignored_tests_and_examples_are_found() {
    let text = [
        "#[test]",
        "    #[ignore = \"slow\"]",
        "/// ```rust,ignore",
        "/// ```no_run",
        "#[cfg_attr(windows, ignore)]",
        "// ignore",
    ];
    assert_eq!(ignored(&text.join("\n")), [2, 3, 5]);
}

#[rstest]
#[case("    #[test]", true)]
#[case("#[tokio::test(start_paused = true)]", true)]
#[case("#[cfg(test)]\nmod tests;", false)]
#[case("// a #[test] of something", false)]
fn tests_are_found(#[case] text: &str, #[case] found: bool) {
    assert_eq!(has_tests(text), found);
}

#[test]
fn every_need_is_an_earlier_step_and_the_tests_come_last() {
    for (index, step) in STEPS.iter().enumerate() {
        for need in step.needs {
            assert!(STEPS[..index].iter().any(|earlier| earlier.name == *need), "{} needs {need}", step.name);
        }
    }
    assert_eq!(STEPS.last().unwrap().name, "tests");
}

#[test]
fn a_step_is_selected_with_all_that_it_needs() {
    let names = |chosen: &[&str]| -> Vec<&str> {
        let chosen: Vec<String> = chosen.iter().map(ToString::to_string).collect();
        super::steps::chosen(&chosen).iter().map(|step| step.name).collect()
    };
    assert_eq!(names(&["docs", "format"]), ["format", "docs"]);
    assert_eq!(names(&["chart"]), ["tools", "build", "chart"]);
    assert_eq!(names(&[]).len(), STEPS.len());
}

#[test]
fn all_failures_and_unrun_steps_are_reported() {
    let mut report = Report::default();
    report.succeeded(&STEPS[0], Duration::ZERO);
    report.failed(&STEPS[1], Duration::ZERO, &anyhow::anyhow!("lost.rs"));
    report.skipped(&STEPS[2], "needs hygiene");
    report.left_out(&STEPS[3], "does not apply");

    assert_eq!(report.failures().len(), 2);
    assert!(report.failures()[0].ends_with(STEPS[1].command), "{:?}", report.failures());
    assert!(report.passed(STEPS[0].name) && report.passed(STEPS[3].name));
    assert!(!report.passed(STEPS[1].name) && !report.passed(STEPS[2].name));
}

/// The metadata of a workspace of empty crates, with these dependencies of the engine as `(name, kind)`.
fn engine_with(dependencies: &[(&str, Option<&str>)]) -> serde_json::Value {
    let dependencies: Vec<_> =
        dependencies.iter().map(|(name, kind)| serde_json::json!({ "name": name, "kind": kind })).collect();
    let names = [
        "api",
        "feature-gates",
        "instancetype",
        "runtime",
        "simulator",
        "test-cluster",
        "process-stat",
        "invariants",
        "controller",
        "webhook",
        "apiserver",
    ];
    let mut packages: Vec<_> = names
        .iter()
        .map(|name| serde_json::json!({ "name": format!("vmpool-{name}"), "dependencies": [] }))
        .collect();
    packages.push(serde_json::json!({ "name": "vmpool-engine", "dependencies": dependencies }));
    serde_json::json!({ "packages": packages })
}

#[rstest]
#[case::an_allowed_crate("vmpool-api", None, 0)]
#[case::an_external_crate_without_io("serde", None, 0)]
#[case::a_runtime("tokio", None, 1)]
#[case::a_runtime_in_tests("tokio", Some("dev"), 0)]
#[case::the_shell("vmpool-controller", None, 1)]
fn the_engine_must_not_depend_on_a_runtime(
    #[case] name: &str,
    #[case] kind: Option<&str>,
    #[case] found: usize,
) {
    assert_eq!(breaches(&engine_with(&[(name, kind)])).len(), found);
}

#[test]
fn the_output_of_failed_tests_is_extracted() {
    let mut failures = Failures::default();
    let said = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\nwhy\n\nfailures:\n    b\n\n\
                test result: FAILED. 1 passed; 1 failed\n\nrunning 1 test\ntest c - should panic ... ok\n\ntest result: ok. 1 passed\n";
    for line in said.split_inclusive('\n') {
        failures.read(line);
    }
    let expected = "failures:\n\n---- b stdout ----\nwhy\n\nfailures:\n    b\n\ntest result: FAILED. 1 passed; 1 failed\n";
    assert_eq!(failures.told, expected);
    assert_eq!(failures.failed.iter().collect::<Vec<_>>(), ["b"]);
    assert_eq!(failures.passed.iter().collect::<Vec<_>>(), ["a", "c"]);
    assert!(!failures.has_unknown());
    failures.read("running 1 test\n");
    assert!(failures.has_unknown(), "the test has not ended");
}

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
    runner::run(&[vec![Box::new(command)]], PATIENCE, &mut Vec::new())
}

#[test]
fn a_failed_test_run_is_a_failure() {
    repeated(("", 0), ("", 1)).unwrap();
    let error = repeated(("", 101), ("", 0)).unwrap_err();
    assert!(error.to_string().contains("101"), "{error}");
}

/// A track that prints `said` to standard output and `noise` to standard error, and one more line for each repeated test.
fn track(said: &str, noise: &str, code: i32) -> runner::Track {
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
    runner::run(&[vec![passing(), failing("a", "noise")]], PATIENCE, &mut said).unwrap();
    let said = String::from_utf8(said).unwrap();
    let position = |part: &str| said.find(part).unwrap_or_else(|| panic!("no {part:?} in {said}"));
    assert!(position("test z ... ok") < position("test a ... FAILED"), "{said}");
    assert!(
        position("test a ... FAILED") < position("noise") && position("noise") < position("test a ... ok"),
        "{said}"
    );

    let all = |names: &[&str]| [names.iter().map(|name| failing(name, "")).collect()];
    runner::run(&all(&["a", "b"]), PATIENCE, &mut Vec::new()).unwrap();
    runner::run(&all(&["a", "b", "c"]), PATIENCE, &mut Vec::new()).unwrap_err();
}

#[test]
fn a_phase_starts_after_the_tracks_before_it_have_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let logging = |name: &'static str, code: i32| -> runner::Track {
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
    runner::run(&[vec![logging("a", 0), logging("b", 0)], vec![logging("c", 101)]], PATIENCE, &mut out)
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
fn the_runner_recognizes_the_report_of_a_starved_machine() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let source = fs::read_to_string(workspace.join("e2e/cluster/src/deadline.rs")).unwrap();
    assert!(source.contains(&format!("pub const STARVED: &str = {:?};", runner::STARVED)));
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

#[rstest::rstest]
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

#[rstest::rstest]
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

/// A test runner whose binary prints `said` and never ends, and which passes if a single test is selected. The shell's
/// messages about killed children are discarded.
fn endless(said: &'static str) -> runner::Track {
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
#[rstest::rstest]
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
    let outcome = runner::run(&[vec![endless(said)]], Duration::from_secs(2), &mut out);
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains(told), "{out}");
    assert!(out.contains("sleep 1000") && out.contains("thread sleep"), "{out}");
    assert_eq!(outcome.is_ok(), passes, "{outcome:?}\n{out}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_runner_does_not_wait_for_leftover_processes() {
    let track: runner::Track = Box::new(|_| {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 8 & echo 'running 0 tests'; echo 'test result: ok.'"]);
        command
    });
    let mut out = Vec::new();
    runner::run(&[vec![track]], Duration::from_secs(1), &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("a process that it started still runs"), "{out}");
}
