//! The current chart and programs continue with what an earlier version has stored: `e2e/stored`.
//!
//! The objects are put into etcd with their UIDs and statuses, while the API server has the definitions of
//! that version. `e2e/explorer/src/world/stored/tests.rs` has the same check without an API server.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_e2e::harness;
use vmpool_e2e::scenario::LIMIT;
use vmpool_e2e::wait::let_time_pass;
use vmpool_e2e::world::SETTLE;
use vmpool_installation::installation::{
    ClusterInstallation, GuardOptions, cluster_options, feature_definitions, kubevirt_definitions,
};
use vmpool_installation::programs::{Accounts, ControllerOptions, ControllerProgram};
use vmpool_installation::workspace_root;
use vmpool_test_cluster::control_plane::{AuditEntry, ControlPlane, apply_manifests, read_yaml_documents};
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::error::error_with_causes;
use vmpool_test_cluster::{Error, poll};

/// The folder with definitions and objects.
const STORED: &str = "e2e/stored/333cbe32";

/// How long the controller may take until it has reported on each pool.
const REPORTED_DEADLINE: Duration = Duration::from_mins(2);

/// The removal records, which the controller empties.
const REMOVAL_RECORDS: [&str; 2] =
    ["vmpool.virtualization.deckhouse.io/scale-down-targets", "vmpool.pool.kubevirt.io/scale-in-targets"];

/// The kinds of which the controller may neither create nor delete an object after an upgrade.
const KEPT: [&str; 6] = [
    "virtualmachines",
    "virtualdisks",
    "datavolumes",
    "virtualmachineinstances",
    "vmdiskimages",
    "controllerrevisions",
];

/// The label with the revision in effect. The stored rollout waits for restarts. A new platform simulator
/// does not remember them and reports none, so the controller records the revision.
const REVISION_IN_EFFECT: &str = "vmpool.virtualization.deckhouse.io/template-hash";

fn stored_path(name: &str) -> PathBuf {
    workspace_root().join(STORED).join(name)
}

/// The current definitions.
fn current_definitions() -> Vec<PathBuf> {
    let dvp = workspace_root().join("api/crds");
    [dvp].into_iter().chain(kubevirt_definitions()).chain(feature_definitions()).collect()
}

/// An API server with the definitions and the objects of the earlier version.
async fn start_with_stored_objects(name: &str, objects: &[Value]) -> Result<Arc<ControlPlane>> {
    let mut options = cluster_options(&format!("upgrade-{name}"));
    options.manifests = current_definitions();
    // They replace the definitions that have changed.
    options.manifests.push(stored_path("definitions"));
    let cluster = Arc::new(ControlPlane::start(options).await?);
    let namespaces: BTreeSet<&str> =
        objects.iter().filter_map(|object| object["metadata"]["namespace"].as_str()).collect();
    let namespaces: Vec<Value> = namespaces
        .iter()
        .map(|name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
        .collect();
    apply_manifests(&cluster.admin(), &namespaces, None).await?;
    cluster.restore_objects(objects).await?;
    Ok(cluster)
}

/// The stored state of an object; `None` if it does not exist.
async fn read_object(cluster: &ControlPlane, object: &Value) -> Result<Option<Value>> {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap_or_default());
    let (resource, capabilities) = pinned_kind(&cluster.admin(), &kind).await?;
    let api = select_api(cluster, &resource, &capabilities.scope, text("namespace"));
    let found = api.get_opt(text("name")).await?;
    Ok(found.map(serde_json::to_value).transpose()?)
}

fn select_api(
    cluster: &ControlPlane,
    resource: &ApiResource,
    scope: &Scope,
    namespace: &str,
) -> Api<DynamicObject> {
    match scope {
        Scope::Cluster => Api::all_with(cluster.admin(), resource),
        Scope::Namespaced => Api::namespaced_with(cluster.admin(), namespace, resource),
    }
}

/// What the API server serves of these objects.
async fn read_objects(cluster: &ControlPlane, objects: &[Value]) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    for object in objects {
        found.extend(read_object(cluster, object).await?);
    }
    Ok(found)
}

fn is_pool(object: &Value) -> bool {
    object["kind"] == "VirtualMachinePool"
}

/// Why the controller has not reported on a pool.
fn find_open_report(pool: &Value) -> Option<String> {
    let (generation, observed) = (&pool["metadata"]["generation"], &pool["status"]["observedGeneration"]);
    let record = REMOVAL_RECORDS.iter().find(|record| pool["metadata"]["annotations"][record].is_string());
    match record {
        Some(record) => Some(format!("the pool has {record}")),
        None if generation != observed => Some(format!("generation {generation}, observed {observed}")),
        None if pool["status"]["replicas"] != pool["spec"]["replicas"] => Some(pool["status"].to_string()),
        None => None,
    }
}

/// Waits until the controller has completed removals and reported on all pools.
async fn wait_for_reports(cluster: &ControlPlane, objects: &[Value]) -> Result<()> {
    for pool in objects.iter().filter(|object| is_pool(object)) {
        let what = || "the controller reports on a stored pool".to_owned();
        poll::poll_until(what, REPORTED_DEADLINE, async || {
            let read = read_object(cluster, pool).await;
            let read = read.map_err(|error| Error::Unexpected {
                what: "the pool can be read".to_owned(),
                last: format!("{error:#}"),
            })?;
            let open = read.as_ref().map_or_else(|| Some("it is gone".to_owned()), find_open_report);
            Ok(open.map_or(Ok(()), Err))
        })
        .await?;
    }
    Ok(())
}

