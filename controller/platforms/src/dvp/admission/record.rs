//! The rule about clients that may write the removal record.

use vmpool_api::annotations::SCALE_DOWN_TARGETS;

use super::facts::Settings;
use super::finding::{Checked, refuse};
use super::rule::Rule;
use super::view::Pool;

/// The record determines which machines are deleted. A user who may edit a pool but has no permission for targeted
/// removals must not write it. This rule is therefore evaluated before any rule that allows a request.
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
            "a targeted removal of this pool is in progress, and the request drops its removal record",
            "send your change as a patch or an apply instead of a replacement, or read the pool again \
             and keep its annotations",
        );
    }
    refuse(
        Rule::TargetsRecord,
        field,
        record,
        "only the API server for removals and the controller may write this annotation",
        "do not change it, and remove machines by name with the subresource scaledownwith",
    )
}
