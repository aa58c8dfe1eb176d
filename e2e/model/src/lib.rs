//! A model of the Kubernetes API server.
//!
//! It keeps the rules that a controller can come to rely on: resource versions and optimistic locking, UIDs,
//! generations, finalizers, owner references and garbage collection, preconditions, the subresources of custom
//! resources, defaults, merge and JSON patches, consistent lists in pages, and watches that resume, expire and
//! bookmark. What happens is decided by the rules alone: there is no time but that of the [`vmpool_runtime::Env`], and
//! no order but that of the requests.
//!
//! ```text
//!  client(who) ──request──▶ Referee ──▶ admission ──▶ Store ──change──▶ history ──▶ watches
//!                          delays, refuses,                                held back, broken,
//!                          loses answers                                   expired, as told
//! ```
//!
//! Left out: schemas beyond defaults and pruning by nobody, authentication and authorization, server-side apply,
//! strategic merge patches, table output. What hangs on those is tested on a real API server.

mod answer;
mod call;
mod delete;
mod garbage;

mod patch;
mod resource;
mod scale;
mod server;
mod store;
#[cfg(test)]
mod tests;
mod watch;
mod way;
mod write;

pub use answer::Refusal;
pub use call::{Call, PatchKind, Verb};
pub use resource::Resource;
pub use server::{Admission, Break, Conduct, Fate, Pace, Referee, Review, Served, Server};
pub use store::{Change, ChangeKind, Key};
pub use way::Way;
