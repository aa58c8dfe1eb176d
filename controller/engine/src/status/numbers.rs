//! The numbers of a pool in the messages of `Ready`, `Reconciling` and `Stalled`.

use super::counts::MachineCounts;
use super::text::{join_message_parts, machine_count_text, verb_for_count};
use crate::model::Pool;
use crate::plan::observed::ObservedPool;

/// The message of a pool that is ready. Its numbers are those of the status. A pool whose strategy keeps a
/// surplus can have more machines than ready ones, and a rollout can leave machines as they are.
pub(super) fn ready_message(pool: &Pool, counts: &MachineCounts) -> String {
    let MachineCounts { total, live, ready, updated, .. } = *counts;
    let all_updated = updated == live;
    let mut parts = vec![match ready {
        0 => "no machines are desired".to_owned(),
        _ if all_updated => {
            format!("{} {} ready and up to date", machine_count_text(ready), verb_for_count(ready))
        }
        _ => format!("{} {} ready", machine_count_text(ready), verb_for_count(ready)),
    }];
    if !all_updated {
        parts.push(format!(
            "{}, and the controller leaves the others as they are",
            updated_count_text(updated, live)
        ));
    }
    if total != ready {
        let exist = if total == 1 { "exists" } else { "exist" };
        parts.push(format!("{} {exist}, {} desired", machine_count_text(total), pool.desired));
    }
    join_message_parts(parts)
}

/// In how many of the live machines the current revision is in effect.
fn updated_count_text(updated: usize, live: usize) -> String {
    format!("{updated} of {} {} up to date", machine_count_text(live), verb_for_count(live))
}

/// How far the pool is from its spec.
pub(super) fn progress_messages(
    observed: &ObservedPool<'_>,
    counts: &MachineCounts,
    outdated: usize,
) -> Vec<String> {
    let pool = observed.pool;
    let mut parts = Vec::new();
    if counts.total != pool.desired {
        parts.push(format!(
            "{} of {} desired {} exist",
            counts.total,
            pool.desired,
            machine_noun(pool.desired)
        ));
    }
    if counts.ready < pool.desired {
        parts.push(format!(
            "{} of {} {} ready",
            counts.ready,
            machine_count_text(pool.desired),
            verb_for_count(pool.desired)
        ));
    }
    if outdated > 0 {
        let paused = if pool.paused || pool.rollout.paused { ", and the rollout is paused" } else { "" };
        parts.push(format!("{}{paused}", updated_count_text(counts.updated, counts.live)));
    }
    parts
}

fn machine_noun(count: usize) -> &'static str {
    if count == 1 { "machine" } else { "machines" }
}
