//! I4 for KubeVirt: with state preservation, the DataVolumes of a removed machine are not deleted.

use std::collections::BTreeMap;

use super::replacement::Replacements;
use super::timeline::Timeline;
use super::{UserActions, Violation};
use crate::object::{JsonObject, TestedKind};
use crate::recorder::RecordedHistory;

/// DataVolumes that were deleted after their machine, although the pool preserved them whenever it could be
/// read.
///
/// Machines that may be replaced get new storage, and the storage of a deleted pool goes with it. A client
/// that has claimed a machine may have it replaced with its storage.
pub fn check_preserved_storage(history: &RecordedHistory, actions: &UserActions) -> Vec<Violation> {
    let mut timeline = Timeline::default();
    let mut replacements = Replacements::default();
    // Whether the pool has always preserved storage, by UID.
    let mut preserving = BTreeMap::<String, bool>::new();
    // The pools of the removed machines whose storage must stay, by the UID of the machine.
    let mut removed = BTreeMap::<String, String>::new();
    let mut found = Vec::new();
    history.replay(|before, change| {
        timeline.observe(change);
        replacements.observe(change);
        let object = &change.object;
        let leaves = change.removed || object.is_terminating();
        match change.kind {
            TestedKind::Pool => {
                let always = preserving.entry(object.uid().to_owned()).or_insert(true);
                *always &= !leaves && preserves(object);
            }
            TestedKind::Machine if leaves => {
                let Some(former) = before.get(TestedKind::Machine, object.uid()) else { return };
                let (pool, states) =
                    (former.owner_uid(), timeline.readable_states(former.owner_uid(), change.at));
                if !former.is_terminating()
                    && preserving.get(pool).is_some_and(|always| *always)
                    && !replacements.allows(former, &states, change.at + actions.clocks_ahead)
                    && !is_released_with_its_storage(former, object)
                    && before.get(TestedKind::Pool, pool).is_some_and(|pool| pool.selects(former))
                    && is_under_control(former, actions)
                {
                    removed.insert(object.uid().to_owned(), pool.to_owned());
                }
            }
            TestedKind::Disk if leaves => {
                let Some(former) = before.get(TestedKind::Disk, object.uid()) else { return };
                let pool = removed.get(former.owner_uid());
                let must_stay = pool.and_then(|pool| preserving.get(pool)).is_some_and(|always| *always);
                if must_stay && !former.is_terminating() && !actions.deleted.contains(former.uid()) {
                    let what = format!(
                        "DataVolume {} was deleted with its machine at revision {}, although the pool preserves it",
                        former.name(),
                        change.revision
                    );
                    found.push(Violation { invariant: "I4", what });
                }
            }
            _ => {}
        }
    });
    found
}

/// Whether the controller has seen a machine: one that a user gave to the pool has no finalizer before.
fn is_under_control(machine: &JsonObject, actions: &UserActions) -> bool {
    !actions.returned.contains(machine.uid()) || machine.has_pool_finalizer()
}

/// The annotation of a claimed machine.
const CLAIM: &str = "vmpool.dev/claim";

/// Whether a claimed machine is deleted after its storage. The controller deletes no claimed machine, and its
/// storage goes only with a deletion in the foreground.
fn is_released_with_its_storage(former: &JsonObject, object: &JsonObject) -> bool {
    let finalizers = object.at("/metadata/finalizers").as_array();
    let mut finalizers = finalizers.into_iter().flatten();
    former.annotation(CLAIM).is_some() && finalizers.any(|finalizer| finalizer == "foregroundDeletion")
}

/// Whether the pool preserves the storage of machines that are removed.
fn preserves(pool: &JsonObject) -> bool {
    ["proactive", "opportunistic"].iter().any(|strategy| {
        let value = pool.at("/spec/scaleInStrategy")[strategy]["statePreservation"].as_str();
        ["Offline", "Online"].contains(&value.unwrap_or_default())
    })
}
