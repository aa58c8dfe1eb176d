//! Prometheus scrapes all programs of a playground, in which some failures happen. Every alert and every
//! query of the dashboard must return data.

mod load;
mod queries;
mod server;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::queries::{LiveQuery, list_queries};
use self::server::PrometheusServer;
use super::playground::Playground;
use crate::alerts;
use crate::workspace::{Workspace, run_command};

/// How long every query has time to return data.
const DEADLINE: Duration = Duration::from_mins(5);

/// Series that need a failure or a program that the playground does not have, with the reason.
const ABSENT: [(&str, &str); 10] = [
    (r#"vmpool_pool_blocked{reason="StatusDisputed"}"#, "no second controller writes the status of pools"),
    (r#"vmpool_api_requests_total{code="429"}"#, "the API server throttles no request"),
    ("kube_deployment_", "the playground has no kube-state-metrics"),
    ("vmpool_instancetype_deletion_blocked", "every machine has a copy of its instance type"),
    ("vmpool_pool_preserved_volumes", "no machine leaves a volume behind"),
    ("vmpool_autoscaler_", "the feature gate PoolAutoscaler is off"),
    ("vmpool_pool_provisioning", "the feature gate ProvisioningLimit is off"),
    ("vmpool_pool_image_outdated", "the feature gate ImageRefresh is off"),
    ("vmpool_wrapper_kicks_total", "every clone begins"),
    ("vmpool_wrapper_disk_recreated_total", "no disk of a wrapper is lost"),
];

/// Checks the rules with promtool, and all expressions against live series.
///
/// # Errors
/// A rule is invalid, an alert does not fire as its test says, or an expression returns nothing.
pub(super) fn check_prometheus(workspace: &Workspace) -> Result<()> {
    check_rules(workspace)?;
    let folder = workspace.integration().join("prometheus");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("deleting {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let playground = Playground::start(workspace, &folder.join("playground"))?;
    let server = PrometheusServer::start(workspace, &playground, &folder)?;
    let queries = list_queries(workspace)?;
    let total = queries.len();
    let open = run_queries(workspace, &playground, &server, queries)?;
    println!("{} of {total} expressions returned data within {DEADLINE:?}", total - open.len());
    report_open_queries(&open)
}

/// `promtool check rules` and `promtool test rules`, of the same package as Prometheus.
fn check_rules(workspace: &Workspace) -> Result<()> {
    let rules = workspace.path("charts/vmpool/files/alerts.yaml");
    let mut check = Command::new("promtool");
    run_command(check.args(["check", "rules"]).arg(rules)).context("install the package prometheus")?;
    alerts::run_alert_tests(workspace, Path::new("promtool"))
}

/// Causes failures and load until each query has returned data. Returns those that have not.
fn run_queries(
    workspace: &Workspace,
    playground: &Playground,
    server: &PrometheusServer,
    mut open: Vec<LiveQuery>,
) -> Result<Vec<LiveQuery>> {
    load::cause_failures(workspace, playground)?;
    let begun = Instant::now();
    for round in 0.. {
        load::run_round(workspace, playground, round)?;
        let mut remaining = Vec::new();
        for query in open {
            if !server.returns_data(&query)? {
                remaining.push(query);
            }
        }
        open = remaining;
        let is_done = open.iter().all(|query| find_reason(query).is_some());
        if is_done || begun.elapsed() > DEADLINE {
            break;
        }
    }
    Ok(open)
}

/// Why a query cannot return data here.
fn find_reason(query: &LiveQuery) -> Option<&'static str> {
    ABSENT.iter().find(|(series, _)| query.expression.contains(series)).map(|(_, reason)| *reason)
}

fn report_open_queries(open: &[LiveQuery]) -> Result<()> {
    for query in open {
        let reason = find_reason(query).unwrap_or("NO DATA");
        println!("  {}: {} ({reason})", query.title, query.expression);
    }
    let failed = open.iter().filter(|query| find_reason(query).is_none()).count();
    if failed > 0 {
        bail!("{failed} expressions returned no data");
    }
    Ok(())
}
