//! Rules for pods.

use serde_yaml_ng::Value;

use super::super::objects::{at, id, list, matches, name, of_kind, selected, text, texts};
use super::super::variants::SERVERS;

/// Checks what holds for every pod: the token of an existing service account, the restricted Pod Security Standard, and a
/// read-only root.
fn pod(pod: &Value, objects: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    let mut must = |holds: bool, text: &str| {
        if !holds {
            found.push(text.to_owned());
        }
    };
    let account = text(pod, "serviceAccountName");
    must(
        objects.iter().any(|object| id(object) == format!("ServiceAccount/{account}")),
        "uses a service account that does not exist",
    );
    // The service accounts of the chart mount none by default.
    must(
        at(pod, "automountServiceAccountToken") == &Value::Bool(true),
        "has no token, so the API server refuses its requests",
    );
    must(at(pod, "securityContext.runAsNonRoot") == &Value::Bool(true), "may run as root");
    must(text(pod, "securityContext.seccompProfile.type") == "RuntimeDefault", "has no seccomp profile");
    for field in ["hostNetwork", "hostPID", "hostIPC", "initContainers"] {
        must(at(pod, field).is_null(), &format!("sets {field}"));
    }
    for volume in list(pod, "volumes") {
        let map = format!("ConfigMap/{}", text(volume, "configMap.name"));
        must(
            !at(volume, "secret.secretName").is_null() || objects.iter().any(|object| id(object) == map),
            "mounts a volume that is not a Secret or a ConfigMap of the chart",
        );
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
        must(!at(container, "resources.requests").is_null(), "requests no resources");
        must(!at(container, "resources.limits.memory").is_null(), "has no memory limit");
        must(at(container, "image").is_string(), "has no image");
        must(!text(container, "image").ends_with(":latest"), "uses the tag latest");
        for mount in list(container, "volumeMounts") {
            must(at(mount, "readOnly") == &Value::Bool(true), "has a writable mount");
        }
    }
    must(list(pod, "containers").len() == 1, "does not have exactly one container");
    found
}

/// Checks the pods of a program: a service account of its own, probes, and spreading of replicas.
pub(super) fn deployment(deployment: &Value, objects: &[Value]) -> Vec<String> {
    let (labels, spec) =
        (at(deployment, "spec.template.metadata.labels"), at(deployment, "spec.template.spec"));
    let mut found = pod(spec, objects);
    let mut must = |holds: bool, text: &str| {
        if !holds {
            found.push(text.to_owned());
        }
    };
    let account = text(spec, "serviceAccountName");
    must(account == name(deployment), "uses the service account of another program");
    must(matches(at(deployment, "spec.selector.matchLabels"), labels), "does not select its own pods");
    let spread = list(spec, "topologySpreadConstraints");
    must(!spread.is_empty(), "does not spread its replicas");
    for constraint in spread {
        must(matches(at(constraint, "labelSelector.matchLabels"), labels), "spreads pods of another program");
    }
    for container in list(spec, "containers") {
        must(text(container, "livenessProbe.httpGet.path") == "/livez", "has no liveness probe");
        must(text(container, "readinessProbe.httpGet.path") == "/readyz", "has no readiness probe");
        for probe in ["livenessProbe", "readinessProbe"] {
            let seconds = at(container, probe).get("timeoutSeconds").and_then(Value::as_u64);
            must(
                seconds.is_some_and(|seconds| seconds > 1),
                &format!("has a {probe} that a busy node fails"),
            );
        }
    }
    if SERVERS.contains(&name(deployment)) {
        must(
            at(deployment, "spec.strategy.rollingUpdate.maxUnavailable").as_u64() == Some(0),
            "removes a replica before its replacement serves",
        );
        let pause = at(spec, "containers.0.lifecycle.preStop.sleep.seconds").as_u64();
        must(pause.is_some_and(|pause| pause > 0), "stops serving before its endpoint is removed");
        must(
            pause < at(spec, "terminationGracePeriodSeconds").as_u64(),
            "is killed before its preStop pause ends",
        );
    }
    found
}

/// Checks the job that removes the finalizers: it runs before the release is deleted, has the flags and the environment of the
/// controller, and a network policy allows its requests if policies restrict the controller.
pub(super) fn job(job: &Value, objects: &[Value]) -> Vec<String> {
    let template = at(job, "spec.template");
    let mut found = pod(at(template, "spec"), objects);
    let mut must = |holds: bool, text: String| {
        if !holds {
            found.push(text);
        }
    };
    let annotations = at(job, "metadata.annotations");
    must(
        annotations["helm.sh/hook"].as_str() == Some("pre-delete"),
        "would remove finalizers while the controller runs".to_owned(),
    );
    let account = text(template, "spec.serviceAccountName");
    let controller = of_kind(objects, "Deployment").find(|deployment| name(deployment) == account);
    let container = |object| at(object, "spec.template.spec.containers.0");
    if let Some(controller) = controller.map(container) {
        let own = texts(container(job), "args");
        for flag in texts(controller, "args") {
            let is_served = flag.starts_with("--health-address=") || flag == "--metrics-authorization";
            must(is_served || own.contains(&flag), format!("lacks {flag} of {account}"));
        }
        must(
            at(controller, "env") == at(container(job), "env"),
            format!("has another environment than {account}"),
        );
    }
    let mut policies = of_kind(objects, "NetworkPolicy").peekable();
    let labels = at(template, "metadata.labels");
    let has_policies = policies.peek().is_some();
    let own = policies.filter(|policy| matches(at(policy, "spec.podSelector.matchLabels"), labels)).count();
    must(!has_policies || own == 1, format!("is selected by {own} network policies"));
    let selected_by = |deployment: &Value| matches(at(deployment, "spec.selector.matchLabels"), labels);
    must(
        !of_kind(objects, "Deployment").any(selected_by),
        "has the labels of the pods of a Deployment".to_owned(),
    );
    found
}

/// Checks that an object selects exactly the pods of the program with its name.
pub(super) fn own_pods(object: &Value, objects: &[Value], selector: &str) -> Vec<String> {
    let pods = selected(objects, at(object, selector));
    let own = pods.iter().all(|pod| text(pod, "spec.serviceAccountName") == name(object));
    if pods.len() == 1 && own {
        Vec::new()
    } else {
        vec!["does not select the pods of its program".to_owned()]
    }
}
