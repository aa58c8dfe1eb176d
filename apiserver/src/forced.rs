//! The event about a forced removal, which does not respect the protection of machines.

use serde_json::json;
use vmpool_engine::limits::shorten_message;
use vmpool_platforms::removal::RemovalApi;
use vmpool_runtime::Env;

use crate::cluster::ClusterClient;
use crate::removal::{Accepted, PoolName};

/// The program in events.
const SOURCE: &str = "vmpool.dev/apiserver";
/// The maximum number of names in the note.
const MAX_NAMES: usize = 10;

/// Records the event on the pool. A failure is logged: the machines are removed already.
pub(crate) async fn report_forced_removal(
    cluster: &ClusterClient,
    env: &Env,
    api: &RemovalApi,
    pool: &PoolName,
    accepted: &Accepted,
    user: &str,
) {
    let names: Vec<&str> = accepted.targets.iter().take(MAX_NAMES).map(|target| &*target.id.name).collect();
    let more = accepted.targets.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = names.join(", ");
    // Names of users are untrusted, so their control characters are escaped.
    let note = format!("{user:?} removed {names}{more} with force, regardless of protection");
    let pools = &pool.stored.pools;
    let now = env.now();
    let seconds = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": format!("{}.{:016x}", pool.name, env.random()), "namespace": pool.namespace },
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        "firstTimestamp": seconds,
        "lastTimestamp": seconds,
        "count": 1,
        "source": { "component": SOURCE },
        "reportingComponent": SOURCE,
        "reportingInstance": "vmpool-apiserver",
        "action": "Remove",
        "reason": "ProtectionOverridden",
        "type": "Warning",
        "message": shorten_message(note),
        "involvedObject": {
            "apiVersion": format!("{}/{}", pools.group, pools.version),
            "kind": api.kind,
            "namespace": pool.namespace,
            "name": pool.name,
            "uid": accepted.pool_uid,
        },
    });
    if let Err(error) = cluster.create_event(&pool.namespace, &event).await {
        tracing::warn!(pool = pool.name, %error, "recording the event about a forced removal failed");
    }
}
