//! The worlds that are explored.
//!
//! `VMPOOL_EXPLORE=1000000` explores larger ones, and at most so many states of each; that wants an optimized build:
//! `VMPOOL_EXPLORE=1000000 cargo test --release -p vmpool-engine --lib exploration -- --nocapture`.

use rstest::rstest;

use super::{Config, Count, Ends, Users, explore};
use crate::model::{Naming, ScaleDownPolicy};

const NOBODY: Users = Users { scale: false, name: false, delete: false, revise: false, end: false };

const SCALE: Users = Users { scale: true, ..NOBODY };

/// Whoever removes machines, by name and otherwise.
const REMOVE: Users = Users { scale: true, name: true, delete: true, ..NOBODY };

const REVISE: Users = Users { scale: true, revise: true, ..NOBODY };

const END: Users = Users { scale: true, end: true, ..NOBODY };

/// A pool of at most one machine, users that grow or shrink it once, a leader that may die or wait in vain for an answer
/// once, and watches of which each may be an event behind at any moment.
const SMALLEST: Config = Config {
    called: "",
    naming: Naming::Random,
    scale_down_policy: ScaleDownPolicy::NewestFirst,
    start: 0,
    machines: 1,
    keeps: None,
    users: SCALE,
    edits: Some(1),
    faults: 1,
    behind: 1,
};

const EXPLICIT: Config = Config { scale_down_policy: ScaleDownPolicy::Explicit, ..SMALLEST };

const ORDINAL: Config = Config {
    naming: Naming::Ordinal,
    scale_down_policy: ScaleDownPolicy::LowestOrdinalFirst,
    users: REMOVE,
    ..SMALLEST
};

const TWO: Config = Config { start: 1, machines: 2, edits: Some(2), behind: 0, ..SMALLEST };

const THREE: Config = Config { start: 2, machines: 3, edits: Some(1), behind: 0, ..SMALLEST };

/// How many states of each of the larger worlds are visited; nothing, if they are left out.
#[expect(clippy::disallowed_methods, reason = "how far a test goes decides nothing in the engine")]
fn wanted() -> Option<usize> {
    std::env::var("VMPOOL_EXPLORE").ok()?.parse().ok()
}

fn explored(small: &Config, limit: usize) -> Count {
    let count = explore(small, limit).unwrap_or_else(|story| panic!("{story}"));
    println!("{}: {count}", small.called);
    count
}

/// More than any of the small worlds has.
const FEW: usize = 20_000;

#[rstest]
#[case(Config { called: "one machine comes", ..SMALLEST })]
#[case(Config { called: "one machine goes", start: 1, ..SMALLEST })]
#[case(Config { called: "one machine goes, its disk is kept", start: 1, keeps: Some(Ends::AtOnce), behind: 0, ..SMALLEST })]
#[case(Config { called: "one machine gets another template", start: 1, users: REVISE, behind: 0, ..SMALLEST })]
#[case(Config { called: "one machine is removed by name", start: 1, users: REMOVE, behind: 0, ..EXPLICIT })]
#[case(Config { called: "one pool is deleted", start: 1, keeps: Some(Ends::Never), users: END, behind: 0, ..SMALLEST })]
fn whatever_happens_in_a_small_world_the_invariants_hold_and_it_comes_to_rest(#[case] small: Config) {
    let count = explored(&small, FEW);
    assert!(count.complete, "{} is not so small: {count}", small.called);
    assert!(count.settled > 1, "{} never comes to rest by itself: {count}", small.called);
}

#[rstest]
#[case(Config { called: "one machine, three edits", edits: Some(3), ..SMALLEST })]
#[case(Config { called: "one machine, kept disk, two edits", keeps: Some(Ends::Never), edits: Some(2), ..SMALLEST })]
#[case(Config { called: "one machine, kept disk that ends, two edits", keeps: Some(Ends::AtOnce), edits: Some(2), ..SMALLEST })]
#[case(Config { called: "one machine, template, two edits", start: 1, users: REVISE, edits: Some(2), ..SMALLEST })]
#[case(Config { called: "one machine, kept disk, pool deleted", keeps: Some(Ends::Never), users: END, edits: Some(2), ..SMALLEST })]
#[case(Config { called: "two machines", ..TWO })]
#[case(Config { called: "two machines, late", edits: Some(1), behind: 1, ..TWO })]
#[case(Config { called: "two machines, kept disks", keeps: Some(Ends::AtOnce), edits: Some(1), ..TWO })]
#[case(Config { called: "two machines, template", users: REVISE, ..TWO })]
#[case(Config { called: "two machines, removed", users: REMOVE, ..TWO })]
#[case(Config { called: "two machines, explicit", users: REMOVE, scale_down_policy: ScaleDownPolicy::Explicit, ..TWO })]
#[case(Config { called: "two machines, by ordinal", start: 1, machines: 2, edits: Some(2), behind: 0, ..ORDINAL })]
#[case(Config { called: "three machines", ..THREE })]
#[case(Config { called: "three machines, late", behind: 1, ..THREE })]
#[case(Config { called: "three machines, template", users: REVISE, ..THREE })]
#[case(Config { called: "three machines, removed", users: REMOVE, ..THREE })]
#[case(Config { called: "three machines, kept disks", keeps: Some(Ends::AtOnce), ..THREE })]
fn larger_worlds_too(#[case] small: Config) {
    if let Some(limit) = wanted() {
        explored(&small, limit);
    }
}
