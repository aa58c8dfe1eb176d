//! What tests decide about a request: what becomes of it on its way, and whether it may be.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;

use crate::answer::Refusal;
use crate::call::Call;

/// Decides what becomes of each request, in the order in which they arrive.
pub trait Referee: Send {
    /// What becomes of `call`. Nothing of the server is locked meanwhile: what is done to it here is done before
    /// the request is served.
    fn judge(&mut self, call: &Call) -> Conduct;
}

/// What becomes of one request.
#[derive(Debug, Default)]
pub struct Conduct {
    /// How long it is under way.
    pub before: Duration,
    /// What the server makes of it.
    pub fate: Fate,
    /// How long the answer is under way.
    pub after: Duration,
}

impl Conduct {
    /// It is served at once, and the answer takes this long.
    pub fn slow(after: Duration) -> Self {
        Self { after, ..Self::default() }
    }
}

/// At once.
impl From<Fate> for Conduct {
    fn from(fate: Fate) -> Self {
        Self { fate, ..Self::default() }
    }
}

/// What the server makes of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Fate {
    /// It is served.
    #[default]
    Serve,
    /// It is refused, without an effect.
    Refuse(Refusal),
    /// It never arrives, and something on the way answers it, a code and a body, as a proxy may.
    Answer(u16, Value),
    /// It is served, and this is what its sender hears instead of the answer.
    ServeAndAnswer(Refusal),
    /// It is served, and the connection breaks before the answer arrives.
    AnswerLost,
    /// The connection breaks before it arrives.
    Unreachable,
    /// It is served, and the answer never comes.
    ServeAndHang,
    /// It never arrives, and nobody is told.
    Hang,
}

/// Says whether an object may be stored.
pub trait Admission: Send + Sync {
    /// Whether it may. Reads of its own go through a client, as those of a webhook do.
    fn admit(&self, review: Review) -> BoxFuture<'static, Result<(), Refusal>>;
}

/// What admission is asked about.
#[derive(Clone, Debug)]
pub struct Review {
    /// The request.
    pub call: Call,
    /// The object before it; null for a create.
    pub old: Value,
    /// The object that would be stored, or the one that would be deleted as null.
    pub new: Value,
}

/// A request that the server has dealt with, whether or not anybody heard the answer.
#[derive(Clone, Debug)]
pub struct Served {
    /// When.
    pub at: Timestamp,
    /// The request.
    pub call: Arc<Call>,
    /// The HTTP code of the answer.
    pub code: u16,
}
