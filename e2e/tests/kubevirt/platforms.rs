//! Pools of two platforms, reconciled by one controller.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::crds::POOL_CRD;
use vmpool_test_cluster::control_plane::{apply, documents};

use crate::pools::spec;
use crate::world::{World, text, with_platforms};

/// The API version of the other platform.
const DVP: &str = "virtualization.deckhouse.io/v1alpha2";

impl World<'_> {
    /// Creates a pool of the other platform.
    async fn create_other(&self, name: &str, replicas: usize) -> Result<Value> {
        let pool = json!({
            "apiVersion": DVP,
            "kind": "VirtualMachinePool",
            "metadata": { "name": name },
            "spec": {
                "replicas": replicas,
                "scaleDownPolicy": "NewestFirst",
                "virtualDiskTemplates": [{ "name": "root", "spec": { "dataSource": {
                    "type": "ObjectRef",
                    "objectRef": { "kind": "ClusterVirtualImage", "name": "alpine" },
                } } }],
                "virtualMachineTemplate": { "spec": {
                    "virtualMachineClassName": "generic",
                    "cpu": { "cores": 1 },
                    "memory": { "size": "512Mi" },
                    "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": "root" }],
                } },
            },
        });
        let collection = self.place.path(DVP, "VirtualMachinePool")?;
        self.place.ask(Method::POST, &collection, &pool).await
    }

    /// Waits until this number of machines of the other platform exists, all owned by this pool.
    async fn until_others(&self, pool: &Value, number: usize) -> Result<()> {
        let uid = text(pool, "/metadata/uid");
        self.until(&format!("{number} machines of the other platform exist"), async || {
            let machines = self.all(DVP, "VirtualMachine").await?;
            let owned = |machine: &Value| text(machine, "/metadata/ownerReferences/0/uid") == uid;
            let live = machines.values().filter(|machine| machine["metadata"]["deletionTimestamp"].is_null());
            Ok((live.filter(|machine| owned(machine)).count() == number).then_some(()))
        })
        .await
    }
}

#[test]
fn pools_of_two_platforms_have_one_name_and_a_removed_definition_stops_only_its_platform() {
    with_platforms("two-platforms", "dvp,kubevirt", async |world| {
        // Given a pool of each platform, with one name in one namespace,
        let other = world.create_other("p", 2).await?;
        world.create("p", &spec(1)).await?;
        let machines = world.until_ready(&["p-0"]).await?;
        world.until_others(&other, 2).await?;
        let owner = &machines["p-0"]["metadata"]["ownerReferences"][0];
        ensure!(owner["uid"] == world.pool("p").await?["metadata"]["uid"], "{owner}");
        ensure!(owner["apiVersion"] == "pool.kubevirt.io/v1beta1", "{owner}");

        // when one of them is scaled, then the other one does not change,
        world.patch("p", &json!({ "spec": { "replicas": 2 } })).await?;
        world.until_ready(&["p-0", "p-1"]).await?;
        world.until_others(&other, 2).await?;

        // and when the definition of its pools is removed, then the other platform goes on,
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", POOL_CRD.name);
        world.place.ask(Method::DELETE, &path, &Value::Null).await?;
        world
            .until("the definition is gone", async || {
                Ok(world.place.send(Method::GET, &path, &Value::Null).await?.err().map(drop))
            })
            .await?;
        world.patch("p", &json!({ "spec": { "replicas": 1 } })).await?;
        world.until_ready(&["p-0"]).await?;

        // and when it returns, then new pools get machines.
        apply(&world.place.cluster.admin(), &documents(POOL_CRD.name, POOL_CRD.yaml)?, None).await?;
        let other = world.create_other("p", 1).await?;
        world.until_others(&other, 1).await?;
        world.is_settled().await
    });
}
