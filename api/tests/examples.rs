//! Runs each example on a pool of its platform.

#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vmpool_api::conditions::pool::{self, reason};
use vmpool_api::enums::ScaleDownPolicy;
use vmpool_api::v1alpha2::{DiskTemplate, VirtualMachinePool};
use vmpool_api::{kubevirt, subresources};

#[allow(dead_code, reason = "main is what cargo run starts")]
#[path = "../examples/dvp_pool.rs"]
mod dvp_pool;
#[allow(dead_code, reason = "main is what cargo run starts")]
#[path = "../examples/kubevirt_pool.rs"]
mod kubevirt_pool;

/// A condition as the controller writes it.
fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// The pool that an example builds.
fn new_pool<T: DeserializeOwned>(output: &str) -> T {
    let line = output.lines().next().unwrap();
    serde_json::from_str(line.strip_prefix("new: ").unwrap()).unwrap()
}

#[test]
fn the_example_for_dvp_describes_a_built_pool() {
    let mut stored = VirtualMachinePool::builder("runners", ScaleDownPolicy::Explicit)
        .namespace("ci")
        .replicas(3)
        .disk(DiskTemplate::from_cluster_image("root", "debian"))
        .build();
    stored.metadata.uid = Some("u-1".to_owned());
    stored.metadata.generation = Some(2);
    stored.status = serde_json::from_value(json!({
        "observedGeneration": 2,
        "replicas": 3,
        "readyReplicas": 2,
        "conditions": [
            condition(pool::READY, "False", reason::BLOCKED, "2 of 3 machines are ready"),
            condition(pool::STALLED, "True", reason::BLOCKED, "the quota is full"),
        ],
    }))
    .unwrap();
    let output = dvp_pool::describe_pool(&serde_json::to_string(&stored).unwrap()).unwrap();
    let new: VirtualMachinePool = new_pool(&output);
    assert_eq!(new.spec.replicas, Some(2));
    let base = "/apis/subresources.vmpool.dev/v1alpha1/namespaces/ci/virtualmachinepools/runners";
    let lines: Vec<&str> = output.lines().skip(1).collect();
    let expected = [
        "stored: 2 of 3 machines are ready, phase Blocked".to_owned(),
        "stored: a user must act: the quota is full".to_owned(),
        format!(r#"POST {base}/claim {{"id":"job-1","durationSeconds":3600,"reason":"build 4711"}}"#),
        format!(
            r#"POST {base}/scaledownwith {{"targets":["runners-7xk2d"],"preconditions":{{"uid":"u-1"}}}}"#
        ),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn the_example_for_kubevirt_describes_a_recorded_pool() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kubevirt/pool.yaml");
    let mut stored: Value = serde_yaml_ng::from_str(&std::fs::read_to_string(fixture).unwrap()).unwrap();
    // KubeVirt's own controller recorded it, which writes no generation and no such condition.
    let generation = stored["metadata"]["generation"].clone();
    stored["status"]["observedGeneration"] = generation;
    stored["status"]["conditions"] = json!([condition(pool::READY, "True", reason::READY, "")]);
    let output = kubevirt_pool::describe_pool(&stored.to_string()).unwrap();
    let new: kubevirt::VirtualMachinePool = new_pool(&output);
    assert_eq!(new.desired_replicas(), 2);
    let text = |field: &str| stored["metadata"][field].as_str().unwrap().to_owned();
    let path = |subresource| subresources::KUBEVIRT.path(&text("namespace"), &text("name"), subresource);
    let claim = path(subresources::PoolSubresource::Claim);
    let removal = path(subresources::PoolSubresource::ScaleDownWith);
    let (name, uid) = (text("name"), text("uid"));
    let lines: Vec<&str> = output.lines().skip(1).collect();
    let expected = [
        "stored: 2 of 3 machines are ready, phase Ready".to_owned(),
        "stored: the pool is as its spec describes it".to_owned(),
        format!(r#"POST {claim} {{"id":"frame-17","durationSeconds":3600,"reason":"frame 17"}}"#),
        format!(r#"POST {removal} {{"targets":["{name}-2"],"preconditions":{{"uid":"{uid}"}}}}"#),
    ];
    assert_eq!(lines, expected);
}
