//! The components that handle reviews.

use std::sync::Arc;

use kube::Client;
use vmpool_platforms::dvp::admission::Settings;
use vmpool_runtime::Env;

use crate::callers::Callers;
use crate::memory::MemoryLimit;
use crate::metrics::Metrics;
use crate::reads::Reader;
use crate::review::{MAX_LENGTH, MAX_OBJECT_MEMORY};

/// The memory for all bodies, in bytes. One client may use half of it, which is enough for one body of maximum length.
const BODY_MEMORY: usize = 3 * MAX_LENGTH;
/// The memory for all decoded objects, in bytes. One client may use half of it, which is enough for two objects of maximum
/// size.
const OBJECT_MEMORY: usize = 4 * MAX_OBJECT_MEMORY;

/// The components that handle reviews. Clones share them.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) settings: Arc<Settings>,
    pub(crate) reader: Reader,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) env: Env,
    pub(crate) callers: Callers,
    pub(crate) bodies: Arc<MemoryLimit>,
    pub(crate) objects: Arc<MemoryLimit>,
}

impl State {
    /// A state that accepts all clients. `client` reads the objects that rules need, and should not retry by itself.
    pub fn new(settings: Settings, client: Client, metrics: Arc<Metrics>, env: Env) -> Self {
        let reader = Reader::new(client, env.clone(), metrics.clone());
        let bodies = Arc::new(MemoryLimit::new(BODY_MEMORY));
        let objects = Arc::new(MemoryLimit::new(OBJECT_MEMORY));
        let callers = Callers::default();
        Self { settings: Arc::new(settings), reader, metrics, env, callers, bodies, objects }
    }

    /// The same state, which accepts only these clients.
    #[must_use]
    pub fn accepting(self, callers: Callers) -> Self {
        Self { callers, ..self }
    }
}
