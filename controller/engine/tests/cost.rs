//! A pass is linear in the machines of its pool. `cargo bench` tells how long it takes; this fails if it grows faster.

#[path = "../benches/world/mod.rs"]
mod world;

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use world::{Case, World, pass};

const FEW: usize = 1_000;
const MANY: usize = 10 * FEW;

/// Linear is 10, some more where [`MANY`] machines do not fit into a cache that holds [`FEW`]; quadratic is 100.
const LIMIT: f64 = 40.0;

/// The shortest of so many passes counts.
const ATTEMPTS: usize = 9;

#[test]
fn a_pass_costs_no_more_than_linearly() {
    for case in Case::ALL {
        let (few, many) = (cost(FEW, case), cost(MANY, case));
        let growth = many.as_secs_f64() / few.as_secs_f64();
        let name = case.name();
        assert!(
            growth < LIMIT,
            "{name}: {FEW} machines cost {few:?}, {MANY} cost {many:?}: {growth:.0} times as much"
        );
    }
}

/// Processor time of the shortest pass. Unlike time on the wall it does not grow when the machine is busy.
fn cost(machines: usize, case: Case) -> Duration {
    let world = World::new(machines, case);
    let observed = world.observed();
    let once = || {
        let begin = processor_time();
        black_box(pass(black_box(&observed)));
        processor_time().saturating_sub(begin)
    };
    (0..ATTEMPTS).map(|_| once()).min().expect("at least one attempt")
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).expect("time does not run below zero")
}
