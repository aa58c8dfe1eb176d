//! The days that the guides compare: the figures in the docs are those of these replays.

use jiff::Timestamp;

use super::hpa::HorizontalPodAutoscaler;
use super::*;
use crate::read::read_autoscaler;
use crate::simulation::{ReplayedSecond, ReplicaPolicy, replay_policy};

/// A pool whose replicas never change.
struct FixedPool(u32);

impl ReplicaPolicy for FixedPool {
    fn decide(&mut self, seen: &ReplayedSecond) -> Option<u32> {
        (seen.replicas != self.0).then_some(self.0)
    }
}

/// A day in Berlin, with its claims.
struct Day {
    claims: Vec<RecordedClaim>,
    start_time: Duration,
}

impl Day {
    fn read(history: &str, start_time: Duration) -> Self {
        Self { claims: parse_recorded_claims(history).unwrap(), start_time }
    }

    fn demand(&self) -> ReplayedDemand<'_> {
        let at = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        let (from, until) = (at("2026-11-25T23:00:00Z"), at("2026-11-26T23:00:00Z"));
        ReplayedDemand { claims: &self.claims, start_time: self.start_time, from, until }
    }

    fn autoscaler(&self, name: &str, manifest: &str) -> String {
        let settings = read_autoscaler(&serde_yaml_ng::from_str(manifest).unwrap());
        assert_eq!(settings.problems, [""; 0]);
        row(name, &crate::simulation::replay_demand(&settings, &self.demand()).unwrap())
    }

    fn policy(&self, name: &str, mut policy: impl ReplicaPolicy) -> String {
        row(name, &replay_policy(&mut policy, &self.demand(), Duration::ZERO).unwrap())
    }
}

/// A row of a table in the docs.
fn row(name: &str, result: &ReplayResult) -> String {
    let ReplayResult { wait_seconds_p50, wait_seconds_p95, idle_machine_hours, most_replicas, .. } = result;
    let changes = result.raises + result.lowerings;
    format!(
        "| {name} | {wait_seconds_p50} s | {wait_seconds_p95} s | {idle_machine_hours:.0} | {most_replicas} | {changes} |"
    )
}

/// The page has exactly these rows.
fn check_page(page: &str, rows: &[String]) {
    println!("{}", rows.join("\n"));
    for row in rows {
        assert!(page.lines().any(|line| line.trim() == row), "the page does not have the row\n{row}");
    }
    let shown = page.lines().filter(|line| line.trim_start().starts_with("| ") && line.contains(" s | "));
    assert_eq!(shown.count(), rows.len(), "the page has other rows, too");
}

macro_rules! example {
    ($name:literal) => {
        include_str!(concat!("../../../../../docs/examples/pool-autoscaler/", $name))
    };
}

#[test]
fn the_guide_of_ci_runners_has_the_figures_of_its_day() {
    let day = Day::read(example!("runners-day.json"), Duration::from_secs(90));
    let rows = [
        day.autoscaler("PoolAutoscaler from zero", example!("from-zero.yaml")),
        day.autoscaler("PoolAutoscaler with free machines", example!("runners.yaml")),
        day.policy("HorizontalPodAutoscaler, CPU 70%, 1 to 20", HorizontalPodAutoscaler::new(1, 20, 0.7)),
        day.policy("6 machines", FixedPool(6)),
        day.policy("15 machines", FixedPool(15)),
    ];
    check_page(include_str!("../../../../../docs/ci-runners.md"), &rows);
}

#[test]
fn the_guide_of_desktops_has_the_figures_of_its_day() {
    let day = Day::read(example!("desktops-day.json"), Duration::from_mins(3));
    let rows = [
        day.autoscaler("PoolAutoscaler with a schedule", example!("desktops.yaml")),
        day.autoscaler("PoolAutoscaler without it", &without_schedules(example!("desktops.yaml"))),
        day.policy("HorizontalPodAutoscaler, CPU 70%, 1 to 60", HorizontalPodAutoscaler::new(1, 60, 0.7)),
        day.policy("40 machines", FixedPool(40)),
    ];
    check_page(include_str!("../../../../../docs/desktops.md"), &rows);
}

/// The manifest without its schedules, which are its last field.
fn without_schedules(manifest: &str) -> String {
    manifest.split("  schedules:\n").next().unwrap().to_owned()
}
