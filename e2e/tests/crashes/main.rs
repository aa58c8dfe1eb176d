//! Fault injection on a real control plane: each program is killed before and after each of its requests, and
//! watches deliver late, lost, repeated or refused events.
//!
//! `make crashes` runs all trials (`VMPOOL_CRASHES=all`); the default is a few trials of every scenario.
//! `VMPOOL_ONLY="rollout, restart: killed after DELETE"` runs only trials with such a name.

mod controller_fault;
mod runner;
mod scenario;
mod services;
mod write_counts;

use vmpool_e2e::crash::Coverage;
use vmpool_e2e::harness;

#[test]
fn every_scenario_settles_after_crashes_of_the_controller_and_watch_faults() {
    let coverage = Coverage::from_environment();
    let results = harness::block_on(async {
        let _webhook_stays = services::WEBHOOK.read().await;
        runner::run(coverage).await
    });
    assert_eq!(results.violations, [""; 0]);
    let tried = results.points + results.late;
    assert!(
        4 * results.late <= tried,
        "{} of {tried} crashes did not happen, because their write never came",
        results.late
    );
}
