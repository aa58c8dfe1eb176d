//! The checks.

mod programs;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::{Api, ListParams};
use serde_json::Value;
use vmpool_engine::ParsedPool;
use vmpool_engine::condition::{ConditionReason, ConditionType};
use vmpool_platforms::{ApiObject, ClientPlatform, OtherController, PlatformName, with_platform};

use self::programs::{check_programs, lacks_aggregated_api};
use super::finding::{CheckFinding, CheckVerdict};
use super::probes::{
    finding_without_aggregated_api, probe_aggregated_api, probe_pool_webhook, probe_scale_webhook,
};
use super::rights::check_user_rights;
use crate::cluster::{UserClusterClient, full_name};
use crate::explain::describe_kube_error;
use crate::installation::{PART_OF, list_deployments};
use crate::leader::{LEASE, LeaderState, read_leader_state};
use crate::phase::{PublishedPhase, read_published_phase};
use crate::pool::decode_pool;

/// The check of the lease.
const LEADER_CHECK: &str = "leader";

/// Runs all checks.
pub(super) async fn run_all_checks(cluster: &UserClusterClient, system: &str) -> Vec<CheckFinding> {
    let mut findings = vec![check_api_server(cluster).await];
    if !matches!(findings[0].verdict, CheckVerdict::Ok) {
        return findings;
    }
    let mut served = Vec::new();
    for name in PlatformName::ALL {
        if with_platform!(name, P => is_platform_served::<P>(cluster).await) {
            served.push(name);
        }
    }
    if served.is_empty() {
        findings.push(CheckFinding::new(
            "pools",
            CheckVerdict::Failed,
            "the cluster serves pools of no platform",
            "install the chart of vmpool, which contains the CustomResourceDefinition, or KubeVirt",
        ));
    }
    let deployments = list_deployments(cluster, system).await;
    let has_aggregated_api = deployments.as_ref().map_or(true, |found| !lacks_aggregated_api(found));
    for name in served {
        with_platform!(name, P => check_platform::<P>(cluster, system, has_aggregated_api, &mut findings).await);
    }
    findings.push(check_webhook(cluster).await);
    findings.push(check_programs(system, &deployments));
    findings.push(check_leader_lease(cluster, system).await);
    findings
}

async fn check_api_server(cluster: &UserClusterClient) -> CheckFinding {
    const CHECK: &str = "API server";
    match cluster.client.apiserver_version().await {
        Ok(version) => CheckFinding::new(CHECK, CheckVerdict::Ok, version.git_version, ""),
        Err(error) => CheckFinding::new(
            CHECK,
            CheckVerdict::Failed,
            describe_kube_error(&error),
            "check the kubeconfig, and whether the cluster runs",
        ),
    }
}

/// Whether the cluster serves the pools of a platform.
async fn is_platform_served<P: ClientPlatform>(cluster: &UserClusterClient) -> bool {
    is_resource_served::<P::Pool>(cluster).await
}

async fn is_resource_served<K: ApiObject>(cluster: &UserClusterClient) -> bool {
    let listed = cluster.client.list_api_group_resources(&K::api_version(&())).await;
    listed.is_ok_and(|listed| listed.resources.iter().any(|resource| resource.name == K::plural(&())))
}

/// The checks of one platform.
async fn check_platform<P: ClientPlatform>(
    cluster: &UserClusterClient,
    system: &str,
    has_aggregated_api: bool,
    findings: &mut Vec<CheckFinding>,
) {
    let title = P::TITLE;
    findings.push(CheckFinding::new(
        &format!("{title} pools"),
        CheckVerdict::Ok,
        format!("the cluster serves {}", full_name::<P::Pool>()),
        "",
    ));
    if !is_resource_served::<P::Machine>(cluster).await {
        findings.push(CheckFinding::new(
            &format!("{title} machines"),
            CheckVerdict::Failed,
            format!("the cluster does not serve {}", full_name::<P::Machine>()),
            "install the platform: the controller cannot create machines without it",
        ));
    }
    if has_aggregated_api {
        findings.push(probe_aggregated_api::<P>(cluster).await);
    } else {
        findings.push(finding_without_aggregated_api(P::TITLE));
    }
    findings.push(probe_pool_webhook::<P>(cluster, system).await);
    findings.extend(probe_scale_webhook::<P>(cluster, system).await);
    findings.push(check_user_rights::<P>(cluster).await);
    if P::OtherController::EXISTS {
        findings.push(check_other_controller::<P>(cluster).await);
    }
    findings.push(check_pools::<P>(cluster).await);
}

