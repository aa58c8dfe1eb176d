//! `claim` and `release`: a free machine of the pool for one job or user, through the aggregated API.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use vmpool_api::subresources::{LONGEST_WAIT, MachineClaim, MachineRelease};
use vmpool_engine::protection::CLAIM;
use vmpool_platforms::ClientPlatform;

use crate::arguments::{ClaimArguments, ReleaseArguments};
use crate::cluster::UserClusterClient;
use crate::exit::NoMachineFree;
use crate::explain::explain_request_error;
use crate::output::print_objects;
use crate::pool::resource_name;
use crate::subresource::{PAUSE, post_to_subresource, subresource_attempt};

/// Claims a machine, or renews the claim with the same id.
///
/// # Errors
/// [`NoMachineFree`] if no machine became free in time, or the request was refused.
pub(crate) async fn claim_machine<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    _: Value,
    arguments: &ClaimArguments,
) -> Result<()> {
    let deadline = cluster.env.uptime() + arguments.wait.unwrap_or_default();
    loop {
        let left = deadline.saturating_sub(cluster.env.uptime());
        let mut body = MachineClaim::new(arguments.id.as_str(), arguments.duration)
            .api_version(P::REMOVAL.api_version())
            .wait(server_wait(left, cluster.request_timeout));
        body.reason.clone_from(&arguments.reason);
        body.machine.clone_from(&arguments.machine);
        body.renew = arguments.renew;
        if arguments.dry_run.is_on() {
            body = body.dry_run();
        }
        match post_to_subresource::<P>(cluster, &arguments.pool, "claim", &body).await? {
            Ok(claimed) => {
                let text = claim_text(&claimed, arguments);
                return print_objects(
                    &arguments.format.output,
                    &text,
                    &machine_names::<P>(&claimed),
                    &claimed,
                );
            }
            Err(error) if is_unavailable(&error) && left > Duration::ZERO => {
                cluster.env.sleep(PAUSE.min(left)).await;
            }
            Err(error) => {
                let attempt = subresource_attempt::<P>(cluster, &arguments.pool, "claim");
                let explained = explain_request_error(&attempt, &error);
                return Err(if is_unavailable(&error) {
                    NoMachineFree { message: explained.to_string() }.into()
                } else {
                    explained
                });
            }
        }
    }
}

/// For how long one request waits on the server: the response must arrive before `--request-timeout`.
fn server_wait(left: Duration, request_timeout: Option<Duration>) -> Duration {
    left.min(request_timeout.map_or(LONGEST_WAIT, |timeout| LONGEST_WAIT.min(timeout / 2)))
}

/// Whether no machine was free.
fn is_unavailable(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "NoMachineAvailable")
}

fn claim_text(claimed: &Value, arguments: &ClaimArguments) -> String {
    let text = |path: &str| claimed.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let addresses: Vec<&str> = claimed
        .pointer("/machine/addresses")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let address = if addresses.is_empty() { String::new() } else { format!(", at {}", addresses.join(", ")) };
    let dry = if arguments.dry_run.is_on() { "; nothing was claimed (server dry run)" } else { "" };
    format!(
        "machine {}: claimed as {} until {}{address}{dry}\n",
        text("/machine/name"),
        text("/id"),
        text("/expiresAt")
    )
}

/// Releases a claimed machine.
///
/// # Errors
/// The pool has no machine with such a claim, or the request was refused.
pub(crate) async fn release_machine<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &ReleaseArguments,
) -> Result<()> {
    let uid = match &arguments.uid {
        Some(uid) => uid.clone(),
        None => claimed_uid::<P>(cluster, &pool, arguments).await?,
    };
    let mut body = MachineRelease::new(arguments.id.as_str(), uid, arguments.then.action())
        .api_version(P::REMOVAL.api_version());
    if arguments.dry_run.is_on() {
        body = body.dry_run();
    }
    let released = post_to_subresource::<P>(cluster, &arguments.pool, "release", &body).await?;
    let released = released.map_err(|error| {
        explain_request_error(&subresource_attempt::<P>(cluster, &arguments.pool, "release"), &error)
    })?;
    let name = released.pointer("/machine/name").and_then(Value::as_str).unwrap_or_default();
    let what = if arguments.dry_run.is_on() { "would be released (server dry run)" } else { "released" };
    let text = format!("machine {name}: {what}, {}\n", arguments.then.effect());
    print_objects(&arguments.format.output, &text, &machine_names::<P>(&released), &released)
}

