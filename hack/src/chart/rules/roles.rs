//! Rules for RBAC. The expected grants are repeated here, so that widening a role is a deliberate change.

use std::collections::{BTreeMap, BTreeSet};

use serde_yaml_ng::Value;

use super::super::objects::{kind_and_name, list_at, object_name, role_grants, text_at, texts_at};
use super::super::variants::{PROGRAMS, Variant};

/// Resources, each followed by resource names if the grant is limited to them, and verbs.
type Grants = &'static [(&'static str, &'static str)];

const CONTROLLER_CLUSTER: Grants = &[("apiextensions.k8s.io/customresourcedefinitions", "list watch")];

const CONTROLLER_NAMESPACED: Grants = &[
    ("virtualization.deckhouse.io/virtualmachinepools", "get list watch patch"),
    ("virtualization.deckhouse.io/virtualmachinepools/status", "update patch"),
    ("virtualization.deckhouse.io/virtualmachinepools/finalizers", "update"),
    ("virtualization.deckhouse.io/virtualmachines", "get list watch create patch delete"),
    ("virtualization.deckhouse.io/virtualmachines/finalizers", "update"),
    ("virtualization.deckhouse.io/virtualdisks", "get list watch create patch delete"),
    ("virtualization.deckhouse.io/virtualmachineblockdeviceattachments", "list watch"),
];

const CONTROLLER_SHARED: Grants =
    &[("apps/controllerrevisions", "get list watch create delete"), ("/events", "create patch")];

const CONTROLLER_KUBEVIRT_CLUSTER: Grants = &[
    ("kubevirt.io/kubevirts", "list watch"),
    (
        "rbac.authorization.k8s.io/clusterroles \
         virt-observability-controller,virt-observability-controller-manager-role",
        "get",
    ),
    // Whether the account of a machine may clone an object of another namespace.
    ("authorization.k8s.io/subjectaccessreviews", "create"),
    ("instancetype.kubevirt.io/virtualmachineclusterinstancetypes", "get list watch patch"),
    ("instancetype.kubevirt.io/virtualmachineclusterpreferences", "get list watch patch"),
    ("/namespaces", "get"),
];

const CONTROLLER_KUBEVIRT: Grants = &[
    ("pool.kubevirt.io/virtualmachinepools", "get list watch patch"),
    ("pool.kubevirt.io/virtualmachinepools/status", "patch"),
    ("pool.kubevirt.io/virtualmachinepools/finalizers", "update"),
    ("kubevirt.io/virtualmachines", "get list watch create patch delete"),
    ("kubevirt.io/virtualmachines/status", "patch"),
    ("kubevirt.io/virtualmachines/finalizers", "update"),
    ("kubevirt.io/virtualmachineinstances", "get list watch patch delete"),
    ("cdi.kubevirt.io/datavolumes", "get list watch patch delete"),
    ("/persistentvolumeclaims", "get list watch patch delete"),
    ("apps/controllerrevisions", "patch"),
    ("instancetype.kubevirt.io/virtualmachineinstancetypes", "get list watch patch"),
    ("instancetype.kubevirt.io/virtualmachinepreferences", "get list watch patch"),
    ("cdi.kubevirt.io/datasources", "get"),
    ("snapshot.storage.k8s.io/volumesnapshots", "get"),
];

/// The finalizers of instance types and preferences.
const CONTROLLER_IMAGES_CLUSTER: Grants = &[
    ("/namespaces", "get list watch"),
    ("snapshot.storage.k8s.io/volumesnapshotcontents", "get list watch"),
];

const CONTROLLER_IMAGES: Grants = &[
    ("vmpool.dev/vmdiskimages", "get list watch patch delete"),
    ("vmpool.dev/vmdiskimages/status", "patch"),
    ("vmpool.dev/vmdiskimages/finalizers", "update"),
    ("vmpool.dev/wrappedvirtualmachines", "list watch"),
    ("vmpool.dev/vmdiskimagegrants", "list watch patch"),
    ("cdi.kubevirt.io/datavolumes", "get list watch create patch delete"),
    ("cdi.kubevirt.io/datasources", "get list watch create patch delete"),
    ("cdi.kubevirt.io/datavolumes/source", "create"),
    ("snapshot.storage.k8s.io/volumesnapshots", "get list watch create patch delete"),
    ("/persistentvolumeclaims", "list watch"),
    ("rbac.authorization.k8s.io/roles", "get list watch create patch delete"),
    ("rbac.authorization.k8s.io/rolebindings", "get list watch create patch delete"),
];

