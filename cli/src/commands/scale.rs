//! `scale`, `pause` and `resume`.

use anyhow::{Result, bail, ensure};
use kube::api::Patch;
use serde_json::{Value, json};
use vmpool_engine::ObjectId;
use vmpool_platforms::ClientPlatform;

use crate::arguments::{PauseArguments, ScaleArguments};
use crate::cluster::{UserClusterClient, patch_params};
use crate::dry_run::WriteMode;
use crate::explain::explain_request_error;
use crate::output::print_text;
use crate::pool::decode_pool;

/// The size of the largest pool that the benchmarks measure (docs/benchmarks.md).
pub(crate) const LARGEST_MEASURED_POOL: u32 = 10_000;

/// Sets the number of replicas, through the scale subresource.
///
/// # Errors
/// The request was refused.
pub(crate) async fn scale_pool<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &ScaleArguments,
) -> Result<()> {
    let (_, before) = decode_pool::<P>(&pool)?;
    check_pool_size(before.desired, arguments)?;
    let replicas = usize::try_from(arguments.replicas).unwrap_or(usize::MAX);
    let scaled = patch_replicas::<P>(cluster, &before.id, replicas, arguments.dry_run.mode).await;
    let mut attempt = cluster.attempt::<P::Pool>("patch", &arguments.pool);
    attempt.resource = attempt.resource.replacen('.', "/scale.", 1);
    scaled.map_err(|error| explain_request_error(&attempt, &error))?;
    let note = arguments.dry_run.mode.note();
    print_text(&format!(
        "pool {}: {} -> {} replicas{note}\n",
        arguments.pool, before.desired, arguments.replicas
    ))
}

/// Sets the number of replicas of exactly this pool.
///
/// # Errors
/// The request was refused.
pub(crate) async fn patch_replicas<P: ClientPlatform>(
    cluster: &UserClusterClient,
    pool: &ObjectId,
    replicas: usize,
    mode: WriteMode,
) -> kube::Result<()> {
    let wanted = json!({ "metadata": { "uid": pool.uid.as_str() }, "spec": { "replicas": replicas } });
    let api = cluster.api::<P::Pool>();
    api.patch_scale(&pool.name, &patch_params(mode), &Patch::Merge(wanted)).await.map(drop)
}

/// Refuses a pool that is larger than any that is measured, because its size is more likely a mistake. A
/// larger pool may become smaller.
///
/// # Errors
/// The pool would grow beyond [`LARGEST_MEASURED_POOL`], and the user does not permit it.
fn check_pool_size(present: usize, arguments: &ScaleArguments) -> Result<()> {
    let wanted = usize::try_from(arguments.replicas).unwrap_or(usize::MAX);
    ensure!(
        arguments.replicas <= LARGEST_MEASURED_POOL || wanted <= present || arguments.allow_large_pool,
        "pool {} would get {wanted} replicas, and {LARGEST_MEASURED_POOL} is the size of the largest pool that is measured: nothing \
         was changed; if the number is meant, add --allow-large-pool",
        arguments.pool
    );
    Ok(())
}

/// Pauses the pool or its rollout.
///
/// # Errors
/// The request was refused.
pub(crate) async fn pause_pool<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &PauseArguments,
) -> Result<()> {
    set_paused::<P>(cluster, &pool, arguments, true).await
}

/// Resumes the pool or its rollout.
///
/// # Errors
/// The request was refused.
pub(crate) async fn resume_pool<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &PauseArguments,
) -> Result<()> {
    set_paused::<P>(cluster, &pool, arguments, false).await
}

async fn set_paused<P: ClientPlatform>(
    cluster: &UserClusterClient,
    pool: &Value,
    arguments: &PauseArguments,
    paused: bool,
) -> Result<()> {
    let (_, before) = decode_pool::<P>(pool)?;
    let (name, mode) = (&arguments.pool, arguments.dry_run.mode);
    let done = if paused { "paused" } else { "resumed" };
    if P::is_paused(&before) == paused {
        return print_text(&format!("pool {name}: {} is already {done}\n", P::PAUSES));
    }
    for patch in P::pause(paused) {
        let mut patch = patch;
        patch["metadata"]["uid"] = before.id.uid.as_str().into();
        let after = cluster.patch::<P::Pool>(name, &Patch::Merge(patch), mode).await?;
        // The cluster's definition of pools may drop the field.
        if P::is_paused(&decode_pool::<P>(&after)?.1) == paused {
            return print_text(&format!("pool {name}: {} {done}{}\n", P::PAUSES, mode.note()));
        }
    }
    bail!(
        "pool {name}: {} was not {done}, because the cluster's definition of pools drops the field",
        P::PAUSES
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::usual(3, 5, false, true)]
    #[case::the_limit(3, 10_000, false, true)]
    #[case::a_mistake(3, 9_999_999, false, false)]
    #[case::on_purpose(3, 20_000, true, true)]
    #[case::a_large_pool_becomes_smaller(30_000, 20_000, false, true)]
    fn a_pool_beyond_the_largest_measured_one_needs_a_flag(
        #[case] present: usize,
        #[case] replicas: u32,
        #[case] allow_large_pool: bool,
        #[case] expected: bool,
    ) {
        let arguments = ScaleArguments {
            pool: "web".into(),
            replicas,
            allow_large_pool,
            dry_run: crate::dry_run::DryRunArguments::default(),
        };
        let checked = check_pool_size(present, &arguments);
        assert_eq!(checked.is_ok(), expected);
        if let Err(error) = checked {
            assert!(error.to_string().contains("--allow-large-pool"), "{error}");
        }
    }
}
