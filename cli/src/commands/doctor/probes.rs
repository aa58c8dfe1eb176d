//! Probes: requests that change nothing, and whose answers show that webhook and aggregated API work.

use std::time::Duration;

use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use vmpool_api::subresources::MachineClaim;
use vmpool_engine::protection::MAX_PROTECTION;
use vmpool_platforms::ClientPlatform;
use vmpool_runtime::env::TimeoutElapsed;

use super::finding::{CheckFinding, CheckVerdict};
use crate::cluster::{FIELD_MANAGER, UserClusterClient};
use crate::commands::scale::patch_replicas;
use crate::dry_run::WriteMode;
use crate::explain::{describe_kube_error, is_denied_by_own_webhook, is_missing_right};
use crate::pool::decode_pool;
use crate::subresource::post_to_subresource;

/// How long one probe waits. It is half of the time that the API server waits for a webhook by default.
const DEADLINE: Duration = Duration::from_secs(5);

/// The name of the pool and of the claim in probes.
const NAME: &str = "vmpool-doctor";

/// What the answer to a probe shows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ProbeOutcome {
    /// The request would be carried out.
    Accepted,
    /// A webhook of vmpool refuses it.
    Denied,
    /// The user lacks the right to send it.
    Forbidden(String),
    /// The server, or a webhook that it calls, does not work.
    Failed(String),
    /// The server refuses it for another reason.
    Refused(String),
}

impl ProbeOutcome {
    fn of_answer<T>(answer: Result<Result<T, kube::Error>, TimeoutElapsed>) -> Self {
        match answer {
            Ok(Ok(_)) => Self::Accepted,
            Err(_) => Self::Failed(format!("no response within {} s", DEADLINE.as_secs())),
            Ok(Err(error)) => {
                let why = describe_kube_error(&error);
                match &error {
                    kube::Error::Api(status) if status.code >= 500 || status.code == 429 => Self::Failed(why),
                    kube::Error::Api(status) if is_missing_right(status) => Self::Forbidden(why),
                    kube::Error::Api(status) if is_denied_by_own_webhook(status) => Self::Denied,
                    kube::Error::Api(_) => Self::Refused(why),
                    _ => Self::Failed(why),
                }
            }
        }
    }
}

/// Sends an invalid pool as a dry run, which only the webhook refuses.
pub(super) async fn probe_pool_webhook<P: ClientPlatform>(
    cluster: &UserClusterClient,
    system: &str,
) -> CheckFinding {
    let check = format!("{} webhook", P::TITLE);
    let pool: DynamicObject = match serde_json::from_value(invalid_pool::<P>()) {
        Ok(pool) => pool,
        Err(error) => return CheckFinding::new(&check, CheckVerdict::Unknown, error.to_string(), ""),
    };
    let params = PostParams { dry_run: true, field_manager: Some(FIELD_MANAGER.to_owned()) };
    let begun = cluster.env.uptime();
    let answer = cluster.env.timeout(DEADLINE, cluster.api::<P::Pool>().create(&params, &pool)).await;
    let took = cluster.env.uptime().saturating_sub(begun);
    let probe = WebhookProbe { check: &check, namespace: &cluster.namespace, system, took };
    probe.finding_of_pool(ProbeOutcome::of_answer(answer))
}

/// A pool that the definition of pools accepts, and a rule of admission does not.
fn invalid_pool<P: ClientPlatform>() -> Value {
    let mut pool = P::smallest_pool(NAME);
    pool["metadata"]["annotations"] = json!({ MAX_PROTECTION: "0s" });
    pool
}

/// Lowers the replicas of a pool as a dry run; `None` if no pool of the namespace has replicas.
pub(super) async fn probe_scale_webhook<P: ClientPlatform>(
    cluster: &UserClusterClient,
    system: &str,
) -> Option<CheckFinding> {
    let pools = cluster.list::<P::Pool>(None).await.ok()?;
    let pool =
        pools.iter().find_map(|stored| decode_pool::<P>(stored).ok().filter(|(_, pool)| pool.desired > 0));
    let (_, pool) = pool?;
    let check = format!("{} scale-down", P::TITLE);
    let begun = cluster.env.uptime();
    let lowered = patch_replicas::<P>(cluster, &pool.id, pool.desired - 1, WriteMode::DryRun);
    let answer = cluster.env.timeout(DEADLINE, lowered).await;
    let took = cluster.env.uptime().saturating_sub(begun);
    let probe = WebhookProbe { check: &check, namespace: &cluster.namespace, system, took };
    Some(probe.finding_of_scale(&pool.id.name, ProbeOutcome::of_answer(answer)))
}

/// A probe that a webhook answers.
struct WebhookProbe<'a> {
    check: &'a str,
    namespace: &'a str,
    /// The namespace of the release.
    system: &'a str,
    /// How long the answer took.
    took: Duration,
}

