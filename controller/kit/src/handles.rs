//! What each controller of a leader acts with.

use kube::Client;
use vmpool_runtime::Env;

use crate::events::EventSender;
use crate::write::Writer;

/// The environment of a leader, and its ways to the API server. `W` is the kind of a write.
pub struct LeaderHandles<W> {
    /// Time, randomness and tasks.
    pub env: Env,
    /// The client of the API server, for reads.
    pub client: Client,
    /// The writer, which the lease of the leader fences.
    pub writer: Writer<W>,
    /// The sender of events.
    pub events: EventSender,
    /// The namespace to reconcile; `None` means all namespaces.
    pub namespace: Option<String>,
}
