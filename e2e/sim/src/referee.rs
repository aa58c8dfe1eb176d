//! What becomes of requests: how long they are under way, and what goes wrong.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use vmpool_model::{Call, Conduct, Fate, Refusal, Verb};

use crate::chance::Chance;
use crate::world::CONTROLLER;

/// Something that happens to one write of a controller.
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
    /// It is done, and the connection breaks.
    AnswerLost,
    /// The connection breaks before it arrives.
    Unreachable,
    /// It is never answered, and never done.
    Hang,
    /// It is done long after its sender has given up.
    Late,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::CrashBefore,
        Self::CrashAfter,
        Self::Conflict,
        Self::TooMany,
        Self::Internal,
        Self::Unavailable,
        Self::TimeoutAfterCommit,
        Self::Quota,
        Self::Denied,
        Self::AnswerLost,
        Self::Unreachable,
        Self::Hang,
        Self::Late,
    ];

    fn conduct(self, way: Duration) -> Conduct {
        let refuse = |code, reason: &str| {
            Fate::Refuse(Refusal::new(code, reason, format!("{reason}, says the simulation")))
        };
        let fate = match self {
            Self::CrashBefore | Self::Hang => Fate::Hang,
            Self::CrashAfter => Fate::ServeAndHang,
            Self::Conflict => refuse(409, "Conflict"),
            Self::TooMany => Fate::Refuse(Refusal::new(429, "TooManyRequests", "too many requests").after(2)),
            Self::Internal => refuse(500, "InternalError"),
            Self::Unavailable => refuse(503, "ServiceUnavailable"),
            Self::TimeoutAfterCommit => {
                Fate::ServeAndAnswer(Refusal::new(504, "Timeout", "the request timed out"))
            }
            Self::Quota => Fate::Refuse(Refusal::new(403, "Forbidden", "exceeded quota: team")),
            Self::Denied => Fate::Refuse(Refusal::new(
                400,
                "BadRequest",
                "admission webhook \"a.b.c\" denied the request",
            )),
            Self::AnswerLost => Fate::AnswerLost,
            Self::Unreachable => Fate::Unreachable,
            Self::Late => {
                return Conduct { before: Duration::from_secs(25), fate: Fate::Serve, after: Duration::ZERO };
            }
        };
        Conduct { before: way, fate, after: way }
    }

    /// Whether it costs a process its life.
    fn kills(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter)
    }
}

/// What the world and its referee tell each other.
#[derive(Debug, Default)]
pub struct Notes {
    /// Writes of controllers on pools, machines, disks and revisions so far, leases and events apart.
    pub writes: usize,
    /// What shall happen, by the number of the write, in order.
    pub troubles: VecDeque<(usize, Trouble)>,
    /// Troubles that come by chance: how many of a thousand writes.
    pub per_mille: u64,
    /// Controllers that shall die now.
    pub dying: Vec<String>,
    /// Writes that come long after their sender has given them up. What they do may be against what is wanted by then,
    /// and is nobody's fault.
    pub late: Vec<Call>,
    /// What happened, for the transcript.
    pub told: Vec<String>,
}

/// The referee of a simulated world.
pub struct Referee {
    pub(crate) notes: Arc<Mutex<Notes>>,
    pub(crate) chance: Chance,
    /// Longest time that a request or an answer is under way, in milliseconds.
    pub(crate) latency: u64,
}

impl vmpool_model::Referee for Referee {
    fn judge(&mut self, call: &Call) -> Conduct {
        let way = self.chance.delay(self.latency);
        let counts = call.who.starts_with(CONTROLLER)
            && call.is_write()
            && call.verb != Verb::Watch
            && !["leases", "events"].contains(&call.resource.as_str());
        if !counts {
            return Conduct { before: way, fate: Fate::Serve, after: self.chance.delay(self.latency) };
        }
        let notes = &mut *self.notes.lock();
        let number = notes.writes;
        notes.writes += 1;
        let planned = notes.troubles.front().filter(|(at, _)| *at <= number).map(|(_, trouble)| *trouble);
        if planned.is_some() {
            notes.troubles.pop_front();
        }
        let by_chance =
            || self.chance.one(&Trouble::ALL).copied().filter(|_| self.chance.per_mille(notes.per_mille));
        let Some(trouble) = planned.or_else(by_chance) else {
            return Conduct { before: way, fate: Fate::Serve, after: self.chance.delay(self.latency) };
        };
        notes.told.push(format!("write {number}, {call}: {trouble:?}"));
        if trouble.kills() {
            notes.dying.push(call.who.clone());
        }
        if trouble == Trouble::Late {
            notes.late.push(call.clone());
        }
        trouble.conduct(way)
    }
}
