//! The cost of autoscalers whose machines are claimed and released all the time. It is the difference to a
//! leader without autoscalers that sees the same changes.
//!
//! It has the documented size, and checks the share of a core, with
//! `cargo test --profile optimized -p vmpool-controller --lib autoscalers::tests::load -- --nocapture`. The
//! server is part of the process, and answers both.

use super::*;

/// The size of a measurement: as documented, or small for builds that are not optimized.
struct LoadSize {
    pools: usize,
    machines: usize,
    seconds: u32,
}

const SIZE: LoadSize = if cfg!(debug_assertions) {
    LoadSize { pools: 4, machines: 20, seconds: 20 }
} else {
    LoadSize { pools: 100, machines: 100, seconds: 30 }
};

/// The share of a core that the autoscalers of the documented size may use.
const ALLOWED_SHARE: f64 = 0.02;

/// What a measurement shows.
struct MeasuredLoad {
    /// The CPU time of this thread; `None` on systems that do not report it.
    cpu: Option<Duration>,
    scales: usize,
    statuses: usize,
}

/// The CPU time of this thread until now.
fn read_cpu_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split_ascii_whitespace().next()?.parse().ok()?))
}

fn pool_name(number: usize) -> String {
    format!("pool-{number}")
}

/// A leader with pools of running machines, and with an autoscaler of each pool if it `autoscales`.
async fn loaded_world(autoscales: bool) -> LeaderWorld {
    let mut world = LeaderWorld::new();
    world.settings.autoscales = autoscales;
    for number in 0..SIZE.pools {
        let name = pool_name(number);
        world.server.create(POOLS, pool_manifest(&name, SIZE.machines));
        let mut object = autoscaler(&name, &json!({ "maxReplicas": 1000, "minReplicas": SIZE.machines }));
        object["spec"]["poolRef"]["name"] = json!(name);
        world.server.create(AUTOSCALERS, object);
    }
    world.lead_all(&[PlatformName::Dvp]);
    for _ in 0..4 {
        world.run().await;
    }
    world
}

/// The machines of each pool.
fn machines_by_pool(world: &LeaderWorld) -> Vec<Vec<String>> {
    let machines = world.machines();
    let of = |number| {
        let prefix = format!("{}-", pool_name(number));
        let names = machine_names(&machines).into_iter();
        names.filter(|name| name.starts_with(&prefix)).collect()
    };
    (0..SIZE.pools).map(of).collect()
}

/// In each second, clients claim one machine of each pool, and release the one of the second before.
async fn measure_load(autoscales: bool) -> MeasuredLoad {
    let world = loaded_world(autoscales).await;
    let machines = machines_by_pool(&world);
    assert!(machines.iter().all(|of_pool| of_pool.len() == SIZE.machines), "{machines:?}");
    world.server.take_log();
    let begin = read_cpu_time();
    for second in 0..SIZE.seconds {
        for of_pool in &machines {
            let place = |second: usize| of_pool[second % of_pool.len()].as_str();
            let second = usize::try_from(second).unwrap();
            world.protect(place(second + 1), Duration::from_mins(30));
            world.server.edit(MACHINES, place(second), |machine| {
                machine["metadata"]["annotations"].as_object_mut().unwrap().remove(UNTIL);
            });
        }
        world.advance(SECOND).await;
    }
    let cpu = read_cpu_time().zip(begin).map(|(end, begin)| end.saturating_sub(begin));
    let writes = world.take_writes();
    let count = |resource: &str, subresource: &str| {
        writes.iter().filter(|call| call.resource == resource && call.subresource == subresource).count()
    };
    MeasuredLoad {
        cpu,
        scales: count("virtualmachinepools", "scale"),
        statuses: count("poolautoscalers", "status"),
    }
}

#[tokio::test]
async fn autoscalers_cost_a_small_share_of_a_core_and_few_writes() {
    let without = measure_load(false).await;
    let with = measure_load(true).await;
    assert_eq!((without.scales, without.statuses, with.scales), (0, 0, 0));
    let seconds = usize::try_from(SIZE.seconds).unwrap();
    assert!(with.statuses <= SIZE.pools * (seconds / 5 + 1), "{} statuses", with.statuses);
    if let Some((with, without)) = with.cpu.zip(without.cpu) {
        let share = |cpu: Duration| cpu.as_secs_f64() / f64::from(SIZE.seconds);
        let added = share(with.saturating_sub(without));
        println!(
            "{} autoscalers, {} machines each: {:.2}% of a core; the leader without them and the server: {:.2}%",
            SIZE.pools,
            SIZE.machines,
            added * 100.0,
            share(without) * 100.0
        );
        assert!(cfg!(debug_assertions) || added < ALLOWED_SHARE, "{added}");
    }
}
