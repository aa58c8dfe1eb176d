//! Removing the conditions in the meaning of kstatus from pools that vmpool does not reconcile any more. No
//! other controller knows them, so they would stay for ever and say what was true once.

use std::marker::PhantomData;

use kube::{Client, Resource as _};
use vmpool_kit::object::api_for_namespace;
use vmpool_kit::watch::{WatchError, WatchScope, list_served};
use vmpool_platforms::Platform;

use crate::metrics::WriteKind;
use crate::pools::release::{Release, ReleasePatch};

/// The conditions of the pools of a platform.
pub(crate) struct KstatusConditions<P>(PhantomData<P>);

impl<P: Platform> Release for KstatusConditions<P> {
    type Object = P::Pool;
    const NOUN: &'static str = "pool";
    const WRITE: WriteKind = WriteKind::PatchStatus;
    const SUBRESOURCE: Option<&'static str> = Some("status");

    async fn find_patches(client: &Client, namespace: Option<&str>) -> Result<Vec<ReleasePatch>, WatchError> {
        let mut found = Vec::new();
        let pools = api_for_namespace::<P::Pool>(client, namespace);
        list_served(&pools, WatchScope::default(), |pool| found.extend(removal_patch::<P>(&pool))).await?;
        Ok(found)
    }

    fn log_round(round: Result<usize, String>) {
        match round {
            Ok(pools) => tracing::info!(
                platform = P::NAME,
                pools,
                "removed conditions of vmpool from pools that another controller may reconcile"
            ),
            Err(error) => {
                tracing::warn!(platform = P::NAME, error, "cannot remove conditions of vmpool from pools");
            }
        }
    }
}

fn removal_patch<P: Platform>(pool: &P::Pool) -> Option<ReleasePatch> {
    let patch = serde_json::from_value(P::remove_kstatus_conditions(pool)?).ok()?;
    let metadata = pool.meta();
    Some(ReleasePatch { namespace: metadata.namespace.clone()?, name: metadata.name.clone()?, patch })
}
