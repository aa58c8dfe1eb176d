//! A world for tests of the shell: a small API server in memory, a clock that moves only when told to, and a leader.
//!
//! The server keeps what the controller relies on (resource versions, UIDs, generations, preconditions,
//! finalizers, the status subresource, list and watch), and nothing else: no schemas, no admission, no accounts, no
//! watch that expires. What hangs on those is tested on a real API server.

mod requests;
mod server;
mod store;
mod world;

pub(crate) use requests::{Call, Verb};
pub(crate) use server::{Fault, Server, refusal};
pub(crate) use world::{NAMESPACE, World, machine_names, pool};
