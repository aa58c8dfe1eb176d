use super::*;

fn case(suite: &str, name: &str, outcome: CaseOutcome) -> TestResult {
    TestResult { suite: suite.to_owned(), name: name.to_owned(), outcome }
}

#[test]
fn the_file_lists_every_test_with_its_outcome() {
    let cases = [
        case("node", "pods", CaseOutcome::Ignored("a node cluster needs root".to_owned())),
        case("scenarios", "a", CaseOutcome::Passed),
        case("scenarios", "b", CaseOutcome::Flaky("1 < 2 & \"x\"\u{1b}[0m".to_owned())),
        case("scenarios", "c", CaseOutcome::Failed("why\nand where".to_owned())),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/junit.xml");
    write_junit_report(&path, &cases).unwrap();
    let expected = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4" failures="1" skipped="1" flakes="1">
  <testsuite name="node" tests="1" failures="0" skipped="1" flakes="0">
    <testcase classname="node" name="pods">
      <skipped message="a node cluster needs root"></skipped>
    </testcase>
  </testsuite>
  <testsuite name="scenarios" tests="3" failures="1" skipped="0" flakes="1">
    <testcase classname="scenarios" name="a"/>
    <testcase classname="scenarios" name="b">
      <flakyFailure message="the test failed, and passed when it was repeated alone">1 &lt; 2 &amp; &quot;x&quot;�[0m</flakyFailure>
    </testcase>
    <testcase classname="scenarios" name="c">
      <failure message="the test failed">why
and where</failure>
    </testcase>
  </testsuite>
</testsuites>
"#;
    assert_eq!(fs::read_to_string(path).unwrap(), expected);
}