const CONTROLLER_WRAPPERS: Grants = &[
    ("vmpool.dev/vmdiskimages", "create"),
    ("vmpool.dev/wrappedvirtualmachines/status", "patch"),
    ("vmpool.dev/wrappedvirtualmachines/finalizers", "update"),
];

const CONTROLLER_AUTOSCALERS: Grants = &[
    ("vmpool.dev/poolautoscalers", "list watch"),
    ("vmpool.dev/poolautoscalers/status", "patch"),
    ("autoscaling/horizontalpodautoscalers", "list watch"),
];

const CONTROLLER_AUTOSCALERS_DVP: Grants = &[
    ("virtualization.deckhouse.io/virtualmachinepools/scale", "patch"),
    ("subresources.vmpool.dev/virtualmachinepools/scaledownwith", "create"),
];

const CONTROLLER_STANDBY: Grants = &[("virtualization.deckhouse.io/virtualmachineoperations", "create")];

const CONTROLLER_AUTOSCALERS_KUBEVIRT: Grants = &[
    ("pool.kubevirt.io/virtualmachinepools/scale", "patch"),
    ("kubevirt.subresources.vmpool.dev/virtualmachinepools/scaledownwith", "create"),
];

const CONTROLLER_IMAGE_REFRESH_CLUSTER: Grants =
    &[("virtualization.deckhouse.io/clustervirtualimages", "list watch")];

const CONTROLLER_IMAGE_REFRESH_DVP: Grants = &[
    ("virtualization.deckhouse.io/virtualimages", "list watch"),
    ("virtualization.deckhouse.io/virtualdisksnapshots", "list watch"),
];

const CONTROLLER_IMAGE_REFRESH_KUBEVIRT: Grants = &[
    ("cdi.kubevirt.io/datasources", "list watch"),
    ("snapshot.storage.k8s.io/volumesnapshots", "list watch"),
    ("/persistentvolumeclaims", "list watch"),
];

const APISERVER_AUTOSCALERS: Grants = &[("vmpool.dev/poolautoscalers", "list")];

const VIEWER_AUTOSCALERS: Grants = &[("vmpool.dev/poolautoscalers", "get list watch")];

const EDITOR_AUTOSCALERS: Grants = &[("vmpool.dev/poolautoscalers", "create update patch delete")];

const LEASE: Grants = &[
    ("coordination.k8s.io/leases", "create"),
    ("coordination.k8s.io/leases vmpool-controller", "get update"),
];

const WEBHOOK_CLUSTER: Grants = &[
    ("virtualization.deckhouse.io/virtualmachineclasses", "get list"),
    ("virtualization.deckhouse.io/clustervirtualimages", "get"),
    ("storage.k8s.io/storageclasses", "get"),
];

const WEBHOOK_BUNDLE: Grants =
    &[("admissionregistration.k8s.io/validatingwebhookconfigurations vmpool-webhook", "get patch")];

const WEBHOOK_NAMESPACED: Grants = &[
    ("virtualization.deckhouse.io/virtualmachinepools", "get"),
    ("virtualization.deckhouse.io/virtualimages", "get"),
    ("virtualization.deckhouse.io/virtualdisksnapshots", "get"),
    ("apps/controllerrevisions", "get"),
    ("snapshot.storage.k8s.io/volumesnapshots", "get"),
];

const WEBHOOK_KUBEVIRT: Grants =
    &[("pool.kubevirt.io/virtualmachinepools", "get list"), ("kubevirt.io/virtualmachines", "list create")];

const WEBHOOK_IMAGES_CLUSTER: Grants = &[("/namespaces", "get")];

const WEBHOOK_IMAGES: Grants = &[
    ("vmpool.dev/vmdiskimages", "get"),
    ("vmpool.dev/wrappedvirtualmachines", "get"),
    ("vmpool.dev/vmdiskimagegrants", "list"),
];

const WEBHOOK_TYPES_BUNDLE: Grants =
    &[("admissionregistration.k8s.io/mutatingwebhookconfigurations vmpool-webhook", "get patch")];

