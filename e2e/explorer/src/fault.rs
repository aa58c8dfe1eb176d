//! The faults of a single request.

use std::time::Duration;

use vmpool_model::{ApiError, RequestOutcome, Verb};

/// Additional delay of a late write. Its sender has given up by then, and another controller may lead.
pub const LATE: Duration = Duration::from_secs(25);
/// How long admission of a slow write takes: a webhook with the longest timeout.
pub const SLOW: Duration = Duration::from_secs(30);
/// How long a fault pauses a process: longer than the lease duration.
pub const PAUSE: Duration = Duration::from_secs(30);

/// Which faults occurred, with the number of the write or read, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InjectedFaults {
    /// Faults of writes.
    pub write_faults: Vec<(usize, WriteFault)>,
    /// Faults of reads.
    pub read_faults: Vec<(usize, ReadFault)>,
}

/// A fault of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// The sender exits before the request arrives.
    CrashBefore,
    /// The sender exits before the response arrives.
    CrashAfter,
    /// 409: another client has changed the object.
    Conflict,
    /// 429 with `Retry-After`.
    TooManyRequests,
    /// 500.
    Internal,
    /// 503.
    Unavailable,
    /// The write takes effect, and the response is 504.
    TimeoutAfterCommit,
    /// 403: the quota is exceeded.
    Quota,
    /// 403: a webhook denies the request.
    Denied,
    /// 500: a required webhook cannot be called.
    WebhookUnavailable,
    /// The write takes effect, and the connection breaks before the response arrives.
    ResponseLost,
    /// The connection breaks before the request arrives.
    Unreachable,
    /// There is no response, and the write does not take effect.
    Hang,
    /// The write takes effect long after its sender has given up.
    Late,
    /// The write takes effect, and its sender is paused for longer than its lease before the response
    /// arrives.
    Stall,
    /// The sender is paused for longer than its lease, and the write takes effect after another controller
    /// became leader.
    StallLate,
    /// A slow webhook delays the write. It takes effect, also if its sender has given up by then.
    Slow,
    /// The sender exits while a slow webhook delays the write, and the write takes effect after another
    /// controller became leader.
    SlowCrash,
}

impl WriteFault {
    /// The faults of slow admission.
    pub const OF_SLOW_ADMISSION: [Self; 2] = [Self::Slow, Self::SlowCrash];

    /// The faults that random schedules inject into single writes.
    pub const ALL: [Self; 16] = [
        Self::CrashBefore,
        Self::CrashAfter,
        Self::Conflict,
        Self::TooManyRequests,
        Self::Internal,
        Self::Unavailable,
        Self::TimeoutAfterCommit,
        Self::Quota,
        Self::Denied,
        Self::WebhookUnavailable,
        Self::ResponseLost,
        Self::Unreachable,
        Self::Hang,
        Self::Late,
        Self::Stall,
        Self::StallLate,
    ];

    /// How the API server model treats the request.
    pub fn outcome(self) -> RequestOutcome {
        match self {
            Self::CrashBefore | Self::Hang => RequestOutcome::Hang,
            Self::CrashAfter => RequestOutcome::ServeAndHang,
            Self::Conflict => refuse(409, "Conflict", "the object has been modified"),
            Self::TooManyRequests => {
                RequestOutcome::Refuse(ApiError::new(429, "TooManyRequests", "too many requests").after(2))
            }
            Self::Internal => refuse(500, "InternalError", "an injected fault"),
            Self::Unavailable => refuse(503, "ServiceUnavailable", "an injected fault"),
            Self::TimeoutAfterCommit => {
                RequestOutcome::ServeAndRefuse(ApiError::new(504, "Timeout", "the request timed out"))
            }
            Self::Quota => refuse(403, "Forbidden", "exceeded quota: team"),
            Self::Denied => refuse(403, "Forbidden", "admission webhook \"a.b.c\" denied the request"),
            Self::WebhookUnavailable => {
                refuse(500, "InternalError", "Internal error occurred: failed calling webhook \"a.b.c\"")
            }
            Self::ResponseLost => RequestOutcome::ResponseLost,
            Self::Unreachable => RequestOutcome::Unreachable,
            Self::Late | Self::Stall | Self::StallLate | Self::Slow | Self::SlowCrash => {
                RequestOutcome::Serve
            }
        }
    }

    /// Whether the fault kills the sender.
    pub fn kills(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter | Self::SlowCrash)
    }

    /// Whether the fault pauses the sender.
    pub fn stalls(self) -> bool {
        matches!(self, Self::Stall | Self::StallLate)
    }

    /// Whether the write arrives after its sender has given up.
    pub fn is_late(self) -> bool {
        matches!(self, Self::Late | Self::StallLate)
    }

    /// Whether admission delays the write.
    pub fn is_slow(self) -> bool {
        matches!(self, Self::Slow | Self::SlowCrash)
    }
}

/// A fault of one read: a single object, a list, or the start of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFault {
    /// 429 with `Retry-After`.
    TooManyRequests,
    /// 500.
    Internal,
    /// 503.
    Unavailable,
    /// 410 for lists and watches, 504 for a single object.
    Gone,
    /// The connection breaks.
    Unreachable,
    /// There is no response.
    Hang,
    /// The sender exits before the response arrives.
    Crash,
}

impl ReadFault {
    /// All faults.
    pub const ALL: [Self; 7] = [
        Self::TooManyRequests,
        Self::Internal,
        Self::Unavailable,
        Self::Gone,
        Self::Unreachable,
        Self::Hang,
        Self::Crash,
    ];

    /// How the API server model treats the request.
    pub fn outcome(self, verb: Verb) -> RequestOutcome {
        match self {
            Self::TooManyRequests => {
                RequestOutcome::Refuse(ApiError::new(429, "TooManyRequests", "too many requests").after(2))
            }
            Self::Internal => refuse(500, "InternalError", "an injected fault"),
            Self::Unavailable => refuse(503, "ServiceUnavailable", "an injected fault"),
            Self::Gone if verb == Verb::Get => refuse(504, "Timeout", "the request timed out"),
            Self::Gone => refuse(410, "Expired", "too old resource version"),
            Self::Unreachable | Self::Hang => RequestOutcome::Unreachable,
            Self::Crash => RequestOutcome::Hang,
        }
    }
}

fn refuse(code: u16, reason: &str, message: &str) -> RequestOutcome {
    RequestOutcome::Refuse(ApiError::new(code, reason, message))
}
