//! The cost of a pass is linear in the machines of its pool. `cargo bench` measures the duration; this test
//! fails if the cost grows faster.

#[path = "../benches/world/mod.rs"]
mod world;

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use world::{BenchWorld, PassWorkload, run_engine_pass};

const FEW: usize = 1_000;
const MANY: usize = 10 * FEW;

/// Linear growth gives 10, or more if the processor cache holds [`FEW`] machines but not [`MANY`]. Quadratic
/// growth gives 100.
const LIMIT: f64 = 40.0;

/// Number of passes, of which the shortest counts.
const ATTEMPTS: usize = 9;

#[test]
fn a_pass_costs_no_more_than_linearly() {
    for case in PassWorkload::ALL {
        let (few, many) = (cost(FEW, case), cost(MANY, case));
        let growth = many.as_secs_f64() / few.as_secs_f64();
        let name = case.name();
        assert!(
            growth < LIMIT,
            "{name}: {FEW} machines cost {few:?}, {MANY} cost {many:?}: {growth:.0} times as much"
        );
    }
}

/// Processor time of the shortest pass. Unlike elapsed time, it does not grow when the computer is busy.
fn cost(machines: usize, case: PassWorkload) -> Duration {
    let world = BenchWorld::new(machines, case);
    let snapshot = world.snapshot();
    let observed = world.observed(&snapshot);
    let once = || {
        let begin = processor_time();
        black_box(run_engine_pass(black_box(&observed)));
        processor_time().saturating_sub(begin)
    };
    (0..ATTEMPTS).map(|_| once()).min().expect("at least one attempt")
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).expect("time does not run below zero")
}
