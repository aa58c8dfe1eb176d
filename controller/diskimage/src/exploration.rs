//! Exhaustive exploration of small worlds: an image that is referenced is never deleted (invariant I11).
//!
//! The planners of the crate run against a model of the API server, in every order of their steps, of the
//! moves of users, of updates of the caches, of the garbage collector after a deletion in the foreground, and
//! of exits of the controllers. There are two leaders at a time, because a superseded leader can have
//! requests in flight.
//!
//! The model leaves out: the import (the data of an image is there from its creation, and the image does not
//! own it anymore), grants, and the status of the image. The references of a status are never the basis of a
//! decision, and the time without references began before the exploration.

mod model;
mod steps;

use std::collections::BTreeSet;

use rstest::rstest;

use self::model::{Guards, ImageExplorationState};

/// Visits all states, and returns the moves to the first one that violates the invariant, and the number of
/// states.
fn explore_states(start: ImageExplorationState, guards: Guards) -> (Option<Vec<String>>, usize) {
    let mut seen = BTreeSet::from([start.clone()]);
    // Each visited state with the position of its predecessor and the move from there.
    let mut visited = vec![(start, 0, String::new())];
    let mut at = 0;
    while at < visited.len() {
        for (name, next) in steps::reachable_states(&visited[at].0, guards) {
            if !seen.insert(next.clone()) {
                continue;
            }
            let violation = next.violation();
            visited.push((next, at, name));
            if let Some(violation) = violation {
                return (Some(moves_to_last_state(&visited, violation)), seen.len());
            }
        }
        at += 1;
    }
    (None, seen.len())
}

/// The moves to the last visited state.
fn moves_to_last_state(visited: &[(ImageExplorationState, usize, String)], violation: &str) -> Vec<String> {
    let mut moves = vec![violation.to_owned()];
    let mut at = visited.len() - 1;
    while at > 0 {
        let (_, before, name) = &visited[at];
        moves.push(name.clone());
        at = *before;
    }
    moves.reverse();
    moves
}

#[rstest]
#[case::two_leaders_of_images(2, 1, false)]
#[case::two_leaders_of_wrappers(1, 2, false)]
#[case::a_machine_without_a_wrapper(2, 0, false)]
#[case::a_time_to_live(1, 1, true)]
#[case::a_time_to_live_and_two_leaders_of_images(2, 1, true)]
#[case::a_time_to_live_and_a_machine(2, 0, true)]
fn a_referenced_image_is_never_deleted(#[case] images: usize, #[case] wrappers: usize, #[case] ttl: bool) {
    let (violation, states) =
        explore_states(ImageExplorationState::new(images, wrappers, ttl), Guards::default());
    assert_eq!(violation, None);
    assert!(states > 100, "only {states} states");
}

/// The exploration finds each of these mistakes, so it can fail.
#[rstest]
#[case::a_count_from_the_cache(Guards { lists: false, ..Guards::default() })]
#[case::a_status_without_its_version(Guards { wrapper_version: false, ..Guards::default() })]
#[case::a_binding_without_a_second_read(Guards { second_read: false, ..Guards::default() })]
#[case::an_image_that_owns_its_data(Guards { data_is_not_owned: false, ..Guards::default() })]
#[case::an_expiry_that_removes_the_data(Guards { expiry_counts_again: false, ..Guards::default() })]
fn a_missing_guard_is_found(#[case] guards: Guards) {
    let worlds = [ImageExplorationState::new(1, 1, true), ImageExplorationState::new(1, 2, false)];
    assert!(worlds.into_iter().any(|world| explore_states(world, guards).0.is_some()));
}
