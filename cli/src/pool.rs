//! The pool that a command is about, and its platform.

use anyhow::{Result, anyhow, bail};
use serde_json::Value;
use vmpool_engine::ParsedPool;
use vmpool_platforms::{ClientPlatform, Dvp, KubeVirt, Platform};

use crate::cluster::{UserClusterClient, full_name};
use crate::connection::PlatformArgument;
use crate::explain::{explain_request_error, is_unserved};

/// A stored pool.
#[derive(Clone, Debug)]
pub(crate) struct StoredPool {
    /// The platform that it belongs to.
    pub(crate) platform: PlatformArgument,
    /// The object.
    pub(crate) object: Value,
}

/// The pool does not exist on the platforms whose pools the cluster serves. A user may lack the right to read
/// pools of a platform that the cluster does not have.
fn not_found(
    cluster: &UserClusterClient,
    name: &str,
    served: &[String],
    failures: &[anyhow::Error],
) -> anyhow::Error {
    let mut text = format!(
        "pool {name} not found in namespace {} ({}); choose another namespace with -n",
        cluster.namespace,
        served.join(", ")
    );
    for failure in failures {
        text.push_str("\nnot asked: ");
        text.push_str(failure.to_string().lines().next().unwrap_or_default());
    }
    anyhow!(text)
}

/// What a cluster says about a pool of one platform.
enum PoolLookup {
    Found(Value),
    Missing,
    Unserved,
    Failed(anyhow::Error),
}

impl StoredPool {
    /// Finds a pool by its name, on the given platform or on any.
    ///
    /// # Errors
    /// There is none, or pools of both platforms have this name, or a request failed.
    pub(crate) async fn find(
        cluster: &UserClusterClient,
        name: &str,
        platform: Option<PlatformArgument>,
    ) -> Result<Self> {
        let (mut found, mut failures, mut served) = (Vec::new(), Vec::new(), Vec::new());
        for asked in [PlatformArgument::Dvp, PlatformArgument::Kubevirt] {
            if platform.is_some_and(|platform| platform != asked) {
                continue;
            }
            let (answer, resource) = match asked {
                PlatformArgument::Dvp => {
                    (look_up_pool::<Dvp>(cluster, name).await, full_name::<<Dvp as Platform>::Pool>())
                }
                PlatformArgument::Kubevirt => (
                    look_up_pool::<KubeVirt>(cluster, name).await,
                    full_name::<<KubeVirt as Platform>::Pool>(),
                ),
            };
            match answer {
                PoolLookup::Found(object) => found.push(Self { platform: asked, object }),
                PoolLookup::Missing => served.push(resource),
                PoolLookup::Unserved => {}
                PoolLookup::Failed(error) => failures.push(error),
            }
        }
        match (found.pop(), found.pop()) {
            (Some(_), Some(_)) => bail!(
                "both platforms have a pool {name} in namespace {}: choose one with --platform=dvp or --platform=kubevirt",
                cluster.namespace
            ),
            (Some(pool), None) => Ok(pool),
            (None, _) if !served.is_empty() => Err(not_found(cluster, name, &served, &failures)),
            (None, _) if !failures.is_empty() => Err(failures.remove(0)),
            (None, _) => Err(anyhow!(
                "the cluster serves no pools of virtual machines; `kubectl vmpool doctor` says what is missing"
            )),
        }
    }
}

async fn look_up_pool<P: ClientPlatform>(cluster: &UserClusterClient, name: &str) -> PoolLookup {
    match cluster.api::<P::Pool>().get(name).await {
        Ok(object) => match serde_json::to_value(&object) {
            Ok(object) => PoolLookup::Found(object),
            Err(error) => PoolLookup::Failed(error.into()),
        },
        Err(error) if is_unserved(&error) => PoolLookup::Unserved,
        Err(kube::Error::Api(status)) if status.code == 404 => PoolLookup::Missing,
        Err(error) => {
            PoolLookup::Failed(explain_request_error(&cluster.attempt::<P::Pool>("get", name), &error))
        }
    }
}

/// The pool in the words of the engine.
pub(crate) fn decode_pool<P: ClientPlatform>(object: &Value) -> Result<(P::Pool, ParsedPool)> {
    let pool: P::Pool = serde_json::from_value(object.clone())
        .map_err(|error| anyhow!("the pool that the API server returned cannot be read: {error}"))?;
    let facts = P::read_pool(&pool);
    Ok((pool, facts))
}
