//! What can happen to one request.

use std::time::Duration;

use vmpool_model::{Fate, Refusal, Verb};

/// How much later than all others a late write arrives: its sender has given it up, and another one may lead by then.
pub const LATE: Duration = Duration::from_secs(25);
/// How long a process stands still that a trouble stops: longer than its lease.
pub const STALL: Duration = Duration::from_secs(30);

/// What happens, or has happened, to which write and to which read, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Happened {
    /// To writes.
    pub troubles: Vec<(usize, Trouble)>,
    /// To reads.
    pub unread: Vec<(usize, Unread)>,
}

/// Something that happens to one write of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Its sender dies before it arrives.
    CrashBefore,
    /// Its sender dies before the answer arrives.
    CrashAfter,
    /// 409, somebody else was faster.
    Conflict,
    /// 429 with a time to wait.
    TooMany,
    /// 500.
    Internal,
    /// 503.
    Unavailable,
    /// It is done, and the answer is 504.
    TimeoutAfterCommit,
    /// 403, the quota is used up.
    Quota,
    /// 403, a webhook does not want it.
    Denied,
    /// 500, a webhook that has to be asked cannot be.
    NoWebhook,
    /// It is done, and the connection breaks.
    AnswerLost,
    /// The connection breaks before it arrives.
    Unreachable,
    /// It is never answered, and never done.
    Hang,
    /// It is done long after its sender has given up.
    Late,
    /// It is done, and its sender stands still for longer than its lease before it can hear so.
    Stall,
    /// Its sender stands still for longer than its lease, and it is done when somebody else leads.
    StallLate,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::CrashBefore,
        Self::CrashAfter,
        Self::Conflict,
        Self::TooMany,
        Self::Internal,
        Self::Unavailable,
        Self::TimeoutAfterCommit,
        Self::Quota,
        Self::Denied,
        Self::NoWebhook,
        Self::AnswerLost,
        Self::Unreachable,
        Self::Hang,
        Self::Late,
        Self::Stall,
        Self::StallLate,
    ];

    /// What the server makes of the request.
    pub fn fate(self) -> Fate {
        match self {
            Self::CrashBefore | Self::Hang => Fate::Hang,
            Self::CrashAfter => Fate::ServeAndHang,
            Self::Conflict => refuse(409, "Conflict", "the object has been modified"),
            Self::TooMany => Fate::Refuse(Refusal::new(429, "TooManyRequests", "too many requests").after(2)),
            Self::Internal => refuse(500, "InternalError", "the simulation says so"),
            Self::Unavailable => refuse(503, "ServiceUnavailable", "the simulation says so"),
            Self::TimeoutAfterCommit => {
                Fate::ServeAndAnswer(Refusal::new(504, "Timeout", "the request timed out"))
            }
            Self::Quota => refuse(403, "Forbidden", "exceeded quota: team"),
            Self::Denied => refuse(403, "Forbidden", "admission webhook \"a.b.c\" denied the request"),
            Self::NoWebhook => {
                refuse(500, "InternalError", "Internal error occurred: failed calling webhook \"a.b.c\"")
            }
            Self::AnswerLost => Fate::AnswerLost,
            Self::Unreachable => Fate::Unreachable,
            Self::Late | Self::Stall | Self::StallLate => Fate::Serve,
        }
    }

    /// Whether it costs a process its life.
    pub fn kills(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter)
    }

    /// Whether it stops a process for a while.
    pub fn stalls(self) -> bool {
        matches!(self, Self::Stall | Self::StallLate)
    }

    /// Whether the write arrives when nobody expects it any more.
    pub fn is_late(self) -> bool {
        matches!(self, Self::Late | Self::StallLate)
    }
}

/// Something that happens to one read of ours: a single object, a list, or the beginning of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// 429 with a time to wait.
    TooMany,
    /// 500.
    Internal,
    /// 503.
    Unavailable,
    /// 410 for lists and watches, 504 for a single object.
    Gone,
    /// The connection breaks.
    Unreachable,
    /// It is never answered.
    Hang,
    /// Its sender dies before the answer arrives.
    Crash,
}

impl Unread {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::TooMany,
        Self::Internal,
        Self::Unavailable,
        Self::Gone,
        Self::Unreachable,
        Self::Hang,
        Self::Crash,
    ];

    /// What the server makes of the request.
    pub fn fate(self, verb: Verb) -> Fate {
        match self {
            Self::TooMany => Fate::Refuse(Refusal::new(429, "TooManyRequests", "too many requests").after(2)),
            Self::Internal => refuse(500, "InternalError", "the simulation says so"),
            Self::Unavailable => refuse(503, "ServiceUnavailable", "the simulation says so"),
            Self::Gone if verb == Verb::Get => refuse(504, "Timeout", "the request timed out"),
            Self::Gone => refuse(410, "Expired", "too old resource version"),
            Self::Unreachable | Self::Hang => Fate::Unreachable,
            Self::Crash => Fate::Hang,
        }
    }
}

fn refuse(code: u16, reason: &str, message: &str) -> Fate {
    Fate::Refuse(Refusal::new(code, reason, message))
}
