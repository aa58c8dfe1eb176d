//! Fault injection on a real control plane: each program is killed before and after each of its requests, and watches
//! deliver late, lost, repeated or refused events.
//!
//! `make crashes` runs all trials (`VMPOOL_FAULTS=all`); the default is a few trials of every scenario.
//! `VMPOOL_ONLY="rollout, restart: dies after DELETE"` runs only trials with such a name.

mod explore;
mod guards;
mod ledger;
mod story;
mod trial;
mod troupe;

use vmpool_e2e::harness;

use crate::explore::{Extent, explore};

#[test]
fn every_story_ends_well_whatever_happens_to_the_controller_and_its_watches() {
    let extent = Extent::chosen();
    let tally = harness::block_on(async {
        let _webhook_stays = guards::WEBHOOK.read().await;
        explore(extent).await
    });
    assert_eq!(tally.violations, [""; 0]);
    let tried = tally.points + tally.late;
    assert!(
        4 * tally.late <= tried,
        "{} of {tried} crashes did not happen, because their write never came",
        tally.late
    );
}
