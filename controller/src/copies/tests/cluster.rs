//! Instance types of the cluster, which machines and pools of all namespaces use.

use serde_json::json;

use super::*;

const CLUSTER_TYPES: &str = "virtualmachineclusterinstancetypes.instancetype.kubevirt.io";
const OTHER: &str = "team-b";

impl LeaderWorld {
    fn create_cluster_type(&self) {
        let metadata = json!({ "name": "shared", "generation": 1, "finalizers": [FINALIZER] });
        let spec = json!({ "cpu": { "guest": 2 }, "memory": { "guest": "1Gi" } });
        self.server.create(CLUSTER_TYPES, json!({ "metadata": metadata, "spec": spec }));
    }

    /// Creates a machine of another namespace that names it.
    fn create_machine_of(&self, namespace: &str) {
        let spec = json!({
            "runStrategy": "Halted", "instancetype": { "name": "shared" },
            "template": { "spec": { "domain": { "devices": {} } } },
        });
        let metadata = json!({ "name": "db", "namespace": namespace });
        self.server.create(MACHINES, json!({ "metadata": metadata, "spec": spec }));
    }

    fn has_cluster_type(&self) -> bool {
        !self.server.all(CLUSTER_TYPES).is_empty()
    }
}

#[tokio::test]
async fn a_machine_of_another_namespace_keeps_a_type_of_the_cluster() {
    // Given a machine that gets no copy, because KubeVirt does not make one,
    let world = world(None).await;
    world.create_cluster_type();
    world.create_machine_of(OTHER);
    world.calm().await;
    // when its type is deleted, then it stays until the machine is gone.
    world.server.delete_of_cluster(CLUSTER_TYPES, "shared");
    world.advance(100 * SECOND).await;
    assert!(world.has_cluster_type(), "the machine has no copy");
    world.server.delete_in(OTHER, MACHINES, "db");
    world.advance(40 * SECOND).await;
    assert!(!world.has_cluster_type());
}

#[tokio::test]
async fn a_machine_of_another_namespace_gets_a_copy_of_a_type_of_the_cluster_that_is_deleted() {
    let mut world = world(Some(CopyPolicy::Reference)).await;
    world.create_cluster_type();
    world.calm().await;
    world.kill_leader().await;
    world.create_machine_of(OTHER);
    world.server.delete_of_cluster(CLUSTER_TYPES, "shared");
    world.lead_all(&[PlatformName::Kubevirt]);
    world.advance(10 * SECOND).await;
    assert!(!world.has_cluster_type());
    let copies = world.server.all(REVISIONS);
    assert!(copies.iter().any(|copy| copy["metadata"]["namespace"] == OTHER), "{copies:#?}");
}

#[tokio::test]
async fn what_is_in_a_namespace_that_is_being_deleted_does_not_keep_a_type_of_the_cluster() {
    let world = world(None).await;
    world.create_cluster_type();
    // Given a namespace that is being deleted and whose Pods are not gone yet, so that its machines are still
    // there,
    let metadata = json!({ "name": OTHER, "finalizers": ["example.com/pods"] });
    world.server.create("namespaces", json!({ "metadata": metadata }));
    world.create_machine_of(OTHER);
    world.calm().await;
    world.server.delete_of_cluster(CLUSTER_TYPES, "shared");
    world.advance(100 * SECOND).await;
    assert!(world.has_cluster_type(), "the namespace is not being deleted");
    world.server.delete_of_cluster("namespaces", OTHER);
    world.advance(40 * SECOND).await;
    assert!(!world.has_cluster_type());
}
