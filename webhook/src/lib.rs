//! The vmpool webhook: responds to admission reviews of pools.
//!
//! ```text
//!  kube-apiserver ──AdmissionReview──> router ──> review (decode) ──> the webhook's rules ──> review (encode)
//!      ▲                                                                  │ if a rule needs other objects
//!      └──────────────── reads, with a deadline ──────────────────────────┘
//! ```
//!
//! A webhook is a path with a decision about a request, as `vmpool_decision` describes it; one handler serves
//! all of them. The platforms, the engine and the crates for disk images and autoscalers contain all rules.
//! The webhook decodes, reads and responds. It caches nothing and writes nothing, so all replicas give the
//! same responses.
//!
//! The layers, lowest first. A module imports only from lower layers:
//!
//! 1. `bounded_json`, `memory`, `callers`, `line_budget`: limits for memory, clients and the log
//! 2. [`metrics`]
//! 3. `review`: decoding and encoding of reviews
//! 4. `reads`: reads from kube-apiserver
//! 5. `webhook`, `finalizers`, then `autoscalers`, `pools`, `images`, `types`: the table of webhooks, and
//!    their rules
//! 6. `state`, `body`, `handlers`, `router`: the handling of a review
//! 7. [`options`], `run`: the process

mod autoscalers;
mod body;
mod bounded_json;
mod callers;
mod finalizers;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod handlers;
mod images;
mod line_budget;
mod memory;
pub mod metrics;
pub mod options;
mod pools;
mod reads;
mod review;
mod router;
mod run;
mod state;
mod types;
mod webhook;

pub use callers::Callers;
pub use review::MAX_LENGTH;
pub use router::{empty_router, webhook_router};
pub use run::{WebhookRunError, run_webhook};
pub use state::ReviewState;

#[cfg(test)]
mod tests;
