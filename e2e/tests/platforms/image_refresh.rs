//! Image refresh: machines whose disks are from earlier content of their image.

use std::time::Duration;

use anyhow::ensure;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_e2e::world::condition::{
    has_machine, negate_condition, no_condition, pool_condition, ready_replicas, status_number,
};
use vmpool_e2e::world::{SETTLE, ScenarioWorld};
use vmpool_engine::image_refresh::{DISK_SOURCES, IMAGE_REFRESH};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::control_plane::apply_manifests;

use crate::with_gate;

/// The feature gate of image refresh.
const GATE: &str = "ImageRefresh";

/// Content counts when a source has led to it for a minute.
const SETTLING: Duration = Duration::from_mins(1);

fn image(world: &ScenarioWorld) -> Value {
    json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2",
        "kind": "VirtualImage",
        "metadata": { "name": "golden", "namespace": world.namespace() },
        "spec": { "dataSource": { "type": "HTTP", "http": { "url": "https://images.example/golden.qcow2" } } },
    })
}

/// A DataVolume with the data of one version, and the DataSource that leads to it.
fn version(world: &ScenarioWorld, name: &str) -> [Value; 2] {
    let metadata = |name: &str| json!({ "name": name, "namespace": world.namespace() });
    let volume = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataVolume",
        "metadata": metadata(name),
        "spec": { "source": { "blank": {} },
            "storage": { "resources": { "requests": { "storage": "64Mi" } } } },
    });
    let claim = json!({ "name": name, "namespace": world.namespace() });
    let source = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataSource",
        "metadata": metadata("golden"),
        "spec": { "source": { "pvc": claim } },
    });
    [volume, source]
}

/// Makes the image of the pool lead to the first content.
async fn create_image(world: &ScenarioWorld) -> anyhow::Result<()> {
    let objects = match world.platform() {
        TestedPlatform::Dvp => vec![image(world)],
        TestedPlatform::KubeVirt => version(world, "v1").to_vec(),
    };
    apply_manifests(&world.client(), &objects, Some(world.namespace())).await?;
    if world.platform() == TestedPlatform::KubeVirt {
        // A machine that is created before records no content.
        world
            .kubectl(&[
                "wait",
                "datasources.cdi.kubevirt.io/golden",
                "--for=condition=Ready",
                "--timeout=60s",
            ])
            .await?;
    }
    Ok(())
}

fn objects(world: &ScenarioWorld, kind: &GroupVersionKind, plural: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(kind, plural);
    Api::namespaced_with(world.client(), world.namespace(), &resource)
}

/// Makes the image of the pool lead to other content.
async fn change_image(world: &ScenarioWorld) -> anyhow::Result<()> {
    match world.platform() {
        TestedPlatform::Dvp => {
            let kind = GroupVersionKind::gvk("virtualization.deckhouse.io", "v1alpha2", "VirtualImage");
            objects(world, &kind, "virtualimages").delete("golden", &DeleteParams::default()).await?;
            apply_manifests(&world.client(), &[image(world)], Some(world.namespace())).await?;
        }
        TestedPlatform::KubeVirt => {
            let [volume, source] = version(world, "v2");
            apply_manifests(&world.client(), &[volume], Some(world.namespace())).await?;
            let kind = GroupVersionKind::gvk("cdi.kubevirt.io", "v1beta1", "DataSource");
            let patch = Patch::Merge(json!({ "spec": source["spec"] }));
            objects(world, &kind, "datasources").patch("golden", &PatchParams::default(), &patch).await?;
        }
    }
    Ok(())
}

/// The part of a pool whose disks are created from the image.
fn from_image(platform: TestedPlatform, refresh: &str) -> Value {
    let spec = match platform {
        TestedPlatform::Dvp => json!({ "virtualDiskTemplates": [{ "name": "root", "spec": {
            "persistentVolumeClaim": { "size": "64Mi" },
            "dataSource": { "type": "ObjectRef", "objectRef": { "kind": "VirtualImage", "name": "golden" } },
        } }] }),
        TestedPlatform::KubeVirt => {
            json!({ "virtualMachineTemplate": { "spec": { "dataVolumeTemplates": [{
                "metadata": { "name": "root" },
                "spec": { "sourceRef": { "kind": "DataSource", "name": "golden" }, "storage": {} },
            }] } } })
        }
    };
    json!({ "metadata": { "annotations": { IMAGE_REFRESH: refresh } }, "spec": spec })
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_pool_reports_machines_from_an_earlier_image(#[case] platform: TestedPlatform) {
    with_gate(platform, "a pool reports machines from an earlier image", GATE, async |world| {
        // Given a pool whose machines record the content of their image,
        create_image(world).await?;
        let pool =
            world.pool("web").replicas(2).disk("root").with(&from_image(platform, "Report")).ready().await?;
        for machine in pool.machines().await? {
            ensure!(machine.annotation(DISK_SOURCES).is_some_and(|text| text.contains("golden@")));
        }
        pool.holds(no_condition("ImageOutdated"), SETTLE).await?;
        // when the image leads to other content, the pool reports its machines after a minute.
        change_image(world).await?;
        let reported = pool_condition("ImageOutdated", "True", "SourceChanged")
            .and(status_number("imageOutdatedReplicas", 2));
        pool.until_within(reported, SETTLING * 3).await?;
        // Nothing is deleted, and a new machine is not outdated.
        pool.scale(3).await?;
        pool.until(ready_replicas(3).and(status_number("imageOutdatedReplicas", 2))).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_pool_replaces_machines_from_an_earlier_image(#[case] platform: TestedPlatform) {
    with_gate(platform, "a pool replaces machines from an earlier image", GATE, async |world| {
        create_image(world).await?;
        let pool = world.pool("web").replicas(2).disk("root").with(&from_image(platform, "Recreate"));
        let pool = pool.ready().await?;
        let before = pool.machines().await?;
        change_image(world).await?;
        for machine in &before {
            pool.until_within(negate_condition(has_machine(machine)), SETTLING * 3).await?;
        }
        pool.until(ready_replicas(2).and(no_condition("ImageOutdated"))).await?;
        for machine in pool.machines().await? {
            let is_old = |old: &vmpool_invariants::object::JsonObject| {
                old.annotation(DISK_SOURCES) == machine.annotation(DISK_SOURCES)
            };
            ensure!(!before.iter().any(is_old), "{machine:?}");
        }
        Ok::<_, anyhow::Error>(())
    });
}
