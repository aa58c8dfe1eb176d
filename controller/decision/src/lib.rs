//! Decisions that need reads.
//!
//! A decision is a function of its input and of what was read for it. It reads nothing itself. If it lacks a
//! read, it returns [`Needs`], and the program reads and evaluates the decision again:
//!
//! ```text
//!  program ──reads──> decision ──> Ok: the result
//!     ▲                  │
//!     └──adds answers──  └──> Err(Needs): what to read next
//! ```
//!
//! A decision that depends on several reads returns all that it knows of, so that the program can read them
//! at once. The program has one driver for each of its clients. The driver knows how many reads a decision
//! may need, the deadline, whether a cache may answer, and what may be read on whose behalf.
//!
//! [`Reads`] are the answers of a decision about one kind of objects. [`AdmissionReads`] are those of a
//! review: objects of any kind, and dry runs.

mod admission;
mod dry_run;
mod lookup;
mod reads;

pub use admission::{AdmissionRead, AdmissionReads};
pub use dry_run::{DryRun, DryRunCause, DryRunResult};
pub use lookup::{LookupNamespace, LookupOutcome, LookupSubject, ObjectLookup};
pub use reads::{Needs, Reads, Step, decide_with, join_steps};