/// What the comparison of pools and machines with their types reads.
const WEBHOOK_TYPES_CLUSTER: Grants = &[
    ("instancetype.kubevirt.io/virtualmachineclusterinstancetypes", "get"),
    ("instancetype.kubevirt.io/virtualmachineclusterpreferences", "get"),
];

const WEBHOOK_TYPES: Grants = &[
    ("instancetype.kubevirt.io/virtualmachineinstancetypes", "get"),
    ("instancetype.kubevirt.io/virtualmachinepreferences", "get"),
    ("apps/controllerrevisions", "get"),
    ("/persistentvolumeclaims", "get"),
    ("cdi.kubevirt.io/datavolumes", "get"),
    ("cdi.kubevirt.io/datasources", "get"),
    ("snapshot.storage.k8s.io/volumesnapshots", "get"),
];

const APISERVER_CLUSTER: Grants = &[("authorization.k8s.io/subjectaccessreviews", "create")];

const APISERVER_NAMESPACED: Grants = &[
    ("virtualization.deckhouse.io/virtualmachinepools", "get patch"),
    ("virtualization.deckhouse.io/virtualmachines", "get list patch delete"),
];

/// What expansion reads of the whole cluster.
const APISERVER_KUBEVIRT_CLUSTER: Grants = &[
    ("instancetype.kubevirt.io/virtualmachineclusterinstancetypes", "get"),
    ("instancetype.kubevirt.io/virtualmachineclusterpreferences", "get"),
    ("kubevirt.io/kubevirts", "list"),
];

const APISERVER_KUBEVIRT: Grants = &[
    ("pool.kubevirt.io/virtualmachinepools", "get patch"),
    ("kubevirt.io/virtualmachines", "get list patch delete"),
    ("kubevirt.io/virtualmachineinstances", "get list"),
    ("instancetype.kubevirt.io/virtualmachineinstancetypes", "get"),
    ("instancetype.kubevirt.io/virtualmachinepreferences", "get"),
    ("apps/controllerrevisions", "get"),
    ("/persistentvolumeclaims", "get"),
    ("cdi.kubevirt.io/datavolumes", "get"),
    ("cdi.kubevirt.io/datasources", "get"),
    ("snapshot.storage.k8s.io/volumesnapshots", "get"),
];

const APISERVER_EVENTS: Grants = &[("/events", "create")];

const VIEWER: Grants = &[
    ("virtualization.deckhouse.io/virtualmachinepools", "get list watch"),
    ("virtualization.deckhouse.io/virtualmachinepools/scale", "get"),
    ("subresources.vmpool.dev/virtualmachinepools", "get"),
];

const VIEWER_KUBEVIRT: Grants = &[
    ("pool.kubevirt.io/virtualmachinepools", "get list watch"),
    ("pool.kubevirt.io/virtualmachinepools/scale", "get"),
    ("kubevirt.subresources.vmpool.dev/virtualmachinepools", "get"),
    ("kubevirt.subresources.vmpool.dev/virtualmachines/expand-spec", "get"),
    ("kubevirt.subresources.vmpool.dev/virtualmachinepools/expand-spec", "get"),
    ("kubevirt.subresources.vmpool.dev/expand-vm-spec", "update"),
    ("kubevirt.subresources.vmpool.dev/expand-pool-spec", "update"),
];

/// As KubeVirt's own role `kubevirt.io:edit`, and the scale, which that role lacks.
const EDITOR_KUBEVIRT: Grants = &[
    ("pool.kubevirt.io/virtualmachinepools", "create update patch delete"),
    ("pool.kubevirt.io/virtualmachinepools/scale", "update patch"),
    ("kubevirt.subresources.vmpool.dev/virtualmachinepools/scaledownwith", "create"),
    ("kubevirt.subresources.vmpool.dev/virtualmachinepools/claim", "create"),
    ("kubevirt.subresources.vmpool.dev/virtualmachinepools/release", "create"),
];

const ADMIN_KUBEVIRT: Grants = &[
    ("pool.kubevirt.io/virtualmachinepools", "deletecollection"),
    ("pool.kubevirt.io/virtualmachinepools/finalizers", "update"),
    ("kubevirt.subresources.vmpool.dev/virtualmachinepools/scaledownwith", "force"),
];

