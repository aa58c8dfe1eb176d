//! The parts of a fenced controller that do not depend on what it reconciles, each once.
//!
//! ```text
//!  API server --watch--> Sink (cache) --changed keys--> PassQueue (debounced, one pass per key)
//!      ^                                                      |
//!      |                                                      v
//!      +---- Writer: fenced by the lease, never retried <---- pass of a Controller ----> EventSender
//! ```
//!
//! A leader runs a [`Controller`](controller::Controller) with
//! [`run_controller`](controller::run_controller): its watches, and workers for each of its queues. What it
//! does only while the cluster is in a certain state, for example while it serves a kind, is a
//! [`ConditionalLeadership`](leadership::ConditionalLeadership), which
//! [`lead_on_duty`](leadership::lead_on_duty) begins and ends.
//!
//! The crate knows Kubernetes, and no kind of vmpool. It uses time, randomness and tasks only through
//! [`Env`](vmpool_runtime::Env). Its lints ban all other access to them.
//!
//! # Layers
//!
//! A file imports only files of lower layers, or files of its own layer that do not import it. From the
//! lowest layer:
//!
//! 1. [`announced`], [`decode`], [`first_lists`], [`health`], [`object`], [`observed_value`], [`pause`],
//!    [`queue`], [`response_body`];
//! 2. [`leadership`], [`passes`], [`rejection`], [`sink`];
//! 3. [`list`], [`write`](mod@write), [`controller`];
//! 4. [`events`], [`watch`];
//! 5. [`definitions`], [`handles`].

pub mod announced;
pub mod controller;
pub mod decode;
pub mod definitions;
pub mod events;
pub mod first_lists;
pub mod handles;
pub mod health;
pub mod leadership;
pub mod list;
pub mod object;
pub mod observed_value;
pub mod passes;
pub mod pause;
pub mod queue;
pub mod rejection;
pub mod response_body;
pub mod sink;
#[cfg(test)]
mod testing;
pub mod watch;
pub mod write;