/// The machine of a claim or a release as TYPE/NAME.
fn machine_names<P: ClientPlatform>(answer: &Value) -> Vec<String> {
    let name = answer.pointer("/machine/name").and_then(Value::as_str);
    name.map(resource_name::<P::Machine>).into_iter().collect()
}

/// The UID of the machine of the pool whose claim has the id of the command. Claims of other pools can have
/// the same id.
async fn claimed_uid<P: ClientPlatform>(
    cluster: &UserClusterClient,
    pool: &Value,
    arguments: &ReleaseArguments,
) -> Result<String> {
    let machines = cluster
        .list::<P::Machine>(None)
        .await
        .context("finding the claimed machine; with --uid, the command needs no right on machines")?;
    let claimed = machines.iter().find(|machine| has_claim(machine, pool, &arguments.id));
    let uid = claimed.and_then(|machine| machine["metadata"]["uid"].as_str());
    uid.map(str::to_owned).with_context(|| {
        format!(
            "no machine of pool {} in namespace {} has a claim with the id {}",
            arguments.pool, cluster.namespace, arguments.id
        )
    })
}

/// Whether the machine has a claim of this pool with this id.
fn has_claim(machine: &Value, pool: &Value, id: &str) -> bool {
    let claim = machine["metadata"]["annotations"][CLAIM].as_str();
    let claim = claim.and_then(|text| serde_json::from_str::<Value>(text).ok());
    claim.is_some_and(|claim| claim["id"] == *id && claim["poolUID"] == pool["metadata"]["uid"])
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::its_claim(r#"{"id":"job-1","user":"ci","poolUID":"uid-a"}"#, true)]
    #[case::the_same_id_in_another_pool(r#"{"id":"job-1","user":"ci","poolUID":"uid-b"}"#, false)]
    #[case::another_id(r#"{"id":"job-2","user":"ci","poolUID":"uid-a"}"#, false)]
    #[case::no_claim("soon", false)]
    fn a_claim_is_found_by_its_pool_and_its_id(#[case] claim: &str, #[case] expected: bool) {
        let machine = json!({ "metadata": { "annotations": { CLAIM: claim } } });
        let pool = json!({ "metadata": { "uid": "uid-a" } });
        assert_eq!(has_claim(&machine, &pool, "job-1"), expected);
    }

    #[rstest]
    #[case::short(5, None, 5)]
    #[case::longer_than_the_server_permits(600, None, 25)]
    #[case::limited_by_the_request_timeout(600, Some(10), 5)]
    #[case::a_long_request_timeout(600, Some(300), 25)]
    fn a_request_waits_for_less_than_its_timeout(
        #[case] left: u64,
        #[case] request_timeout: Option<u64>,
        #[case] expected: u64,
    ) {
        let wait = server_wait(Duration::from_secs(left), request_timeout.map(Duration::from_secs));
        assert_eq!(wait.as_secs(), expected);
    }

    #[rstest]
    #[case::no_machine("NoMachineAvailable", true)]
    #[case::held_by_another_user("ClaimHeld", false)]
    #[case::conflict("Conflict", false)]
    fn only_the_lack_of_a_machine_is_unavailability(#[case] reason: &str, #[case] expected: bool) {
        let error = kube::Error::Api(Box::new(Status::failure("busy", reason).with_code(409)));
        assert_eq!(is_unavailable(&error), expected);
    }
}
