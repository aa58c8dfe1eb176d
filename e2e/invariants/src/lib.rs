//! Invariants of the product, as pure functions of the recorded history.
//!
//! | invariant | check | needs |
//! | --- | --- | --- |
//! | I1 no machine is removed unless it is a target or surplus, or is replaced | [`removal`] | history |
//! | I2 machines never exceed what any reader could still see as desired | [`machine_count`] | history |
//! | I3 a disk is mounted by one machine at a time | the simulator records it; `World::check`  reads it | |
//! | I3 no two machines refer to one disk for long | [`shared_disks`] | state |
//! | I4 foreign objects are left alone, referenced disks are not deleted | [`foreign_objects`] | history, audit log |
//! | I4 preserved storage of KubeVirt machines outlives them | [`preserved_storage`] | history |
//! | I5 an Explicit pool loses only targets of a targeted removal, and replaced machines | [`removal`] | history |
//! | I6 a targeted removal takes effect exactly once, and affects no other machine | [`targeted_removal`], [`machine_count`], [`removal`] | history |
//! | I7 in the controller, only autoscalers write `spec.replicas` | [`replica_writes`] | history, audit log |
//! | I8 in a settled world the status is correct, and there are no writes | [`settled`] | state, audit log |
//! | I9 nothing remains after a pool is deleted | [`leftovers`], [`finalizers`] | history |
//! | I10 expired free disks are deleted, except those that are kept | [`disk_collection`] | state |
//! | I11 an image that is referenced is never deleted | [`image_references`] | history |
//! | I12 a protected machine is not removed by count | [`protection`] | history |
//! | I14 objects of other namespaces have no effect, and are left alone | all of the above, [`other_namespaces`] | history, audit log |
//! | I15 the objects that a pool creates and does not keep are bounded | [`unowned_objects`] | history, audit log |
//! | I16 a machine is created only while fewer machines provision than the limit allows | [`provisioning`] | history |
//! | I17 a standby machine is never claimed or selected as a replica, and no active machine becomes one | [`standby`] | history |
//! | I18 an autoscaler leaves at least the busy machines, and removes by name only unprotected ones of Explicit pools | [`autoscalers`] | history, audit log |
//! | I19 a machine with hooks is not removed or restarted before they are released | [`draining`] | history |
//! | I20 healing removes no ready machine, and none while too many are unhealthy | [`removal`] | history |
//! | I21 replacements make no more machines unavailable than the budget allows | [`replacement_budget`] | history |
//! | I21 a clock that is ahead causes one batch of replacements for each leader at most | [`early_replacements`] | history |

pub mod autoscalers;
pub mod disk_collection;
pub mod draining;
pub mod early_replacements;
pub mod finalizers;
pub mod foreign_objects;
pub mod image_references;
pub mod leftovers;
pub mod machine_count;
pub mod object;
pub mod other_namespaces;
pub mod platform;
pub mod preserved_storage;
pub mod protection;
pub mod provisioning;
pub mod recorder;
pub mod removal;
pub mod replacement_budget;
pub mod replica_writes;
pub mod settled;
pub mod shared_disks;
pub mod standby;
pub mod targeted_removal;
pub mod unowned_objects;

mod disruption_budget;
mod health;
mod health_setting;
mod held_machines;
mod provisioning_limit;
mod recycle_limits;
mod removal_record;
mod replacement;
mod timeline;
mod user_actions;
mod violation;

#[cfg(test)]
mod tests;

use vmpool_test_cluster::control_plane::AuditEntry;

use crate::recorder::RecordedHistory;

pub use timeline::keeps_surplus;
pub use user_actions::UserActions;
pub use violation::Violation;

/// All violations in the recorded history. I3 and I8 need more input and are checked separately.
pub fn check_history(
    history: &RecordedHistory,
    actions: &UserActions,
    audit: &[AuditEntry],
    controller_user: &str,
) -> Vec<Violation> {
    let actions = &autoscalers::with_removals_by_autoscalers(history, actions, controller_user);
    let mut found = removal::check_machine_removals(history, actions);
    found.extend(protection::check_protection(history, actions));
    found.extend(draining::check_draining(history, actions));
    found.extend(machine_count::check_machine_count(history, actions));
    found.extend(provisioning::check_provisioning(history, actions));
    found.extend(replacement_budget::check_replacement_budget(history, actions));
    found.extend(early_replacements::check_early_replacements(history, actions));
    found.extend(standby::check_standby(history, actions));
    found.extend(targeted_removal::check_targeted_removals(history, actions));
    found.extend(foreign_objects::check_foreign_objects(history, actions, audit, controller_user));
    found.extend(autoscalers::check_autoscalers(history, actions, audit, controller_user));
    found.extend(replica_writes::check_replica_writes(history, actions, audit, controller_user));
    found.extend(preserved_storage::check_preserved_storage(history, actions));
    found.extend(unowned_objects::check_unowned_objects(history, actions, audit, controller_user));
    found
}
