//! What must hold for every variant of the chart. Each rule takes rendered objects and returns what breaks it.

use std::collections::{BTreeMap, BTreeSet};

use serde_yaml_ng::Value;

use super::objects::{at, grants, id, list, text, texts};
use super::variants::{Gate, Scope, Variant};

const GROUP: &str = "virtualization.deckhouse.io";

/// All that the controller may do anywhere. Widening it is a decision, so it is written down a second time here.
const CONTROLLER: &[(&str, &str)] = &[
    ("virtualization.deckhouse.io/virtualmachinepools", "get list watch patch"),
    ("virtualization.deckhouse.io/virtualmachinepools/status", "update patch"),
    ("virtualization.deckhouse.io/virtualmachinepools/finalizers", "update"),
    ("virtualization.deckhouse.io/virtualmachines", "get list watch create patch delete"),
    ("virtualization.deckhouse.io/virtualmachines/finalizers", "update"),
    ("virtualization.deckhouse.io/virtualdisks", "get list watch create patch delete"),
    ("/events", "create patch"),
    ("events.k8s.io/events", "create patch"),
];

/// All that it may do in the namespace of the release.
const LEASE: &[(&str, &str)] = &[("coordination.k8s.io/leases", "get create update")];

const VIEWER: &[(&str, &str)] = &[("virtualization.deckhouse.io/virtualmachinepools", "get list watch")];

const EDITOR: &[(&str, &str)] = &[
    (
        "virtualization.deckhouse.io/virtualmachinepools",
        "get list watch create update patch delete deletecollection",
    ),
    ("virtualization.deckhouse.io/virtualmachinepools/scale", "get update patch"),
];

/// Everything that is wrong with a rendered variant.
pub(super) fn violations(variant: &Variant, objects: &[Value]) -> Vec<String> {
    let mut found = unexpected_objects(variant, objects);
    found.extend(objects.iter().filter_map(|object| monitor(object, objects)));
    for object in objects {
        let name = id(object);
        let mut broken = match text(object, "kind") {
            "ClusterRole" | "Role" => role(variant, object),
            "ClusterRoleBinding" | "RoleBinding" => binding(object),
            "Deployment" => pod(at(object, "spec.template.spec")),
            "CustomResourceDefinition" => definition(object),
            _ => Vec::new(),
        };
        broken.extend(namespace(variant, object));
        found.extend(broken.into_iter().map(|text| format!("{name} {text}")));
    }
    found
}

fn unexpected_objects(variant: &Variant, objects: &[Value]) -> Vec<String> {
    let rendered: Vec<String> = objects.iter().map(id).collect();
    let unique: BTreeSet<&str> = rendered.iter().map(String::as_str).collect();
    let expected = variant.objects();
    let mut found: Vec<String> = expected.difference(&unique).map(|id| format!("{id} is missing")).collect();
    found.extend(unique.difference(&expected).map(|id| format!("{id} is not expected")));
    if unique.len() < rendered.len() {
        found.push("an object is rendered twice".to_owned());
    }
    found
}

fn role(variant: &Variant, role: &Value) -> Vec<String> {
    let expected = match text(role, "metadata.name") {
        "vmpool-controller" => CONTROLLER,
        "vmpool-controller-lease" => LEASE,
        "vmpool-viewer" => VIEWER,
        "vmpool-editor" => EDITOR,
        _ => &[],
    };
    let expected: BTreeMap<String, BTreeSet<String>> = expected
        .iter()
        .map(|(resource, verbs)| ((*resource).to_owned(), verbs.split(' ').map(str::to_owned).collect()))
        .collect();
    let granted = grants(role);
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
        if variant.gate == Gate::Off && resource.starts_with(GROUP) {
            found.push(format!("speaks of {resource} although the gate is off"));
        }
    }
    if list(role, "rules").iter().any(|rule| !at(rule, "nonResourceURLs").is_null()) {
        found.push("grants URLs".to_owned());
    }
    found
}

fn binding(binding: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let subject = &list(binding, "subjects").first().cloned().unwrap_or_default();
    let only = list(binding, "subjects").len() == 1;
    if !only
        || text(subject, "kind") != "ServiceAccount"
        || text(subject, "name") != "vmpool-controller"
        || text(subject, "namespace") != Variant::NAMESPACE
    {
        found.push("is not bound to the controller's ServiceAccount alone".to_owned());
    }
    // By the chart's convention, a binding and its role share a name and a scope.
    if text(binding, "roleRef.name") != text(binding, "metadata.name")
        || format!("{}Binding", text(binding, "roleRef.kind")) != text(binding, "kind")
    {
        found.push("is a binding of another role".to_owned());
    }
    found
}

