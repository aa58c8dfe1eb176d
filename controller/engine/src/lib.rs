//! The decisions of vmpool: pure functions from an observed pool to a plan.
//!
//! The engine has no clock, no randomness and no client. A pass of the controller has the steps observe,
//! plan, apply and report. This crate is the plan step. It also contains the data types of the other steps,
//! and the state that connects one pass with the next:
//!
//! ```text
//!             +-------------------------- Memory (per pool UID) ---------------------------+
//!             | Ledger: pending writes    Backoff    results of updates    next number    |
//!             +----------------------------------------------------------------------------+
//!                        | overlaid on the cache                        ^ results of writes
//!                        v                                              |
//!  cache -> [Observed] -> plan() -> [Plan: actions, blockers, requeue] -> apply -> [Failure?] -> status()
//! ```
//!
//! # Folders
//!
//! A reader comes with a question about a pool. A folder therefore has the words of users, and contains all
//! parts of its answer: planners, stored records, facts, rules and texts. Folders by the kind of a module,
//! such as one for all planners, would spread every answer over the crate.
//!
//! | Question | Folder |
//! | --- | --- |
//! | Why was this machine removed, or why does the surplus stay? | [`scale_down`] |
//! | Why was this machine created, and why does it have this name? | [`scale_up`] |
//! | Why was this machine updated or restarted, or why was it not? | `rollout` |
//! | Why was this machine replaced because it does not start, or was not ready? | [`healing`] |
//! | Why was this machine replaced although it served well? | [`recycling`] |
//! | Why does this machine have this disk, and why was a disk deleted? | `disks` |
//! | Which revision does the template have, and which revisions are stored? | [`revisions`] |
//! | Which machines belong to this pool? | [`membership`] |
//! | For how long may this pool make no progress? | [`progress`] |
//! | Until when is this machine protected? | [`protection`] |
//! | Why was this standby machine started, stopped or replaced? | [`standby`] |
//! | Which work of its guest does this machine finish before it leaves? | [`draining`] |
//! | Are the disks of this machine from the image that the pool has now? | [`image_refresh`] |
//! | What does the status say? | [`status`], with [`condition`] and [`activity`] |
//! | Why was this request rejected? | [`admission`] |
//!
//! [`mod@plan`] contains only what all planners share: the call of the planners in their order, and the input
//! and the output of planning. [`model`] contains the facts that most files need.
//!
//! # Layers
//!
//! The layers are those of files. A folder can have files of several layers. A file imports only files of
//! lower layers, or files of its own layer that do not import it. The files have no import cycle. From the
//! lowest layer:
//!
//! 1. `ids` and `membership::owner`: names, UIDs and owners of objects;
//! 2. facts, stored records and limits: [`activity`], [`revisions`], [`condition`], [`scale_up::names`],
//!    [`scale_up::provisioning_limit`], [`scale_up::class_slots`], [`scale_down::removal`], [`failure`],
//!    [`backoff`], [`limits`], [`annotated_setting`], [`membership::losses`], [`selector`], [`server_clock`],
//!    [`copied_pool`], [`protection`], [`progress`], [`healing::setting`], `draining` and `recycling` without their planners and
//!    `recycling::due`, `standby` without its planners, [`image_refresh`] without `outdated`, [`admission`]
//!    (which no other part uses);
//! 3. [`model`]: pools, machines, disks and drafts; `scale_down::policy`, which compares machines and which
//!    pools contain;
//! 4. [`ledger`], `plan::action`, `plan::blocker`, and what the memory keeps for one folder:
//!    `rollout::attempts`, `rollout::overridden`, `rollout::requested_restarts`, `healing::start_failures`,
//!    `healing::unready`;
//! 5. [`memory`];
//! 6. `plan::observed` and `plan::result`: the input and the output of planning;
//! 7. shared parts of planners: `disks::allocation`, `rollout::progress`, `membership::adoption`,
//!    `scale_down::reservations`, `scale_up::provisioning`, `protection::protected`, `healing::stuck`,
//!    `image_refresh::outdated`, `recycling::due` and smaller ones;
//! 8. the planners, which [`mod@plan`] lists. In `scale_up`, `create` imports `membership::loss_limits`, and
//!    `membership::finalizers` imports the planner of `revisions`;
//! 9. [`plan_pass()`] and [`compute_status()`].
//!
//! # Assumptions
//!
//! Other clients must not change the following. If they do, the controller reacts as described:
//!
//! * The controller owner reference of a machine alone determines its pool, in the namespace of both: it
//!   names group, kind, name and UID of the pool. If it is removed, the machine is released and the
//!   controller creates a replacement.
//! * If the managed labels of a machine are removed, the controller restores them.
//! * The disk map annotation of a machine contains the disk of each disk template. Without it, the controller
//!   does not repair the disks of the machine.
//! * The revision annotation of a machine contains the revision that was last written to it. If it contains
//!   another revision, the controller updates the machine. If it contains the current one, the controller
//!   does not.
//! * If the stored current revision is deleted, the controller stores it again. If another stored revision is
//!   deleted, an update of a machine with that revision removes no fields.
//! * The name block on the pool contains the numbers that may be used for names. Without it, names of former
//!   machines can recur.
//! * The removal record on the pool follows the steps of [`scale_down::removal`]. If an entry was accepted
//!   without lowering `replicas`, the controller deletes its machine and creates a replacement.

pub mod activity;
pub mod admission;
pub mod annotated_setting;
pub mod backoff;
pub mod condition;
pub mod copied_pool;
mod disks;
pub mod draining;
pub mod failure;
pub mod healing;
mod ids;
pub mod image_refresh;
pub mod ledger;
pub mod limits;
pub mod membership;
pub mod memory;
pub mod model;
pub mod plan;
pub mod progress;
pub mod protection;
pub mod recycling;
pub mod revisions;
mod rollout;
pub mod scale_down;
pub mod scale_up;
pub mod selector;
pub mod server_clock;
pub mod standby;
pub mod status;

#[cfg(test)]
mod simulation;
#[cfg(test)]
pub(crate) mod testing;

pub use memory::PassMemory;
pub use model::{Disk, Machine, ObjectId, ParsedPool, Pool, PoolSpec, Uid};
pub use plan::{ObservedPool, Plan, PoolAction, plan_pass};
pub use status::{ComputedStatus, compute_status};
