//! `plan`: what the controller would do, computed by the controller's own code.

mod manifest;
mod skipped;
mod steps;

use std::fmt::Write as _;

use anyhow::{Context as _, Result, anyhow};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde::Serialize;
use serde_json::Value;
use vmpool_controller::{Preview, preview_pool};
use vmpool_engine::model::Restarts;
use vmpool_engine::{Plan, PoolAction};
use vmpool_platforms::ClientPlatform;

use crate::arguments::PlanArguments;
use crate::cluster::UserClusterClient;
use crate::commands::revisions;
use crate::explain::{explain_read_error, explain_request_error};
use crate::output::print_output;
use crate::pool::decode_pool;
use crate::table::Tone;
use crate::visible::escape_to_one_line;
use manifest::{ApplyMethod, CLIENT_SIDE_MANAGER, SERVER_SIDE_MANAGER, client_side_patch, read_manifest};
use skipped::list_skipped;
use steps::{PlannedStep, TemplateEffects, list_steps};

/// What the controller would do.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanOutlook {
    pool: String,
    namespace: String,
    /// Number of replicas in the stored pool.
    replicas: usize,
    /// Number of replicas that the plan is for.
    planned_replicas: usize,
    /// How the plan assumes that the manifest is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_by: Option<String>,
    /// The steps of the next pass.
    now: Vec<PlannedStep>,
    /// The steps that follow as the disruption budget allows.
    later: Vec<PlannedStep>,
    /// Why the scale-down deletes other machines than its order says, or fewer than are surplus.
    skipped: Vec<String>,
    /// Why steps are not possible yet.
    blocked: Vec<String>,
}

/// Prints the plan.
///
/// # Errors
/// A request failed, or the planned pool is invalid.
pub(crate) async fn print_plan<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    stored: Value,
    arguments: &PlanArguments,
) -> Result<()> {
    let outlook = compute_outlook::<P>(cluster, &stored, arguments).await?;
    print_output(&arguments.format.output, &render_outlook(&outlook), &outlook)
}

/// Computes the plan.
///
/// # Errors
/// A request failed, or the planned pool is invalid.
pub(crate) async fn compute_outlook<P: ClientPlatform>(
    cluster: &UserClusterClient,
    stored: &Value,
    arguments: &PlanArguments,
) -> Result<PlanOutlook> {
    let (planned, method) = planned_pool::<P>(cluster, stored, arguments).await?;
    let (object, facts) = decode_pool::<P>(&planned)?;
    let preview = preview_pool::<P>(&cluster.env, cluster.client.clone(), object.clone()).await;
    let preview = preview.map_err(|error| anyhow!(explain_read_error(&error)))?;
    let (_, before) = decode_pool::<P>(stored)?;
    let updates = |plan: &Plan| plan.actions.iter().any(|action| matches!(action, PoolAction::Update { .. }));
    // Of other platforms, the controller knows which update takes a restart.
    let is_unknown = preview.pool.rollout.restarts == Restarts::ByPlatform;
    let effects = if is_unknown && (updates(&preview.next) || updates(&preview.later)) {
        revisions::effects_of_change::<P>(cluster, &object, &facts).await?
    } else {
        TemplateEffects::default()
    };
    let mut outlook = build_outlook(&preview, before.desired, &effects, cluster.env.now());
    outlook.applied_by = method.map(|method| method.description());
    Ok(outlook)
}

/// The pool to plan for, and how the manifest of the user is applied to it.
async fn planned_pool<P: ClientPlatform>(
    cluster: &UserClusterClient,
    stored: &Value,
    arguments: &PlanArguments,
) -> Result<(Value, Option<ApplyMethod>)> {
    let mut pool = stored.clone();
    if let Some(replicas) = arguments.replicas {
        if pool["spec"]["replicas"] != replicas {
            pool["spec"]["replicas"] = replicas.into();
            increment_generation(&mut pool);
        }
        return Ok((pool, None));
    }
    let Some(file) = &arguments.filename else { return Ok((pool, None)) };
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let manifest = read_manifest(&text, stored).with_context(|| format!("reading {}", file.display()))?;
    let manager = arguments.field_manager.as_deref();
    let method = ApplyMethod::of_pool(stored, arguments.server_side, manager);
    let applied = dry_run::<P>(cluster, stored, &manifest, &method).await?;
    Ok((applied, Some(method)))
}

