//! Rules for Services, registrations with the API server, monitors and network policies.

use serde_yaml_ng::Value;

use super::super::objects::{
    kind_and_name, labels_match, list_at, object_name, of_kind, pod_port_names, selected_pod_templates,
    text_at, texts_at, value_at,
};
use super::super::variants::{SERVERS, Variant};
use super::pods;

/// A path of the webhook, with the expected operations, group, version and resources.
type Path = (&'static str, &'static [&'static str], [&'static str; 3]);

const DVP: &[Path] = &[
    (
        "/validate-virtualization-deckhouse-io-v1alpha2-virtualmachinepool",
        &["CREATE", "UPDATE"],
        ["virtualization.deckhouse.io", "v1alpha2", "virtualmachinepools"],
    ),
    (
        "/validate-virtualization-deckhouse-io-v1alpha2-virtualmachinepool-scale",
        &["UPDATE"],
        ["virtualization.deckhouse.io", "v1alpha2", "virtualmachinepools/scale"],
    ),
];

const KUBEVIRT: &[Path] = &[
    (
        "/validate-pool-kubevirt-io-v1beta1-virtualmachinepool",
        &["CREATE", "UPDATE"],
        ["pool.kubevirt.io", "v1beta1", "virtualmachinepools"],
    ),
    (
        "/validate-pool-kubevirt-io-v1beta1-virtualmachinepool-instancetypes",
        &["CREATE", "UPDATE"],
        ["pool.kubevirt.io", "v1beta1", "virtualmachinepools"],
    ),
];

const IMAGES: &[Path] = &[
    (
        "/validate-vmpool-dev-v1alpha1-vmdiskimage",
        &["CREATE", "UPDATE"],
        ["vmpool.dev", "v1alpha1", "vmdiskimages"],
    ),
    (
        "/validate-vmpool-dev-v1alpha1-wrapper",
        &["CREATE", "UPDATE"],
        ["vmpool.dev", "v1alpha1", "wrappedvirtualmachines"],
    ),
    (
        "/validate-vmpool-dev-v1alpha1-vmdiskimagegrant",
        &["CREATE", "UPDATE"],
        ["vmpool.dev", "v1alpha1", "vmdiskimagegrants"],
    ),
    ("/validate-vmpool-dev-v1alpha1-vmdiskimage", &["DELETE"], ["vmpool.dev", "v1alpha1", "vmdiskimages"]),
    ("/validate-disk-image-references", &["CREATE", "UPDATE"], ["kubevirt.io", "v1", "virtualmachines"]),
    (
        "/validate-disk-image-references",
        &["CREATE", "UPDATE"],
        ["pool.kubevirt.io", "v1beta1", "virtualmachinepools"],
    ),
];

const AUTOSCALERS: &[Path] = &[(
    "/validate-vmpool-dev-v1alpha1-poolautoscaler",
    &["CREATE", "UPDATE"],
    ["vmpool.dev", "v1alpha1", "poolautoscalers"],
)];

/// Checks that a Service targets a port of its pods.
pub(super) fn check_service(service: &Value, objects: &[Value]) -> Vec<String> {
    let pods = selected_pod_templates(objects, value_at(service, "spec.selector"));
    let wanted = if SERVERS.contains(&object_name(service)) { 1 } else { 3 };
    let leads = list_at(service, "spec.ports")
        .iter()
        .all(|port| pods.iter().all(|pod| pod_port_names(pod).contains(text_at(port, "targetPort"))));
    if pods.len() == wanted && leads { Vec::new() } else { vec!["does not target its pods".to_owned()] }
}

/// Checks that a network policy admits every port of its program.
pub(super) fn check_network_policy(policy: &Value, objects: &[Value]) -> Vec<String> {
    let mut found = pods::own_pods(policy, objects, "spec.podSelector.matchLabels");
    let open: Vec<&str> = list_at(policy, "spec.ingress")
        .iter()
        .flat_map(|rule| list_at(rule, "ports"))
        .map(|port| text_at(port, "port"))
        .collect();
    for pod in selected_pod_templates(objects, value_at(policy, "spec.podSelector.matchLabels")) {
        let shut: Vec<_> = pod_port_names(pod).into_iter().filter(|port| !open.contains(port)).collect();
        if !shut.is_empty() {
            found.push(format!("blocks {}", shut.join(", ")));
        }
    }
    found
}

/// The four kinds of instance types and preferences.
const TYPES: [&str; 3] = [
    "instancetype.kubevirt.io",
    "v1beta1",
    "virtualmachineclusterinstancetypes virtualmachineclusterpreferences virtualmachineinstancetypes \
     virtualmachinepreferences",
];

/// What validates instance types and preferences.
const TYPES_PATH: &str = "/validate-instancetype-kubevirt-io-v1beta1";

/// What validates machines, and instance types.
const STANDALONE: &[Path] = &[
    (TYPES_PATH, &["CREATE", "UPDATE"], TYPES),
    (
        "/validate-kubevirt-io-v1-virtualmachine",
        &["CREATE", "UPDATE"],
        ["kubevirt.io", "v1", "virtualmachines"],
    ),
];

