use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use vmpool_runtime::metrics::MetricKind;
use vmpool_runtime::testing::{ManualClock, test_env};

use super::label_values::FailureReasonLabel;
use super::{ControllerMetrics, LeadershipChange, label_values, reference};
use crate::settings::KubevirtMetrics;
use crate::testing::{Fate, LeaderWorld, Refusal, Verb, pool_manifest};

/// The value of a series of the page, given by its name and labels as printed.
fn value(page: &str, series: &str) -> u64 {
    text(page, series).parse().unwrap()
}

/// The value of a series in seconds.
fn seconds(page: &str, series: &str) -> f64 {
    text(page, series).parse().unwrap()
}

fn text<'a>(page: &'a str, series: &str) -> &'a str {
    let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {series} in\n{page}"))
}

/// Names and labels of all series.
fn series(page: &str) -> BTreeSet<String> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

#[test]
fn every_metric_has_a_name_that_says_kind_and_unit() {
    let metrics = ControllerMetrics::new(&test_env(&ManualClock::new(), 0));
    let mut names = BTreeSet::new();
    for metric in metrics.catalogue() {
        let name = metric.name;
        assert!(names.insert(name), "{name} is registered twice");
        let prefixes = ["vmpool_", "process_", "kubevirt_vmpool_"];
        assert!(prefixes.iter().any(|prefix| name.starts_with(prefix)), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == MetricKind::Counter, "{name}");
        let stem = name.trim_end_matches("_total");
        for unit in ["seconds", "bytes"] {
            assert_eq!(stem.ends_with(&format!("_{unit}")), metric.unit == unit, "{name} in {}", metric.unit);
        }
        assert!(!metric.help.ends_with('.') && metric.help.starts_with(char::is_uppercase), "{name}");
        assert!(
            reference::metric_section_title(metric).is_some(),
            "{name} is in no section of the reference"
        );
    }
}

#[test]
fn every_metric_is_on_the_page_and_in_the_reference() {
    let metrics = ControllerMetrics::new(&test_env(&ManualClock::new(), 0));
    let (page, reference) = (metrics.page(), reference::controller_metrics_reference());
    for metric in metrics.catalogue() {
        // Requests have no series before the first one, pools, images and wrappers none before a pass, and
        // platforms none on a standby.
        let stem = metric.name.trim_end_matches(metric.kind.suffix());
        let unknown_beforehand = [
            "kubevirt_vmpool_",
            "vmpool_api_",
            "vmpool_pool_",
            "vmpool_platform_",
            "vmpool_vmdi_",
            "vmpool_wrapper_",
            "vmpool_instancetype_deletion_",
            "vmpool_autoscaler_",
        ]
        .iter()
        .any(|start| metric.name.starts_with(start));
        assert!(unknown_beforehand || page.contains(&format!("# TYPE {stem} ")), "{stem}\n{page}");
        assert!(reference.contains(&format!("| `{}` | {} |", metric.name, metric.kind)), "{}", metric.name);
    }
}

#[test]
fn series_with_known_labels_exist_from_the_start() {
    let page = ControllerMetrics::new(&test_env(&ManualClock::new(), 0)).page();
    for series in [
        r#"vmpool_writes_total{kind="create_machine",outcome="fenced"}"#,
        r#"vmpool_failures_total{reason="DiskFailure"}"#,
        r#"vmpool_passes_total{result="panicked"}"#,
        r#"vmpool_workqueue_adds_total{outcome="merged"}"#,
        r#"vmpool_pools{state="failing"}"#,
        r#"vmpool_watch_restarts_total{resource="disks"}"#,
        r#"vmpool_pass_stage_duration_seconds_count{stage="apply"}"#,
        "vmpool_leader",
    ] {
        assert_eq!(value(&page, series), 0, "{series}");
    }
    // Nor does a controller with the feature gate off, which never leads.
    assert!(!page.contains("vmpool_pool_"), "without a leader there is no series of a pool:\n{page}");
}