/// Checks that each object still exists, and that no machine has another spec or generation.
fn ensure_objects_are_kept(before: &[Value], after: &[Value]) -> Result<()> {
    for object in before.iter().filter(|object| object["metadata"]["deletionTimestamp"].is_null()) {
        let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
        let kept = after.iter().find(|other| other["metadata"]["uid"] == object["metadata"]["uid"]);
        ensure!(kept.is_some(), "{kind} {name} was deleted or replaced");
        let Some(kept) = kept.filter(|_| object["kind"] == "VirtualMachine") else { continue };
        ensure!(kept["spec"] == object["spec"], "the spec of machine {name} was changed: {kept}");
        let (old, new) = (&object["metadata"], &kept["metadata"]);
        ensure!(old["generation"] == new["generation"], "machine {name} has another generation: {kept}");
        ensure!(other_labels(old) == other_labels(new), "machine {name} has other labels: {kept}");
    }
    Ok(())
}

/// The labels in metadata, except [`REVISION_IN_EFFECT`].
fn other_labels(metadata: &Value) -> Value {
    let mut labels = metadata["labels"].clone();
    if let Some(labels) = labels.as_object_mut() {
        labels.remove(REVISION_IN_EFFECT);
    }
    labels
}

/// The names of the objects that were being deleted, and of what they own. Their deletion continues.
fn list_ending_names(objects: &[Value]) -> BTreeSet<&str> {
    let text = |object: &Value, pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let is_ending = |object: &&Value| !object["metadata"]["deletionTimestamp"].is_null();
    let ending: BTreeSet<String> =
        objects.iter().filter(is_ending).map(|object| text(object, "/metadata/uid")).collect();
    let belongs = |object: &&Value| {
        let owner = text(object, "/metadata/ownerReferences/0/uid");
        ending.contains(&owner) || ending.contains(&text(object, "/metadata/uid"))
    };
    objects.iter().filter(belongs).filter_map(|object| object["metadata"]["name"].as_str()).collect()
}

/// Whether the controller created or deleted one of [`KEPT`].
fn is_refused(entry: &AuditEntry, ending: &BTreeSet<&str>) -> bool {
    entry.user == Accounts::controller_user()
        && ["create", "delete", "deletecollection"].contains(&entry.verb.as_str())
        && KEPT.contains(&entry.resource.as_str())
        && !ending.contains(entry.name.as_str())
        && !entry.dry_run
}

async fn upgrade(recording: &str, values: &[&str], gates: &str) -> Result<()> {
    let objects = read_yaml_documents(&stored_path(&format!("{recording}.yaml")))?;
    let cluster = start_with_stored_objects(recording, &objects).await?;
    let stored = read_objects(&cluster, &objects).await?;
    ensure!(stored.len() == objects.len(), "the API server reads {} of {}", stored.len(), objects.len());

    let mut definitions = Vec::new();
    for path in current_definitions() {
        definitions.extend(read_yaml_documents(&path)?);
    }
    apply_manifests(&cluster.admin(), &definitions, None).await?;
    let before = read_objects(&cluster, &objects).await?;
    ensure!(before.len() == objects.len(), "after the definitions, {} are readable", before.len());

    let options = GuardOptions::default().with_kubevirt();
    let options = values.iter().fold(options, |options, value| options.value(value));
    let installation = ClusterInstallation::guarded(cluster.clone(), options).await?;
    let mark = cluster.audit_mark();
    let mut options = ControllerOptions::everywhere("upgraded");
    options.extra.extend(["--platforms=dvp,kubevirt".to_owned(), format!("--feature-gates={gates}")]);
    let controller = ControllerProgram::start(&cluster, options).await?;
    wait_for_reports(&cluster, &objects).await?;
    let_time_pass(SETTLE).await;

    ensure_objects_are_kept(&before, &read_objects(&cluster, &objects).await?)?;
    let (entries, _) = cluster.audit(mark)?;
    let ending = list_ending_names(&objects);
    let refused: Vec<String> =
        entries.iter().filter(|entry| is_refused(entry, &ending)).map(ToString::to_string).collect();
    ensure!(refused.is_empty(), "the controller created or deleted objects: {refused:#?}");
    drop(controller);
    installation.stop().await?;
    Ok(())
}

#[rstest]
#[case::dvp("dvp", &[], "VirtualMachinePool=true")]
#[case::kubevirt(
    "kubevirt",
    &["featureGates.DiskImages=true", "featureGates.MachineWrapper=true"],
    "VirtualMachinePool=true,DiskImages=true,MachineWrapper=true",
)]
#[case::instance_types("instancetypes", &[], "VirtualMachinePool=true")]
fn an_upgrade_keeps_all_objects_and_machines(
    #[case] recording: &str,
    #[case] values: &[&str],
    #[case] gates: &str,
) {
    let outcome = harness::block_on(Deadline::after(LIMIT).within(upgrade(recording, values, gates)));
    let outcome = outcome.map_err(|elapsed| format!("it has not ended after {elapsed}"));
    let outcome = outcome.and_then(|ended| ended.map_err(|error| error_with_causes(error.as_ref())));
    assert_eq!(outcome, Ok(()));
}
