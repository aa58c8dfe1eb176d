//! The checks: after every change, and once the world has settled.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::{
    UserActions, disk_collection, finalizers, keeps_surplus, leftovers, settled, shared_disks,
};
use vmpool_model::{Call, HandledRequest, PatchKind, Verb};
use vmpool_test_cluster::control_plane::AuditEntry;

use crate::checks_autoscalers as autoscalers;
use crate::checks_images as images;
use crate::checks_kubevirt as kubevirt;
use crate::checks_protection as protection;
use crate::checks_tenants as tenants;
use crate::instance::{CONTROLLER, is_tested};
use crate::manifest::{POOL, STANDBY};
use crate::world::{NAMESPACE, SimulatedWorld, TENANT};

/// A world is settled if nothing changed for this long. It is longer than the longest backoff.
pub const SETTLED_AFTER: Duration = Duration::from_secs(75);
/// The processes must not write for this long before the end. It is shorter than [`SETTLED_AFTER`], because a
/// write without effect may follow shortly after the last change.
const NO_WRITES_FOR: Duration = Duration::from_secs(10);

/// All violations so far.
pub fn invariant_violations(world: &SimulatedWorld) -> Vec<String> {
    let served = world.server.handled_since(0);
    let audit: Vec<AuditEntry> = served.iter().filter(|served| is_checked(&served.call)).map(entry).collect();
    let actions = actions_of_users(world);
    let (of_tenant, audit): (Vec<_>, Vec<_>) = audit.into_iter().partition(|entry| entry.namespace == TENANT);
    let found = vmpool_invariants::check_history(world.history(), &actions, &audit, CONTROLLER);
    let mounts = world.mount_violations().into_iter().map(|mount| format!("I3: {mount}"));
    // A list from the API server's cache may be older than the last write of a previous leader.
    let old =
        served.iter().map(|served| &served.call).filter(|call| is_tested(&call.sender) && takes_any(call));
    let old = old.map(|call| format!("{call}: reads a list with resourceVersion=0"));
    found
        .iter()
        .map(ToString::to_string)
        .chain(mounts)
        .chain(old)
        .chain(writes_of_former_leaders(world, &served))
        .chain(protection::restarted_machines(world, &served, &actions))
        .chain(autoscalers::blind_lowerings(world, &served))
        .chain(kubevirt::copy_violations(world, &served))
        .chain(tenants::tenant_violations(world, &actions, &of_tenant))
        .chain(world.shared_machines.iter().cloned())
        .chain(world.image_violations.iter().cloned())
        .collect()
}