/// The pool after the user's client has applied the manifest. The API server validates it and stores nothing.
async fn dry_run<P: ClientPlatform>(
    cluster: &UserClusterClient,
    stored: &Value,
    manifest: &Value,
    method: &ApplyMethod,
) -> Result<Value> {
    let name = stored["metadata"]["name"].as_str().unwrap_or_default();
    let api = cluster.api::<P::Pool>();
    let params = |manager: &str, force| PatchParams {
        dry_run: true,
        force,
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    let applied = match method {
        ApplyMethod::ClientSide => {
            let patch = client_side_patch(manifest, stored)?;
            api.patch(name, &params(CLIENT_SIDE_MANAGER, false), &Patch::Merge(&patch)).await
        }
        ApplyMethod::ServerSide { manager } => {
            let mut manifest = manifest.clone();
            manifest["metadata"]["uid"] = stored["metadata"]["uid"].clone();
            // kubectl reports fields of other managers as conflicts, and delivery tools overwrite them.
            let force = manager != SERVER_SIDE_MANAGER;
            api.patch(name, &params(manager, force), &Patch::Apply(&manifest)).await
        }
    };
    let attempt = cluster.attempt::<P::Pool>("patch", name);
    let applied = applied.map_err(|error| explain_request_error(&attempt, &error))?;
    Ok(serde_json::to_value(&applied)?)
}

/// A change of the spec increases the generation.
fn increment_generation(pool: &mut Value) {
    let generation = pool["metadata"]["generation"].as_i64().unwrap_or_default();
    pool["metadata"]["generation"] = (generation + 1).into();
}

fn build_outlook(
    preview: &Preview,
    replicas: usize,
    effects: &TemplateEffects,
    now: Timestamp,
) -> PlanOutlook {
    let skipped = list_skipped(preview, now);
    let pool = &preview.pool;
    let now = list_steps(preview, &preview.next, effects);
    let mut later = list_steps(preview, &preview.later, effects);
    // Creates of machines with random names are equal.
    for step in &now {
        if let Some(place) = later.iter().position(|known| known == step) {
            later.remove(place);
        }
    }
    let mut blocked = pool.validation_errors.clone();
    blocked.extend(preview.next.failure.iter().map(|failure| failure.message.clone()));
    blocked.extend(preview.next.blockers.iter().map(ToString::to_string));
    if pool.paused {
        blocked.push("the pool is paused: the controller creates, deletes and updates no machine".to_owned());
    } else if pool.rollout_stands_still() {
        blocked.push("the rollout is paused or held: the controller updates no further machine".to_owned());
    }
    blocked.dedup();
    PlanOutlook {
        pool: pool.id.name.to_string(),
        namespace: pool.namespace.to_string(),
        replicas,
        planned_replicas: pool.desired,
        applied_by: None,
        now,
        later,
        skipped,
        blocked,
    }
}

fn render_outlook(outlook: &PlanOutlook) -> String {
    let PlanOutlook { pool, namespace, replicas, planned_replicas, applied_by, now, later, skipped, blocked } =
        outlook;
    let change = if replicas == planned_replicas {
        format!("{replicas} replicas")
    } else {
        format!("{replicas} -> {planned_replicas} replicas")
    };
    let mut text =
        format!("{} in namespace {namespace}: {change}\n", Tone::Heading.paint(&format!("Pool {pool}")));
    if let Some(method) = applied_by {
        let _ = writeln!(text, "After {}:", escape_to_one_line(method));
    }
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
    for (heading, reasons) in [("Skipped:", skipped), ("Blocked:", blocked)] {
        if reasons.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{}", Tone::Heading.paint(heading));
        for why in reasons {
            let _ = writeln!(text, "  - {}", Tone::Notice.paint(why));
        }
    }
    text
}

#[cfg(test)]
mod tests;
