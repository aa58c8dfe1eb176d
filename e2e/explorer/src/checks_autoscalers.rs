//! I18: a lowering of the replicas follows a live read of the machines. In a settled world, the replicas of
//! an autoscaled pool are those that its machines need, and the status of the autoscaler shows them.

use vmpool_invariants::draining::drain_deadline;
use vmpool_invariants::keeps_surplus;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::protection;
use vmpool_model::{HandledRequest, Verb};

use crate::instance::CONTROLLER;
use crate::manifest::POOL;
use crate::operation_autoscaler::AUTOSCALERS;
use crate::world::{NAMESPACE, SimulatedWorld};

/// The lowerings of the replicas by controllers that had not read the machines after their write before that.
/// The cache of a controller can be older than the protection of a machine.
pub(crate) fn blind_lowerings(world: &SimulatedWorld, served: &[HandledRequest]) -> Vec<String> {
    let is_of = |request: &HandledRequest, sender: &str| request.call.sender == sender && request.code < 300;
    let scales = served.iter().enumerate().filter(|(_, request)| is_scale(request));
    let lowerings = scales.filter(|(_, request)| is_lowering(world, request));
    let blind = lowerings.filter(|(place, request)| {
        let sender = &*request.call.sender;
        let earlier = served[..*place].iter().rev().filter(|earlier| is_of(earlier, sender));
        let mut since_last_scale = earlier.take_while(|earlier| !is_scale(earlier));
        !since_last_scale.any(|read| read.call.verb == Verb::List && read.call.resource == "virtualmachines")
    });
    blind
        .map(|(_, request)| format!("I18: lowered without a read of the machines: {}", request.call))
        .collect()
}

/// Whether a controller wrote the replicas of the pool.
fn is_scale(request: &HandledRequest) -> bool {
    let HandledRequest { call, code, .. } = request;
    call.sender.starts_with(CONTROLLER)
        && call.namespace == NAMESPACE
        && call.resource == "virtualmachinepools"
        && call.subresource == "scale"
        && call.is_write()
        && *code < 300
}

/// Whether this write of the replicas lowers those of the version that it requires.
fn is_lowering(world: &SimulatedWorld, request: &HandledRequest) -> bool {
    let version = request.call.body.pointer("/metadata/resourceVersion");
    let read = world.history().changes().iter().find(|change| {
        change.kind == TestedKind::Pool && version == Some(change.object.at("/metadata/resourceVersion"))
    });
    let before = read.and_then(|change| change.object.number("/spec/replicas"));
    let after = request.call.body.pointer("/spec/replicas").and_then(serde_json::Value::as_i64);
    before.zip(after).is_some_and(|(before, after)| after < before)
}

/// What is wrong with the replicas of the pool, or with the status of its autoscaler.
pub(crate) fn settled_violations(world: &SimulatedWorld) -> Vec<String> {
    let Some(pool) = world.server.get(world.resources().pools, NAMESPACE, POOL).map(JsonObject::from) else {
        return Vec::new();
    };
    let is_paused = pool.is_kubevirt() && pool.at("/spec/paused") == true;
    match (leading_autoscaler(world), pool.is_terminating() || is_paused) {
        (Some(autoscaler), false) => replica_errors(world, &pool, &autoscaler),
        _ => Vec::new(),
    }
}

/// The autoscaler that scales the pool: the oldest one, by name among those of the same second. `None` if it
/// is paused.
fn leading_autoscaler(world: &SimulatedWorld) -> Option<JsonObject> {
    let all = world.server.all(AUTOSCALERS).into_iter().map(JsonObject::from);
    let age = |one: &JsonObject| (one.text("/metadata/creationTimestamp").to_owned(), one.name().to_owned());
    let leading = all.filter(|one| one.namespace() == NAMESPACE && !one.is_terminating()).min_by_key(age);
    leading.filter(|one| one.at("/spec/paused") != true)
}

fn replica_errors(world: &SimulatedWorld, pool: &JsonObject, autoscaler: &JsonObject) -> Vec<String> {
    let state = world.history().state();
    let machines = state.machines_of_pool(pool.uid());
    let machines: Vec<_> =
        machines.into_iter().filter(|machine| !machine.is_standby() && !machine.is_terminating()).collect();
    let is_busy = |machine: &&&JsonObject| {
        drain_deadline(machine).is_none()
            && protection::is_protected(machine, world.now(), &world.user_actions)
    };
    let busy = machines.iter().filter(is_busy).count();
    let (needed, replicas) = (needed_replicas(autoscaler, busy), pool.desired_replicas());
    let shown = |field: &str| {
        autoscaler.number(&format!("/status/{field}")).and_then(|shown| usize::try_from(shown).ok())
    };
    // The autoscaler removes machines of such a pool by name: none in the place of one that does not exist,
    // and none that was ready and is not.
    let keeps_more = keeps_surplus(pool)
        && (machines.len() <= needed || world.some_may_not_run || !world.has_aggregated_api());
    let mut found = Vec::new();
    if replicas < needed || replicas > needed && !keeps_more {
        found.push(format!(
            "I18: {busy} machines are busy and need {needed} replicas, and the pool has {replicas}"
        ));
    }
    if (shown("replicas"), shown("desiredReplicas")) != (Some(replicas), Some(needed)) {
        let status = autoscaler.at("/status").to_string();
        found.push(format!("I18: the autoscaler needs {needed} of {replicas} replicas, and shows {status}"));
    }
    found
}

/// How many replicas the autoscaler needs while no claim waits.
fn needed_replicas(autoscaler: &JsonObject, busy: usize) -> usize {
    let number = |field: &str| {
        let number = autoscaler.number(&format!("/spec/{field}"));
        number.and_then(|number| usize::try_from(number).ok()).unwrap_or_default()
    };
    let free = autoscaler.at("/spec/free");
    let percent = free.as_str().and_then(|text| text.strip_suffix('%')?.parse::<usize>().ok());
    let free = percent.map_or_else(|| number("free"), |percent| (busy * percent).div_ceil(100).max(1));
    let within = (busy + free).max(number("minReplicas")).min(number("maxReplicas"));
    within.max(busy)
}