/// What warns about edits of instance types, which KubeVirt validates.
const BESIDE_KUBEVIRT: &[Path] = &[(TYPES_PATH, &["UPDATE"], TYPES)];

/// What completes machines.
const COMPLETING: &[Path] = &[(
    "/mutate-kubevirt-io-v1-virtualmachine",
    &["CREATE", "UPDATE"],
    ["kubevirt.io", "v1", "virtualmachines"],
)];

/// What protects images.
const PROTECTING_IMAGES: &[Path] =
    &[("/mutate-vmpool-dev-v1alpha1-vmdiskimage", &["CREATE"], ["vmpool.dev", "v1alpha1", "vmdiskimages"])];

/// What protects instance types and preferences.
const PROTECTING: &[Path] = &[("/mutate-instancetype-kubevirt-io-v1beta1", &["CREATE"], TYPES)];

/// What sets absent fields of pools.
const DEFAULTING: &[Path] = &[(
    "/mutate-pool-kubevirt-io-v1beta1-virtualmachinepool",
    &["CREATE", "UPDATE"],
    ["pool.kubevirt.io", "v1beta1", "virtualmachinepools"],
)];

/// Reviews without which requests are allowed: machines and pools do not depend on the reviews of images, the
/// controller does later what those do that protect objects, and it counts one machine if `replicas` is
/// absent.
const OPTIONAL: [&str; 5] = [
    "/mutate-pool-kubevirt-io-v1beta1-virtualmachinepool",
    "/validate-disk-image-references",
    "/mutate-vmpool-dev-v1alpha1-vmdiskimage",
    "/mutate-instancetype-kubevirt-io-v1beta1",
    "/validate-pool-kubevirt-io-v1beta1-virtualmachinepool-instancetypes",
];

/// Common checks of both registrations: the Service exists, and exactly one program maintains the CA bundle.
fn registration(
    variant: &Variant,
    object: &Value,
    resource: &str,
    client: &Value,
    objects: &[Value],
) -> Vec<String> {
    let mut found = Vec::new();
    let server = text_at(client, "service.name");
    let port = value_at(client, "service.port");
    let serves = of_kind(objects, "Service").any(|service| {
        object_name(service) == server
            && list_at(service, "spec.ports").iter().any(|has| value_at(has, "port") == port)
    });
    if !serves || text_at(client, "service.namespace") != Variant::NAMESPACE {
        found.push(format!("refers to the service {server}, which does not exist"));
    }
    // A rollback would restore the CA bundle of the old release.
    if !value_at(client, "caBundle").is_null() {
        found.push("contains a CA bundle".to_owned());
    }
    let flag = format!("--ca-bundle-of={resource}/{}", object_name(object));
    let kept = of_kind(objects, "Deployment").filter(|deployment| object_name(deployment) == server).any(
        |deployment| texts_at(deployment, "spec.template.spec.containers.0.args").contains(&flag.as_str()),
    );
    let annotations = value_at(object, "metadata.annotations");
    let injected = annotations["cert-manager.io/inject-ca-from"].as_str()
        == Some(format!("{}/{server}", Variant::NAMESPACE).as_str());
    if (kept, injected) != (!variant.cert_manager, variant.cert_manager) {
        found.push("has a CA bundle that not exactly one program maintains".to_owned());
    }
    found
}

