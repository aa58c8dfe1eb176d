use vmpool_engine::Disk;
use vmpool_engine::ledger::LedgerCache as _;
use vmpool_platforms::dvp::{Dvp, DvpMachineObject, DvpPoolObject};
use vmpool_platforms::{DiskOf, Disks};
use vmpool_runtime::testing::{ManualClock, test_env};

use super::*;

#[test]
fn a_list_is_no_evidence_about_a_write_that_was_sent_after_it_began() {
    let clock = ManualClock::new();
    let env = test_env(&clock, 1);
    let cache = Arc::<ObjectCache<Disk>>::default();
    let mut sink = CacheSink {
        cache: cache.clone(),
        env: env.clone(),
        metrics: ControllerMetrics::new(&env),
        resource: WatchResource::Disks,
        read: |disk: DiskOf<Dvp>| <Dvp as Disks<DvpPoolObject, DvpMachineObject>>::read(&disk),
        wake: |_| {},
    };
    sink.list_begins();
    let sent = env.uptime();
    sink.list_ends();
    assert!(!cache.of("team-a").relisted_since(sent), "the list may lack the object");
}
