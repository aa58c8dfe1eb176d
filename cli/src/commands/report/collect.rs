//! Reads what a report contains. Secrets are never requested.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use vmpool_platforms::{ClientPlatform, DiskOf, Disks, InstanceOf, Instances, MachineStorage, VolumeOf};

use super::content::IssueReport;
use crate::cluster::{UserClusterClient, name_of};
use crate::commands::doctor;
use crate::installation::{PART_OF, find_installed_programs};
use crate::resources::{ResourceSelection, named_resource};

/// Names of the leases of vmpool begin with it.
const LEASES: &str = "vmpool";

/// The pools of a report.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportedPools<'a> {
    /// Their namespace.
    pub(super) namespace: &'a str,
    /// The name of the only one; `None` for all of the namespace.
    pub(super) name: Option<&'a str>,
}

/// Adds the pools of a platform with their objects. Returns their UIDs and those of their objects.
pub(super) async fn add_pools<P: ClientPlatform>(
    cluster: &UserClusterClient,
    pools: ReportedPools<'_>,
    report: &mut IssueReport,
) -> BTreeSet<String> {
    let namespace = Some(pools.namespace);
    let mut found = read_objects(cluster, &ResourceSelection::of_type::<P::Pool>(namespace), report).await;
    found.retain(|pool| pools.name.is_none_or(|name| name_of(pool) == name));
    let mut uids: BTreeSet<String> = found.iter().filter_map(uid_of).collect();
    report.add(&format!("pools of {}", P::TITLE), &found);
    if uids.is_empty() {
        return uids;
    }
    let machines = ResourceSelection::of_type::<P::Machine>(namespace);
    add_related(cluster, &format!("machines of {}", P::TITLE), &machines, &mut uids, report).await;
    if P::Instances::EXIST {
        let instances = ResourceSelection::of_type::<InstanceOf<P>>(namespace);
        add_related(cluster, &format!("instances of {}", P::TITLE), &instances, &mut uids, report).await;
    }
    if P::Disks::EXIST {
        let disks = ResourceSelection::of_type::<DiskOf<P>>(namespace);
        add_related(cluster, &format!("disks of {}", P::TITLE), &disks, &mut uids, report).await;
    }
    if P::Storage::EXIST {
        let volumes = ResourceSelection::of_type::<VolumeOf<P>>(namespace);
        add_related(cluster, &format!("volumes of {}", P::TITLE), &volumes, &mut uids, report).await;
    }
    uids
}

/// Adds what belongs to these objects on any platform: revisions and events; and the images of the namespace.
pub(super) async fn add_common_objects(
    cluster: &UserClusterClient,
    namespace: &str,
    mut uids: BTreeSet<String>,
    report: &mut IssueReport,
) {
    let revisions = named_resource("apps", "v1", "ControllerRevision", "controllerrevisions");
    let revisions = ResourceSelection::all(revisions, Some(namespace));
    add_related(cluster, "stored revisions", &revisions, &mut uids, report).await;
    let events = ResourceSelection::all(named_resource("", "v1", "Event", "events"), Some(namespace));
    let mut found = read_objects(cluster, &events, report).await;
    found.retain(|event| event["involvedObject"]["uid"].as_str().is_some_and(|uid| uids.contains(uid)));
    report.add("events", &found);
    for (kind, plural) in [("VMDiskImage", "vmdiskimages"), ("VMDiskImageGrant", "vmdiskimagegrants")] {
        let images = named_resource("vmpool.dev", "v1alpha1", kind, plural);
        let found = read_objects(cluster, &ResourceSelection::all(images, Some(namespace)), report).await;
        report.add(plural, &found);
    }
}

