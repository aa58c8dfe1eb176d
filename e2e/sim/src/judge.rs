//! What must hold: of every change, and in the end.

use std::time::Duration;

use serde_json::Value;
use vmpool_e2e::cluster::AuditEntry;
use vmpool_e2e::invariants::{self, leftovers, settled};
use vmpool_e2e::object::{Kind, Object};
use vmpool_model::{PatchKind, Served, Verb};

use crate::world::{CONTROLLER, World};

/// How long nothing may change before a world counts as settled: longer than the longest pause after a failure.
pub const QUIET: Duration = Duration::from_secs(75);

/// What every change so far has broken.
pub fn broken(world: &World) -> Vec<String> {
    let audit: Vec<AuditEntry> = world.server.served_since(0).iter().map(entry).collect();
    let found = invariants::violations(world.history(), &world.grounds, &audit, CONTROLLER);
    let mounts = world.double_mounts().into_iter().map(|mount| format!("I3: {mount}"));
    found.iter().map(ToString::to_string).chain(mounts).collect()
}

/// What is wrong with a world that has settled.
pub fn unsettled(world: &World) -> Vec<String> {
    let state = world.history().state();
    let mut wrong: Vec<String> =
        leftovers::violations(world.history()).iter().map(ToString::to_string).collect();
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
        body: if call.resource == "virtualmachinepools" { call.body.clone() } else { Value::Null },
    }
}