/// Checks the entries of the webhook configuration.
pub(super) fn check_webhook_configuration(
    variant: &Variant,
    configuration: &Value,
    objects: &[Value],
) -> Vec<String> {
    let mut found = Vec::new();
    let entries = list_at(configuration, "webhooks");
    let is_mutating = text_at(configuration, "kind") == "MutatingWebhookConfiguration";
    let paths = [
        (!is_mutating && variant.dvp, DVP),
        (!is_mutating && variant.kubevirt, KUBEVIRT),
        (!is_mutating && variant.images, IMAGES),
        (!is_mutating && variant.autoscalers, AUTOSCALERS),
        (!is_mutating && variant.standalone, STANDALONE),
        (!is_mutating && variant.kubevirt && !variant.standalone, BESIDE_KUBEVIRT),
        (is_mutating && variant.standalone, COMPLETING),
        (is_mutating && variant.images, PROTECTING_IMAGES),
        (is_mutating && variant.kubevirt, PROTECTING),
        (is_mutating && variant.kubevirt, DEFAULTING),
    ];
    let paths: Vec<&Path> =
        paths.into_iter().filter(|(present, _)| *present).flat_map(|(_, paths)| paths).collect();
    if entries.len() != paths.len() {
        found.push(format!("has {} entries", entries.len()));
    }
    for (entry, (path, operations, [group, version, resource])) in entries.iter().zip(paths) {
        let mut must = |holds: bool, what: &str| {
            if !holds {
                found.push(format!("{}: {what}", text_at(entry, "name")));
            }
        };
        let rule = value_at(entry, "rules.0");
        must(text_at(entry, "clientConfig.service.path") == *path, "wrong path");
        must(list_at(entry, "rules").len() == 1, "more than one rule");
        must(texts_at(rule, "operations") == *operations, "wrong operations");
        must(texts_at(rule, "resources").join(" ") == *resource, "wrong resources");
        must(texts_at(rule, "apiVersions") == [*version], "wrong versions");
        must(texts_at(rule, "apiGroups") == [*group], "wrong group");
        let scope = if *group == "instancetype.kubevirt.io" { "*" } else { "Namespaced" };
        must(text_at(rule, "scope") == scope, "wrong scope");
        // Deletions are never blocked.
        let is_warning = *path == TYPES_PATH && !variant.standalone;
        let optional = *operations == ["DELETE"] || OPTIONAL.contains(path) || is_warning;
        let policy = if optional { "Ignore" } else { "Fail" };
        must(
            text_at(entry, "failurePolicy") == policy,
            "an outage would disable validation, or block deletions",
        );
        must(text_at(entry, "matchPolicy") == "Equivalent", "another version would bypass the webhook");
        must(text_at(entry, "sideEffects") == "None", "dry runs would be refused");
        must(texts_at(entry, "admissionReviewVersions") == ["v1"], "wrong review versions");
        must(
            value_at(entry, "timeoutSeconds").as_u64().is_some_and(|seconds| seconds <= 10),
            "the timeout is too long",
        );
        must(
            !list_at(entry, "matchConditions").is_empty(),
            "an outage would block finalizers, the controller and scale-up",
        );
        let only = value_at(entry, "namespaceSelector.matchLabels")["kubernetes.io/metadata.name"].as_str();
        must(only == variant.namespace, "covers other namespaces than the controller");
        found.extend(registration(
            variant,
            configuration,
            if is_mutating { "mutatingwebhookconfigurations" } else { "validatingwebhookconfigurations" },
            value_at(entry, "clientConfig"),
            objects,
        ));
    }
    found
}

/// Checks the registration of an aggregated API group.
pub(super) fn api_service(variant: &Variant, service: &Value, objects: &[Value]) -> Vec<String> {
    let spec = value_at(service, "spec");
    let mut found = registration(variant, service, "apiservices", spec, objects);
    if format!("{}.{}", text_at(spec, "version"), text_at(spec, "group")) != object_name(service) {
        found.push("has a name that does not match its group".to_owned());
    }
    // API groups of CRDs have priority 1000.
    if value_at(spec, "groupPriorityMinimum").as_u64().is_none_or(|priority| priority >= 1000) {
        found.push("would take precedence over the CRD of virtualmachinepools".to_owned());
    }
    if !value_at(spec, "insecureSkipTLSVerify").is_null() {
        found.push("does not verify the certificate".to_owned());
    }
    found
}

/// Checks that a monitor selects the pods of all programs and an existing port.
pub(super) fn check_metrics_monitor(monitor: &Value, objects: &[Value]) -> Vec<String> {
    let selector = value_at(monitor, "spec.selector.matchLabels");
    let (pods, endpoint, port) = if text_at(monitor, "kind") == "PodMonitor" {
        let endpoint = value_at(monitor, "spec.podMetricsEndpoints.0");
        (selected_pod_templates(objects, selector), endpoint, text_at(endpoint, "port"))
    } else {
        let endpoint = value_at(monitor, "spec.endpoints.0");
        let mut services = of_kind(objects, "Service")
            .filter(|service| labels_match(selector, value_at(service, "metadata.labels")));
        let (Some(service), None) = (services.next(), services.next()) else {
            return vec!["does not select exactly one Service".to_owned()];
        };
        let target = list_at(service, "spec.ports")
            .iter()
            .find(|port| text_at(port, "name") == text_at(endpoint, "port"))
            .map_or("", |port| text_at(port, "targetPort"));
        (selected_pod_templates(objects, value_at(service, "spec.selector")), endpoint, target)
    };
    let all = of_kind(objects, "Deployment").count();
    let fits = pods.len() == all && all > 0 && pods.iter().all(|pod| pod_port_names(pod).contains(port));
    let mut found = Vec::new();
    if !fits || text_at(endpoint, "path") != "/metrics" {
        found.push(format!("{} does not select the metrics port of all pods", kind_and_name(monitor)));
    }
    let checks = |pod: &&Value| texts_at(pod, "spec.containers.0.args").contains(&"--metrics-authorization");
    let secret = text_at(endpoint, "authorization.credentials.name");
    let has_token = objects.iter().any(|object| kind_and_name(object) == format!("Secret/{secret}"));
    let requiring = pods.iter().filter(|pod| checks(pod)).count();
    let sending = if has_token { pods.len() } else { 0 };
    if requiring != sending {
        found.push(format!("{} does not send the token that the pods require", kind_and_name(monitor)));
    }
    found
}
