//! How programs are reached: by the API server, by Prometheus, through network policies.

use serde_yaml_ng::Value;

use super::super::objects::{at, id, list, matches, name, of_kind, ports, selected, text, texts};
use super::super::variants::{SERVERS, Variant};
use super::pods;

/// The paths that the webhook serves, with the operations and the resource that each is asked about.
const PATHS: [(&str, &[&str], &str); 2] = [
    (
        "/validate-virtualization-deckhouse-io-v1alpha2-virtualmachinepool",
        &["CREATE", "UPDATE"],
        "virtualmachinepools",
    ),
    (
        "/validate-virtualization-deckhouse-io-v1alpha2-virtualmachinepool-scale",
        &["UPDATE"],
        "virtualmachinepools/scale",
    ),
];

/// That a Service leads to a port that its pods have.
pub(super) fn service(service: &Value, objects: &[Value]) -> Vec<String> {
    let pods = selected(objects, at(service, "spec.selector"));
    let wanted = if SERVERS.contains(&name(service)) { 1 } else { 3 };
    let leads = list(service, "spec.ports")
        .iter()
        .all(|port| pods.iter().all(|pod| ports(pod).contains(text(port, "targetPort"))));
    if pods.len() == wanted && leads { Vec::new() } else { vec!["does not lead to its pods".to_owned()] }
}

/// That a policy lets in whatever its program serves.
pub(super) fn policy(policy: &Value, objects: &[Value]) -> Vec<String> {
    let mut found = pods::own_pods(policy, objects, "spec.podSelector.matchLabels");
    let open: Vec<&str> = list(policy, "spec.ingress")
        .iter()
        .flat_map(|rule| list(rule, "ports"))
        .map(|port| text(port, "port"))
        .collect();
    for pod in selected(objects, at(policy, "spec.podSelector.matchLabels")) {
        let shut: Vec<_> = ports(pod).into_iter().filter(|port| !open.contains(port)).collect();
        if !shut.is_empty() {
            found.push(format!("shuts {}", shut.join(", ")));
        }
    }
    found
}

/// What both kinds of registration have in common: a Service that exists, and a CA that somebody keeps.
fn registration(
    variant: &Variant,
    object: &Value,
    resource: &str,
    client: &Value,
    objects: &[Value],
) -> Vec<String> {
    let mut found = Vec::new();
    let server = text(client, "service.name");
    let port = at(client, "service.port");
    let serves = of_kind(objects, "Service").any(|service| {
        name(service) == server && list(service, "spec.ports").iter().any(|has| at(has, "port") == port)
    });
    if !serves || text(client, "service.namespace") != Variant::NAMESPACE {
        found.push(format!("leads to the service {server}, which does not exist"));
    }
    // A rollback would put back the one that was current when the release was made.
    if !at(client, "caBundle").is_null() {
        found.push("has a CA bundle of its own".to_owned());
    }
    let flag = format!("--ca-bundle-of={resource}/{}", name(object));
    let kept = of_kind(objects, "Deployment")
        .filter(|deployment| name(deployment) == server)
        .any(|deployment| texts(deployment, "spec.template.spec.containers.0.args").contains(&flag.as_str()));
    let annotations = at(object, "metadata.annotations");
    let injected = annotations["cert-manager.io/inject-ca-from"].as_str()
        == Some(format!("{}/{server}", Variant::NAMESPACE).as_str());
    if (kept, injected) != (!variant.cert_manager, variant.cert_manager) {
        found.push("has a CA bundle that nobody keeps, or two do".to_owned());
    }
    found
}

/// The two entries of the webhook configuration.
pub(super) fn webhooks(variant: &Variant, configuration: &Value, objects: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    let entries = list(configuration, "webhooks");
    if entries.len() != PATHS.len() {
        found.push(format!("has {} entries", entries.len()));
    }
    for (entry, (path, operations, resource)) in entries.iter().zip(PATHS) {
        let mut must = |holds: bool, what: &str| {
            if !holds {
                found.push(format!("{}: {what}", text(entry, "name")));
            }
        };
        let rule = at(entry, "rules.0");
        must(text(entry, "clientConfig.service.path") == path, "another path");
        must(list(entry, "rules").len() == 1, "several rules");
        must(texts(rule, "operations") == operations, "other operations");
        must(texts(rule, "resources") == [resource], "other resources");
        must(texts(rule, "apiVersions") == ["v1alpha2"], "other versions");
        must(texts(rule, "apiGroups") == ["virtualization.deckhouse.io"], "another group");
        must(text(rule, "scope") == "Namespaced", "another scope");
        must(text(entry, "failurePolicy") == "Fail", "an outage would let everything pass");
        must(text(entry, "matchPolicy") == "Equivalent", "another version would pass by");
        must(text(entry, "sideEffects") == "None", "dry runs would be refused");
        must(texts(entry, "admissionReviewVersions") == ["v1"], "other reviews");
        must(at(entry, "timeoutSeconds").as_u64().is_some_and(|seconds| seconds <= 10), "too patient");
        must(
            !list(entry, "matchConditions").is_empty(),
            "an outage would block finalizers, the controller and growth",
        );
        let only = at(entry, "namespaceSelector.matchLabels")["kubernetes.io/metadata.name"].as_str();
        must(only == variant.namespace, "looks at other namespaces than the controller");
        found.extend(registration(
            variant,
            configuration,
            "validatingwebhookconfigurations",
            at(entry, "clientConfig"),
            objects,
        ));
    }
    found
}

/// A registration of a group with the API server.
pub(super) fn api_service(variant: &Variant, service: &Value, objects: &[Value]) -> Vec<String> {
    let spec = at(service, "spec");
    let mut found = registration(variant, service, "apiservices", spec, objects);
    if format!("{}.{}", text(spec, "version"), text(spec, "group")) != name(service) {
        found.push("has a name of another group".to_owned());
    }
    // 1000 is what groups of definitions get.
    if at(spec, "groupPriorityMinimum").as_u64().is_none_or(|priority| priority >= 1000) {
        found.push("would answer for virtualmachinepools instead of the definition".to_owned());
    }
    if !at(spec, "insecureSkipTLSVerify").is_null() {
        found.push("does not verify the certificate".to_owned());
    }
    found
}

/// That a monitor finds the pods of all programs, and a port that they have.
pub(super) fn monitor(monitor: &Value, objects: &[Value]) -> Vec<String> {
    let selector = at(monitor, "spec.selector.matchLabels");
    let (pods, endpoint, port) = if text(monitor, "kind") == "PodMonitor" {
        let endpoint = at(monitor, "spec.podMetricsEndpoints.0");
        (selected(objects, selector), endpoint, text(endpoint, "port"))
    } else {
        let endpoint = at(monitor, "spec.endpoints.0");
        let mut services =
            of_kind(objects, "Service").filter(|service| matches(selector, at(service, "metadata.labels")));
        let (Some(service), None) = (services.next(), services.next()) else {
            return vec!["does not find one Service".to_owned()];
        };
        let target = list(service, "spec.ports")
            .iter()
            .find(|port| text(port, "name") == text(endpoint, "port"))
            .map_or("", |port| text(port, "targetPort"));
        (selected(objects, at(service, "spec.selector")), endpoint, target)
    };
    let all = of_kind(objects, "Deployment").count();
    let fits = pods.len() == all && all > 0 && pods.iter().all(|pod| ports(pod).contains(port));
    if fits && text(endpoint, "path") == "/metrics" {
        Vec::new()
    } else {
        vec![format!("{} does not find the metrics of the pods", id(monitor))]
    }
}
