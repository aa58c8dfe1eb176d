//! The removal record of targeted removals, stored in an annotation of the pool.
//!
//! A targeted removal consists of two writes of the pool before any deletion. Both require the resource
//! version that was read:
//!
//! ```text
//!  reserve   the targets are recorded, `replicas` is unchanged       a target that disappears now is not replaced
//!  verify    each target is read live; if one is missing or foreign  withdraw: nothing has changed
//!  accept    one write lowers `replicas` by the result of            the removal will be completed, even if programs exit
//!            [`RemovalRecord::accept`] and accepts the targets
//!  delete    with a UID precondition, by the same program and by     an entry is removed when its machine is gone
//!            the controller, whichever is first
//! ```
//!
//! The controller deletes an accepted target with every policy, and deletes no other machine for its
//! decrement. The controller drops a reservation that is not accepted [`RESERVATION_AGE`] after it first saw
//! it, by its own clock. The record contains no time. If a client sent a reservation less than
//! [`acceptance_window`] ago and finds it missing, its unconfirmed acceptance has succeeded.
//!
//! A target is identified by its UID and has at most one accepted entry. Several requests can hold
//! reservations of the same target, and a withdrawal affects only one request. While another request has a
//! reservation of an accepted target, the accepted entry stays even if the machine is gone. That request then
//! finds the entry when it accepts, and does not count the target twice.
//!
//! An entry contains the user who requested the removal, for the event about the deletion. Consecutive
//! entries of one user store the name once, so that a record of the maximum size has space for it. If many
//! users request removals at the same time, the record omits the last names, so that the names do not use the
//! space of entries. No decision depends on a name. A record without names, as earlier versions write it, is
//! valid.
//!
//! When an entry leaves the record, a repeated request must not hit another machine with the name. On a
//! platform with random names, the write that removes the entry also records that its number is used up.
//! Ordinals return, so a second annotation keeps the last targets: [`RemovedMachines`].

mod record;
mod removed;
mod written;

pub use record::{
    LIMIT, LIMIT_BYTES, LIMIT_NAME, RESERVATION_AGE, RecordedTarget, RemovalRecord, RemovalRecordFull,
    TargetState, acceptance_window,
};
pub use removed::{MOST_REMOVED, RemovedMachines};
pub use written::RemovalRecordError;
