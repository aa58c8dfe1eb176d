//! The rules for every variant of the chart. Each rule takes rendered objects and returns the violations.

mod pods;
mod roles;
mod serving;

use std::collections::BTreeSet;

use serde_yaml_ng::Value;

use super::objects::{kind_and_name, labels_match, object_name, of_kind, text_at, texts_at, value_at};
use super::variants::Variant;

/// All violations in a rendered variant.
pub(super) fn variant_violations(variant: &Variant, objects: &[Value]) -> Vec<String> {
    let mut found = unexpected_objects(variant, objects);
    for object in objects {
        let id = kind_and_name(object);
        let mut broken = match text_at(object, "kind") {
            "ClusterRole" | "Role" => roles::check_role(variant, object),
            "ClusterRoleBinding" | "RoleBinding" => roles::check_role_binding(object, objects),
            "Deployment" => pods::check_deployment(object, objects),
            "PodDisruptionBudget" => pods::own_pods(object, objects, "spec.selector.matchLabels"),
            "NetworkPolicy" if is_of_unserved_pods(object, objects) => Vec::new(),
            "NetworkPolicy" => serving::check_network_policy(object, objects),
            "Service" => serving::check_service(object, objects),
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
                serving::check_webhook_configuration(variant, object, objects)
            }
            "APIService" => serving::api_service(variant, object, objects),
            "PodMonitor" | "ServiceMonitor" => serving::check_metrics_monitor(object, objects),
            "CustomResourceDefinition" => definition(object),
            "Job" => pods::check_finalizer_job(object, objects),
            "Pod" => pods::check_test_pod(object, objects),
            _ => Vec::new(),
        };
        broken.extend(namespace(variant, object));
        found.extend(broken.into_iter().map(|text| format!("{id} {text}")));
    }
    found
}

fn unexpected_objects(variant: &Variant, objects: &[Value]) -> Vec<String> {
    let rendered: Vec<String> = objects.iter().map(kind_and_name).collect();
    let unique: BTreeSet<String> = rendered.iter().cloned().collect();
    let expected = variant.objects();
    let mut found: Vec<String> = expected.difference(&unique).map(|id| format!("{id} is missing")).collect();
    found.extend(unique.difference(&expected).map(|id| format!("{id} is not expected")));
    if unique.len() < rendered.len() {
        found.push("an object is rendered twice".to_owned());
    }
    found
}

/// Checks the namespace of an object; cluster-scoped objects must have none.
fn namespace(variant: &Variant, object: &Value) -> Option<String> {
    let role = matches!(text_at(object, "kind"), "Role" | "RoleBinding");
    let expected = match (text_at(object, "kind"), object_name(object)) {
        (
            "ClusterRole"
            | "ClusterRoleBinding"
            | "CustomResourceDefinition"
            | "APIService"
            | "ValidatingAdmissionPolicy"
            | "ValidatingAdmissionPolicyBinding"
            | "ValidatingWebhookConfiguration"
            | "MutatingWebhookConfiguration",
            _,
        ) => "",
        (_, "vmpool-apiserver-authentication-reader") => "kube-system",
        (_, "vmpool-doctor-pools") => variant.namespace.unwrap_or(Variant::NAMESPACE),
        // There it reads the images that pools of other namespaces follow.
        (_, "vmpool-controller-images") if role => Variant::IMAGE_NAMESPACE,
        (_, "vmpool-controller" | "vmpool-webhook" | "vmpool-apiserver") if role => {
            variant.namespace.unwrap_or_default()
        }
        _ => Variant::NAMESPACE,
    };
    let actual = text_at(object, "metadata.namespace");
    (actual != expected).then(|| format!("is in namespace {actual:?} instead of {expected:?}"))
}

/// Whether a network policy selects the pods of a job, or the pod of the test. No program connects to them,
/// and the rules for them check the policy.
fn is_of_unserved_pods(policy: &Value, objects: &[Value]) -> bool {
    let jobs = of_kind(objects, "Job").map(|job| value_at(job, "spec.template.metadata.labels"));
    let tests = of_kind(objects, "Pod").map(|pod| value_at(pod, "metadata.labels"));
    jobs.chain(tests).any(|labels| labels_match(value_at(policy, "spec.podSelector.matchLabels"), labels))
}

fn definition(definition: &Value) -> Vec<String> {
    let annotations = value_at(definition, "metadata.annotations");
    if annotations["helm.sh/resource-policy"].as_str() == Some("keep") {
        Vec::new()
    } else {
        vec!["would be deleted together with every pool when the release is uninstalled".to_owned()]
    }
}

/// Flags that the chart passes to a program but its help does not list.
pub(super) fn unknown_flags(program: &str, objects: &[Value], help: &str) -> Vec<String> {
    let known: BTreeSet<&str> = help
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .filter(|word| word.starts_with("--"))
        .collect();
    objects
        .iter()
        .filter(|object| matches!(text_at(object, "kind"), "Deployment" | "Job"))
        .filter(|object| text_at(object, "spec.template.spec.serviceAccountName") == program)
        .flat_map(|object| texts_at(object, "spec.template.spec.containers.0.args"))
        .map(|arg| arg.split('=').next().unwrap_or(arg))
        .filter(|flag| !known.contains(flag))
        .map(|flag| format!("passes {flag}, which {program} does not know"))
        .collect()
}
