//! Faults around our programs on a real control plane: every one of them dies before and after each of its requests, and
//! what watches show is late, lost, repeated or refused.
//!
//! `make crashes` tries everything (`VMPOOL_FAULTS=all`); without it a few points of every story are tried.
//! `VMPOOL_ONLY="rollout, restart: dies after DELETE"` repeats what has such a name.

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
    assert!(4 * tally.late <= tried, "{} of {tried} crashes came too late to happen", tally.late);
}
