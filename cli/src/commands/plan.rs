//! `plan`: what the controller would do, computed by the controller's own code.

mod steps;

use std::fmt::Write as _;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use kube::api::{Patch, PatchParams};
use serde::Serialize;
use serde_json::{Value, json};
use vmpool_controller::{Preview, preview};
use vmpool_platforms::View;

use crate::arguments::PlanArguments;
use crate::cluster::{Cluster, FIELD_MANAGER};
use crate::explain::{explain, explain_read};
use crate::output::print;
use crate::pool::read;
use crate::table::Tone;
use steps::{Step, steps};

/// What the controller would do.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outlook {
    pool: String,
    namespace: String,
    /// Number of replicas in the stored pool.
    replicas: usize,
    /// Number of replicas that the plan is for.
    planned_replicas: usize,
    /// The steps of the next pass.
    now: Vec<Step>,
    /// The steps that follow as the disruption budget allows.
    later: Vec<Step>,
    /// Why steps are not possible yet.
    blocked: Vec<String>,
}

/// Prints the plan.
///
/// # Errors
/// A request failed, or the planned pool is invalid.
pub(crate) async fn run<P: View>(
    cluster: &Cluster,
    _: P,
    stored: Value,
    arguments: &PlanArguments,
) -> Result<()> {
    let planned = planned::<P>(cluster, &stored, arguments).await?;
    let (object, _) = read::<P>(&planned)?;
    let preview = preview::<P>(&cluster.env, cluster.client.clone(), object).await;
    let preview = preview.map_err(|error| anyhow!(explain_read(&error)))?;
    let (_, before) = read::<P>(&stored)?;
    let outlook = outlook(&preview, before.desired);
    print(arguments.format.output, &text(&outlook), &outlook)
}

/// The pool to plan for.
async fn planned<P: View>(cluster: &Cluster, stored: &Value, arguments: &PlanArguments) -> Result<Value> {
    let mut pool = stored.clone();
    if let Some(replicas) = arguments.replicas {
        if pool["spec"]["replicas"] != replicas {
            pool["spec"]["replicas"] = replicas.into();
            next_generation(&mut pool);
        }
        return Ok(pool);
    }
    let Some(file) = &arguments.filename else { return Ok(pool) };
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let mut manifest: Value =
        serde_yaml_ng::from_str(&text).with_context(|| format!("reading {}", file.display()))?;
    for field in ["apiVersion", "kind"] {
        ensure!(
            manifest[field] == stored[field],
            "{}: {field} is {}, and that of the stored pool is {}",
            file.display(),
            manifest[field],
            stored[field]
        );
    }
    let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
    if name != arguments.pool {
        bail!(
            "{}: the manifest is of pool {name:?}, and the command of pool {:?}",
            file.display(),
            arguments.pool
        );
    }
    // The fields that kubectl get shows, and that no client may set.
    manifest["metadata"] = json!({
        "name": name,
        "uid": stored["metadata"]["uid"],
        "labels": manifest["metadata"]["labels"],
        "annotations": manifest["metadata"]["annotations"],
    });
    if let Some(manifest) = manifest.as_object_mut() {
        manifest.remove("status");
    }
    let params = PatchParams {
        dry_run: true,
        force: true,
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    let applied = cluster.api::<P::Pool>().patch(&arguments.pool, &params, &Patch::Apply(&manifest)).await;
    let attempt = cluster.attempt::<P::Pool>("patch", &arguments.pool);
    let applied = applied.map_err(|error| explain(&attempt, &error))?;
    Ok(serde_json::to_value(&applied)?)
}

/// A change of the spec increases the generation.
fn next_generation(pool: &mut Value) {
    let generation = pool["metadata"]["generation"].as_i64().unwrap_or_default();
    pool["metadata"]["generation"] = (generation + 1).into();
}

fn outlook(preview: &Preview, replicas: usize) -> Outlook {
    let pool = &preview.pool;
    let now = steps(preview, &preview.next);
    let mut later = steps(preview, &preview.later);
    later.retain(|step| !now.contains(step));
    let mut blocked = pool.validation_errors.clone();
    blocked.extend(preview.next.failure.iter().map(|failure| failure.message.clone()));
    blocked.extend(preview.next.blockers.iter().map(ToString::to_string));
    if pool.paused {
        blocked.push("the pool is paused: the controller creates, deletes and updates no machine".to_owned());
    } else if pool.rollout_stands_still() {
        blocked.push("the rollout is paused or held: the controller updates no further machine".to_owned());
    }
    blocked.dedup();
    Outlook {
        pool: pool.id.name.to_string(),
        namespace: pool.namespace.to_string(),
        replicas,
        planned_replicas: pool.desired,
        now,
        later,
        blocked,
    }
}

fn text(outlook: &Outlook) -> String {
    let Outlook { pool, namespace, replicas, planned_replicas, now, later, blocked } = outlook;
    let change = if replicas == planned_replicas {
        format!("{replicas} replicas")
    } else {
        format!("{replicas} -> {planned_replicas} replicas")
    };
    let mut text =
        format!("{} in namespace {namespace}: {change}\n", Tone::Heading.paint(&format!("Pool {pool}")));
    if now.is_empty() && later.is_empty() {
        text.push_str("The controller would change nothing.\n");
    }
    let mut number = 1;
    for (heading, steps) in [("Now:", now), ("Later, as the disruption budget allows, in this order:", later)]
    {
        if steps.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{}", Tone::Heading.paint(heading));
        for step in steps {
            let _ = writeln!(text, "{number:>4}. {}", step.text());
            number += 1;
        }
    }
    if !blocked.is_empty() {
        let _ = writeln!(text, "{}", Tone::Heading.paint("Blocked:"));
        for why in blocked {
            let _ = writeln!(text, "  - {}", Tone::Notice.paint(why));
        }
    }
    text
}

#[cfg(test)]
mod tests;
