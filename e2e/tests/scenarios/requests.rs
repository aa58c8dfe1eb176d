//! The number of requests that a pool causes, counted by the API server.

use std::time::Duration;

use vmpool_api::v1alpha2::GROUP;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::wait::let_time_pass;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_e2e::world::condition::ready_replicas;
use vmpool_installation::programs::Accounts;
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::control_plane::{AuditEntry, RequestCounts};

/// Number of created machines: enough that one additional write each is visible.
const MACHINES: u64 = 20;

/// How long a settled pool is observed.
const QUIET: Duration = Duration::from_mins(1);

/// The number of such requests of the controller for objects of a kind.
fn count_requests(
    world: &ScenarioWorld,
    kind: TestedKind,
    what: impl Fn(&AuditEntry) -> bool,
) -> anyhow::Result<usize> {
    Ok(world.controller_requests(kind)?.iter().filter(|entry| what(entry)).count())
}

fn ours(counts: &RequestCounts) -> RequestCounts {
    counts.only(|key| key.group == GROUP)
}

#[test]
fn a_machine_needs_one_write_plus_one_per_disk_and_a_settled_pool_none() {
    // On a separate cluster, because the server's counters do not distinguish namespaces and users.
    define_scenario("requests are counted").on_its_own_cluster().run(async |world| {
        let pool = world.pool("web").disk("root").disk("data").create().await?;
        pool.until(ready_replicas(0)).await?;
        world.settles().await?;

        // When twenty machines with two disks each are created,
        let before = world.cluster().metrics().await?;
        let pools = count_requests(world, TestedKind::Pool, AuditEntry::is_write)?;
        pool.scale_by_api(i64::try_from(MACHINES)?).await?;
        pool.until(ready_replicas(i64::try_from(MACHINES)?)).await?;
        world.settles().await?;
        // then there were 1 + D creates for each machine, because the platform creates none.
        let made = world.cluster().metrics().await?.since(&before);
        assert_eq!(made.of("POST", "virtualmachines"), MACHINES, "{made}");
        assert_eq!(made.of("POST", "virtualdisks"), 2 * MACHINES, "{made}");
        let writes = |kind: TestedKind| count_requests(world, kind, AuditEntry::is_write);
        assert_eq!(writes(TestedKind::Machine)?, usize::try_from(MACHINES)?, "only the creates");
        assert_eq!(writes(TestedKind::Disk)?, usize::try_from(2 * MACHINES)?, "only the creates");
        assert_eq!(writes(TestedKind::Pool)? - pools, 1, "one block of machine numbers");

        // When nothing changes for a minute, there are no requests for pools, machines and disks.
        let (before, mark) = (world.cluster().metrics().await?, world.audit()?.len());
        let_time_pass(QUIET).await;
        let idle = ours(&world.cluster().metrics().await?.since(&before));
        let asked = idle.only(|key| key.verb != "WATCH");
        assert_eq!(asked.total(), 0, "requests in a settled minute:\n{asked}");
        let user = Accounts::controller_user();
        let audit = world.audit()?;
        let others: Vec<_> = audit[mark..]
            .iter()
            .filter(|entry| entry.user == user && entry.verb != "watch" && entry.resource != "leases")
            .collect();
        assert!(others.is_empty(), "the controller asked for {others:?}");

        // A scale-down causes one delete per machine, and one list that counts the machines, except with
        // `replicas: 0`.
        for (left, lists) in [(MACHINES / 2, 1), (0, 0)] {
            // Lists that start a watch are logged as watches.
            let listed = || count_requests(world, TestedKind::Machine, |entry| entry.verb == "list");
            let (written, known) = (writes(TestedKind::Machine)?, listed()?);
            pool.scale_by_api(i64::try_from(left)?).await?;
            pool.until(ready_replicas(i64::try_from(left)?)).await?;
            world.settles().await?;
            assert_eq!(writes(TestedKind::Machine)? - written, usize::try_from(MACHINES / 2)?);
            assert_eq!(listed()? - known, lists);
        }
        Ok::<_, anyhow::Error>(())
    });
}