#[test]
fn the_failure_labels_are_the_reasons_of_the_condition() {
    // The exhaustive match makes the compiler report a missing reason.
    use vmpool_engine::failure::FailureReason as R;
    let words: BTreeSet<&str> = FailureReasonLabel::ALL.iter().map(|failed| failed.0.as_str()).collect();
    for reason in [
        R::FailedCreate,
        R::MachineLost,
        R::DiskLost,
        R::FailedDelete,
        R::DiskFailure,
        R::FailedRepair,
        R::FailedRevisionPruning,
        R::FailedTemplateUpdate,
        R::FailedRead,
        R::StatusDisputed,
    ] {
        match reason {
            R::FailedCreate
            | R::MachineLost
            | R::DiskLost
            | R::FailedDelete
            | R::DiskFailure
            | R::FailedRepair
            | R::FailedRevisionPruning
            | R::FailedTemplateUpdate
            | R::FailedRead
            | R::StatusDisputed => {}
        }
        assert!(words.contains(reason.as_str()));
    }
}

#[test]
fn changes_of_leadership_are_counted() {
    let metrics = ControllerMetrics::new(&test_env(&ManualClock::new(), 0));
    metrics.leadership_changed(LeadershipChange::Acquired);
    metrics.leadership_changed(LeadershipChange::Lost);
    metrics.leadership_changed(LeadershipChange::Acquired);
    let page = metrics.page();
    let counted = |event| value(&page, &format!("vmpool_lease_transitions_total{{event=\"{event}\"}}"));
    assert_eq!([counted("acquired"), counted("released"), counted("lost")], [2, 0, 1]);
}

