//! The rule about clients that may write the removal record.

use serde_json::Value;

use super::finding::{RuleResult, refuse_value};
use super::request::PrivilegedUsers;
use super::rule::AdmissionRule;
use crate::scale_down::removal::RemovalRecord;

/// Checks the removal record in a request of `user`: `after`, where `before` is stored. Both are null if
/// there is no record. `annotation` is the key of the record.
///
/// The record determines which machines are deleted. A user who may edit a pool but has no permission for
/// targeted removals must not write it. A platform therefore checks this before any rule that allows a
/// request.
///
/// A record that cannot be read deletes no machine, and the controller does nothing until it is gone. Every
/// user who may edit the pool can therefore remove such a record: otherwise, only the end of admission would
/// be a way out.
///
/// # Errors
/// [`AdmissionRule::REMOVAL_RECORD`] if the record changes, and `user` is neither the API server for removals
/// nor the controller.
pub fn check_removal_record(
    users: &PrivilegedUsers,
    user: &str,
    annotation: &str,
    before: &Value,
    after: &Value,
) -> RuleResult {
    let writers = [&users.removal_handler, &users.controller];
    if before == after || writers.into_iter().flatten().any(|writer| writer == user) {
        return Ok(());
    }
    let field = format!("metadata.annotations[{annotation}]");
    if after.is_null() {
        if !is_readable(before) {
            return Ok(());
        }
        return refuse_value(
            AdmissionRule::REMOVAL_RECORD,
            field,
            after,
            "a targeted removal of this pool is in progress, and the request drops its removal record",
            "send your change as a patch or an apply instead of a replacement, or read the pool again \
             and keep its annotations",
        );
    }
    refuse_value(
        AdmissionRule::REMOVAL_RECORD,
        field,
        after,
        "only the API server for removals and the controller may write this annotation",
        "do not change it, and remove machines by name with the subresource scaledownwith",
    )
}

fn is_readable(record: &Value) -> bool {
    record.as_str().is_some_and(|text| RemovalRecord::parse(text).is_ok())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::dropped(json!("[]"), json!(null), false)]
    #[case::changed(json!("[]"), json!("not a record"), false)]
    #[case::unreadable_and_changed(json!("not a record"), json!("[]"), false)]
    #[case::unreadable_and_kept(json!("not a record"), json!("not a record"), true)]
    #[case::unreadable_and_removed(json!("not a record"), json!(null), true)]
    #[case::no_text_and_removed(json!(7), json!(null), true)]
    fn a_user_can_only_remove_a_record_that_cannot_be_read(
        #[case] before: Value,
        #[case] after: Value,
        #[case] allowed: bool,
    ) {
        let users = PrivilegedUsers {
            removal_handler: Some("handler".into()),
            controller: Some("controller".into()),
        };
        assert_eq!(check_removal_record(&users, "jo", "targets", &before, &after).is_ok(), allowed);
        assert!(check_removal_record(&users, "controller", "targets", &before, &after).is_ok());
    }
}
