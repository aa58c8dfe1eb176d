//! An in-memory model of the Kubernetes API server.
//!
//! It implements the rules that a controller relies on: resource versions and optimistic locking, UIDs, generations,
//! finalizers, owner references and garbage collection, preconditions, the subresources of custom resources, defaults,
//! merge and JSON patches, consistent paginated lists, and watches that resume, expire and send bookmarks. It is
//! deterministic: time comes from [`vmpool_runtime::Env`], and only the order of requests matters.
//!
//! ```text
//!  client(who) ──request──▶ Referee ──▶ admission ──▶ Store ──change──▶ history ──▶ watches
//!                          delays, refuses,                                delayed, broken,
//!                          drops responses                                 expired on demand
//! ```
//!
//! Not implemented: schemas beyond defaults, authentication and authorization, managed fields and server-side apply,
//! strategic merge patches, deletion of collections, and table output. Tests on a real API server cover those.
//! `e2e/tests/honesty` compares everything else with a real API server.

mod answer;
mod call;
mod check;
mod conduct;
mod control;
mod delete;
mod garbage;
mod pages;
mod patch;
mod platform;
mod resource;
mod scale;
mod selector;
mod server;
mod somebody;
mod store;
#[cfg(test)]
mod tests;
mod watch;
mod way;
mod write;

pub use answer::Refusal;
pub use call::{Call, PatchKind, Verb};
pub use conduct::{Admission, Conduct, Fate, Referee, Review, Served};
pub use platform::platform;
pub use resource::Resource;
pub use server::Server;
pub use store::{Change, ChangeKind, Key};
pub use watch::{Break, Pace};
pub use way::Way;