const VIEWER_IMAGES: Grants = &[
    ("vmpool.dev/vmdiskimages", "get list watch"),
    ("vmpool.dev/wrappedvirtualmachines", "get list watch"),
    ("vmpool.dev/vmdiskimagegrants", "get list watch"),
];

const EDITOR_IMAGES: Grants = &[
    ("vmpool.dev/vmdiskimages", "create update patch delete"),
    ("vmpool.dev/wrappedvirtualmachines", "create update patch delete"),
];

/// A grant opens the namespace to others, so editors do not write grants.
const ADMIN_IMAGES: Grants = &[("vmpool.dev/vmdiskimagegrants", "create update patch delete")];

const VIEWER_PLATFORM: Grants = &[("subresources.virtualization.deckhouse.io/virtualmachinepools", "get")];

const EDITOR: Grants = &[
    ("virtualization.deckhouse.io/virtualmachinepools", "create update patch delete deletecollection"),
    ("virtualization.deckhouse.io/virtualmachinepools/scale", "update patch"),
    ("subresources.vmpool.dev/virtualmachinepools/scaledownwith", "create"),
    ("subresources.vmpool.dev/virtualmachinepools/claim", "create"),
    ("subresources.vmpool.dev/virtualmachinepools/release", "create"),
];

/// The chart never grants this right in the platform's group: the platform's endpoint deletes machines
/// without a removal record.
const EDITOR_PLATFORM: Grants = &[
    ("subresources.virtualization.deckhouse.io/virtualmachinepools/scaledownwith", "create"),
    ("subresources.virtualization.deckhouse.io/virtualmachinepools/claim", "create"),
    ("subresources.virtualization.deckhouse.io/virtualmachinepools/release", "create"),
];

const ADMIN: Grants = &[
    ("virtualization.deckhouse.io/virtualmachinepools/finalizers", "update"),
    ("subresources.vmpool.dev/virtualmachinepools/scaledownwith", "force"),
];

const ADMIN_PLATFORM: Grants =
    &[("subresources.virtualization.deckhouse.io/virtualmachinepools/scaledownwith", "force")];

const VIEWER_STANDALONE: Grants = &[
    ("subresources.kubevirt.io/virtualmachines/expand-spec", "get"),
    ("subresources.kubevirt.io/expand-vm-spec", "update"),
    ("instancetype.kubevirt.io/virtualmachineinstancetypes", "get list watch"),
    ("instancetype.kubevirt.io/virtualmachinepreferences", "get list watch"),
];

const EDITOR_STANDALONE: Grants = &[
    ("instancetype.kubevirt.io/virtualmachineinstancetypes", "create update patch delete deletecollection"),
    ("instancetype.kubevirt.io/virtualmachinepreferences", "create update patch delete deletecollection"),
];

/// What all users may read.
const EVERY_USER: Grants = &[
    ("instancetype.kubevirt.io/virtualmachineclusterinstancetypes", "get list watch"),
    ("instancetype.kubevirt.io/virtualmachineclusterpreferences", "get list watch"),
];

/// The reviews of tokens for the metrics.
const METRICS: Grants = &[
    ("authentication.k8s.io/tokenreviews", "create"),
    ("authorization.k8s.io/subjectaccessreviews", "create"),
];

/// What the test of the release reads in the namespace of the release.
const DOCTOR: Grants =
    &[("apps/deployments", "list"), ("coordination.k8s.io/leases vmpool-controller", "get")];

/// What it reads, and sends as a dry run only, in the namespace whose pools it checks.
const DOCTOR_DVP: Grants = &[
    ("virtualization.deckhouse.io/virtualmachinepools", "list create"),
    ("virtualization.deckhouse.io/virtualmachinepools/scale", "patch"),
    ("subresources.vmpool.dev/virtualmachinepools/claim", "create"),
];

const DOCTOR_PLATFORM: Grants =
    &[("subresources.virtualization.deckhouse.io/virtualmachinepools/claim", "create")];

const DOCTOR_KUBEVIRT: Grants = &[
    ("pool.kubevirt.io/virtualmachinepools", "list create"),
    ("pool.kubevirt.io/virtualmachinepools/scale", "patch"),
    ("kubevirt.subresources.vmpool.dev/virtualmachinepools/claim", "create"),
];

/// The account of the test of the release, and one of its roles.
const DOCTOR_NAME: &str = "vmpool-doctor";

/// The role of clients that read the metrics, and its account.
const METRICS_READER: &str = "vmpool-metrics-reader";

