//! What must hold: of every change, and in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use vmpool_e2e::cluster::AuditEntry;
use vmpool_e2e::invariants::{self, Grounds, collection, leftovers, settled};
use vmpool_e2e::object::{Kind, Object};
use vmpool_model::{Call, PatchKind, Served, Verb};

use crate::cast::{CONTROLLER, is_ours};
use crate::world::World;

/// How long nothing may change before a world counts as settled: longer than the longest pause after a failure.
pub const QUIET: Duration = Duration::from_secs(75);
/// For how long nobody may write before the end: shorter than [`QUIET`], after whose beginning a write may come that turns
/// out to change nothing.
const RESTING: Duration = Duration::from_secs(10);

/// What every change so far has broken.
pub fn broken(world: &World) -> Vec<String> {
    let served = world.server.served_since(0);
    let audit: Vec<AuditEntry> = served.iter().filter(|served| is_told(&served.call)).map(entry).collect();
    let found = invariants::violations(world.history(), &grounds(world), &audit, CONTROLLER);
    let mounts = world.double_mounts().into_iter().map(|mount| format!("I3: {mount}"));
    // What a cache has may be older than the last write of a predecessor.
    let old = served.iter().map(|served| &served.call).filter(|call| is_ours(&call.who) && takes_any(call));
    let old = old.map(|call| format!("{call}: takes a list of any time"));
    found.iter().map(ToString::to_string).chain(mounts).chain(old).chain(usurped(world, &served)).collect()
}

/// Writes of a controller while another one led, but for those that were on their way for longer than it could know.
fn usurped(world: &World, served: &[Served]) -> Vec<String> {
    let (mut leader, mut found) = (None, Vec::new());
    for Served { call, code, .. } in served.iter().filter(|served| served.call.who.starts_with(CONTROLLER)) {
        if call.resource == "leases" {
            if call.is_write() && *code < 300 {
                let is_held =
                    call.body["spec"]["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty());
                leader = is_held.then_some(call.who.as_str());
            }
        } else if is_told(call) && leader.is_some_and(|leader| leader != call.who) {
            let sent = call.to_string();
            if !world.late.contains(&sent) {
                let leader = leader.unwrap_or_default();
                found.push(format!("a write of a leader that was replaced: {sent}, and {leader} leads"));
            }
        }
    }
    found
}

/// What users did. Whoever names no UID means whoever has the name: after a change of leaders that may be a new machine,
/// since the new leader goes through the open block of names once more.
fn grounds(world: &World) -> Grounds {
    let mut grounds = world.grounds.clone();
    let mut had: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let machines = world.history().changes().iter().filter(|change| change.kind == Kind::Machine);
    for machine in machines.map(|change| &change.object) {
        if world.unpinned.contains(machine.name()) {
            had.entry(machine.name()).or_default().insert(machine.uid());
        }
    }
    for uid in had.into_values().filter(|uids| uids.len() > 1).flatten() {
        grounds.ask(&[uid.to_owned()]);
        grounds.removed.remove(uid);
    }
    grounds
}

/// Whether the checks look at requests of this sort.
fn is_told(call: &Call) -> bool {
    call.is_write() && call.resource != "leases" && call.resource != "events"
}

fn takes_any(call: &Call) -> bool {
    call.verb == Verb::List && call.parameter("resourceVersion") == Some("0")
}

/// Writes to a world in which nothing has changed for a while.
fn restless(world: &World) -> Vec<String> {
    let since = world.now() - RESTING;
    let served = world.server.served_since(0);
    let late = served.iter().rev().take_while(|served| served.at > since);
    let writes = late.filter(|served| is_ours(&served.call.who) && is_told(&served.call));
    writes
        .map(|served| format!("I8: a write to a settled world: {} ({})", served.call, served.code))
        .collect()
}

/// What is wrong with a world that has settled.
pub fn unsettled(world: &World) -> Vec<String> {
    let state = world.history().state();
    let mut wrong: Vec<String> =
        leftovers::violations(world.history()).iter().map(ToString::to_string).collect();
    wrong.extend(restless(world));
    wrong.extend(collection::violations(state, world.now()).iter().map(ToString::to_string));
    for pool in state.all(Kind::Pool).filter(|pool| !pool.is_terminating()) {
        let members = state.members(pool.uid());
        wrong.extend(settled::lies(pool, &members).iter().map(ToString::to_string));
        wrong.extend(unfinished(pool, &members, world.harmed));
    }
    wrong
}

/// What a settled pool is short of.
fn unfinished(pool: &Object, members: &[&Object], harmed: bool) -> Option<String> {
    let desired =
        pool.at("/spec/replicas").as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
    let explicit = pool.text("/spec/scaleDownPolicy") == "Explicit";
    let right = if explicit { members.len() >= desired } else { members.len() == desired };
    let running = members.iter().filter(|member| member.is_running()).count();
    (!right || running < members.len() && !harmed).then(|| {
        format!("the pool wants {desired} machines, and in the end {} exist and {running} run", members.len())
    })
}

fn entry(served: &Served) -> AuditEntry {
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
        // One of several, and all of them are the controller.
        user: if call.who.starts_with(CONTROLLER) { CONTROLLER.to_owned() } else { call.who.clone() },
        user_agent: call.who.clone(),
        verb: verb.to_owned(),
        group: call.group.clone(),
        resource: call.resource.clone(),
        subresource: call.subresource.clone(),
        namespace: call.namespace.clone(),
        name: call.name.clone(),
        code: served.code,
        dry_run: call.is_dry(),
        body: if call.resource == "virtualmachinepools" || call.verb == Verb::Delete {
            call.body.clone()
        } else {
            Value::Null
        },
    }
}