/// Whether another controller reconciles the same pools.
async fn check_other_controller<P: ClientPlatform>(cluster: &UserClusterClient) -> CheckFinding {
    let check = format!("{} controllers", P::TITLE);
    let listed =
        match cluster.list_everywhere::<<P::OtherController as OtherController>::Installation>().await {
            Ok(listed) => listed,
            Err(error) => return CheckFinding::new(&check, CheckVerdict::Unknown, format!("{error:#}"), ""),
        };
    let installations: Vec<_> =
        listed.into_iter().filter_map(|object| serde_json::from_value(object).ok()).collect();
    match P::OtherController::blocker(&installations) {
        None => CheckFinding::new(&check, CheckVerdict::Ok, "no other controller reconciles the pools", ""),
        Some(why) => {
            CheckFinding::new(&check, CheckVerdict::Failed, "another controller may reconcile the pools", why)
        }
    }
}

/// Whether the pools of the namespace are in order.
async fn check_pools<P: ClientPlatform>(cluster: &UserClusterClient) -> CheckFinding {
    let check = format!("{} pools in {}", P::TITLE, cluster.namespace);
    let pools = match cluster.list::<P::Pool>(None).await {
        Ok(pools) => pools,
        Err(error) => return CheckFinding::new(&check, CheckVerdict::Unknown, format!("{error:#}"), ""),
    };
    let bad: Vec<String> = pools.iter().filter_map(pool_problem::<P>).collect();
    if bad.is_empty() {
        let what = describe_good_pools(pools.len(), &list_limited_pools::<P>(&pools));
        let what = what + &describe_standby_pools(&list_standby_pools::<P>(&pools));
        return CheckFinding::new(&check, CheckVerdict::Ok, what, "");
    }
    CheckFinding::new(&check, CheckVerdict::Warning, bad.join("; "), "run `kubectl vmpool status POOL`")
}

/// The names of the pools whose creates a limit on provisioning delays.
fn list_limited_pools<P: ClientPlatform>(pools: &[Value]) -> Vec<String> {
    let pools = pools.iter().filter_map(|pool| Some(decode_pool::<P>(pool).ok()?.1));
    let is_limited = |pool: &ParsedPool| {
        let mut conditions = pool.published.conditions.iter();
        conditions
            .any(|condition| condition.is(ConditionType::ProvisioningLimited) && condition.status == "True")
    };
    pools.filter(is_limited).map(|pool| pool.id.name.to_string()).collect()
}

/// The names of the pools that want standby machines.
fn list_standby_pools<P: ClientPlatform>(pools: &[Value]) -> Vec<String> {
    let pools = pools.iter().filter_map(|pool| Some(decode_pool::<P>(pool).ok()?.1));
    let wants_standby = |pool: &ParsedPool| pool.standby.is_some_and(|standby| standby.replicas > 0);
    pools.filter(wants_standby).map(|pool| pool.id.name.to_string()).collect()
}

/// Other controllers and earlier versions count standby machines as replicas.
fn describe_standby_pools(pools: &[String]) -> String {
    if pools.is_empty() {
        return String::new();
    }
    format!(
        "; before another controller or an earlier version takes over, set standby.replicas to 0 in {}",
        pools.join(", ")
    )
}

