use vmpool_runtime::metrics::Values;

use super::*;

#[test]
fn the_page_shows_counted_events() {
    let metrics = ApiServerMetrics::new(|_| ());
    metrics.request(Verb::Create, Resource::Removal, StatusCode::CREATED, Duration::from_millis(20));
    metrics.removal(Outcome::Removed, 3, Duration::from_millis(20));
    metrics.authorization(CheckSource::Cache);
    metrics.batch(5);
    metrics.pool_conflict();
    let page = metrics.page();
    for line in [
        r#"vmpool_apiserver_requests_total{verb="create",resource="virtualmachinepools/scaledownwith",code="201"} 1"#,
        r#"vmpool_apiserver_request_duration_seconds_count{verb="create",resource="virtualmachinepools/scaledownwith"} 1"#,
        r#"vmpool_removals_total{result="removed"} 1"#,
        // A series without events.
        r#"vmpool_removals_total{result="failed"} 0"#,
        "vmpool_removal_targets_total 3",
        r#"vmpool_authorization_checks_total{source="cache"} 1"#,
        "vmpool_removal_turn_requests_sum 5",
        "vmpool_removal_conflicts_total 1",
        "vmpool_removal_duration_seconds_count 1",
    ] {
        assert!(page.contains(line), "{line} is not on the page:\n{page}");
    }
}

#[test]
fn expansions_are_counted_by_resource_and_code() {
    let metrics = ApiServerMetrics::new(|_| ());
    let took = Duration::from_millis(20);
    metrics.request(Verb::Get, Resource::ExpandedMachine, StatusCode::OK, took);
    metrics.request(Verb::Update, Resource::ExpandMachine, StatusCode::BAD_REQUEST, took);
    metrics.request(Verb::Get, Resource::Pools, StatusCode::OK, took);
    let page = metrics.page();
    for line in [
        r#"vmpool_expand_requests_total{resource="virtualmachines/expand-spec",code="200"} 1"#,
        r#"vmpool_expand_requests_total{resource="expand-vm-spec",code="400"} 1"#,
        // A series without events.
        r#"vmpool_expand_requests_total{resource="expand-pool-spec",code="200"} 0"#,
        r#"vmpool_expand_request_duration_seconds_count{resource="expand-vm-spec"} 1"#,
    ] {
        assert!(page.contains(line), "{line} is not on the page:\n{page}");
    }
    let counted = |line: &&str| line.starts_with("vmpool_expand_requests_total{") && line.ends_with(" 1");
    assert_eq!(page.lines().filter(counted).count(), 2, "other requests are not counted");
}

#[test]
fn every_metric_and_label_has_a_description() {
    let metrics = ApiServerMetrics::new(|_| ());
    for metric in metrics.catalogue() {
        assert!(metric.name.starts_with("vmpool_") || metric.name.starts_with("process_"), "{}", metric.name);
        assert!(!metric.help.is_empty() && !metric.help.ends_with('.'), "{}", metric.name);
        for label in &metric.labels {
            let bounded = matches!(&label.values, Values::Fixed(values) if !values.is_empty());
            assert!(bounded || ["code", "version"].contains(&label.name), "{} {}", metric.name, label.name);
        }
    }
}

#[test]
fn metrics_of_other_modules_are_on_the_same_page() {
    let metrics = ApiServerMetrics::new(|registry| {
        registry.register("vmpool_example_total", "examples", "An example", Counter::<u64>::default());
    });
    assert!(metrics.page().contains("vmpool_example_total 0"));
}

#[test]
fn the_documentation_has_every_metric() {
    let (page, part) = (include_str!("../../../docs/metrics.md"), reference::metrics_reference());
    assert!(page.contains(&part), "docs/metrics.md is out of date: run `cargo xtask generate`");
    // The controller's part contains the metrics that all programs have.
    for metric in reference::all_metrics().catalogue() {
        assert!(page.contains(&format!("| `{}` | {} |", metric.name, metric.kind)), "{}", metric.name);
    }
}
