//! Names from the cluster, for the completion of command lines.

use std::time::Duration;

use clap_complete::CompletionCandidate;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::config::Kubeconfig;
use serde_json::Value;
use vmpool_engine::ObjectId;
use vmpool_platforms::{ClientPlatform, PlatformName, RevisionObjects, is_controlled_by, with_platform};
use vmpool_runtime::Env;

use crate::cluster::UserClusterClient;
use crate::connection::{ConnectionArguments, selected_platforms};
use crate::pool::{PoolReference, decode_pool};

/// How long the cluster may take. A slow completion is worse than none.
const DEADLINE: Duration = Duration::from_secs(2);

/// The names of all pools in the namespace, after a type if the command line begins one.
pub(crate) fn complete_pool_names() -> Vec<CompletionCandidate> {
    let word = std::env::args().next_back().unwrap_or_default();
    let prefix = type_prefix(&word);
    // Any name will do: only the type is of interest.
    let Ok(reference) = PoolReference::parse(&format!("{prefix}name")) else { return Vec::new() };
    completion_candidates(async |cluster| {
        let mut names = Vec::new();
        for name in selected_platforms(reference.platform) {
            names.extend(with_platform!(name, P => pool_names::<P>(cluster).await));
        }
        names.into_iter().map(|name| format!("{prefix}{name}")).collect()
    })
}

/// The names of all machines of the pools in the command line.
pub(crate) fn complete_machine_names() -> Vec<CompletionCandidate> {
    completion_candidates(async |cluster| {
        let mut names = Vec::new();
        for name in PlatformName::ALL {
            names.extend(with_platform!(name, P => machine_names::<P>(cluster).await));
        }
        names
    })
}

/// The names of the stored revisions of the pools in the command line.
pub(crate) fn complete_revision_names() -> Vec<CompletionCandidate> {
    completion_candidates(async |cluster| {
        let mut names = Vec::new();
        for name in PlatformName::ALL {
            names.extend(with_platform!(name, P => revision_names::<P>(cluster).await));
        }
        names
    })
}

/// The names of all namespaces.
pub(crate) fn complete_namespaces() -> Vec<CompletionCandidate> {
    completion_candidates(async |cluster| {
        let api: Api<Namespace> = Api::all(cluster.client.clone());
        let listed = api.list_metadata(&ListParams::default()).await;
        let items = listed.map(|listed| listed.items).unwrap_or_default();
        items.into_iter().filter_map(|namespace| namespace.metadata.name).collect()
    })
}

/// The contexts of the kubeconfig. It sends no request.
pub(crate) fn complete_contexts() -> Vec<CompletionCandidate> {
    let kubeconfig = match parse_connection_flags(std::env::args()).kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let contexts = kubeconfig.map(|kubeconfig| kubeconfig.contexts).unwrap_or_default();
    contexts.into_iter().map(|context| CompletionCandidate::new(context.name)).collect()
}

/// The names that `find` finds in the cluster of the command line; none if the cluster cannot be read in
/// time.
fn completion_candidates(
    find: impl AsyncFnOnce(&UserClusterClient) -> Vec<String>,
) -> Vec<CompletionCandidate> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let env = Env::system();
    let names = runtime.block_on(env.timeout(DEADLINE, async {
        let cluster =
            UserClusterClient::connect(&parse_connection_flags(std::env::args()), env.clone()).await.ok()?;
        Some(find(&cluster).await)
    }));
    names.ok().flatten().unwrap_or_default().into_iter().map(CompletionCandidate::new).collect()
}