/// Adds the programs in namespace `system`, and how they are registered.
pub(super) async fn add_installation(cluster: &UserClusterClient, system: &str, report: &mut IssueReport) {
    const ADMISSION: &str = "admissionregistration.k8s.io";
    for (resource, namespace) in [
        (named_resource("apps", "v1", "Deployment", "deployments"), Some(system)),
        (named_resource("", "v1", "Pod", "pods"), Some(system)),
        (
            named_resource(
                ADMISSION,
                "v1",
                "ValidatingWebhookConfiguration",
                "validatingwebhookconfigurations",
            ),
            None,
        ),
        (
            named_resource(ADMISSION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
            None,
        ),
        (named_resource("apiregistration.k8s.io", "v1", "APIService", "apiservices"), None),
    ] {
        let mut selection = ResourceSelection::all(resource, namespace);
        selection.labels = Some(PART_OF.to_owned());
        let found = read_objects(cluster, &selection, report).await;
        report.add(&selection.resource.plural, &found);
    }
    let leases = named_resource("coordination.k8s.io", "v1", "Lease", "leases");
    let mut found = read_objects(cluster, &ResourceSelection::all(leases, Some(system)), report).await;
    found.retain(|lease| name_of(lease).starts_with(LEASES));
    report.add("leases", &found);
}

/// Adds the findings of `doctor`, and the versions.
pub(super) async fn add_findings(cluster: &UserClusterClient, system: &str, report: &mut IssueReport) {
    match doctor::collect_findings(cluster, system).await {
        Ok(findings) => report.add("findings of doctor", &findings),
        Err(error) => report.add_unreadable(&error),
    }
    let mut versions = vec![json!({ "program": "kubectl-vmpool", "version": env!("CARGO_PKG_VERSION") })];
    match cluster.client.apiserver_version().await {
        Ok(version) => versions.push(json!({ "program": "kube-apiserver", "version": version.git_version })),
        Err(error) => {
            report
                .add_unreadable(&anyhow::Error::new(error).context("reading the version of the API server"));
        }
    }
    match find_installed_programs(cluster, system).await {
        Ok(programs) => versions.extend(programs.iter().map(
            |program| json!({ "program": program.name, "version": program.version, "image": program.image }),
        )),
        Err(errors) => errors.iter().for_each(|error| report.add_unreadable(error)),
    }
    report.add("versions", &versions);
}

async fn add_related(
    cluster: &UserClusterClient,
    title: &str,
    selection: &ResourceSelection,
    uids: &mut BTreeSet<String>,
    report: &mut IssueReport,
) {
    let mut found = read_objects(cluster, selection, report).await;
    found.retain(|object| is_related(object, uids));
    uids.extend(found.iter().filter_map(uid_of));
    report.add(title, &found);
}

/// Whether one of these objects owns an object, or its labels name one.
fn is_related(object: &Value, uids: &BTreeSet<String>) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let owner_uids = owners.filter_map(|owner| owner["uid"].as_str());
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let label_values = labels.filter_map(|(_, value)| value.as_str());
    owner_uids.chain(label_values).any(|uid| uids.contains(uid))
}

fn uid_of(object: &Value) -> Option<String> {
    object["metadata"]["uid"].as_str().map(str::to_owned)
}

/// The objects of a selection. If they cannot be read, the report says so.
async fn read_objects(
    cluster: &UserClusterClient,
    selection: &ResourceSelection,
    report: &mut IssueReport,
) -> Vec<Value> {
    match selection.list(cluster).await {
        Ok(found) => found.unwrap_or_default().objects,
        Err(error) => {
            report.add_unreadable(&error);
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::owned(json!({ "metadata": { "ownerReferences": [{ "uid": "u1" }] } }), true)]
    #[case::labeled(json!({ "metadata": { "labels": { "vmpool.dev/pool-uid": "u1" } } }), true)]
    #[case::of_another_pool(json!({ "metadata": { "ownerReferences": [{ "uid": "u2" }], "labels": { "a": "b" } } }), false)]
    #[case::plain(json!({ "metadata": {} }), false)]
    fn objects_of_the_pools_are_related(#[case] object: Value, #[case] expected: bool) {
        assert_eq!(is_related(&object, &BTreeSet::from(["u1".to_owned()])), expected);
    }
}
