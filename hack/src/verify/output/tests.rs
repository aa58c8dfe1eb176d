use super::*;

/// Reads text in which each line ends with a newline.
pub(crate) fn output_of(text: &str) -> TestOutput {
    let mut output = TestOutput::default();
    text.split_inclusive('\n').for_each(|line| output.read(line));
    output
}

#[test]
fn the_output_of_failed_tests_is_extracted() {
    let text = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\nwhy\n\nfailures:\n    b\n\n\
                test result: FAILED. 1 passed; 1 failed\n\nrunning 1 test\ntest c - should panic ... ok\n\ntest result: ok. 1 passed\n";
    let mut output = output_of(text);
    let expected = "failures:\n\n---- b stdout ----\nwhy\n\nfailures:\n    b\n\ntest result: FAILED. 1 passed; 1 failed\n";
    assert_eq!(output.failure_report, expected);
    assert_eq!(output.failed().into_iter().collect::<Vec<_>>(), ["b"]);
    assert_eq!(output.passed().into_iter().collect::<Vec<_>>(), ["a", "c"]);
    assert!(!output.has_unknown());
    output.read("running 1 test\n");
    assert!(output.has_unknown(), "the test has not ended");
}

#[test]
fn every_test_is_a_case_of_its_binary() {
    let text = "     Running unittests src/lib.rs (target/debug/deps/vmpool_api-0a1b)\nrunning 1 test\ntest a::b ... ok\n\
                test result: ok. 1 passed\n     Running tests/node/main.rs (target/debug/deps/node-2c3d)\nrunning 3 tests\n\
                test short        ... ignored, a node cluster needs root\ntest c            ... FAILED\n\
                test long_enough  ... ok\n\nfailures:\n\n---- c ----\ntest panicked: why\n\n\nfailures:\n    c\n\n\
                test result: FAILED. 1 passed\n   Doc-tests vmpool_api\nrunning 1 test\n\
                test src/lib.rs - a (line 3) - compile ... ok\ntest result: ok. 1 passed\n";
    let case = |suite: &str, name: &str, outcome: CaseOutcome| TestResult {
        suite: suite.to_owned(),
        name: name.to_owned(),
        outcome,
    };
    let expected = [
        case("vmpool_api", "a::b", CaseOutcome::Passed),
        case("node", "short", CaseOutcome::Ignored("a node cluster needs root".to_owned())),
        case("node", "c", CaseOutcome::Failed("test panicked: why".to_owned())),
        case("node", "long_enough", CaseOutcome::Passed),
        case("vmpool_api (documentation)", "src/lib.rs - a (line 3) - compile", CaseOutcome::Passed),
    ];
    assert_eq!(output_of(text).into_cases(), expected);
}

#[test]
fn a_repeated_test_is_flaky_and_keeps_its_report() {
    let text = "running 1 test\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\nwhy\n\nfailures:\n    b\n\ntest result: FAILED.\n";
    let mut output = output_of(text);
    output.mark_flaky(&["b".to_owned()].into());
    assert_eq!(output.into_cases()[0].outcome, CaseOutcome::Flaky("why".to_owned()));
}

#[test]
fn a_killed_test_has_failed() {
    let mut output = output_of("running 1 test\ntest b has been running for over 60 seconds\n");
    assert_eq!(output.stall(), ["b"]);
    assert!(
        matches!(&output.into_cases()[0].outcome, CaseOutcome::Failed(report) if report.contains("killed"))
    );
}

#[test]
fn a_result_after_the_log_of_its_test_is_a_case() {
    let text = "running 2 tests\ntest a ...  INFO starting\n INFO ok, so far\nok\ntest b ...  INFO starting\nFAILED\n";
    let output = output_of(text);
    assert_eq!(output.passed(), BTreeSet::from(["a".to_owned()]));
    assert_eq!(output.failed(), BTreeSet::from(["b".to_owned()]));
}
