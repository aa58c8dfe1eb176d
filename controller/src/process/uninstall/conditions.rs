//! The conditions of pools that no controller would keep up to date later.

use std::time::Duration;

use kube::Client;
use kube::api::{Patch, PatchParams};
use vmpool_kit::object::api_for_namespace;
use vmpool_kit::watch::WatchError;
use vmpool_platforms::Platform;
use vmpool_runtime::Env;

use crate::pools::release::{ReleasePatch, release_once};
use crate::pools::release_conditions::KstatusConditions;

/// Why conditions remain.
pub(super) enum RemoveConditionsError {
    /// Pools cannot be read.
    List(WatchError),
    /// A status cannot be changed.
    Write(kube::Error),
    /// The status of pools changes all the time.
    Changing,
}

impl From<WatchError> for RemoveConditionsError {
    fn from(error: WatchError) -> Self {
        Self::List(error)
    }
}

/// How often the pools are listed, and the time between two lists.
#[derive(Clone, Copy)]
pub(super) struct ListRounds {
    pub(super) count: usize,
    pub(super) pause: Duration,
}

/// Removes the conditions in the meaning of kstatus from the pools of a platform.
pub(super) async fn remove_kstatus_conditions<P: Platform>(
    client: &Client,
    env: &Env,
    namespace: Option<&str>,
    rounds: ListRounds,
) -> Result<(), RemoveConditionsError> {
    let send = |status| patch_status::<P>(client, status);
    for _ in 0..rounds.count {
        if release_once::<KstatusConditions<P>, RemoveConditionsError, _>(client, namespace, send).await? == 0
        {
            return Ok(());
        }
        env.sleep(rounds.pause).await;
    }
    Err(RemoveConditionsError::Changing)
}

async fn patch_status<P: Platform>(
    client: &Client,
    ReleasePatch { namespace, name, patch }: ReleasePatch,
) -> Result<(), RemoveConditionsError> {
    let pools = api_for_namespace::<P::Pool>(client, Some(&namespace));
    match pools.patch_status(&name, &PatchParams::default(), &Patch::<()>::Json(patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if [404, 409, 422].contains(&status.code) => Ok(()),
        Err(error) => Err(RemoveConditionsError::Write(error)),
    }
}