/// The binding of a role to all users.
const EVERY_USER_NAME: &str = "vmpool-cluster-instancetypes";

/// The parts of the role with this kind and name, each with whether the variant has it.
fn expected_parts(variant: &Variant, kind: &str, name: &str) -> Vec<(bool, Grants)> {
    let (dvp, kubevirt) = (variant.dvp, variant.kubevirt);
    match (kind, name) {
        (_, "vmpool-controller") => expected_controller_parts(variant, kind),
        ("Role", "vmpool-controller-images") => {
            vec![(dvp, CONTROLLER_IMAGE_REFRESH_DVP), (kubevirt, CONTROLLER_IMAGE_REFRESH_KUBEVIRT)]
        }
        ("Role", "vmpool-controller-lease") => vec![(true, LEASE)],
        (_, "vmpool-webhook") => expected_webhook_parts(variant, kind),
        (_, "vmpool-apiserver") => expected_apiserver_parts(variant, kind),
        ("ClusterRole", "vmpool-viewer" | "vmpool-editor" | "vmpool-admin") => {
            expected_user_parts(variant, name)
        }
        ("Role", DOCTOR_NAME) => vec![(true, DOCTOR)],
        ("Role", "vmpool-doctor-pools") => {
            vec![(dvp, DOCTOR_DVP), (variant.platform_group, DOCTOR_PLATFORM), (kubevirt, DOCTOR_KUBEVIRT)]
        }
        ("ClusterRole", EVERY_USER_NAME) => vec![(variant.standalone, EVERY_USER)],
        _ => Vec::new(),
    }
}

/// The parts of a role of the controller.
fn expected_controller_parts(variant: &Variant, kind: &str) -> Vec<(bool, Grants)> {
    let everywhere = variant.namespace.is_none();
    let (dvp, kubevirt, autoscalers) = (variant.dvp, variant.kubevirt, variant.autoscalers);
    let (images, refresh, standby) = (variant.images, variant.image_refresh, variant.standby);
    match kind {
        "ClusterRole" => vec![
            (true, CONTROLLER_CLUSTER),
            (kubevirt, CONTROLLER_KUBEVIRT_CLUSTER),
            (everywhere, CONTROLLER_SHARED),
            (everywhere && dvp, CONTROLLER_NAMESPACED),
            (everywhere && kubevirt, CONTROLLER_KUBEVIRT),
            (everywhere && images, CONTROLLER_IMAGES_CLUSTER),
            (everywhere && images, CONTROLLER_IMAGES),
            (everywhere && variant.wrappers, CONTROLLER_WRAPPERS),
            (everywhere && autoscalers, CONTROLLER_AUTOSCALERS),
            (everywhere && autoscalers && dvp, CONTROLLER_AUTOSCALERS_DVP),
            (everywhere && autoscalers && kubevirt, CONTROLLER_AUTOSCALERS_KUBEVIRT),
            (everywhere && standby && dvp, CONTROLLER_STANDBY),
            (refresh && dvp, CONTROLLER_IMAGE_REFRESH_CLUSTER),
            (everywhere && refresh && dvp, CONTROLLER_IMAGE_REFRESH_DVP),
            (everywhere && refresh && kubevirt, CONTROLLER_IMAGE_REFRESH_KUBEVIRT),
        ],
        "Role" => vec![
            (true, CONTROLLER_SHARED),
            (dvp, CONTROLLER_NAMESPACED),
            (kubevirt, CONTROLLER_KUBEVIRT),
            (images, CONTROLLER_IMAGES),
            (variant.wrappers, CONTROLLER_WRAPPERS),
            (autoscalers, CONTROLLER_AUTOSCALERS),
            (autoscalers && dvp, CONTROLLER_AUTOSCALERS_DVP),
            (autoscalers && kubevirt, CONTROLLER_AUTOSCALERS_KUBEVIRT),
            (standby && dvp, CONTROLLER_STANDBY),
            (refresh && dvp, CONTROLLER_IMAGE_REFRESH_DVP),
            (refresh && kubevirt, CONTROLLER_IMAGE_REFRESH_KUBEVIRT),
        ],
        _ => Vec::new(),
    }
}

