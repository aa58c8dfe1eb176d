use proptest::prelude::*;

use super::*;

const NOW: Duration = Duration::from_secs(1000);

fn place(namespace: &str, uid: &str) -> PoolPlace {
    PoolPlace { namespace: namespace.into(), uid: Uid::from(uid) }
}

fn classes(names: &[&str]) -> Arc<[Arc<str>]> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

/// Records machines that use slots of this class until a minute from now.
fn observe(limit: &mut StorageClassLimit, place: &PoolPlace, class: &str, machines: usize) {
    let until = NOW + Duration::from_mins(1);
    limit.observe(place, &classes(&[class]), vec![until; machines]);
}

/// How many machines the pool may create of those that it wants.
fn granted(limit: &mut StorageClassLimit, place: &PoolPlace, wanted: usize) -> usize {
    limit.request(place, wanted, NOW).map_or(wanted, |slots| slots.free)
}

#[test]
fn a_pool_gets_the_free_slots_and_the_limit_is_named() {
    let mut limit = StorageClassLimit::new(5);
    let pool = place("team", "a");
    observe(&mut limit, &pool, "fast", 3);
    assert_eq!(limit.request(&pool, 2, NOW), None, "all that it wants");
    let slots = limit.request(&pool, 4, NOW).unwrap();
    assert_eq!((slots.free, &*slots.class, slots.limit, slots.provisioning), (2, "fast", 5, 5));
    assert_eq!(slots.next, ASK_INTERVAL);
}

#[test]
fn slots_of_a_plan_are_reserved_until_the_next_pass_of_its_pool() {
    let mut limit = StorageClassLimit::new(3);
    let (one, other) = (place("team", "a"), place("team", "b"));
    observe(&mut limit, &one, "fast", 0);
    observe(&mut limit, &other, "fast", 0);
    assert_eq!(granted(&mut limit, &one, 2), 2);
    assert_eq!(granted(&mut limit, &other, 2), 1);
    observe(&mut limit, &one, "fast", 0);
    assert_eq!(granted(&mut limit, &other, 2), 2);
}

#[test]
fn classes_have_limits_of_their_own_and_disks_without_a_class_share_one() {
    let mut limit = StorageClassLimit::new(1);
    let (fast, unnamed) = (place("team", "a"), place("team", "b"));
    observe(&mut limit, &fast, "fast", 1);
    observe(&mut limit, &unnamed, "", 0);
    assert_eq!(granted(&mut limit, &unnamed, 2), 1);
    let both = place("team", "c");
    limit.observe(&both, &classes(&["", "slow"]), Vec::new());
    assert_eq!(granted(&mut limit, &both, 1), 0, "a machine needs a slot of each class");
}

#[test]
fn a_machine_uses_its_slot_for_a_limited_time() {
    let mut limit = StorageClassLimit::new(1);
    let pool = place("team", "a");
    limit.observe(&pool, &classes(&["fast"]), vec![NOW + Duration::from_secs(7)]);
    assert_eq!(limit.request(&pool, 1, NOW).unwrap().next, Duration::from_secs(7));
    assert_eq!(limit.request(&pool, 1, NOW + Duration::from_secs(7)), None);
}

#[test]
fn a_free_slot_goes_to_the_namespace_with_the_fewest_machines() {
    let mut limit = StorageClassLimit::new(4);
    let (large, small) = (place("large", "a"), place("small", "b"));
    observe(&mut limit, &large, "fast", 3);
    observe(&mut limit, &small, "fast", 1);
    // The pool of the large namespace waits longer.
    assert_eq!(limit.request(&large, 2, NOW.checked_sub(Duration::from_secs(9)).unwrap()).unwrap().free, 0);
    assert_eq!(granted(&mut limit, &small, 2), 0);
    observe(&mut limit, &large, "fast", 2);
    assert_eq!(limit.wake_next(NOW), std::slice::from_ref(&small));
    assert_eq!(limit.wake_next(NOW), [], "once until it asks again");
    assert_eq!(granted(&mut limit, &large, 2), 0);
    assert_eq!(granted(&mut limit, &small, 2), 1);
}

#[test]
fn within_a_namespace_a_free_slot_goes_to_the_pool_that_waits_longest() {
    let mut limit = StorageClassLimit::new(1);
    let (first, later, holder) = (place("team", "z"), place("team", "a"), place("team", "h"));
    observe(&mut limit, &holder, "fast", 1);
    observe(&mut limit, &first, "fast", 0);
    observe(&mut limit, &later, "fast", 0);
    assert_eq!(limit.request(&first, 1, NOW.checked_sub(Duration::from_secs(9)).unwrap()).unwrap().free, 0);
    assert_eq!(granted(&mut limit, &later, 1), 0);
    limit.forget(&holder);
    assert_eq!(limit.wake_next(NOW), std::slice::from_ref(&first));
    assert_eq!(granted(&mut limit, &later, 1), 0);
    assert_eq!(granted(&mut limit, &first, 1), 1);
}

#[test]
fn a_pool_that_does_not_ask_again_keeps_no_slot_from_others() {
    let mut limit = StorageClassLimit::new(1);
    let (silent, other, holder) = (place("team", "a"), place("team", "b"), place("team", "h"));
    observe(&mut limit, &holder, "fast", 1);
    observe(&mut limit, &silent, "fast", 0);
    observe(&mut limit, &other, "fast", 0);
    assert_eq!(granted(&mut limit, &silent, 1), 0);
    limit.forget(&holder);
    assert_eq!(granted(&mut limit, &other, 1), 0);
    assert_eq!(limit.request(&other, 1, NOW + ASK_AGE), None);
}

#[test]
fn a_pool_that_cannot_use_its_slots_gives_them_back_and_its_machines_keep_theirs() {
    let mut limit = StorageClassLimit::new(2);
    let (stuck, other) = (place("team", "a"), place("team", "b"));
    observe(&mut limit, &stuck, "fast", 1);
    observe(&mut limit, &other, "fast", 0);
    assert_eq!(granted(&mut limit, &stuck, 1), 1);
    assert_eq!(granted(&mut limit, &other, 2), 0);
    limit.withdraw(&stuck);
    assert_eq!(granted(&mut limit, &other, 2), 1);
}

proptest! {
    /// However pools ask, no class has more reserved and used slots than the limit, and no slot stays free
    /// while a pool that asks lacks one.
    #[test]
    fn slots_never_exceed_the_limit(
        limit in 1usize..6,
        requests in prop::collection::vec((0usize..5, 0usize..4, any::<bool>()), 1..40),
    ) {
        let mut slots = StorageClassLimit::new(limit);
        let mut machines = [0usize; 5];
        for (pool, wanted, becomes_ready) in requests {
            let at = place(["x", "y"][pool % 2], &pool.to_string());
            if becomes_ready {
                machines[pool] = machines[pool].saturating_sub(1);
            }
            observe(&mut slots, &at, ["fast", ""][pool % 2], machines[pool]);
            machines[pool] += granted(&mut slots, &at, wanted);
            for class in 0..2 {
                let used: usize = machines.iter().enumerate().filter(|(pool, _)| pool % 2 == class).map(|(_, used)| used).sum();
                prop_assert!(used <= limit, "{used} of {limit}");
            }
        }
    }
}
