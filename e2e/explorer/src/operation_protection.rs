//! Operations about protection, claims and hooks.

use jiff::SignedDuration;
use serde_json::{Value, json};
use vmpool_model::{PatchKind, Verb};

use crate::attempt::ClaimReleaseRequest;
use crate::claim_client::ClaimParameters;
use crate::requests::choose_object;
use crate::world::{NAMESPACE, SimulatedWorld};

const UNTIL: &str = "vmpool.dev/protected-until";
const HOOK: &str = "drain.vmpool.dev/job";
const MARK: &str = "vmpool.dev/draining";

/// One step. Numbers select a machine among those that exist at that moment.
#[derive(Clone, Debug, PartialEq)]
pub enum ProtectionOperation {
    /// A user protects a machine for this number of seconds.
    Protect(usize, i64),
    /// A user protects a machine until a time that cannot be read.
    ProtectUnreadably(usize),
    /// A user takes the protection off a machine.
    Unprotect(usize),
    /// A user sets a hook of a machine, because work begins.
    SetHook(usize),
    /// The owner of the hook of a machine releases it with the id of the present drain. Without a drain, or
    /// without a hook, nothing happens.
    ReleaseHook(usize),
    /// The owner of the hook of a machine releases it with the id of an earlier drain.
    ReleaseHookLate(usize),
    /// The owner of the hook of a machine removes it.
    RemoveHook(usize),
    /// A caller claims a machine at this replica.
    Claim(ClaimParameters, usize),
    /// The caller with this id releases what it holds, at this replica.
    Release(&'static str, &'static str, usize),
}

impl ProtectionOperation {
    /// Whether the operation needs replicas of the aggregated API.
    pub fn uses_api(&self) -> bool {
        matches!(self, Self::Claim(..) | Self::Release(..))
    }

    pub(crate) async fn perform(&self, world: &mut SimulatedWorld) {
        match self {
            Self::Protect(which, seconds) => {
                let until = world.now() + SignedDuration::from_secs(*seconds);
                annotate(world, *which, json!(until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())).await;
            }
            Self::ProtectUnreadably(which) => annotate(world, *which, json!("until I come back")).await,
            Self::Unprotect(which) => annotate(world, *which, Value::Null).await,
            Self::SetHook(which) => set_hook(world, *which, json!("")).await,
            Self::ReleaseHookLate(which) => set_hook(world, *which, json!("earlier")).await,
            Self::RemoveHook(which) => set_hook(world, *which, Value::Null).await,
            Self::ReleaseHook(which) => release_hook(world, *which).await,
            Self::Claim(claim, first) => world.start_claim(claim.clone(), *first),
            Self::Release(id, then, first) => {
                let holding = world.holdings.iter().rev().find(|holding| holding.id == *id).cloned();
                if let Some(holding) = holding {
                    world.start_release(ClaimReleaseRequest { holding, then }, *first);
                }
            }
        }
    }
}

async fn annotate(world: &mut SimulatedWorld, which: usize, until: Value) {
    let Some((name, uid)) = choose_object(world, world.resources().machines, which) else { return };
    // The user changes the end of a claim that the machine may have, so its holder can lose it.
    world.holdings.retain(|holding| holding.uid != uid);
    world.annotated.insert(uid);
    let patch = json!({ "metadata": { "annotations": { (UNTIL): until } } });
    let call = world.call(Verb::Patch(PatchKind::Merge), "virtualmachines", &name, "", patch);
    _ = world.do_as_user(&call).await;
}

async fn set_hook(world: &mut SimulatedWorld, which: usize, value: Value) {
    let Some((name, _)) = choose_object(world, world.resources().machines, which) else { return };
    write_hook(world, &name, &value).await;
}

async fn release_hook(world: &mut SimulatedWorld, which: usize) {
    let machines = world.resources().machines;
    let Some((name, _)) = choose_object(world, machines, which) else { return };
    let Some(machine) = world.server.get(machines, NAMESPACE, &name) else { return };
    let annotations = &machine["metadata"]["annotations"];
    let mark: Value =
        serde_json::from_str(annotations[MARK].as_str().unwrap_or_default()).unwrap_or_default();
    if annotations[HOOK].is_string() && mark["id"].is_string() {
        write_hook(world, &name, &mark["id"]).await;
    }
}

async fn write_hook(world: &mut SimulatedWorld, name: &str, value: &Value) {
    let patch = json!({ "metadata": { "annotations": { (HOOK): value } } });
    let call = world.call(Verb::Patch(PatchKind::Merge), "virtualmachines", name, "", patch);
    _ = world.do_as_user(&call).await;
}
