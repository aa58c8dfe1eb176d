//! I10: disk garbage collection deletes free disks older than `ttl`, except the newest `keep`.

use std::time::Duration;

use jiff::Timestamp;
use vmpool_api::{GoDuration, annotations, labels};

use super::Violation;
use crate::object::{JsonObject, TestedKind};
use crate::recorder::RecordedState;

/// The time that a collection takes at most: the grace period, a second one if it starts again, and some
/// delay.
pub const SLACK: Duration = Duration::from_secs(90);

/// Templates with too many expired free disks.
pub fn check_disk_garbage_collection(state: &RecordedState, now: Timestamp) -> Vec<Violation> {
    let pools = state.all(TestedKind::Pool).filter(|pool| !pool.is_terminating());
    pools.flat_map(|pool| of_pool(state, pool, now)).collect()
}

fn of_pool(state: &RecordedState, pool: &JsonObject, now: Timestamp) -> Vec<Violation> {
    let templates = pool.at("/spec/virtualDiskTemplates").as_array();
    let mut found = Vec::new();
    for template in templates.into_iter().flatten() {
        let (name, reclaim) = (template["name"].as_str().unwrap_or_default(), &template["reclaim"]);
        let ttl = reclaim["ttl"].as_str().and_then(|ttl| GoDuration::parse_positive(ttl).ok()?.to_std());
        let (Some(ttl), true) = (ttl, refers(pool, name)) else { continue };
        // A `ttl` longer than the time since the epoch never expires.
        let Ok(limit) = now.checked_sub(SLACK.saturating_add(ttl)) else { continue };
        let disks = state.owned_by(TestedKind::Disk, pool.uid());
        let of_template = disks.filter(|disk| disk.label(labels::DISK_TEMPLATE) == Some(name));
        let old: Vec<&str> =
            of_template.filter(|disk| is_free_since(state, disk, limit)).map(JsonObject::name).collect();
        let keep = reclaim["keep"].as_u64().unwrap_or_default();
        if u64::try_from(old.len()).is_ok_and(|count| count > keep) {
            let (pool, old) = (pool.name(), old.join(", "));
            let what = format!(
                "pool {pool} keeps {keep} disks of {name}, but these have been free for too long: {old}"
            );
            found.push(Violation { invariant: "I10", what });
        }
    }
    found
}

/// Whether the pool's machines use this disk template. Disks of an unused template do not expire.
fn refers(pool: &JsonObject, template: &str) -> bool {
    let references = pool.at("/spec/virtualMachineTemplate/spec/blockDeviceRefs").as_array();
    references.into_iter().flatten().any(|reference| reference["name"] == template)
}

/// Whether the disk contains data and has been free since before `limit`.
fn is_free_since(state: &RecordedState, disk: &JsonObject, limit: Timestamp) -> bool {
    let since = disk.annotation(annotations::FREE_SINCE).and_then(|since| since.parse::<Timestamp>().ok());
    let claimed = disk.annotation(annotations::CLAIMED_BY).is_some();
    let attached =
        disk.at("/status/attachedToVirtualMachines").as_array().is_some_and(|users| !users.is_empty());
    let has = |machine: &JsonObject| {
        machine.disk_references().any(|name| name == disk.name())
            || machine.mapped_disks().contains(disk.name())
    };
    let used = || state.all(TestedKind::Machine).any(has);
    // A stamp from before the disk existed cannot be true.
    let created: Option<Timestamp> = disk.text("/metadata/creationTimestamp").parse().ok();
    let since = since.filter(|since| created.is_none_or(|created| *since >= created));
    since.is_some_and(|since| since < limit) && !claimed && !attached && !disk.is_terminating() && !used()
}
