//! Requests of users for the pool, and for one of the machines or disks.

use serde_json::{Value, json};
use vmpool_model::{PatchKind, Verb};

use crate::manifest::POOL;
use crate::world::{NAMESPACE, OTHER_NAMESPACE, SimulatedWorld, TENANT};

/// The stored pool.
pub(crate) fn stored_pool(world: &SimulatedWorld) -> Option<Value> {
    world.server.get(world.resources().pools, NAMESPACE, POOL).map(|pool| (*pool).clone())
}

/// Patches the spec of the pool.
pub(crate) async fn patch_pool_spec(world: &mut SimulatedWorld, spec: Value) {
    let call =
        world.call(Verb::Patch(PatchKind::Merge), "virtualmachinepools", POOL, "", json!({ "spec": spec }));
    _ = world.do_as_user(&call).await;
}

/// Patches the selected machine.
pub(crate) async fn patch_machine(world: &mut SimulatedWorld, which: usize, patch: Value) {
    let Some((name, _)) = choose_object(world, world.resources().machines, which) else { return };
    let call = world.call(Verb::Patch(PatchKind::Merge), "virtualmachines", &name, "", patch);
    _ = world.do_as_user(&call).await;
}

/// Deletes the selected object.
pub(crate) async fn delete_selected_object(world: &mut SimulatedWorld, resource: &str, which: usize) {
    delete_with(world, resource, which, Value::Null).await;
}

/// As [`delete_selected_object`], with these options.
pub(crate) async fn delete_with(world: &mut SimulatedWorld, resource: &str, which: usize, options: Value) {
    let Some((name, uid)) = choose_object(world, resource, which) else { return };
    world.user_actions.deleted.insert(uid);
    let plural = resource.split('.').next().unwrap_or_default();
    let call = world.call(Verb::Delete, plural, &name, "", options);
    _ = world.do_as_user(&call).await;
}

/// Name and UID of the selected object of the pool's namespace, or of one without a namespace.
pub(crate) fn choose_object(
    world: &SimulatedWorld,
    resource: &str,
    which: usize,
) -> Option<(String, String)> {
    choose_from(world, resource, which, |namespace| {
        ![Some(OTHER_NAMESPACE), Some(TENANT)].contains(&namespace)
    })
}

/// As [`choose_object`], in another namespace.
pub(crate) fn choose_in(
    world: &SimulatedWorld,
    resource: &str,
    which: usize,
    namespace: &str,
) -> Option<(String, String)> {
    choose_from(world, resource, which, |found| found == Some(namespace))
}

/// As [`choose_object`], among the objects of these namespaces.
pub(crate) fn choose_from(
    world: &SimulatedWorld,
    resource: &str,
    which: usize,
    is_in: impl Fn(Option<&str>) -> bool,
) -> Option<(String, String)> {
    let mut all = world.server.all(resource);
    all.retain(|object| is_in(object["metadata"]["namespace"].as_str()));
    let object = all.get(which.checked_rem(all.len())?)?;
    let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
    text("name").zip(text("uid"))
}