/// The parts of a role of the webhook.
fn expected_webhook_parts(variant: &Variant, kind: &str) -> Vec<(bool, Grants)> {
    let everywhere = variant.namespace.is_none();
    let (dvp, kubevirt) = (variant.dvp, variant.kubevirt);
    let (images, own_certificates) = (variant.images, !variant.cert_manager);
    match kind {
        "ClusterRole" => vec![
            (dvp, WEBHOOK_CLUSTER),
            (own_certificates, WEBHOOK_BUNDLE),
            (everywhere && dvp, WEBHOOK_NAMESPACED),
            (everywhere && kubevirt, WEBHOOK_KUBEVIRT),
            (images, WEBHOOK_IMAGES_CLUSTER),
            (everywhere && images, WEBHOOK_IMAGES),
            (kubevirt && own_certificates, WEBHOOK_TYPES_BUNDLE),
            (kubevirt, WEBHOOK_TYPES_CLUSTER),
            (everywhere && kubevirt, WEBHOOK_TYPES),
        ],
        "Role" => vec![
            (dvp, WEBHOOK_NAMESPACED),
            (kubevirt, WEBHOOK_KUBEVIRT),
            (images, WEBHOOK_IMAGES),
            (kubevirt, WEBHOOK_TYPES),
        ],
        _ => Vec::new(),
    }
}

/// The parts of a role of the API server.
fn expected_apiserver_parts(variant: &Variant, kind: &str) -> Vec<(bool, Grants)> {
    let everywhere = variant.namespace.is_none();
    let (dvp, kubevirt, autoscalers) = (variant.dvp, variant.kubevirt, variant.autoscalers);
    match kind {
        "ClusterRole" => vec![
            (true, APISERVER_CLUSTER),
            (kubevirt, APISERVER_KUBEVIRT_CLUSTER),
            (everywhere, APISERVER_EVENTS),
            (everywhere && dvp, APISERVER_NAMESPACED),
            (everywhere && kubevirt, APISERVER_KUBEVIRT),
            (everywhere && autoscalers, APISERVER_AUTOSCALERS),
        ],
        "Role" => vec![
            (true, APISERVER_EVENTS),
            (dvp, APISERVER_NAMESPACED),
            (kubevirt, APISERVER_KUBEVIRT),
            (autoscalers, APISERVER_AUTOSCALERS),
        ],
        _ => Vec::new(),
    }
}

/// The parts of the role with this name, which is for users of pools.
fn expected_user_parts(variant: &Variant, name: &str) -> Vec<(bool, Grants)> {
    let (dvp, kubevirt, autoscalers) = (variant.dvp, variant.kubevirt, variant.autoscalers);
    let (images, standalone) = (variant.images, variant.standalone);
    let (editor, admin) = (name != "vmpool-viewer", name == "vmpool-admin");
    vec![
        (dvp, VIEWER),
        (variant.platform_group, VIEWER_PLATFORM),
        (kubevirt, VIEWER_KUBEVIRT),
        (editor && dvp, EDITOR),
        (editor && variant.platform_group, EDITOR_PLATFORM),
        (editor && kubevirt, EDITOR_KUBEVIRT),
        (admin && dvp, ADMIN),
        (admin && variant.platform_group, ADMIN_PLATFORM),
        (admin && kubevirt, ADMIN_KUBEVIRT),
        (images, VIEWER_IMAGES),
        (editor && images, EDITOR_IMAGES),
        (admin && images, ADMIN_IMAGES),
        (autoscalers, VIEWER_AUTOSCALERS),
        (editor && autoscalers, EDITOR_AUTOSCALERS),
        (standalone, VIEWER_STANDALONE),
        (editor && standalone, EDITOR_STANDALONE),
    ]
}

/// The expected grants of the role with this kind and name.
fn expected_grants(variant: &Variant, kind: &str, name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let parts = expected_parts(variant, kind, name);
    let mut granted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut add = |resource: String, verbs: &str| {
        granted.entry(resource).or_default().extend(verbs.split(' ').map(str::to_owned));
    };
    for (resource, verbs) in parts.iter().filter(|(present, _)| *present).flat_map(|(_, part)| *part) {
        add((*resource).to_owned(), verbs);
    }
    if let ("Role", "vmpool-webhook-tls" | "vmpool-apiserver-tls") = (kind, name) {
        add("/secrets".to_owned(), "create");
        add(format!("/secrets {name}"), "get update");
    }
    if (kind, name, !variant.cert_manager) == ("ClusterRole", "vmpool-apiserver", true) {
        let names = variant.groups().join(",");
        add(format!("apiregistration.k8s.io/apiservices {names}"), "get patch");
    }
    granted
}