/// Where a namespaced object is, and that a cluster-wide one is nowhere.
fn namespace(variant: &Variant, object: &Value) -> Option<String> {
    let kind = text(object, "kind");
    let watched =
        matches!(kind, "Role" | "RoleBinding") && text(object, "metadata.name") == "vmpool-controller";
    let expected = match (&variant.scope, kind) {
        (_, "ClusterRole" | "ClusterRoleBinding" | "CustomResourceDefinition") => "",
        (Scope::Namespace(name), _) if watched => name,
        _ => Variant::NAMESPACE,
    };
    let actual = text(object, "metadata.namespace");
    (actual != expected).then(|| format!("is in namespace {actual:?} instead of {expected:?}"))
}

/// The restricted Pod Security Standard, and a read-only root.
fn pod(pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut must = |holds: bool, text: &str| {
        if !holds {
            found.push(text.to_owned());
        }
    };
    must(at(pod, "securityContext.runAsNonRoot") == &Value::Bool(true), "may run as root");
    must(text(pod, "securityContext.seccompProfile.type") == "RuntimeDefault", "has no seccomp profile");
    must(text(pod, "serviceAccountName") == "vmpool-controller", "runs under another account");
    for field in ["hostNetwork", "hostPID", "hostIPC", "volumes"] {
        must(at(pod, field).is_null(), &format!("sets {field}"));
    }
    for container in list(pod, "containers") {
        must(
            at(container, "securityContext.readOnlyRootFilesystem") == &Value::Bool(true),
            "has a writable root",
        );
        must(
            at(container, "securityContext.allowPrivilegeEscalation") == &Value::Bool(false),
            "may gain privileges",
        );
        must(texts(container, "securityContext.capabilities.drop") == ["ALL"], "keeps capabilities");
        must(at(container, "securityContext.capabilities.add").is_null(), "adds capabilities");
        must(text(container, "livenessProbe.httpGet.path") == "/livez", "has no liveness probe");
        must(text(container, "readinessProbe.httpGet.path") == "/readyz", "has no readiness probe");
        must(!at(container, "resources.requests").is_null(), "requests no resources");
        must(at(container, "image").is_string(), "names no image");
        must(!text(container, "image").ends_with(":latest"), "floats with the tag latest");
    }
    must(list(pod, "containers").len() == 1, "does not have one container");
    found
}

/// That a monitor finds the pods and a port that they have.
fn monitor(monitor: &Value, objects: &[Value]) -> Option<String> {
    if text(monitor, "kind") != "PodMonitor" {
        return None;
    }
    let pods: Vec<&Value> = objects
        .iter()
        .filter(|object| text(object, "kind") == "Deployment")
        .map(|deployment| at(deployment, "spec.template"))
        .collect();
    let selector = at(monitor, "spec.selector.matchLabels").as_mapping()?;
    let endpoint = at(monitor, "spec.podMetricsEndpoints.0");
    let serves = |pod: &&Value| {
        selector.iter().all(|(key, value)| at(pod, "metadata.labels").get(key) == Some(value))
            && list(pod, "spec.containers.0.ports")
                .iter()
                .any(|port| text(port, "name") == text(endpoint, "port"))
    };
    let fits = !selector.is_empty() && text(endpoint, "path") == "/metrics" && pods.iter().any(serves);
    (!fits).then(|| format!("{} does not find the metrics of the pods", id(monitor)))
}

fn definition(definition: &Value) -> Vec<String> {
    let annotations = at(definition, "metadata.annotations");
    if annotations["helm.sh/resource-policy"].as_str() == Some("keep") {
        Vec::new()
    } else {
        vec!["would be deleted together with every pool when the release is uninstalled".to_owned()]
    }
}

/// Flags that the chart passes and the program does not know.
pub(super) fn unknown_flags(objects: &[Value], help: &str) -> Vec<String> {
    let known: BTreeSet<&str> = help
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .filter(|word| word.starts_with("--"))
        .collect();
    objects
        .iter()
        .filter(|object| text(object, "kind") == "Deployment")
        .flat_map(|object| texts(object, "spec.template.spec.containers.0.args"))
        .map(|arg| arg.split('=').next().unwrap_or(arg))
        .filter(|flag| !known.contains(flag))
        .map(|flag| format!("passes {flag}, which the controller does not know"))
        .collect()
}

/// Values that the README's table does not list.
pub(super) fn undocumented(values: &Value, readme: &str) -> Vec<String> {
    fn walk(value: &Value, path: &str, readme: &str, found: &mut Vec<String>) {
        if !path.is_empty() && readme.contains(&format!("| `{path}` |")) {
            return;
        }
        match value.as_mapping().filter(|mapping| !mapping.is_empty()) {
            Some(mapping) => {
                for (key, value) in mapping {
                    let key = key.as_str().unwrap_or_default();
                    let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                    walk(value, &path, readme, found);
                }
            }
            None => found.push(format!("the README does not list {path}")),
        }
    }
    let mut found = Vec::new();
    walk(values, "", readme, &mut found);
    found
}
