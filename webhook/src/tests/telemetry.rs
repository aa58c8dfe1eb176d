//! Metrics and logs.

use std::collections::BTreeSet;

use serde_json::json;
use vmpool_runtime::metrics::MetricKind;
use vmpool_runtime::testing::Recording;

use super::*;

#[tokio::test]
async fn answers_and_reads_are_counted() {
    let world = World::with_objects();
    world.create(&pool()).await;
    world.create(&with(pool(), "/metadata/name", json!("a.b"))).await;
    world.server.fail("/virtualmachineclasses/small", 500, "busy");
    world.create(&pool()).await;
    world.post(POOL_PATH, "nonsense").await;
    world.scale(3, 2).await;
    for (series, count) in [
        (r#"vmpool_webhook_requests_total{path="pool",operation="create",verdict="allowed"}"#, 1),
        (r#"vmpool_webhook_requests_total{path="pool",operation="create",verdict="refused"}"#, 1),
        (r#"vmpool_webhook_requests_total{path="pool",operation="create",verdict="undecided"}"#, 1),
        (r#"vmpool_webhook_requests_total{path="pool",operation="unknown",verdict="unreadable"}"#, 1),
        (r#"vmpool_webhook_requests_total{path="scale",operation="update",verdict="allowed"}"#, 1),
        (r#"vmpool_webhook_requests_total{path="scale",operation="update",verdict="refused"}"#, 0),
        (r#"vmpool_webhook_request_duration_seconds_count{path="pool"}"#, 3),
        (r#"vmpool_webhook_request_duration_seconds_count{path="scale"}"#, 1),
        (r#"vmpool_webhook_reads_total{resource="class",result="found"}"#, 1),
        (r#"vmpool_webhook_reads_total{resource="class",result="failed"}"#, 1),
        (r#"vmpool_webhook_reads_total{resource="image",result="found"}"#, 2),
        (r#"vmpool_webhook_reads_total{resource="pool",result="absent"}"#, 1),
    ] {
        assert_eq!(world.series(series), count, "{series}");
    }
}

#[tokio::test]
async fn requests_do_not_add_series() {
    fn series(world: &World) -> BTreeSet<String> {
        let page = world.metrics.page();
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    }
    let world = World::with_objects();
    let before = series(&world);
    for name in ["a", "b", "c.d"] {
        world.create(&with(pool(), "/metadata/name", json!(name))).await;
        world.review(POOL_PATH, &review(name, "", &Value::Null, &pool())).await;
        world.scale(1, 0).await;
    }
    assert_eq!(series(&world), before);
}

#[test]
fn metric_names_contain_kind_and_unit() {
    let metrics = WebhookMetrics::new();
    let mut names = BTreeSet::new();
    for metric in metrics.catalogue() {
        let name = metric.name;
        assert!(names.insert(name), "{name} is registered twice");
        assert!(name.starts_with("vmpool_") || name.starts_with("process_"), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == MetricKind::Counter, "{name}");
        assert!(!metric.help.ends_with('.') && metric.help.starts_with(char::is_uppercase), "{name}");
    }
}

#[test]
fn the_documentation_lists_every_metric() {
    let (page, part) =
        (include_str!("../../../docs/metrics.md"), crate::metrics::reference::metrics_reference());
    assert!(page.contains(&part), "docs/metrics.md is out of date: run `cargo xtask generate`");
    // Other parts of the page contain the metrics that all programs have.
    for metric in WebhookMetrics::new().catalogue() {
        assert!(page.contains(&format!("| `{}` | {} |", metric.name, metric.kind)), "{}", metric.name);
    }
}

#[tokio::test]
async fn a_refusal_is_logged_with_user_and_uid_and_an_allowed_request_is_not() {
    let recording = Recording::start();
    let world = World::with_objects();
    world.create(&pool()).await;
    world.create(&with(pool(), "/metadata/name", json!("a.b"))).await;
    let lines = recording.json();
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(line["level"], "INFO");
    for (name, value) in [
        ("uid", "705ab4f5-6393-11e8-b7cc-42010a800002"),
        ("user", "alice"),
        ("operation", "CREATE"),
        ("namespace", "team-a"),
        ("rule", "W0a"),
        ("field", "metadata.name"),
    ] {
        assert_eq!(line[name], value);
    }
}

#[tokio::test]
async fn a_lowered_scale_is_logged_with_user_pool_and_counts() {
    let recording = Recording::start();
    let world = World::with_objects();
    world.scale(3, 0).await;
    world.scale(0, 3).await;
    let mut dry_run = review("UPDATE", "scale", &scale(3), &scale(1));
    dry_run["request"]["dryRun"] = json!(true);
    assert_eq!(world.review(SCALE_PATH, &dry_run).await["allowed"], true);
    world.server.fail("/namespaces/team-a/virtualmachinepools/builders", 503, "busy");
    world.scale(3, 2).await;
    let lines: Vec<Value> = recording
        .json()
        .into_iter()
        .filter(|line| line["message"] == "lowered the scale of a pool")
        .collect();
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(line["level"], "INFO");
    for (name, value) in [
        ("uid", "705ab4f5-6393-11e8-b7cc-42010a800002"),
        ("user", "alice"),
        ("namespace", "team-a"),
        ("name", "builders"),
    ] {
        assert_eq!(line[name], value);
    }
    for (name, value) in [("from", 3), ("to", 0), ("omitted", 0)] {
        assert_eq!(line[name], value);
    }
}

#[tokio::test]
async fn lowered_scales_have_a_limited_number_of_lines() {
    let recording = Recording::start();
    let world = World::with_objects();
    for _ in 0..100 {
        world.scale(3, 2).await;
    }
    assert_eq!(recording.json().len(), 60);
}
