//! I12 for restarts that delete the instance of a KubeVirt machine.

use jiff::Timestamp;
use vmpool_invariants::UserActions;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::protection::is_protected;
use vmpool_model::{HandledRequest, Verb};

use crate::instance::CONTROLLER;
use crate::world::SimulatedWorld;

/// The annotation that a controller writes before it deletes the instance.
const RESTARTING: &str = "vmpool.dev/restarting";

/// Instances that a controller deleted while their machines were protected and not being restarted.
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
    let restarted = by_controller.filter(|served| {
        // The machine may have changed in the same millisecond.
        let states = [
            at(world, &served.call.name, |time| time < served.at),
            at(world, &served.call.name, |time| time <= served.at),
        ];
        states.iter().all(|machine| {
            machine.is_some_and(|machine| {
                is_protected(machine, served.at, actions) && machine.annotation(RESTARTING).is_none()
            })
        })
    });
    restarted.map(|served| format!("I12: a protected machine was restarted: {}", served.call)).collect()
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
