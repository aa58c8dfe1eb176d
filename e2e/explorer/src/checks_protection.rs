//! I12 and I19 for restarts that delete the instance of a KubeVirt machine.

use jiff::Timestamp;
use vmpool_invariants::UserActions;
use vmpool_invariants::draining::is_held_by_hook;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::protection::is_protected;
use vmpool_model::{HandledRequest, Verb};

use crate::instance::CONTROLLER;
use crate::world::SimulatedWorld;

/// The annotation that a controller writes before it deletes the instance.
const RESTARTING: &str = "vmpool.dev/restarting";

/// Instances that a controller deleted while their machines were protected or held by a hook, and not being
/// restarted.
pub(crate) fn restarted_machines(
    world: &SimulatedWorld,
    served: &[HandledRequest],
    actions: &UserActions,
) -> Vec<String> {
    let deletes = served.iter().filter(|served| {
        let call = &served.call;
        call.verb == Verb::Delete && call.resource == "virtualmachineinstances" && served.code < 300
    });
    let by_controller = deletes.filter(|served| {
        served.call.sender.starts_with(CONTROLLER) && !world.late.contains(&served.call.to_string())
    });
    let restarted = by_controller.filter_map(|served| {
        // The machine may have changed in the same millisecond.
        let states = [
            at(world, &served.call.name, |time| time < served.at),
            at(world, &served.call.name, |time| time <= served.at),
        ];
        let are_all = |is: &dyn Fn(&JsonObject) -> bool| {
            let is_held = |machine: &&JsonObject| machine.annotation(RESTARTING).is_none() && is(machine);
            states.iter().all(|machine| machine.as_ref().is_some_and(is_held))
        };
        let what = if are_all(&|machine| is_protected(machine, served.at, actions)) {
            "I12: a protected machine"
        } else if are_all(&|machine| is_held_by_hook(machine, served.at, actions)) {
            "I19: a machine with a hook"
        } else {
            return None;
        };
        Some(format!("{what} was restarted: {}", served.call))
    });
    restarted.collect()
}

/// The last state of a machine before a moment.
fn at<'w>(
    world: &'w SimulatedWorld,
    name: &str,
    before: impl Fn(Timestamp) -> bool,
) -> Option<&'w JsonObject> {
    let changes = world.history().changes().iter().rev();
    let mut machine =
        changes.filter(|change| change.kind == TestedKind::Machine && change.object.name() == name);
    machine.find(|change| before(change.at)).filter(|change| !change.removed).map(|change| &change.object)
}
