//! The writes of an autoscaler to its pool.

use std::sync::Arc;
use std::time::Duration;

use kube::api::Patch;
use serde_json::{Value, json};
use vmpool_api::ObjectKey;
use vmpool_api::subresources::{MAX_REMOVAL_TARGETS, PoolSubresource, TargetedRemoval};
use vmpool_autoscaler::decision::{Explanation, ScaleDecision};
use vmpool_autoscaler::limits::AutoscalerSettings;
use vmpool_kit::write::WriteError;
use vmpool_platforms::removal::RemovalApi;
use vmpool_runtime::telemetry::with_causes;

use super::context::AutoscalerContext;
use super::decide::{Decided, decide_pass};
use super::hub::AutoscaledPools;
use super::pool_facts::AutoscaledPoolFacts;
use crate::metrics::{ScaleDirection, WriteKind};

/// The wait after a request without an answer, and after a conflict.
pub(super) const AGAIN: Duration = Duration::from_secs(2);
/// The wait after a refused write.
const AFTER_REFUSAL: Duration = Duration::from_secs(30);

/// The autoscaler of a pass, and where its pool is.
pub(super) struct ScaledPool {
    pub(super) pools: Arc<dyn AutoscaledPools>,
    pub(super) removal: &'static RemovalApi,
    pub(super) settings: Arc<AutoscalerSettings>,
    pub(super) key: ObjectKey,
}

/// What a pass did to the pool.
pub(super) enum Applied {
    /// Nothing.
    Nothing,
    /// It changed the replicas.
    Scaled { from: u32, to: u32, reason: String },
    /// The pool is not as it was read. The next pass decides again.
    Outdated,
    /// A write failed.
    Failed { message: String, again: Duration },
}

/// Carries out a decision. A lowering is decided again on live reads.
pub(super) async fn apply_decision(
    context: &AutoscalerContext,
    key: &ObjectKey,
    scaled: &ScaledPool,
    facts: &AutoscaledPoolFacts,
    decided: &Decided,
) -> Applied {
    match decided.decision {
        ScaleDecision::Keep => Applied::Nothing,
        ScaleDecision::Lower(_) if facts.is_invalid => Applied::Nothing,
        ScaleDecision::Lower(to) if facts.is_explicit && facts.removed_machines(to).is_empty() => {
            Applied::Nothing
        }
        ScaleDecision::Raise(to) => set_replicas(context, scaled, facts, to, &decided.explanation).await,
        ScaleDecision::Lower(_) => match scaled.pools.read_live(&scaled.key).await {
            Ok(Some(live)) if live.id == facts.id && live.may_shrink() => {
                lower_replicas(context, key, scaled, &live).await
            }
            Ok(_) => Applied::Outdated,
            Err(error) => Applied::Failed { message: with_causes(&error), again: AGAIN },
        },
    }
}

/// Lowers the replicas of a pool that was read live.
async fn lower_replicas(
    context: &AutoscalerContext,
    key: &ObjectKey,
    scaled: &ScaledPool,
    live: &AutoscaledPoolFacts,
) -> Applied {
    let decided = decide_pass(context, key, &scaled.settings, live);
    let ScaleDecision::Lower(to) = decided.decision else { return Applied::Outdated };
    if !live.is_explicit {
        return set_replicas(context, scaled, live, to, &decided.explanation).await;
    }
    match remove_free_machines(context, &scaled.key, scaled.removal, live, to).await {
        Ok(0) => Applied::Nothing,
        Ok(removed) => {
            context.metrics.autoscalers.scaled(ScaleDirection::Lower);
            let to = live.replicas.saturating_sub(u32::try_from(removed).unwrap_or(u32::MAX));
            Applied::Scaled { from: live.replicas, to, reason: decided.explanation.to_string() }
        }
        Err(error) => failed_write(&error),
    }
}

async fn set_replicas(
    context: &AutoscalerContext,
    scaled: &ScaledPool,
    facts: &AutoscaledPoolFacts,
    to: u32,
    explanation: &Explanation,
) -> Applied {
    let collection = scaled.pools.collection(&scaled.key.namespace);
    match scale_pool(context, collection, facts, to).await {
        Ok(()) => {
            let is_raise = to > facts.replicas;
            let direction = if is_raise { ScaleDirection::Raise } else { ScaleDirection::Lower };
            context.metrics.autoscalers.scaled(direction);
            Applied::Scaled { from: facts.replicas, to, reason: explanation.to_string() }
        }
        Err(error) => failed_write(&error),
    }
}

fn failed_write(error: &WriteError) -> Applied {
    match error {
        _ if error.is_conflict() || error.is_gone() => Applied::Outdated,
        WriteError::Fenced | WriteError::Unconfirmed(_) => Applied::Outdated,
        WriteError::Refused { .. } | WriteError::Invalid(_) | WriteError::Mismatch(_) => {
            let again = error.retry_after().unwrap_or(AFTER_REFUSAL);
            Applied::Failed { message: error.to_string(), again }
        }
    }
}

/// Sets the replicas of a pool at the version that was read.
async fn scale_pool(
    context: &AutoscalerContext,
    collection: String,
    pool: &AutoscaledPoolFacts,
    replicas: u32,
) -> Result<(), WriteError> {
    let patch = json!({
        "metadata": { "resourceVersion": pool.version },
        "spec": { "replicas": replicas },
    });
    let _scale: Value = context
        .leader
        .writer
        .patch(WriteKind::ScalePool, collection, &pool.id.name, Some("scale"), Patch::Merge(patch))
        .await?;
    Ok(())
}

/// Removes free machines of a pool with the policy Explicit by targeted removal, without force. Returns how
/// many.
async fn remove_free_machines(
    context: &AutoscalerContext,
    key: &ObjectKey,
    removal: &RemovalApi,
    pool: &AutoscaledPoolFacts,
    replicas: u32,
) -> Result<usize, WriteError> {
    let mut targets = pool.removed_machines(replicas);
    targets.truncate(MAX_REMOVAL_TARGETS);
    if targets.is_empty() {
        return Ok(0);
    }
    let mut body =
        TargetedRemoval::default().api_version(removal.api_version()).pool_uid(pool.id.uid.as_str());
    for target in &targets {
        body = body.target(&*target.name, target.uid.as_str());
    }
    let body = serde_json::to_value(&body).map_err(|error| WriteError::Invalid(error.into()))?;
    let path = format!(
        "/apis/{}/{}/namespaces/{}/{}/{}/{}",
        removal.group,
        removal.version,
        key.namespace,
        removal.plural,
        pool.id.name,
        PoolSubresource::ScaleDownWith,
    );
    let _removed: Value = context.leader.writer.create(WriteKind::RemoveMachines, path, body).await?;
    Ok(targets.len())
}
