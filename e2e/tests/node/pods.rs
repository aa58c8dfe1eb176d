//! The chart's Pods.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, EvictParams, ListParams, Preconditions};
use vmpool_installation::programs::SYSTEM_NAMESPACE;
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::poll;
use vmpool_test_cluster::{Error, Result};

/// The components of the chart.
pub(crate) const COMPONENTS: [&str; 3] = ["vmpool-controller", "vmpool-webhook", "vmpool-apiserver"];

/// Number of replicas of each.
pub(crate) const REPLICAS: usize = 2;

/// Longer than any Pod takes to start or to terminate.
const DEADLINE: Duration = Duration::from_mins(2);

pub(crate) fn api(access: &Access) -> Api<Pod> {
    Api::namespaced(access.client.clone(), SYSTEM_NAMESPACE)
}

pub(crate) fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

pub(crate) fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// Whether the Pod is ready and not terminating.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    pod.metadata.deletion_timestamp.is_none()
        && conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The Pods of a component that are not terminating.
pub(crate) async fn of(access: &Access, component: &str) -> Result<Vec<Pod>> {
    let params = ListParams::default().labels(&format!("app.kubernetes.io/name={component}"));
    let listed = api(access).list(&params).await.map_err(Error::api(format!("listing {component}")))?;
    Ok(listed.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect())
}

/// Waits until a component has all its replicas from the current template, and no other Pod that is not
/// terminating. Returns the Pods.
pub(crate) async fn until_ready(access: &Access, component: &str) -> Result<Vec<Pod>> {
    let deployments = Api::<Deployment>::namespaced(access.client.clone(), SYSTEM_NAMESPACE);
    poll::poll_until(
        || format!("{component} has {REPLICAS} ready Pods and no other"),
        DEADLINE,
        async || {
            let deployment =
                deployments.get(component).await.map_err(Error::api(format!("reading {component}")))?;
            let status = deployment.status.unwrap_or_default();
            let is_current = status.observed_generation == deployment.metadata.generation
                && status.updated_replicas == i32::try_from(REPLICAS).ok();
            let pods = of(access, component).await?;
            let states = || pods.iter().map(|pod| format!("{} ready: {}", name(pod), is_ready(pod)));
            let is_all = pods.len() == REPLICAS && pods.iter().all(is_ready);
            Ok(if is_current && is_all { Ok(pods) } else { Err(states().collect::<Vec<_>>().join("\n")) })
        },
    )
    .await
}

/// As [`until_ready`], for all components.
pub(crate) async fn until_all_ready(access: &Access) -> Result<()> {
    futures::future::try_join_all(COMPONENTS.map(|component| until_ready(access, component))).await.map(drop)
}

/// Requests an eviction as `kubectl drain` does. The inner result is the refusal.
pub(crate) async fn evict(access: &Access, pod: &Pod) -> anyhow::Result<Result<(), (u16, String)>> {
    match api(access).evict(name(pod), &EvictParams::default()).await {
        Ok(_) => Ok(Ok(())),
        Err(kube::Error::Api(status)) => Ok(Err((status.code, status.message.clone()))),
        Err(error) => Err(error).with_context(|| format!("evicting {}", name(pod))),
    }
}

/// Deletes a Pod like `kubectl delete --force --grace-period=0`: its processes are killed, and the caller
/// does not wait.
pub(crate) async fn kill(access: &Access, pod: &Pod) -> anyhow::Result<()> {
    let preconditions = Preconditions { uid: pod.metadata.uid.clone(), ..Preconditions::default() };
    let params = DeleteParams::default().grace_period(0).preconditions(preconditions);
    api(access).delete(name(pod), &params).await.map(drop).with_context(|| format!("killing {}", name(pod)))
}

/// The Pod of the leader.
pub(crate) async fn leader(access: &Access) -> anyhow::Result<Pod> {
    let leases = Api::<Lease>::namespaced(access.client.clone(), SYSTEM_NAMESPACE);
    let lease = leases.get("vmpool-controller").await.context("reading the lease")?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    let pods = of(access, "vmpool-controller").await?;
    let names: Vec<String> = pods.iter().map(|pod| name(pod).to_owned()).collect();
    match pods.into_iter().find(|pod| holder.contains(name(pod))) {
        Some(pod) => Ok(pod),
        None => bail!("the holder of the lease is {holder:?}, which is not one of {names:?}"),
    }
}

/// The report for a failed test.
pub(crate) async fn report(access: &Access) -> String {
    let namespace = format!("--namespace={SYSTEM_NAMESPACE}");
    let questions: [&[&str]; 4] = [
        &["get", "pods", "--all-namespaces", "--output=wide"],
        &["get", "events", &namespace, "--sort-by=.lastTimestamp"],
        &["get", "apiservices,validatingwebhookconfigurations,poddisruptionbudgets", &namespace],
        &["logs", &namespace, "--selector=app.kubernetes.io/part-of=vmpool", "--prefix", "--tail=25"],
    ];
    let mut text = String::new();
    for question in questions {
        let answer = access.kubectl(question).await.unwrap_or_else(|error| error.to_string());
        let _ = writeln!(text, "-- kubectl {} --\n{answer}", question.join(" "));
    }
    text
}
