//! Who may write the removal record.

use serde_json::Value;

use super::{Checked, Rule, Users, refuse};

/// Checks the removal record that `user` sends: `after`, where `before` is stored. Both are null if there is no record.
/// `annotation` is the key of the record.
///
/// The record decides which machines the controller deletes. A user who may edit a pool, and may not remove machines by
/// name, must not be able to write it. So a platform checks this before any other rule allows the request.
///
/// # Errors
/// [`Rule::REMOVAL_RECORD`], if the record changes and `user` is neither the program that serves targeted removal nor the
/// controller.
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
