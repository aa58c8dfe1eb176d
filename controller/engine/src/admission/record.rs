//! The rule about clients that may write the removal record.

use serde_json::Value;

use super::finding::{Checked, refuse};
use super::request::Users;
use super::rule::Rule;

/// Checks the removal record in a request of `user`: `after`, where `before` is stored. Both are null if there is no
/// record. `annotation` is the key of the record.
///
/// The record determines which machines are deleted. A user who may edit a pool but has no permission for targeted
/// removals must not write it. A platform therefore checks this before any rule that allows a request.
///
/// # Errors
/// [`Rule::REMOVAL_RECORD`] if the record changes, and `user` is neither the API server for removals nor the controller.
pub fn check(users: &Users, user: &str, annotation: &str, before: &Value, after: &Value) -> Checked {
    let writers = [&users.removal_handler, &users.controller];
    if before == after || writers.into_iter().flatten().any(|writer| writer == user) {
        return Ok(());
    }
    let field = format!("metadata.annotations[{annotation}]");
    if after.is_null() {
        return refuse(
            Rule::REMOVAL_RECORD,
            field,
            after,
            "a targeted removal of this pool is in progress, and the request drops its removal record",
            "send your change as a patch or an apply instead of a replacement, or read the pool again \
             and keep its annotations",
        );
    }
    refuse(
        Rule::REMOVAL_RECORD,
        field,
        after,
        "only the API server for removals and the controller may write this annotation",
        "do not change it, and remove machines by name with the subresource scaledownwith",
    )
}