fn describe_good_pools(count: usize, limited: &[String]) -> String {
    let text = format!("none of {count} is blocked or failing");
    if limited.is_empty() {
        return text;
    }
    format!("{text}; a limit on provisioning delays machines of {}", limited.join(", "))
}

/// What is wrong with a pool.
fn pool_problem<P: ClientPlatform>(pool: &Value) -> Option<String> {
    let (_, facts) = decode_pool::<P>(pool).ok()?;
    let condition =
        |kind: ConditionType| facts.published.conditions.iter().find(|condition| condition.is(kind));
    let Some(PublishedPhase { phase, message }) = read_published_phase(&facts) else {
        return Some(format!("{}: no controller has written its status", facts.id.name));
    };
    let unhealthy = [ConditionType::HealingBlocked, ConditionType::StartOverdue];
    if let Some(found) = unhealthy.into_iter().filter_map(condition).find(|found| found.status == "True") {
        return Some(format!("{}: {}", facts.id.name, found.message));
    }
    let stalled = condition(ConditionType::Stalled).is_some_and(|condition| condition.status == "True");
    (stalled || phase == ConditionReason::Failing.as_str())
        .then(|| format!("{}: {phase}: {message}", facts.id.name))
}

/// Whether the webhook is registered and has a CA.
async fn check_webhook(cluster: &UserClusterClient) -> CheckFinding {
    const CHECK: &str = "webhook";
    let api: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client.clone());
    let registered = match api.list(&ListParams::default().labels(PART_OF)).await {
        Ok(registered) => registered.items,
        Err(error) => return CheckFinding::unknown(CHECK, "listing webhook configurations", &error),
    };
    let webhooks: Vec<_> =
        registered.into_iter().flat_map(|configuration| configuration.webhooks.unwrap_or_default()).collect();
    if webhooks.is_empty() {
        return CheckFinding::new(
            CHECK,
            CheckVerdict::Failed,
            "not registered: invalid pools and shrinks of Explicit pools are accepted",
            "install the chart with featureGates.VirtualMachinePool=true",
        );
    }
    let without_ca: Vec<&str> = webhooks
        .iter()
        .filter(|webhook| webhook.client_config.ca_bundle.as_ref().is_none_or(|bundle| bundle.0.is_empty()))
        .map(|webhook| &*webhook.name)
        .collect();
    if without_ca.is_empty() {
        return CheckFinding::new(
            CHECK,
            CheckVerdict::Ok,
            format!("{} webhooks are registered", webhooks.len()),
            "",
        );
    }
    CheckFinding::new(
        CHECK,
        CheckVerdict::Failed,
        format!("no CA in {}: the API server rejects writes of pools", without_ca.join(", ")),
        "check the logs of vmpool-webhook, or cert-manager",
    )
}

/// Whether a controller holds the lease, and how old its last renewal is.
async fn check_leader_lease(cluster: &UserClusterClient, system: &str) -> CheckFinding {
    match read_leader_state(cluster, system).await {
        Ok(leader) => leader_finding(&leader, system, cluster.env.now()),
        Err(error) => CheckFinding::unknown(
            LEADER_CHECK,
            &format!("reading lease {LEASE} in namespace {system}"),
            &error,
        ),
    }
}

fn leader_finding(leader: &LeaderState, system: &str, now: Timestamp) -> CheckFinding {
    let what = leader.describe(now);
    match leader {
        LeaderState::Active { .. } => CheckFinding::new(LEADER_CHECK, CheckVerdict::Ok, what, ""),
        LeaderState::Silent { .. } | LeaderState::Vacant { .. } | LeaderState::Missing { .. } => {
            let remedy = format!(
                "run `kubectl logs -n {system} deployment/vmpool-controller`; if vmpool is in another namespace, set \
                 --system-namespace"
            );
            CheckFinding::new(
                LEADER_CHECK,
                CheckVerdict::Failed,
                format!("{what}, so no controller works"),
                remedy,
            )
        }
    }
}
