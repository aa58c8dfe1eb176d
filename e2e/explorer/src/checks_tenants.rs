//! I14: objects of another namespace have no effect on the pool, and the pool of the other namespace has none
//! either.
//!
//! Most of it follows from the other checks, which see the objects of one namespace only: a machine that is
//! created, deleted or not replaced because of an object of another namespace violates them.

use std::collections::BTreeMap;

use vmpool_invariants::object::TestedKind;
use vmpool_invariants::{UserActions, other_namespaces, settled};
use vmpool_test_cluster::control_plane::AuditEntry;

use crate::instance::CONTROLLER;
use crate::manifest::MAX_PROVISIONING;
use crate::world::{SimulatedWorld, TENANT};

/// Violations by requests in the namespace of the tenant. All targeted removals of a schedule are in the
/// other namespace.
pub(crate) fn tenant_violations(
    world: &SimulatedWorld,
    actions: &UserActions,
    audit: &[AuditEntry],
) -> Vec<String> {
    let history = &world.tenant_history;
    let actions = UserActions { completed_removals: BTreeMap::new(), ..actions.clone() };
    let found = vmpool_invariants::check_history(history, &actions, audit, CONTROLLER);
    let of_tenant = found.iter().map(|found| format!("in namespace {TENANT}: {found}"));
    let touched = other_namespaces::check_other_namespaces(&world.forged, audit, CONTROLLER);
    of_tenant.chain(touched.iter().map(ToString::to_string)).collect()
}

/// What the pool of the tenant lacks in a settled world.
pub(crate) fn settled_violations(world: &SimulatedWorld) -> Vec<String> {
    let state = world.tenant_history.state();
    let mut found = Vec::new();
    for pool in state.all(TestedKind::Pool).filter(|pool| !pool.is_terminating()) {
        let machines = state.machines_of_pool(pool.uid());
        found.extend(settled::status_errors(pool, &machines).iter().map(ToString::to_string));
        let desired = pool.number("/spec/replicas").unwrap_or_default();
        // The limit on provisioning waits for machines that the tenant broke.
        let is_limited = pool.annotation(MAX_PROVISIONING).is_some()
            && machines.iter().any(|machine| !machine.is_running());
        let active = machines.iter().filter(|machine| !machine.is_standby()).count();
        if i64::try_from(active).ok() != Some(desired) && !is_limited {
            found.push(format!("I14: the pool of the tenant desires {desired} machines and has {active}"));
        }
    }
    found.iter().map(|found| format!("in namespace {TENANT}: {found}")).collect()
}
