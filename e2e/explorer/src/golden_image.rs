//! The image of a KubeVirt pool: a DataSource that leads to the newest of several claims, as an importer that
//! runs again and again leaves them.

use serde_json::{Value, json};
use vmpool_model::{PatchKind, Verb};

use crate::manifest_kubevirt::data_volume_template;
use crate::operation_image::{VOLUMES, use_in_pool};
use crate::world::{NAMESPACE, SimulatedWorld};

/// The DataSource, and the prefix of the names of its claims.
const GOLDEN: &str = "golden";

/// The disks of the pool become clones of the image, which is created first.
pub(crate) async fn clone_golden_image(world: &mut SimulatedWorld) {
    let spec = publish_volume(world).await;
    world
        .create(
            "datasources",
            json!({
                "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
                "metadata": { "name": GOLDEN }, "spec": spec,
            }),
        )
        .await;
    use_in_pool(world, Some(GOLDEN)).await;
}

/// The image leads to the data of a new DataVolume.
pub(crate) async fn change_golden_image(world: &mut SimulatedWorld) {
    let spec = publish_volume(world).await;
    let patch = json!({ "spec": spec });
    let call = world.call(Verb::Patch(PatchKind::Merge), "datasources", GOLDEN, "", patch);
    _ = world.do_as_user(&call).await;
}

/// Creates one more DataVolume. Returns the spec of a DataSource that leads to its claim.
async fn publish_volume(world: &mut SimulatedWorld) -> Value {
    let prefix = format!("{GOLDEN}-");
    let volumes = world.server.all(VOLUMES);
    let names = volumes.iter().filter_map(|volume| volume["metadata"]["name"].as_str());
    let count = names.filter(|name| name.starts_with(&prefix)).count();
    let name = format!("{prefix}{count}");
    world
        .create(
            "datavolumes",
            json!({
                "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
                "metadata": { "name": name }, "spec": data_volume_template(&name)["spec"],
            }),
        )
        .await;
    json!({ "source": { "pvc": { "name": name, "namespace": NAMESPACE } } })
}
