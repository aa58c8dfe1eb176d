//! The components that handle reviews.

use std::sync::Arc;

use kube::Client;
use vmpool_diskimage::source::SourceUrl;
use vmpool_engine::admission::Rules;
use vmpool_runtime::Env;

use crate::callers::Callers;
use crate::line_budget::LineBudget;
use crate::memory::MemoryLimit;
use crate::metrics::WebhookMetrics;
use crate::reads::Reader;
use crate::review::{MAX_LENGTH, MAX_OBJECT_MEMORY};
use crate::webhook::WebhookEntry;

/// The memory for all bodies, in bytes. One client may use half of it, which is enough for one body of
/// maximum length.
const BODY_MEMORY: usize = 3 * MAX_LENGTH;
/// The memory for all decoded objects, in bytes. One client may use half of it, which is enough for two
/// objects of maximum size.
const OBJECT_MEMORY: usize = 4 * MAX_OBJECT_MEMORY;

/// The components that handle reviews. Clones share them.
#[derive(Clone, Debug)]
pub struct ReviewState {
    pub(crate) rules: Vec<Arc<dyn Rules>>,
    pub(crate) reader: Reader,
    pub(crate) metrics: Arc<WebhookMetrics>,
    pub(crate) env: Env,
    pub(crate) callers: Callers,
    /// The URLs at which the URL of every image must begin. Empty if all are allowed.
    pub(crate) allowed_urls: Arc<[SourceUrl]>,
    /// Whether the webhook reviews images.
    pub(crate) images: bool,
    /// Whether the webhook reviews autoscalers.
    pub(crate) autoscalers: bool,
    /// Whether the webhook reviews instance types, preferences and the machines that name them.
    pub(crate) types: bool,
    pub(crate) bodies: Arc<MemoryLimit>,
    pub(crate) objects: Arc<MemoryLimit>,
    /// The lines about lowered scales.
    pub(crate) scale_lines: Arc<LineBudget>,
}

impl ReviewState {
    /// A state that accepts all clients. `rules` are those of each platform. `client` reads the objects that
    /// rules need, and should not retry by itself.
    pub fn new(rules: Vec<Arc<dyn Rules>>, client: Client, metrics: Arc<WebhookMetrics>, env: Env) -> Self {
        let reader = Reader::new(client, env.clone(), metrics.clone());
        let bodies = Arc::new(MemoryLimit::new(BODY_MEMORY, env.clone()));
        let objects = Arc::new(MemoryLimit::new(OBJECT_MEMORY, env.clone()));
        let callers = Callers::default();
        Self {
            rules,
            reader,
            metrics,
            env,
            callers,
            allowed_urls: Arc::default(),
            images: false,
            autoscalers: false,
            types: false,
            bodies,
            objects,
            scale_lines: Arc::default(),
        }
    }

    /// The same state, which also reviews images. Their URLs must begin at one of these, if there are any.
    #[must_use]
    pub fn with_images(self, allowed_urls: Vec<SourceUrl>) -> Self {
        Self { allowed_urls: allowed_urls.into(), images: true, ..self }
    }

    /// The same state, which also reviews autoscalers.
    #[must_use]
    pub fn with_autoscalers(self) -> Self {
        Self { autoscalers: true, ..self }
    }

    /// The same state, which also reviews instance types, preferences and the machines that name them.
    #[must_use]
    pub fn with_types(self) -> Self {
        Self { types: true, ..self }
    }

    /// The same state, which accepts only these clients.
    #[must_use]
    pub fn accepting(self, callers: Callers) -> Self {
        Self { callers, ..self }
    }
}

/// A webhook, and what handles its reviews.
#[derive(Clone, Debug)]
pub(crate) struct ServedWebhook {
    pub(crate) state: ReviewState,
    pub(crate) webhook: Arc<WebhookEntry>,
}
