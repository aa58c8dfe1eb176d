//! Who may write the record of machines that were asked to leave.

use vmpool_api::annotations::SCALE_DOWN_TARGETS;

use super::facts::Settings;
use super::rule::Rule;
use super::view::Pool;
use super::{Checked, refuse};

/// The record decides which machines are deleted. Whoever may edit a pool, but not remove machines by name, must not be
/// able to write it; so this is asked before anything else lets a request through.
pub(super) fn check(settings: &Settings, user: &str, old: Option<Pool<'_>>, new: Pool<'_>) -> Checked {
    let record = new.annotation(SCALE_DOWN_TARGETS);
    let before = old.map(|old| old.annotation(SCALE_DOWN_TARGETS)).filter(|before| !before.is_null());
    let unchanged = before.map_or(record.is_null(), |before| before == record);
    let writers = [&settings.removal_handler, &settings.controller];
    if unchanged || writers.into_iter().flatten().any(|writer| writer == user) {
        return Ok(());
    }
    let field = format!("metadata.annotations[{SCALE_DOWN_TARGETS}]");
    if before.is_some() && record.is_null() {
        return refuse(
            Rule::TargetsRecord,
            field,
            record,
            "machines of this pool are leaving by name, and what was sent has lost the record of them",
            "send your change as a patch or an apply instead of a replacement, or read the pool again \
             and keep its annotations",
        );
    }
    refuse(
        Rule::TargetsRecord,
        field,
        record,
        "only the removal of named machines writes this annotation",
        "leave it as it is, and name machines through the subresource scaledownwith",
    )
}
