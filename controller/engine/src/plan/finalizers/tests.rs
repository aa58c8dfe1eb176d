use crate::model::{Finalizer, Membership};
use crate::plan::Action;
use crate::selector::Selector;
use crate::testing::{World, name};

/// A pool with a finalizer that preserves storage, and two machines that are being deleted. A user has removed the second
/// one from the pool.
fn world() -> World {
    let mut world = World::desiring(2).with_machines(2).pool(|pool| {
        pool.disks.clear();
        pool.membership = Membership::Selector(Selector::default());
        pool.finalizer = Finalizer::Present;
        pool.preserves_storage = true;
    });
    for number in 0..2 {
        world = world.edit(&name(number), |machine| {
            machine.disks.clear();
            machine.terminating = true;
            machine.has_finalizer = true;
        });
    }
    world.edit(&name(1), |machine| machine.owner = None)
}

fn released(world: &World) -> Vec<(String, bool)> {
    let releases = world.plan().actions.into_iter().filter_map(|action| match action {
        Action::RemoveFinalizer { machine, preserve_storage } => {
            Some((machine.name.to_string(), preserve_storage))
        }
        _ => None,
    });
    releases.collect()
}

#[test]
fn a_deleted_machine_that_a_user_removed_from_the_pool_is_released_with_its_storage_preserved() {
    // The user may have removed it after its deletion began, and the pool preserves the storage of deleted machines.
    assert_eq!(released(&world()), [0, 1].map(|number| (name(number).to_string(), true)));
}

#[test]
fn the_machines_of_other_pools_are_not_released() {
    let other = world().edit(&name(1), |machine| machine.owner = Some("another pool".into()));
    assert_eq!(released(&other), [(name(0).to_string(), true)]);
}
