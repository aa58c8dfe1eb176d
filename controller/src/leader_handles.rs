//! What each context of a leader acts with.

use kube::Client;
use vmpool_runtime::Env;

use crate::pools::events::Events;
use crate::write::Writer;

/// The environment of a leader, and its ways to the API server.
pub(crate) struct LeaderHandles {
    pub(crate) env: Env,
    pub(crate) client: Client,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
}