impl WebhookProbe<'_> {
    fn finding_of_pool(&self, outcome: ProbeOutcome) -> CheckFinding {
        self.finding_of(outcome, |is_accepted| {
            if is_accepted {
                return self.finding(
                    CheckVerdict::Failed,
                    format!(
                        "does not refuse an invalid pool: it is not registered, or does not serve namespace {}",
                        self.namespace
                    ),
                    "install the chart with featureGates.VirtualMachinePool=true; watchNamespace must be empty or this namespace"
                        .to_owned(),
                );
            }
            let took = self.took.as_millis();
            let what = format!("refuses an invalid pool in a dry run, after {took} ms");
            self.finding(CheckVerdict::Ok, what, String::new())
        })
    }

    fn finding_of_scale(&self, pool: &str, outcome: ProbeOutcome) -> CheckFinding {
        self.finding_of(outcome, |_| {
            let took = self.took.as_millis();
            let what = format!("a dry run for pool {pool} is answered after {took} ms");
            self.finding(CheckVerdict::Ok, what, String::new())
        })
    }

    /// The finding of an outcome. `answered` is that of an answer of the webhook, with whether it accepts.
    fn finding_of(&self, outcome: ProbeOutcome, answered: impl FnOnce(bool) -> CheckFinding) -> CheckFinding {
        match outcome {
            ProbeOutcome::Accepted => answered(true),
            ProbeOutcome::Denied => answered(false),
            ProbeOutcome::Failed(why) => self.finding(
                CheckVerdict::Failed,
                format!("{why}, so pools cannot be created, changed or scaled down"),
                format!(
                    "run `kubectl logs -n {} deployment/vmpool-webhook`, and check that the API server can reach port 8443 of its \
                     Pods; docs/install.md describes how to remove a webhook that blocks requests",
                    self.system
                ),
            ),
            ProbeOutcome::Forbidden(why) => self.finding(
                CheckVerdict::Unknown,
                why,
                "run the command with the rights of a user who may create and scale pools to check this".to_owned(),
            ),
            ProbeOutcome::Refused(why) => self.finding(
                CheckVerdict::Unknown,
                format!("the dry run is refused before the webhook answers: {why}"),
                "choose another namespace with -n to check this".to_owned(),
            ),
        }
    }

    fn finding(&self, verdict: CheckVerdict, what: String, remedy: String) -> CheckFinding {
        CheckFinding::new(self.check, verdict, what, remedy)
    }
}

/// Asks the aggregated API for its resources, and for the dry run of a claim on a pool that does not exist.
/// To answer it, the server reviews the rights of the user and reads the cluster.
pub(super) async fn probe_aggregated_api<P: ClientPlatform>(cluster: &UserClusterClient) -> CheckFinding {
    let check = format!("{} API service", P::TITLE);
    let group_version = P::REMOVAL.api_version();
    let begun = cluster.env.uptime();
    let discovered = cluster.client.list_api_group_resources(&group_version);
    let outcome = match ProbeOutcome::of_answer(cluster.env.timeout(DEADLINE, discovered).await) {
        ProbeOutcome::Accepted => probe_claim::<P>(cluster).await,
        // Every user may read the resources of a group, so each of these says that the server does not work.
        ProbeOutcome::Forbidden(why) | ProbeOutcome::Failed(why) | ProbeOutcome::Refused(why) => {
            ProbeOutcome::Failed(why)
        }
        ProbeOutcome::Denied => ProbeOutcome::Denied,
    };
    let took = cluster.env.uptime().saturating_sub(begun);
    finding_of_aggregated_api(&check, &group_version, outcome, took)
}

async fn probe_claim<P: ClientPlatform>(cluster: &UserClusterClient) -> ProbeOutcome {
    let body =
        MachineClaim::new(NAME, Duration::from_mins(1)).api_version(P::REMOVAL.api_version()).dry_run();
    let answer = cluster.env.timeout(DEADLINE, post_to_subresource::<P>(cluster, NAME, "claim", &body)).await;
    match answer {
        Ok(Ok(answer)) => ProbeOutcome::of_answer(Ok(answer)),
        Ok(Err(error)) => ProbeOutcome::Failed(format!("{error:#}")),
        Err(elapsed) => ProbeOutcome::of_answer::<()>(Err(elapsed)),
    }
}

/// The finding about an installation without the aggregated API server.
pub(super) fn finding_without_aggregated_api(title: &str) -> CheckFinding {
    CheckFinding::new(
        &format!("{title} API service"),
        CheckVerdict::Warning,
        "not installed, so `remove`, `claim` and `release` do not work, and nothing expands machines and pools",
        "set apiserver.enabled=true in the values of the chart if you need them",
    )
}

fn finding_of_aggregated_api(
    check: &str,
    group_version: &str,
    outcome: ProbeOutcome,
    took: Duration,
) -> CheckFinding {
    let took = took.as_millis();
    match outcome {
        // The pool of the claim does not exist.
        ProbeOutcome::Accepted | ProbeOutcome::Denied | ProbeOutcome::Refused(_) => {
            let what = format!("{group_version} answers the dry run of a claim after {took} ms");
            CheckFinding::new(check, CheckVerdict::Ok, what, "")
        }
        // The API server refuses the claim by itself, and has asked the aggregated API for its resources.
        ProbeOutcome::Forbidden(_) => {
            let what = format!("{group_version} answers after {took} ms");
            CheckFinding::new(check, CheckVerdict::Ok, what, "")
        }
        ProbeOutcome::Failed(why) => CheckFinding::new(
            check,
            CheckVerdict::Failed,
            format!(
                "{group_version} does not answer, so machines can be neither removed by name nor claimed: {why}"
            ),
            "run `kubectl get apiservices | grep vmpool`, and check the vmpool-apiserver and its registration in the chart",
        ),
    }
}

#[cfg(test)]
mod tests;