/// Writes of a controller while another one led, except those that were delayed for longer than the sender
/// could know.
fn writes_of_former_leaders(world: &SimulatedWorld, served: &[HandledRequest]) -> Vec<String> {
    let (mut leader, mut found) = (None, Vec::new());
    for HandledRequest { call, code, .. } in
        served.iter().filter(|served| served.call.sender.starts_with(CONTROLLER))
    {
        if call.resource == "leases" {
            if call.is_write() && *code < 300 {
                let is_held =
                    call.body["spec"]["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty());
                leader = is_held.then_some(call.sender.as_str());
            }
        } else if is_checked(call) && leader.is_some_and(|leader| leader != call.sender) {
            let sent = call.to_string();
            if !world.late.contains(&sent) {
                let leader = leader.unwrap_or_default();
                found.push(format!("a replaced leader wrote: {sent}, while {leader} leads"));
            }
        }
    }
    found
}

/// What users did. A request without UIDs means any machine with that name. After a change of leaders it may
/// be a new machine, because the new leader starts the open block of names again.
fn actions_of_users(world: &SimulatedWorld) -> UserActions {
    let mut actions = world.user_actions.clone();
    actions.leaders = changes_of_leaders(world);
    let mut had: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let machines = world.history().changes().iter().filter(|change| change.kind == TestedKind::Machine);
    for machine in machines.map(|change| &change.object) {
        if world.unpinned.contains(machine.name()) {
            had.entry(machine.name()).or_default().insert(machine.uid());
        }
    }
    for uid in had.into_values().filter(|uids| uids.len() > 1).flatten() {
        actions.request_removal(&[uid.to_owned()]);
        actions.completed_removals.remove(uid);
    }
    actions
}

/// How often a process took the lease. A process that was killed starts again with the same name and with an
/// empty memory.
fn changes_of_leaders(world: &SimulatedWorld) -> usize {
    let served = world.server.handled_since(0);
    let takes = served.iter().filter(|served| {
        let call = &served.call;
        call.resource == "leases"
            && call.sender.starts_with(CONTROLLER)
            && served.code < 300
            && !call.body["spec"]["acquireTime"].is_null()
    });
    let acquired: BTreeSet<String> =
        takes.map(|served| served.call.body["spec"]["acquireTime"].to_string()).collect();
    acquired.len()
}

/// Whether the checks consider this request.
fn is_checked(call: &Call) -> bool {
    call.is_write() && call.resource != "leases" && call.resource != "events"
}

fn takes_any(call: &Call) -> bool {
    call.verb == Verb::List && call.parameter("resourceVersion") == Some("0")
}

/// Writes to a settled world.
fn writes_when_settled(world: &SimulatedWorld) -> Vec<String> {
    let since = world.now() - NO_WRITES_FOR;
    let served = world.server.handled_since(0);
    let late = served.iter().rev().take_while(|served| served.at > since);
    let writes = late.filter(|served| is_tested(&served.call.sender) && is_checked(&served.call));
    writes
        .map(|served| format!("I8: a write to a settled world: {} ({})", served.call, served.code))
        .collect()
}

/// All violations in a settled world.
pub fn settled_violations(world: &SimulatedWorld) -> Vec<String> {
    let state = world.history().state();
    let mut violations: Vec<String> =
        leftovers::check_leftovers(world.history()).iter().map(ToString::to_string).collect();
    violations.extend(writes_when_settled(world));
    violations.extend(finalizers::check_finalizers(state).iter().map(ToString::to_string));
    violations.extend(shared_disks::check_shared_disks(state).iter().map(ToString::to_string));
    violations.extend(
        disk_collection::check_disk_garbage_collection(state, world.now()).iter().map(ToString::to_string),
    );
    violations.extend(autoscalers::settled_violations(world));
    violations.extend(images::settled_violations(world));
    violations.extend(tenants::settled_violations(world));
    for pool in state.all(TestedKind::Pool).filter(|pool| !pool.is_terminating()) {
        let machines = state.machines_of_pool(pool.uid());
        violations.extend(settled::status_errors(pool, &machines).iter().map(ToString::to_string));
        let (standby, machines): (Vec<_>, Vec<_>) =
            machines.into_iter().partition(|machine| machine.is_standby());
        violations.extend(kubevirt::unused_copies(world, pool));
        if images::waits_for_image(world, pool)
            || kubevirt::waits_for_type(world, pool)
            || waits_for_user_because_of_disk(world, pool)
            || waits_for_machines_to_start(world, pool)
        {
            continue;
        }
        violations.extend(missing_machines(pool, &machines, world.some_may_not_run));
        violations.extend(missing_standby(pool, &standby));
        violations.extend(kubevirt::outdated_machines(world, pool, &machines));
    }
    violations
}

/// Whether the pool would create a missing machine: it waits for no image and no instance type.
pub fn creates_machines(world: &SimulatedWorld) -> bool {
    let pool = world.server.get(world.resources().pools, NAMESPACE, POOL).map(JsonObject::from);
    pool.is_none_or(|pool| !images::waits_for_image(world, &pool) && !kubevirt::waits_for_type(world, &pool))
}

/// Whether a machine runs on a disk that a policy took away from it. The controller replaces the disk only if
/// a user stops or deletes the machine, creates no other machine before, and says so.
fn waits_for_user_because_of_disk(world: &SimulatedWorld, pool: &JsonObject) -> bool {
    let conditions = pool.at("/status/conditions").as_array().into_iter().flatten();
    let mut failures = conditions.filter(|condition| condition["type"] == "ReplicaFailure");
    world.user_actions.policies > 0
        && failures.any(|failure| failure["status"] == "True" && failure["reason"] == "DiskFailure")
}

/// Whether the limit on provisioning delays creates, because machines that a user broke do not start. They
/// delay a pool for half an hour.
fn waits_for_machines_to_start(world: &SimulatedWorld, pool: &JsonObject) -> bool {
    world.some_may_not_run
        && pool.condition("ProvisioningLimited").is_some_and(|limited| limited["status"] == "True")
}

/// What a settled pool lacks.
fn missing_machines(pool: &JsonObject, machines: &[&JsonObject], some_may_not_run: bool) -> Option<String> {
    let desired = pool.desired_replicas();
    if pool.is_kubevirt() && pool.at("/spec/paused") == true {
        return None;
    }
    let right = if keeps_surplus(pool) { machines.len() >= desired } else { machines.len() == desired };
    let running = machines.iter().filter(|instance| instance.is_running()).count();
    (!right || running < machines.len() && !some_may_not_run).then(|| {
        format!(
            "the pool desires {desired} machines, but after settling {} exist and {running} run",
            machines.len()
        )
    })
}

/// How many standby machines a settled pool lacks or has too many.
fn missing_standby(pool: &JsonObject, machines: &[&JsonObject]) -> Option<String> {
    // A pool that preserves state has none, and leaves those that it has.
    let leaves = pool.is_kubevirt() && pool.at("/spec/paused") == true
        || pool.at("/spec/scaleInStrategy").to_string().contains("Offline");
    let setting: Value = serde_json::from_str(pool.annotation(STANDBY)?).ok()?;
    let desired = setting["replicas"].as_u64().and_then(|count| usize::try_from(count).ok())?;
    // The controller leaves those that a user started.
    let kept = machines.iter().filter(|machine| is_started_standby(machine)).count();
    let (existing, right) = (machines.len(), desired.max(kept));
    (!leaves && existing != right).then(|| {
        format!(
            "the pool desires {desired} standby machines, and users started {kept}, but after settling \
             {existing} exist"
        )
    })
}

/// Whether a user started the standby machine after its warm-up.
fn is_started_standby(machine: &JsonObject) -> bool {
    let is_off = if machine.is_kubevirt() {
        machine.text("/spec/runStrategy") == "Halted"
    } else {
        machine.text("/spec/runPolicy") == "AlwaysOff"
    };
    machine.label(STANDBY) == Some("stopped") && !is_off
}

fn entry(served: &HandledRequest) -> AuditEntry {
    let call = &served.call;
    let verb = match call.verb {
        Verb::Get => "get",
        Verb::List => "list",
        Verb::Watch => "watch",
        Verb::Create => "create",
        Verb::Update => "update",
        Verb::Patch(PatchKind::Merge | PatchKind::Json) => "patch",
        Verb::Delete => "delete",
    };
    AuditEntry {
        at: served.at,
        // The checks treat all controllers as one user.
        user: if call.sender.starts_with(CONTROLLER) { CONTROLLER.to_owned() } else { call.sender.clone() },
        user_agent: call.sender.clone(),
        verb: verb.to_owned(),
        group: call.group.clone(),
        resource: call.resource.clone(),
        subresource: call.subresource.clone(),
        namespace: call.namespace.clone(),
        // The API server records the name of a created object, too.
        name: match call.verb {
            Verb::Create => call.body["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            _ => call.name.clone(),
        },
        code: served.code,
        dry_run: call.is_dry(),
        body: if call.resource == "virtualmachinepools" || call.verb == Verb::Delete {
            call.body.clone()
        } else {
            Value::Null
        },
        notes: BTreeMap::new(),
    }
}
