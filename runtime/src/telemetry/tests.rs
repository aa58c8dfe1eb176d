use rstest::rstest;
use serde_json::Value;

use super::{parse_filter, with_causes};
use crate::testing::Recording;

/// The JSON lines that `act` logs.
fn logged(act: impl FnOnce()) -> Vec<Value> {
    let recording = Recording::start();
    act();
    recording.json()
}

#[test]
fn a_line_contains_the_fields_of_the_event_and_all_spans() {
    let lines = logged(|| {
        let _pass =
            tracing::info_span!("reconcile", pool = "ns/web", uid = "u-1", generation = 7_u64).entered();
        let _step = tracing::info_span!("apply", machine = "web-x").entered();
        tracing::info!(attempt = 2, slow = true, "created");
    });
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(line["pool"], "ns/web");
    assert_eq!(line["uid"], "u-1");
    assert_eq!(line["generation"], 7);
    assert_eq!(line["machine"], "web-x");
    assert_eq!((&line["attempt"], &line["slow"]), (&2.into(), &true.into()));
    assert_eq!((&line["message"], &line["level"]), (&"created".into(), &"INFO".into()));
    assert_eq!(line["target"], module_path!());
    let _: jiff::Timestamp = line["timestamp"].as_str().unwrap().parse().unwrap();
}

#[test]
fn fields_that_are_recorded_later_are_included() {
    let lines = logged(|| {
        let span = tracing::info_span!("reconcile", pool = "ns/web", generation = tracing::field::Empty);
        let _entered = span.enter();
        tracing::info!("before");
        span.record("generation", 7);
        tracing::info!("after");
    });
    assert_eq!(lines[0].get("generation"), None);
    assert_eq!((&lines[1]["generation"], &lines[1]["pool"]), (&7.into(), &"ns/web".into()));
}

#[test]
fn the_inner_of_two_equal_fields_is_used_and_none_replaces_the_level() {
    let lines = logged(|| {
        let _outer = tracing::info_span!("outer", name = "outer").entered();
        let _inner = tracing::info_span!("inner", name = "inner").entered();
        tracing::warn!(level = "mine", "line");
    });
    assert_eq!((&lines[0]["name"], &lines[0]["level"]), (&"inner".into(), &"WARN".into()));
}

#[test]
fn an_error_is_shown_with_its_causes() {
    let error = crate::health::HealthError::Serve(std::io::Error::other("connection reset"));
    assert_eq!(with_causes(&error), "serving health checks: connection reset");
    let lines = logged(|| tracing::warn!(error = &error as &dyn std::error::Error, "bad"));
    assert_eq!(lines[0]["error"], "serving health checks: connection reset");
}

#[test]
fn a_repeated_cause_is_shown_once() {
    #[derive(Debug, thiserror::Error)]
    #[error("reading: {0}")]
    struct Repeating(#[source] std::io::Error);
    assert_eq!(with_causes(&Repeating(std::io::Error::other("gone"))), "reading: gone");
}

#[rstest]
#[case::a_level("info")]
#[case::a_level_in_capitals("INFO")]
#[case::off("off")]
#[case::a_target("info,vmpool_controller=debug")]
#[case::a_module("warn, kube_client::client=trace")]
#[case::a_span("vmpool_controller[reconcile{pool=web}]=trace")]
fn valid_filters(#[case] filter: &str) {
    parse_filter(filter).unwrap();
}

#[rstest]
#[case::a_word(
    "verbose",
    "`verbose` is not a log level: use off, error, warn, info, debug, trace, or `target=level`"
)]
#[case::a_word_in_a_list(
    "info,loud",
    "`loud` is not a log level: use off, error, warn, info, debug, trace, or `target=level`"
)]
#[case::empty("", "`` is not a log level: use off, error, warn, info, debug, trace, or `target=level`")]
#[case::a_wrong_level("kube=loud", "`kube=loud` is not a log filter")]
fn invalid_filters(#[case] filter: &str, #[case] message: &str) {
    assert_eq!(parse_filter(filter).unwrap_err().to_string(), message);
}
