//! `remove`: a targeted removal through the aggregated API, with the UIDs of pool and machines.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use http::Request;
use serde_json::{Value, json};
use vmpool_platforms::View;

use crate::arguments::RemoveArguments;
use crate::cluster::Cluster;
use crate::explain::{Attempt, explain};
use crate::output::write;

/// How often a request is sent whose response was lost or says that the server is unavailable. A repeated request removes
/// and counts each machine once.
const ATTEMPTS: u32 = 4;

/// Time between two of these requests, and between two reads of the machines.
const PAUSE: Duration = Duration::from_secs(1);

/// Removes machines.
///
/// # Errors
/// A machine does not exist, or the request was refused.
pub(crate) async fn run<P: View>(
    cluster: &Cluster,
    _: P,
    pool: Value,
    arguments: &RemoveArguments,
) -> Result<()> {
    let mut machines = arguments.machines.clone();
    machines.sort_unstable();
    machines.dedup();
    let mut uids = Vec::new();
    for name in &machines {
        let machine = cluster.get::<P::Machine>(name).await?;
        let machine = machine.ok_or_else(|| {
            anyhow!(
                "machine {name} not found in namespace {}: nothing was removed; `kubectl vmpool status {}` lists the machines",
                cluster.namespace,
                arguments.pool
            )
        })?;
        uids.push(machine["metadata"]["uid"].clone());
    }
    let body = json!({
        "apiVersion": P::REMOVAL.api_version(),
        "kind": P::REMOVAL.removal_kind,
        "targets": machines,
        "targetUIDs": uids,
        "preconditions": { "uid": pool["metadata"]["uid"] },
        "dryRun": if arguments.dry_run { vec!["All"] } else { vec![] },
    });
    send::<P>(cluster, &arguments.pool, &body).await?;
    let names = machines.join(", ");
    if arguments.dry_run {
        return write(&format!("{names}: the removal would be accepted; nothing was removed (dry run)\n"));
    }
    write(&format!("{names}: removal accepted, replicas lowered\n"))?;
    if arguments.wait {
        until_gone::<P>(cluster, &machines, &uids).await?;
        write(&format!("{names}: gone\n"))?;
    }
    Ok(())
}

/// Sends the removal, and repeats it if the response was lost.
async fn send<P: View>(cluster: &Cluster, pool: &str, body: &Value) -> Result<()> {
    let api = P::REMOVAL;
    let path = format!(
        "/apis/{}/{}/namespaces/{}/{}/{pool}/scaledownwith",
        api.group, api.version, cluster.namespace, api.plural
    );
    let attempt = Attempt {
        verb: "create",
        resource: format!("{}/scaledownwith.{}", api.plural, api.group),
        name: pool.to_owned(),
        namespace: cluster.namespace.clone(),
    };
    let mut left = ATTEMPTS;
    loop {
        let request = Request::post(&path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(body)?)
            .context("building the request")?;
        left -= 1;
        match cluster.client.request::<Value>(request).await {
            Ok(_) => return Ok(()),
            Err(error) if left > 0 && may_repeat(&error) => cluster.env.sleep(PAUSE).await,
            Err(error) => return Err(explain(&attempt, &error)),
        }
    }
}

/// Whether the request may be repeated: its response was lost, or the server asks for it.
fn may_repeat(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        kube::Error::HyperError(_) | kube::Error::Service(_) => true,
        _ => false,
    }
}

/// Waits until no machine with these names and UIDs exists.
async fn until_gone<P: View>(cluster: &Cluster, machines: &[String], uids: &[Value]) -> Result<()> {
    for (name, uid) in machines.iter().zip(uids) {
        while let Some(machine) = cluster.get::<P::Machine>(name).await? {
            if machine["metadata"]["uid"] != *uid {
                break;
            }
            if machine["metadata"]["deletionTimestamp"].is_null()
                && machine["metadata"]["ownerReferences"].is_null()
            {
                bail!("machine {name} was released from the pool, and stays");
            }
            cluster.env.sleep(PAUSE).await;
        }
    }
    Ok(())
}
