//! Operations about the replacement of machines.

use std::time::Duration;

use serde_json::{Value, json};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_model::{PatchKind, Verb};

use crate::golden_image::{change_golden_image, clone_golden_image};
use crate::manifest::POOL;
use crate::requests::patch_machine;
use crate::world::SimulatedWorld;

/// On machines, the request; on pools, the setting.
const RECYCLE: &str = "vmpool.dev/recycle";
/// On pools: what happens to machines whose image has other content.
const IMAGE_REFRESH: &str = "vmpool.dev/image-refresh";

/// One step. Numbers select a machine among those that exist at that moment.
#[derive(Clone, Debug, PartialEq)]
pub enum RecyclingOperation {
    /// A user requests the replacement of a machine.
    Request(usize),
    /// A user withdraws the request for a machine.
    Withdraw(usize),
    /// Machines older than ten minutes are replaced.
    LimitLifetime,
    /// Machines that were claimed so often are replaced.
    LimitClaims(u32),
    /// No machine is replaced because of its age or its claims.
    RemoveLimits,
    /// The pool replaces machines whose image has other content. On KubeVirt, its disks become clones of an
    /// image.
    FollowImage,
    /// The image of the pool gets other content.
    ReplaceImage,
}

impl RecyclingOperation {
    /// Performs the operation.
    pub(crate) async fn perform(&self, world: &mut SimulatedWorld) {
        match self {
            Self::Request(which) => {
                // The request counts if it is later than the creation, which has whole seconds.
                let now = world.now() + Duration::from_secs(1);
                set_request(world, *which, json!(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())).await;
            }
            Self::Withdraw(which) => set_request(world, *which, Value::Null).await,
            Self::LimitLifetime => set_limits(world, json!({ "maxLifetime": "10m" })).await,
            Self::LimitClaims(most) => set_limits(world, json!({ "maxClaims": most })).await,
            Self::RemoveLimits => set_limits(world, Value::Null).await,
            Self::FollowImage => {
                if world.platform() == TestedPlatform::KubeVirt {
                    clone_golden_image(world).await;
                }
                annotate_pool(world, IMAGE_REFRESH, json!("Recreate")).await;
            }
            Self::ReplaceImage => match world.platform() {
                TestedPlatform::Dvp => world.replace_image().await,
                TestedPlatform::KubeVirt => change_golden_image(world).await,
            },
        }
    }
}

async fn set_request(world: &mut SimulatedWorld, which: usize, value: Value) {
    patch_machine(world, which, json!({ "metadata": { "annotations": { (RECYCLE): value } } })).await;
}

/// Writes the setting of the pool as JSON into its annotation.
async fn set_limits(world: &mut SimulatedWorld, setting: Value) {
    let text = if setting.is_null() { Value::Null } else { json!(setting.to_string()) };
    annotate_pool(world, RECYCLE, text).await;
}

async fn annotate_pool(world: &mut SimulatedWorld, key: &str, text: Value) {
    let patch = json!({ "metadata": { "annotations": { (key): text } } });
    let call = world.call(Verb::Patch(PatchKind::Merge), "virtualmachinepools", POOL, "", patch);
    _ = world.do_as_user(&call).await;
}
