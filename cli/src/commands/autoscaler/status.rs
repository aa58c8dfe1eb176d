//! `autoscaler status`: what an autoscaler does, and why.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail};
use vmpool_api::autoscaler::{PoolAutoscaler, PoolAutoscalerStatus};
use vmpool_autoscaler::demand::FreeMachines;
use vmpool_autoscaler::read::read_autoscaler;

use crate::arguments::AutoscalerStatusArguments;
use crate::cluster::UserClusterClient;
use crate::output::print_output;

/// Prints the status of an autoscaler.
///
/// # Errors
/// The autoscaler does not exist, or cannot be read.
pub(super) async fn print_autoscaler_status(
    cluster: &UserClusterClient,
    arguments: &AutoscalerStatusArguments,
) -> Result<()> {
    let Some(object) = cluster.get::<PoolAutoscaler>(&arguments.autoscaler).await? else {
        bail!(
            "autoscaler {} not found in namespace {}: `kubectl get poolautoscalers` lists them",
            arguments.autoscaler,
            cluster.namespace
        );
    };
    let autoscaler = serde_json::from_value(object.clone()).context("reading the autoscaler")?;
    print_output(&arguments.format.output, &describe_autoscaler(&autoscaler, cluster.env.now()), &object)
}

/// The autoscaler for users: the numbers, the limits that apply now, and the conditions.
fn describe_autoscaler(autoscaler: &PoolAutoscaler, now: jiff::Timestamp) -> String {
    let settings = read_autoscaler(autoscaler);
    let effect = settings.limits_at(now);
    let limits = effect.limits;
    let free = match limits.free {
        FreeMachines::Machines(machines) => machines.to_string(),
        FreeMachines::Percent(percent) => format!("{percent}% of the busy ones"),
    };
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<14}{value}");
    };
    line("pool:", settings.pool.name.clone());
    line("limits:", format!("{} to {} machines, {free} free", limits.min, limits.max));
    line("schedule:", effect.schedule.unwrap_or_else(|| "none is active".to_owned()));
    let changes = settings.next_change(now).map(|next| next.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    line("next change:", changes.unwrap_or_else(|| "no schedule".to_owned()));
    let status = autoscaler.status.clone().unwrap_or_default();
    line("machines:", describe_numbers(&status));
    if let (Some(time), Some(reason)) = (&status.last_scale_time, &status.last_scale_reason) {
        line("last change:", format!("{time}: {reason}"));
    }
    for condition in status.conditions.unwrap_or_default() {
        let shown = format!("{} ({}) {}", condition.status, condition.reason, condition.message);
        line(&format!("{}:", condition.type_), shown);
    }
    text
}

fn describe_numbers(status: &PoolAutoscalerStatus) -> String {
    let number = |number: Option<i32>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
    format!(
        "{} replicas, {} needed, {} busy, {} free, {} waiting, {} provisioning",
        number(status.replicas),
        number(status.desired_replicas),
        number(status.busy),
        number(status.free),
        number(status.waiting),
        number(status.provisioning),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_explains_the_limits_that_apply_now() {
        let autoscaler: PoolAutoscaler = serde_json::from_value(json!({
            "apiVersion": "vmpool.dev/v1alpha1", "kind": "PoolAutoscaler", "metadata": { "name": "a" },
            "spec": {
                "poolRef": {
                    "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "runners",
                },
                "maxReplicas": 10, "free": "20%",
                "schedules": [{ "name": "day", "start": "0 8 * * *", "duration": "8h", "minReplicas": 4 }],
            },
            "status": { "replicas": 7, "busy": 4, "waiting": 1 },
        }))
        .unwrap();
        let text = describe_autoscaler(&autoscaler, "2026-11-27T09:00:00Z".parse().unwrap());
        for expected in [
            "4 to 10 machines, 20% of the busy ones free",
            "day",
            "2026-11-27T16:00:00Z",
            "7 replicas, ? needed, 4 busy, ? free, 1 waiting",
        ] {
            assert!(text.contains(expected), "{expected} is missing:\n{text}");
        }
    }
}
