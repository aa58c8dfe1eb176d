//! `remove`: a targeted removal through the aggregated API, with the UIDs of pool and machines.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use serde_json::Value;
use vmpool_api::subresources::TargetedRemoval;
use vmpool_platforms::ClientPlatform;

use crate::arguments::RemoveArguments;
use crate::cluster::{UserClusterClient, full_name};
use crate::explain::explain_request_error;
use crate::output::print_text;
use crate::subresource::{PAUSE, post_to_subresource, subresource_attempt};

/// Removes machines.
///
/// # Errors
/// A machine does not exist, or the request was refused.
pub(crate) async fn remove_machines<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &RemoveArguments,
) -> Result<()> {
    let mut machines = arguments.machines.clone();
    machines.sort_unstable();
    machines.dedup();
    let mut uids = Vec::new();
    let mut body = TargetedRemoval::default().api_version(P::REMOVAL.api_version());
    if let Some(uid) = pool["metadata"]["uid"].as_str() {
        body = body.pool_uid(uid);
    }
    for name in &machines {
        let machine = cluster.get::<P::Machine>(name).await?;
        let machine = machine.ok_or_else(|| {
            anyhow!(
                "machine {name} not found in namespace {}: nothing was removed; `kubectl vmpool status {}` lists the machines",
                cluster.namespace,
                arguments.pool
            )
        })?;
        let uid = machine["metadata"]["uid"].clone();
        body = body.target(name.as_str(), uid.as_str().unwrap_or_default());
        uids.push(uid);
    }
    if arguments.dry_run.is_on() {
        body = body.dry_run();
    }
    // A repeated request removes and counts each machine once.
    let removed = post_to_subresource::<P>(cluster, &arguments.pool, "scaledownwith", &body).await?;
    removed.map_err(|error| {
        explain_request_error(&subresource_attempt::<P>(cluster, &arguments.pool, "scaledownwith"), &error)
    })?;
    let names = machines.join(", ");
    if arguments.dry_run.is_on() {
        return print_text(&format!(
            "{names}: the removal would be accepted; nothing was removed (server dry run)\n"
        ));
    }
    print_text(&format!("{names}: removal accepted, replicas lowered\n"))?;
    if arguments.wait {
        let timeout = Duration::from_secs(arguments.timeout);
        wait_until_gone::<P>(cluster, &machines, &uids, timeout).await?;
        print_text(&format!("{names}: gone\n"))?;
    }
    Ok(())
}

/// Waits until no machine with these names and UIDs exists.
///
/// # Errors
/// A machine was released from the pool, or still exists after the timeout. The removal stays accepted.
async fn wait_until_gone<P: ClientPlatform>(
    cluster: &UserClusterClient,
    machines: &[String],
    uids: &[Value],
    timeout: Duration,
) -> Result<()> {
    let deadline = cluster.env.uptime() + timeout;
    for (place, (name, uid)) in machines.iter().zip(uids).enumerate() {
        while let Some(machine) = cluster.get::<P::Machine>(name).await? {
            if machine["metadata"]["uid"] != *uid {
                break;
            }
            if machine["metadata"]["deletionTimestamp"].is_null()
                && machine["metadata"]["ownerReferences"].is_null()
            {
                bail!("machine {name} was released from the pool, and stays");
            }
            if cluster.env.uptime() >= deadline {
                bail!(
                    "the removal is accepted, but after {} seconds these machines still exist or were not checked: {}; \
                     finalizers of other controllers can hold a machine: \
                     `kubectl get {} {name} -o jsonpath='{{.metadata.finalizers}}'` shows them",
                    timeout.as_secs(),
                    machines[place..].join(", "),
                    full_name::<P::Machine>()
                );
            }
            cluster.env.sleep(PAUSE).await;
        }
    }
    Ok(())
}
