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
//! Left out: schemas beyond defaults, authentication and authorization, managed fields and server-side apply, strategic
//! merge patches, deletion of collections, table output. What hangs on those is tested on a real API server; that the
//! rest is as it is there, too (`e2e/tests/honesty`).

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
