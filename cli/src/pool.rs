//! The pool that a command is about, and its platform.

use anyhow::{Result, anyhow, bail};
use serde_json::Value;
use vmpool_engine::ParsedPool;
use vmpool_platforms::{Dvp, KubeVirt, Platform, View};

use crate::cluster::{Cluster, full_name};
use crate::connection::PlatformName;
use crate::explain::{explain, is_unserved};

/// A stored pool.
#[derive(Clone, Debug)]
pub(crate) struct StoredPool {
    /// The platform that it belongs to.
    pub(crate) platform: PlatformName,
    /// The object.
    pub(crate) object: Value,
}

/// The pool does not exist on the platforms whose pools the cluster serves. A user may lack the right to read pools of a
/// platform that the cluster does not have.
fn not_found(cluster: &Cluster, name: &str, served: &[String], failures: &[anyhow::Error]) -> anyhow::Error {
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
enum Answer {
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
    pub(crate) async fn find(cluster: &Cluster, name: &str, platform: Option<PlatformName>) -> Result<Self> {
        let (mut found, mut failures, mut served) = (Vec::new(), Vec::new(), Vec::new());
        for asked in [PlatformName::Dvp, PlatformName::Kubevirt] {
            if platform.is_some_and(|platform| platform != asked) {
                continue;
            }
            let (answer, resource) = match asked {
                PlatformName::Dvp => {
                    (ask::<Dvp>(cluster, name).await, full_name::<<Dvp as Platform>::Pool>())
                }
                PlatformName::Kubevirt => {
                    (ask::<KubeVirt>(cluster, name).await, full_name::<<KubeVirt as Platform>::Pool>())
                }
            };
            match answer {
                Answer::Found(object) => found.push(Self { platform: asked, object }),
                Answer::Missing => served.push(resource),
                Answer::Unserved => {}
                Answer::Failed(error) => failures.push(error),
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

async fn ask<P: View>(cluster: &Cluster, name: &str) -> Answer {
    match cluster.api::<P::Pool>().get(name).await {
        Ok(object) => match serde_json::to_value(&object) {
            Ok(object) => Answer::Found(object),
            Err(error) => Answer::Failed(error.into()),
        },
        Err(error) if is_unserved(&error) => Answer::Unserved,
        Err(kube::Error::Api(status)) if status.code == 404 => Answer::Missing,
        Err(error) => Answer::Failed(explain(&cluster.attempt::<P::Pool>("get", name), &error)),
    }
}

/// The pool in the words of the engine.
pub(crate) fn read<P: View>(object: &Value) -> Result<(P::Pool, ParsedPool)> {
    let pool: P::Pool = serde_json::from_value(object.clone())
        .map_err(|error| anyhow!("the pool that the API server returned cannot be read: {error}"))?;
    let facts = P::read_pool(&pool);
    Ok((pool, facts))
}
