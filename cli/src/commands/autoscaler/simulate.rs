//! `autoscaler simulate`: replays a recorded demand. It sends no request.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use vmpool_api::autoscaler::PoolAutoscaler;
use vmpool_autoscaler::read::read_autoscaler;
use vmpool_autoscaler::simulation::{
    ReplayResult, ReplayedDemand, parse_recorded_claims, render_svg, replay_demand,
};

use crate::arguments::{SimulateArguments, SimulationFormat};
use crate::output::print_text;

/// Replays the demand in a file against the autoscaler in another one, and prints the result.
///
/// # Errors
/// A file cannot be read, or the demand is empty or too long.
pub(crate) fn simulate_autoscaler(arguments: &SimulateArguments) -> Result<()> {
    let manifest = read_text(&arguments.filename)?;
    let claims = parse_recorded_claims(&read_text(&arguments.history)?)
        .with_context(|| format!("reading {}", arguments.history.display()))?;
    let demand = ReplayedDemand {
        claims: &claims,
        start_time: Duration::from_secs(arguments.start_seconds),
        from: arguments.from,
        until: arguments.until,
    };
    let result = replay_manifest(&manifest, &demand)
        .with_context(|| format!("simulating {}", arguments.filename.display()))?;
    match arguments.output {
        SimulationFormat::Text => print_text(&describe_replay(&result)),
        SimulationFormat::Json => {
            print_text(&(serde_json::to_string_pretty(&result).context("writing JSON")? + "\n"))
        }
        SimulationFormat::Svg => print_text(&render_svg(&result)),
    }
}

fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

fn replay_manifest(manifest: &str, demand: &ReplayedDemand<'_>) -> Result<ReplayResult> {
    let object: PoolAutoscaler =
        serde_yaml_ng::from_str(manifest).context("the manifest is no PoolAutoscaler")?;
    let settings = read_autoscaler(&object);
    if !settings.problems.is_empty() {
        bail!("the autoscaler has fields that cannot be read: {}", settings.problems.join("; "));
    }
    Ok(replay_demand(&settings, demand)?)
}

fn describe_replay(result: &ReplayResult) -> String {
    let ReplayResult { claims, unanswered, wait_seconds_p50, wait_seconds_p95, .. } = result;
    let ReplayResult { idle_machine_hours, raises, lowerings, most_replicas, .. } = result;
    format!(
        "claims:              {claims}, {unanswered} without a machine at the end\n\
         waiting time:        p50 {wait_seconds_p50}s, p95 {wait_seconds_p95}s\n\
         idle machine-hours:  {idle_machine_hours:.1}\n\
         actions:             {raises} raises, {lowerings} lowerings\n\
         most replicas:       {most_replicas}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "
apiVersion: vmpool.dev/v1alpha1
kind: PoolAutoscaler
metadata: {name: runners}
spec:
  poolRef: {apiVersion: pool.kubevirt.io/v1beta1, kind: VirtualMachinePool, name: runners}
  maxReplicas: 5
";

    const HISTORY: &str = r#"[
        {"at": "2026-11-27T08:10:00Z", "durationSeconds": 60},
        {"at": "2026-11-27T08:00:00Z", "durationSeconds": 60}
    ]"#;

    #[test]
    fn a_history_is_replayed_in_the_order_of_time() {
        let claims = parse_recorded_claims(HISTORY).unwrap();
        let start_time = Duration::from_secs(30);
        let demand = ReplayedDemand { claims: &claims, start_time, from: None, until: None };
        let result = replay_manifest(MANIFEST, &demand).unwrap();
        assert_eq!((result.claims, result.unanswered, result.wait_seconds_p95), (2, 0, 30));
        assert!(describe_replay(&result).contains("p50 30s, p95 30s"), "{}", describe_replay(&result));
    }

    #[test]
    fn an_autoscaler_that_cannot_be_read_is_named() {
        let manifest = MANIFEST.replace("maxReplicas: 5", "maxReplicas: -5");
        let demand = ReplayedDemand { claims: &[], start_time: Duration::ZERO, from: None, until: None };
        let error = replay_manifest(&manifest, &demand).unwrap_err();
        assert!(error.to_string().contains("spec.maxReplicas"), "{error}");
    }
}