/// Checks a role for missing and excess grants.
pub(super) fn check_role(variant: &Variant, role: &Value) -> Vec<String> {
    let expected = if object_name(role).ends_with("-metrics") {
        let needed = METRICS.iter().filter(|_| variant.metrics_authorization);
        needed
            .map(|(resource, verbs)| ((*resource).to_owned(), BTreeSet::from([(*verbs).to_owned()])))
            .collect()
    } else {
        expected_grants(variant, text_at(role, "kind"), object_name(role))
    };
    let granted = role_grants(role);
    let nothing = BTreeSet::new();
    let mut found = Vec::new();
    for resource in expected.keys().chain(granted.keys()).collect::<BTreeSet<_>>() {
        let (wanted, given) =
            (expected.get(resource).unwrap_or(&nothing), granted.get(resource).unwrap_or(&nothing));
        if !given.is_subset(wanted) {
            let surplus: Vec<_> = given.difference(wanted).map(String::as_str).collect();
            found.push(format!("grants {} on {resource}, which is too much", surplus.join(", ")));
        }
        if !wanted.is_subset(given) {
            let lacking: Vec<_> = wanted.difference(given).map(String::as_str).collect();
            found.push(format!("does not grant {} on {resource}", lacking.join(", ")));
        }
        if resource.contains('*') || given.contains("*") {
            found.push("has a wildcard".to_owned());
        }
        if !variant.gate && resource.contains("virtualmachine") {
            found.push(format!("mentions {resource} although the feature gate is off"));
        }
    }
    let urls = || list_at(role, "rules").iter().flat_map(|rule| texts_at(rule, "nonResourceURLs"));
    if object_name(role) == METRICS_READER {
        let verbs = list_at(role, "rules").iter().flat_map(|rule| texts_at(rule, "verbs"));
        if !urls().eq(["/metrics"]) || !verbs.eq(["get"]) {
            found.push("does not grant exactly get on /metrics".to_owned());
        }
    } else if urls().next().is_some() {
        found.push("grants URLs".to_owned());
    }
    found
}

/// Checks that a binding grants a role of the chart to exactly the intended service account.
pub(super) fn check_role_binding(binding: &Value, objects: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    let own = object_name(binding);
    let all = PROGRAMS.into_iter().chain([METRICS_READER, DOCTOR_NAME]);
    let account = all.into_iter().find(|program| own.starts_with(program)).unwrap_or_default();
    let is_it = |subject: &Value| {
        text_at(subject, "kind") == "ServiceAccount"
            && text_at(subject, "name") == account
            && text_at(subject, "namespace") == Variant::NAMESPACE
    };
    let subjects = list_at(binding, "subjects");
    if own == EVERY_USER_NAME {
        let is_group = |subject: &Value| text_at(subject, "name") == "system:authenticated";
        return if subjects.iter().all(is_group) && text_at(binding, "roleRef.name") == own {
            Vec::new()
        } else {
            vec!["is not the binding of its role to all users".to_owned()]
        };
    }
    if subjects.len() != 1 || !subjects.iter().all(is_it) {
        found.push(format!("is not bound to exactly the ServiceAccount {account}"));
    }
    if !objects.iter().any(|object| kind_and_name(object) == format!("ServiceAccount/{account}")) {
        found.push(format!("is bound to {account}, which does not exist"));
    }
    let (kind, role) = (text_at(binding, "roleRef.kind"), text_at(binding, "roleRef.name"));
    // The only role that the chart uses but does not create; every cluster has it.
    let foreign = role == "extension-apiserver-authentication-reader"
        && own == "vmpool-apiserver-authentication-reader"
        && kind == "Role";
    let there = objects.iter().any(|object| {
        kind_and_name(object) == format!("{kind}/{role}")
            && text_at(object, "metadata.namespace") == text_at(binding, "metadata.namespace")
    });
    // By the chart's convention, a binding and its role share a name and a scope.
    if !foreign && (role != own || format!("{kind}Binding") != text_at(binding, "kind") || !there) {
        found.push("binds another role".to_owned());
    }
    found
}