/// The flags of the connection in a command line that is not complete yet.
fn parse_connection_flags(arguments: impl Iterator<Item = String>) -> ConnectionArguments {
    let mut connection = ConnectionArguments::default();
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        let (flag, value) = match argument.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (&*argument, None),
        };
        let field = match flag {
            "-n" | "--namespace" => &mut connection.namespace,
            "--context" => &mut connection.context,
            "--as" => &mut connection.impersonate,
            "--as-group" => {
                connection.impersonate_groups.extend(value.or_else(|| arguments.next()));
                continue;
            }
            "--kubeconfig" => {
                connection.kubeconfig = value.or_else(|| arguments.next()).map(Into::into);
                continue;
            }
            _ => continue,
        };
        *field = value.or_else(|| arguments.next());
    }
    connection
}

/// The type of a word `TYPE/NAME`, with the slash; empty for `NAME`.
fn type_prefix(word: &str) -> &str {
    word.rfind('/').map_or("", |slash| &word[..=slash])
}

async fn pool_names<P: ClientPlatform>(cluster: &UserClusterClient) -> Vec<String> {
    let pools = cluster.list::<P::Pool>(None).await.unwrap_or_default();
    pools.iter().filter_map(|pool| pool["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

/// The pools in the command line.
async fn named_pools<P: ClientPlatform>(cluster: &UserClusterClient) -> Vec<Value> {
    let words: Vec<String> = std::env::args().collect();
    let mut pools = cluster.list::<P::Pool>(None).await.unwrap_or_default();
    pools.retain(|pool| words.iter().any(|word| pool["metadata"]["name"] == word[type_prefix(word).len()..]));
    pools
}

async fn machine_names<P: ClientPlatform>(cluster: &UserClusterClient) -> Vec<String> {
    let text = |pool: &Value, field: &str| pool["metadata"][field].as_str().unwrap_or_default().to_owned();
    let pools = named_pools::<P>(cluster).await;
    let pools: Vec<ObjectId> =
        pools.iter().map(|pool| ObjectId::new(&text(pool, "name"), &text(pool, "uid"))).collect();
    let machines = cluster.list::<P::Machine>(None).await.unwrap_or_default();
    let read = machines.into_iter().filter_map(|machine| serde_json::from_value(machine).ok());
    read.map(|machine| P::read_machine(&machine))
        .filter(|machine| pools.iter().any(|pool| machine.belongs_to(pool)))
        .map(|machine| machine.id.name.to_string())
        .collect()
}

async fn revision_names<P: ClientPlatform>(cluster: &UserClusterClient) -> Vec<String> {
    let mut names = Vec::new();
    for stored in named_pools::<P>(cluster).await {
        let Ok((object, pool)) = decode_pool::<P>(&stored) else { continue };
        let selector = P::Revisions::selector(&object);
        let revisions = cluster.list::<ControllerRevision>(selector.as_deref()).await.unwrap_or_default();
        for mut revision in revisions {
            let metadata = serde_json::from_value(revision["metadata"].take()).unwrap_or_default();
            if is_controlled_by::<P::Pool>(&metadata, &pool.id) {
                names.extend(P::Revisions::id(&metadata).map(str::to_owned));
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_an_incomplete_command_line_are_read() {
        let line = [
            "kubectl-vmpool",
            "remove",
            "-n",
            "team-a",
            "web",
            "--context=prod",
            "--kubeconfig",
            "k",
            "--as",
            "ed",
            "--as-group=a",
            "--as-group",
            "b",
            "web-",
        ];
        let connection = parse_connection_flags(line.into_iter().map(str::to_owned));
        assert_eq!(connection.namespace.as_deref(), Some("team-a"));
        assert_eq!(connection.context.as_deref(), Some("prod"));
        assert_eq!(connection.kubeconfig.as_deref(), Some(std::path::Path::new("k")));
        assert_eq!(connection.impersonate.as_deref(), Some("ed"));
        assert_eq!(connection.impersonate_groups, ["a", "b"]);
    }

    #[test]
    fn the_type_before_a_name_stays() {
        assert_eq!(type_prefix("vmpool/we"), "vmpool/");
        assert_eq!(type_prefix("virtualmachinepools.example.com/"), "virtualmachinepools.example.com/");
        assert_eq!(type_prefix("we"), "");
    }
}
