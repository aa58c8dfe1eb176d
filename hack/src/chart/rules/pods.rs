//! Rules for pods.

use serde_yaml_ng::Value;

use super::super::objects::{
    kind_and_name, labels_match, list_at, object_name, of_kind, selected_pod_templates, text_at, texts_at,
    value_at,
};
use super::super::variants::SERVERS;

/// Checks what holds for every pod: the token of an existing service account, the restricted Pod Security
/// Standard, and a read-only root.
fn pod(pod: &Value, objects: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    let mut must = |holds: bool, text: &str| {
        if !holds {
            found.push(text.to_owned());
        }
    };
    let account = text_at(pod, "serviceAccountName");
    must(
        objects.iter().any(|object| kind_and_name(object) == format!("ServiceAccount/{account}")),
        "uses a service account that does not exist",
    );
    // The service accounts of the chart mount none by default.
    must(
        value_at(pod, "automountServiceAccountToken") == &Value::Bool(true),
        "has no token, so the API server refuses its requests",
    );
    must(value_at(pod, "securityContext.runAsNonRoot") == &Value::Bool(true), "may run as root");
    must(text_at(pod, "securityContext.seccompProfile.type") == "RuntimeDefault", "has no seccomp profile");
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        must(
            value_at(pod, "securityContext").get(field).is_none(),
            &format!("has a fixed {field}, which OpenShift refuses"),
        );
    }
    for field in ["hostNetwork", "hostPID", "hostIPC", "initContainers"] {
        must(value_at(pod, field).is_null(), &format!("sets {field}"));
    }
    for volume in list_at(pod, "volumes") {
        let map = format!("ConfigMap/{}", text_at(volume, "configMap.name"));
        must(
            !value_at(volume, "secret.secretName").is_null()
                || objects.iter().any(|object| kind_and_name(object) == map),
            "mounts a volume that is not a Secret or a ConfigMap of the chart",
        );
    }
    for container in list_at(pod, "containers") {
        must(
            value_at(container, "securityContext.readOnlyRootFilesystem") == &Value::Bool(true),
            "has a writable root",
        );
        must(
            value_at(container, "securityContext.allowPrivilegeEscalation") == &Value::Bool(false),
            "may gain privileges",
        );
        must(texts_at(container, "securityContext.capabilities.drop") == ["ALL"], "keeps capabilities");
        must(value_at(container, "securityContext.capabilities.add").is_null(), "adds capabilities");
        must(!value_at(container, "resources.requests").is_null(), "requests no resources");
        must(!value_at(container, "resources.limits.memory").is_null(), "has no memory limit");
        must(value_at(container, "image").is_string(), "has no image");
        must(!text_at(container, "image").ends_with(":latest"), "uses the tag latest");
        for mount in list_at(container, "volumeMounts") {
            must(value_at(mount, "readOnly") == &Value::Bool(true), "has a writable mount");
        }
    }
    must(list_at(pod, "containers").len() == 1, "does not have exactly one container");
    found
}

/// Checks the pods of a program: a service account of its own, probes, and spreading of replicas.
pub(super) fn check_deployment(deployment: &Value, objects: &[Value]) -> Vec<String> {
    let (labels, spec) =
        (value_at(deployment, "spec.template.metadata.labels"), value_at(deployment, "spec.template.spec"));
    let mut found = pod(spec, objects);
    let mut must = |holds: bool, text: &str| {
        if !holds {
            found.push(text.to_owned());
        }
    };
    let account = text_at(spec, "serviceAccountName");
    must(account == object_name(deployment), "uses the service account of another program");
    must(
        labels_match(value_at(deployment, "spec.selector.matchLabels"), labels),
        "does not select its own pods",
    );
    let spread = list_at(spec, "topologySpreadConstraints");
    must(!spread.is_empty(), "does not spread its replicas");
    for constraint in spread {
        must(
            labels_match(value_at(constraint, "labelSelector.matchLabels"), labels),
            "spreads pods of another program",
        );
    }
    for container in list_at(spec, "containers") {
        must(text_at(container, "livenessProbe.httpGet.path") == "/livez", "has no liveness probe");
        must(text_at(container, "readinessProbe.httpGet.path") == "/readyz", "has no readiness probe");
        for probe in ["livenessProbe", "readinessProbe"] {
            let seconds = value_at(container, probe).get("timeoutSeconds").and_then(Value::as_u64);
            must(
                seconds.is_some_and(|seconds| seconds > 1),
                &format!("has a {probe} that a busy node fails"),
            );
        }
    }
    if SERVERS.contains(&object_name(deployment)) {
        must(
            value_at(deployment, "spec.strategy.rollingUpdate.maxUnavailable").as_u64() == Some(0),
            "removes a replica before its replacement serves",
        );
        let pause = value_at(spec, "containers.0.lifecycle.preStop.sleep.seconds").as_u64();
        must(pause.is_some_and(|pause| pause > 0), "stops serving before its endpoint is removed");
        must(
            pause < value_at(spec, "terminationGracePeriodSeconds").as_u64(),
            "is killed before its preStop pause ends",
        );
    }
    found
}

