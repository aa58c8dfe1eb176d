//! What clients of the aggregated API report about their requests.

use jiff::Timestamp;

/// A machine that a caller holds, as the response says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The id that the caller chose.
    pub id: &'static str,
    /// The machine's UID.
    pub uid: String,
    /// The machine's name.
    pub name: String,
    /// When the claim ends.
    pub until: Timestamp,
}

/// A request to release a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimReleaseRequest {
    /// What the caller holds.
    pub holding: Holding,
    /// `Keep`, `Remove` or `Replace`.
    pub then: &'static str,
}

/// A machine to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineToRemove {
    /// The machine's name.
    pub name: String,
    /// The machine's UID.
    pub uid: String,
}

/// A step of a request for a targeted removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientRequestEvent {
    /// The request was sent: it may take effect from now on.
    Sent(Vec<MachineToRemove>),
    /// As [`ClientRequestEvent::Sent`], for a removal that does not wait for hooks.
    SentUndrained(Vec<MachineToRemove>),
    /// The request was rejected: it has no effect.
    Rejected(Vec<MachineToRemove>, String),
    /// The removal succeeded.
    Succeeded(Vec<MachineToRemove>),
    /// The outcome is unknown.
    Unknown(String),
    /// A caller got a machine, or the renewal of its claim.
    Claimed(Holding),
    /// A caller asks to release a machine: from now on, others may get it.
    ReleaseSent(ClaimReleaseRequest),
}