#[tokio::test]
async fn a_settled_pool_has_metrics_and_causes_no_further_writes() {
    let world = LeaderWorld::with_pool(3).await;
    let page = world.metrics.page();
    let writes = |page: &str, kind: &str| {
        value(page, &format!("vmpool_writes_total{{kind=\"{kind}\",outcome=\"done\"}}"))
    };
    assert_eq!([writes(&page, "create_machine"), writes(&page, "create_disk")], [3, 3]);
    assert_eq!(writes(&page, "patch_pool"), 1);
    for (name, count) in [
        (r#"vmpool_api_requests_total{verb="create",resource="machines",code="201"}"#, 3),
        (r#"vmpool_api_requests_total{verb="create",resource="disks",code="201"}"#, 3),
        (r#"vmpool_api_requests_total{verb="list",resource="machines",code="200"}"#, 1),
        (r#"vmpool_api_requests_total{verb="watch",resource="pools",code="200"}"#, 1),
        (r#"vmpool_api_request_duration_seconds_count{verb="create",resource="machines"}"#, 3),
        (r#"vmpool_watch_lists_total{resource="disks"}"#, 1),
        (r#"vmpool_pools{state="ready"}"#, 1),
        (r#"vmpool_members{state="desired"}"#, 3),
        (r#"vmpool_members{state="ready"}"#, 3),
        (r#"vmpool_members{state="terminating"}"#, 0),
        (r#"vmpool_ledger_entries{resource="machines"}"#, 0),
        (r#"vmpool_cache_objects{resource="machines"}"#, 3),
        ("vmpool_workqueue_delayed", 1),
        ("vmpool_workqueue_depth", 0),
    ] {
        assert_eq!(value(&page, name), count, "{name}");
    }
    assert!(value(&page, r#"vmpool_passes_total{result="acted"}"#) >= 1);

    world.advance(Duration::from_mins(11)).await;
    let later = world.metrics.page();
    let requests = page.lines().filter(|line| line.starts_with("vmpool_api_requests_total"));
    let writes = page.lines().filter(|line| line.starts_with("vmpool_writes_total"));
    for line in requests.filter(|line| !line.contains(r#"verb="watch""#)).chain(writes) {
        assert!(later.lines().any(|other| other == line), "{line} changed in a settled world");
    }
    for resource in ["pools", "machines", "disks", "attachments"] {
        let name = format!(r#"vmpool_api_requests_total{{verb="watch",resource="{resource}",code="200"}}"#);
        assert_eq!(value(&later, &name), 1 + 11 * 60 / 45, "a watch of {resource} lasts 45 seconds");
    }
    let idle = |page: &str| value(page, r#"vmpool_passes_total{result="idle"}"#);
    assert!(idle(&later) > idle(&page), "no pool was evaluated");
}

#[tokio::test]
async fn without_metrics_of_single_pools_the_number_of_series_is_constant() {
    async fn series_with(pools: usize) -> BTreeSet<String> {
        let mut world = LeaderWorld::new();
        world.settings.max_pool_series = 0;
        for number in 0..pools {
            world.server.create("virtualmachinepools", pool_manifest(&format!("web{number}"), 2));
        }
        world.lead();
        world.calm().await;
        world.run_machines();
        world.calm().await;
        let page = world.metrics.page();
        assert_eq!(
            value(&page, r#"vmpool_members{state="ready"}"#),
            value(&page, r#"vmpool_members{state="desired"}"#)
        );
        assert_eq!(value(&page, r#"vmpool_pools{state="ready"}"#), pools as u64);
        assert!(!page.contains("web"), "a label names a pool:\n{page}");
        series(&page)
    }
    let (few, many) = (series_with(1).await, series_with(50).await);
    let new: Vec<_> = many.difference(&few).collect();
    assert!(new.is_empty(), "fifty pools have more series than one: {new:#?}");
    assert!(few.len() < 750, "{} series", few.len());
}

#[tokio::test]
async fn pools_beyond_the_limit_are_summed_in_one_series() {
    let mut world = LeaderWorld::new();
    world.settings.max_pool_series = 2;
    world.settings.kubevirt_metrics = KubevirtMetrics::Always;
    for number in 0..5 {
        world.server.create("virtualmachinepools", pool_manifest(&format!("web{number}"), number + 1));
    }
    world.lead();
    world.calm().await;
    let page = world.metrics.page();
    let machines = |namespace: &str, pool: &str, state: &str| {
        let platform = if pool == "(others)" { pool } else { "dvp" };
        let labels =
            format!(r#"namespace="{namespace}",pool="{pool}",platform="{platform}",state="{state}""#);
        value(&page, &format!("vmpool_pool_machines{{{labels}}}"))
    };
    assert_eq!([machines("team-a", "web0", "desired"), machines("team-a", "web1", "replicas")], [1, 2]);
    assert_eq!(machines("(others)", "(others)", "desired"), 3 + 4 + 5);
    assert_eq!(value(&page, r#"vmpool_pool_free_disks{namespace="team-a",pool="web0",platform="dvp"}"#), 0);
    assert!(!page.contains("web2"), "{page}");
    assert!(!page.contains("vmpool_pool_blocked{"), "no pool is blocked:\n{page}");
    assert!(!page.contains("kubevirt_vmpool_"), "only pools of KubeVirt have these names:\n{page}");

    for name in ["web0", "web2", "web3"] {
        world.server.delete("virtualmachinepools", name);
    }
    world.calm().await;
    let page = world.metrics.page();
    assert!(page.contains("web1") && page.contains("web4"), "{page}");
    assert!(!page.contains("web0") && !page.contains("(others)"), "{page}");
}

#[tokio::test]
async fn a_blocked_pool_has_a_series_with_its_reason() {
    let world = LeaderWorld::with_pool(1).await;
    world.server.create("virtualmachinepools", pool_manifest("other", 1));
    world.server.intercept(|call| {
        let refused = call.is(Verb::Create, "virtualmachines") && call.name.starts_with("web-");
        if refused { Fate::Refuse(Refusal::new(403, "Forbidden", "exceeded quota")) } else { Fate::Serve }
    });
    world.scale(2);
    world.calm().await;
    let page = world.metrics.page();
    assert_eq!(
        value(
            &page,
            r#"vmpool_pool_blocked{namespace="team-a",pool="web",platform="dvp",reason="FailedCreate"}"#
        ),
        1
    );
    assert!(!page.contains(r#"pool="other",platform="dvp",reason"#), "{page}");
    world.server.behave();
    world.advance(Duration::from_secs(65)).await;
    assert!(!world.metrics.page().contains("vmpool_pool_blocked{"), "{}", world.metrics.page());
}

#[tokio::test]
async fn a_refused_create_shows_in_the_pool_the_writes_and_the_failures() {
    let world = LeaderWorld::with_pool(1).await;
    let answer = Refusal::new(403, "Forbidden", "exceeded quota");
    world.server.intercept(move |call| {
        if call.is(Verb::Create, "virtualmachines") { Fate::Refuse(answer.clone()) } else { Fate::Serve }
    });
    world.scale(2);
    world.calm().await;
    let page = world.metrics.page();
    let refused = value(&page, r#"vmpool_writes_total{kind="create_machine",outcome="refused"}"#);
    assert!(refused >= 2, "it is tried again");
    assert_eq!(value(&page, r#"vmpool_failures_total{reason="FailedCreate"}"#), refused);
    assert_eq!(value(&page, r#"vmpool_passes_total{result="failed"}"#), refused);
    assert_eq!(value(&page, r#"vmpool_pools{state="failing"}"#), 1);
    assert_eq!(
        value(&page, r#"vmpool_api_requests_total{verb="create",resource="machines",code="403"}"#),
        refused
    );
    assert!(value(&page, "vmpool_workqueue_requeues_total") >= refused);
}

#[tokio::test]
async fn a_write_that_the_cache_does_not_show_ages_and_is_settled_live() {
    let world = LeaderWorld::with_pool(1).await;
    world.server.hold("virtualmachines");
    world.scale(2);
    world.calm().await;
    let page = world.metrics.page();
    assert_eq!(value(&page, r#"vmpool_ledger_entries{resource="machines"}"#), 1);
    let age = seconds(&page, "vmpool_ledger_oldest_entry_age_seconds");
    assert!((1.0..=6.0).contains(&age), "{age}");
    // A pass runs when an object of the pool changes.
    world.advance(Duration::from_secs(31)).await;
    world
        .server
        .edit("virtualmachinepools", "web", |pool| pool["spec"]["scaleDownPolicy"] = json!("OldestFirst"));
    world.calm().await;
    let page = world.metrics.page();
    assert_eq!(value(&page, r#"vmpool_ledger_overdue_total{resource="machines"}"#), 1);
    world.server.release();
    world.calm().await;
    let page = world.metrics.page();
    assert_eq!(value(&page, r#"vmpool_ledger_entries{resource="machines"}"#), 0);
    assert!(seconds(&page, "vmpool_ledger_oldest_entry_age_seconds") < 0.001);
}

#[tokio::test]
async fn a_leader_that_is_gone_leaves_no_pools_behind() {
    let mut world = LeaderWorld::with_pool(2).await;
    assert_eq!(value(&world.metrics.page(), r#"vmpool_pools{state="ready"}"#), 1);
    world.kill_leader().await;
    let page = world.metrics.page();
    assert!(!page.contains("vmpool_pool_machines{"), "only the leader has series of single pools:\n{page}");
    for name in [
        r#"vmpool_pools{state="ready"}"#,
        r#"vmpool_members{state="ready"}"#,
        r#"vmpool_cache_objects{resource="machines"}"#,
        "vmpool_workqueue_delayed",
    ] {
        assert_eq!(value(&page, name), 0, "{name}");
    }
    let created = value(&page, r#"vmpool_writes_total{kind="create_machine",outcome="done"}"#);
    assert_eq!(created, 2, "counters stay");
}

#[test]
fn each_condition_about_the_template_has_its_type_as_the_label() {
    for problem in label_values::TemplateProblem::ALL {
        assert_eq!(problem.as_str(), problem.condition().as_str());
    }
}
