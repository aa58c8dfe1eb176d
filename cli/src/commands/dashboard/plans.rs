//! The plan of another number of replicas, computed as `plan --replicas` does. It changes nothing.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use vmpool_platforms::{PlatformName, with_platform};

use crate::arguments::PlanArguments;
use crate::cluster::UserClusterClient;
use crate::commands::plan::compute_outlook;
use crate::commands::scale::LARGEST_MEASURED_POOL;
use crate::format::OutputArguments;
use crate::pool::{PoolReference, StoredPool};

/// How long a plan may take.
const DEADLINE: Duration = Duration::from_mins(1);

/// A pool and a number of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedScale {
    platform: PlatformName,
    namespace: String,
    pool: String,
    replicas: u32,
}

impl PlannedScale {
    /// Reads the query of a request. Names have no characters that a query would escape.
    ///
    /// # Errors
    /// A value is missing or invalid.
    pub(super) fn parse(query: &str) -> Result<Self> {
        let value = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let found = pairs.find(|(known, _)| *known == name).map(|(_, value)| value);
            found.with_context(|| format!("the request has no {name}"))
        };
        let platform = value("platform")?.parse()?;
        let (namespace, pool) = (value("namespace")?, value("pool")?);
        for name in [namespace, pool] {
            ensure!(is_object_name(name), "{name:?} is no name of an object");
        }
        let replicas = value("replicas")?;
        let replicas = replicas.parse::<u32>().ok().filter(|count| *count <= LARGEST_MEASURED_POOL);
        let replicas = replicas
            .with_context(|| format!("replicas must be a number from 0 to {LARGEST_MEASURED_POOL}"))?;
        Ok(Self { platform, namespace: namespace.to_owned(), pool: pool.to_owned(), replicas })
    }
}

/// Whether a text has only characters of names, and begins with none that has a meaning in paths.
fn is_object_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    name.starts_with(is_letter)
        && name.chars().all(|letter| is_letter(letter) || letter == '-' || letter == '.')
}

/// A request for a plan.
#[derive(Debug)]
pub(super) struct PlanOrder {
    /// What to plan.
    pub(super) scale: PlannedScale,
    /// Receives the plan.
    pub(super) reply: oneshot::Sender<Result<Value>>,
}

/// Computes plans, one at a time, until the dashboard ends.
pub(super) async fn answer_plan_orders(cluster: &UserClusterClient, mut orders: mpsc::Receiver<PlanOrder>) {
    while let Some(PlanOrder { scale, reply }) = orders.recv().await {
        let planned = Box::pin(cluster.env.timeout(DEADLINE, plan_scale(cluster, &scale))).await;
        // The browser may have closed the connection.
        let _ = reply.send(planned.context("computing the plan").flatten());
    }
}

async fn plan_scale(cluster: &UserClusterClient, scale: &PlannedScale) -> Result<Value> {
    let PlannedScale { platform, namespace, pool, replicas } = scale;
    let cluster = UserClusterClient { namespace: namespace.clone(), ..cluster.clone() };
    let reference = PoolReference { name: pool.clone(), platform: Some(*platform) };
    let stored = StoredPool::find(&cluster, &reference, None).await?.object;
    let arguments = PlanArguments {
        pool: pool.clone(),
        replicas: Some(*replicas),
        filename: None,
        server_side: false,
        field_manager: None,
        format: OutputArguments::default(),
    };
    let outlook = with_platform!(*platform, P => compute_outlook::<P>(&cluster, &stored, &arguments).await?);
    Ok(serde_json::to_value(&outlook)?)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_query_names_the_pool_and_the_replicas() {
        let scale = PlannedScale::parse("platform=dvp&namespace=team-a&pool=web&replicas=4").unwrap();
        let expected = PlannedScale {
            platform: PlatformName::Dvp,
            namespace: "team-a".into(),
            pool: "web".into(),
            replicas: 4,
        };
        assert_eq!(scale, expected);
    }

    #[rstest]
    #[case::missing("platform=dvp&namespace=a&pool=web", "no replicas")]
    #[case::another_platform("platform=x&namespace=a&pool=web&replicas=1", "no platform")]
    #[case::path("platform=dvp&namespace=..&pool=web&replicas=1", "no name")]
    #[case::part_of_a_path("platform=dvp&namespace=a&pool=web/scale&replicas=1", "no name")]
    #[case::escaped("platform=dvp&namespace=a&pool=web%2fscale&replicas=1", "no name")]
    #[case::too_many("platform=dvp&namespace=a&pool=web&replicas=10001", "from 0 to 10000")]
    #[case::negative("platform=dvp&namespace=a&pool=web&replicas=-1", "from 0 to 10000")]
    fn an_invalid_query_is_refused(#[case] query: &str, #[case] expected: &str) {
        let error = PlannedScale::parse(query).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