/// Checks the job that removes the finalizers: it runs before the release is deleted, has the flags and the
/// environment of the controller, and a network policy allows its requests if policies restrict the
/// controller.
pub(super) fn check_finalizer_job(job: &Value, objects: &[Value]) -> Vec<String> {
    let template = value_at(job, "spec.template");
    let mut found = pod(value_at(template, "spec"), objects);
    let mut must = |holds: bool, text: String| {
        if !holds {
            found.push(text);
        }
    };
    let annotations = value_at(job, "metadata.annotations");
    must(
        annotations["helm.sh/hook"].as_str() == Some("pre-delete"),
        "would remove finalizers while the controller runs".to_owned(),
    );
    let account = text_at(template, "spec.serviceAccountName");
    let controller = of_kind(objects, "Deployment").find(|deployment| object_name(deployment) == account);
    let container = |object| value_at(object, "spec.template.spec.containers.0");
    if let Some(controller) = controller.map(container) {
        let own = texts_at(container(job), "args");
        for flag in texts_at(controller, "args") {
            let is_served = flag.starts_with("--health-address=") || flag == "--metrics-authorization";
            must(is_served || own.contains(&flag), format!("lacks {flag} of {account}"));
        }
        must(
            value_at(controller, "env") == value_at(container(job), "env"),
            format!("has another environment than {account}"),
        );
    }
    found.extend(check_unserved_labels(value_at(template, "metadata.labels"), objects));
    found
}

/// Checks the pod of `helm test`: it is a hook, and what it needs exists only while it runs.
pub(super) fn check_test_pod(test: &Value, objects: &[Value]) -> Vec<String> {
    let mut found = pod(value_at(test, "spec"), objects);
    let hook = |object: &Value| {
        value_at(object, "metadata.annotations")["helm.sh/hook"].as_str().unwrap_or_default().to_owned()
    };
    let events = hook(test);
    if !events.split(',').any(|event| event == "test") {
        found.push("is not run by helm test".to_owned());
    }
    let name = object_name(test);
    let own = objects
        .iter()
        .filter(|object| object_name(object).starts_with(name) && text_at(object, "kind") != "NetworkPolicy");
    found.extend(
        own.filter(|object| hook(object) != events)
            .map(|object| format!("needs {}, which is no hook of the same events", kind_and_name(object))),
    );
    found.extend(check_unserved_labels(value_at(test, "metadata.labels"), objects));
    found
}

/// Checks the labels of pods that serve nothing: if there are network policies, one selects them, and no
/// Deployment does.
fn check_unserved_labels(labels: &Value, objects: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    let mut policies = of_kind(objects, "NetworkPolicy").peekable();
    let has_policies = policies.peek().is_some();
    let own = policies
        .filter(|policy| labels_match(value_at(policy, "spec.podSelector.matchLabels"), labels))
        .count();
    if has_policies && own != 1 {
        found.push(format!("is selected by {own} network policies"));
    }
    let selected_by =
        |deployment: &Value| labels_match(value_at(deployment, "spec.selector.matchLabels"), labels);
    if of_kind(objects, "Deployment").any(selected_by) {
        found.push("has the labels of the pods of a Deployment".to_owned());
    }
    found
}

/// Checks that an object selects exactly the pods of the program with its name.
pub(super) fn own_pods(object: &Value, objects: &[Value], selector: &str) -> Vec<String> {
    let pods = selected_pod_templates(objects, value_at(object, selector));
    let own = pods.iter().all(|pod| text_at(pod, "spec.serviceAccountName") == object_name(object));
    if pods.len() == 1 && own {
        Vec::new()
    } else {
        vec!["does not select the pods of its program".to_owned()]
    }
}
