//! The cost of the engine's part of a pass, without and with changes, over 100 to 10,000 machines.
//!
//! `cargo bench --package vmpool-engine` takes 15 seconds and ends with a table of the cost per machine,
//! which should be the same in every column: a pass is linear in the machines of its pool.

mod world;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::{Measurement, WallTime};
use criterion::{BenchmarkId, Criterion, Throughput};
use world::{BenchWorld, PassWorkload, run_engine_pass};

/// Numbers of machines of the pools.
const SIZES: [usize; 3] = [100, 1_000, 10_000];

/// The shortest mean time of a pass in any sample, by case and size.
type Best = BTreeMap<(&'static str, usize), Duration>;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .without_plots()
        .configure_from_args();
    let mut best = Best::new();
    for case in PassWorkload::ALL {
        let mut group = criterion.benchmark_group(case.name());
        for size in SIZES {
            group.throughput(Throughput::Elements(size as u64));
            group.bench_with_input(BenchmarkId::from_parameter(size), &size, |bencher, &size| {
                let world = BenchWorld::new(size, case);
                let snapshot = world.snapshot();
                let observed = world.observed(&snapshot);
                bencher.iter_custom(|iterations| {
                    let begin = WallTime.start();
                    for _ in 0..iterations {
                        black_box(run_engine_pass(black_box(&observed)));
                    }
                    let taken = WallTime.end(begin);
                    let mean = taken.div_f64(f64::from(u32::try_from(iterations).unwrap_or(u32::MAX)));
                    let shortest = best.entry((case.name(), size)).or_insert(mean);
                    *shortest = mean.min(*shortest);
                    taken
                });
            });
        }
        group.finish();
    }
    criterion.final_summary();
    print(&best);
}

/// One line per case: nanoseconds per machine at each size, and the time of the whole pass at the largest
/// size.
fn print(best: &Best) {
    if best.is_empty() {
        return;
    }
    println!("\nshortest pass, nanoseconds per machine");
    print!("{:<20}", "machines");
    for size in SIZES {
        print!("{size:>10}");
    }
    println!("   whole pass at {}", SIZES[SIZES.len() - 1]);
    for case in PassWorkload::ALL {
        print!("{:<20}", case.name());
        let mut last = None;
        for size in SIZES {
            last = best.get(&(case.name(), size));
            let machines = u32::try_from(size).unwrap_or(u32::MAX);
            match last {
                Some(taken) => print!("{:>10.1}", taken.as_secs_f64() * 1e9 / f64::from(machines)),
                None => print!("{:>10}", "-"),
            }
        }
        println!("   {}", last.map_or("-".to_owned(), |taken| format!("{taken:.2?}")));
    }
}
