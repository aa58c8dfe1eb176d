//! Operations about protection and claims.

use jiff::SignedDuration;
use serde_json::{Value, json};
use vmpool_model::{PatchKind, Verb};

use crate::attempt::ClaimReleaseRequest;
use crate::claim_client::ClaimParameters;
use crate::requests::choose_object;
use crate::world::SimulatedWorld;

const UNTIL: &str = "vmpool.dev/protected-until";

/// One step. Numbers select a machine among those that exist at that moment.
#[derive(Clone, Debug, PartialEq)]
pub enum ProtectionOperation {
    /// A user protects a machine for this number of seconds.
    Protect(usize, i64),
    /// A user protects a machine until a time that cannot be read.
    ProtectUnreadably(usize),
    /// A user takes the protection off a machine.
    Unprotect(usize),
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
