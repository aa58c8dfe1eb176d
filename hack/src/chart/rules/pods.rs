//! Rules for pods.

use serde_yaml_ng::Value;

use super::super::objects::{at, id, list, matches, name, selected, text, texts};
use super::super::variants::SERVERS;

/// Checks the restricted Pod Security Standard, a read-only root, a separate service account, and spreading of replicas.
pub(super) fn deployment(deployment: &Value, objects: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    let mut must = |holds: bool, text: &str| {
        if !holds {
            found.push(text.to_owned());
        }
    };
    let (labels, pod) =
        (at(deployment, "spec.template.metadata.labels"), at(deployment, "spec.template.spec"));
    let account = text(pod, "serviceAccountName");
    must(account == name(deployment), "uses the service account of another program");
    must(
        objects.iter().any(|object| id(object) == format!("ServiceAccount/{account}")),
        "uses a service account that does not exist",
    );
    must(matches(at(deployment, "spec.selector.matchLabels"), labels), "does not select its own pods");
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
    let spread = list(pod, "topologySpreadConstraints");
    must(!spread.is_empty(), "does not spread its replicas");
    for constraint in spread {
        must(matches(at(constraint, "labelSelector.matchLabels"), labels), "spreads pods of another program");
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
        for probe in ["livenessProbe", "readinessProbe"] {
            let seconds = at(container, probe).get("timeoutSeconds").and_then(Value::as_u64);
            must(
                seconds.is_some_and(|seconds| seconds > 1),
                &format!("has a {probe} that a busy node fails"),
            );
        }
        must(!at(container, "resources.requests").is_null(), "requests no resources");
        must(!at(container, "resources.limits.memory").is_null(), "has no memory limit");
        must(at(container, "image").is_string(), "has no image");
        must(!text(container, "image").ends_with(":latest"), "uses the tag latest");
        for mount in list(container, "volumeMounts") {
            must(at(mount, "readOnly") == &Value::Bool(true), "has a writable mount");
        }
    }
    must(list(pod, "containers").len() == 1, "does not have exactly one container");
    if SERVERS.contains(&name(deployment)) {
        must(
            at(deployment, "spec.strategy.rollingUpdate.maxUnavailable").as_u64() == Some(0),
            "removes a replica before its replacement serves",
        );
        let pause = at(pod, "containers.0.lifecycle.preStop.sleep.seconds").as_u64();
        must(pause.is_some_and(|pause| pause > 0), "stops serving before its endpoint is removed");
        must(
            pause < at(pod, "terminationGracePeriodSeconds").as_u64(),
            "is killed before its preStop pause ends",
        );
    }
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
