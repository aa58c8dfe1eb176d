//! Blocked steps of a plan.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::action::ApplyStage;
use crate::draining::DrainReason;
use crate::ids::ObjectId;
use crate::protection::timestamp_text;

/// A step that waits until a machine is no longer protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtectedStep {
    /// Its deletion in a scale-down.
    ScaleDown,
    /// Its replacement because it does not start or is not ready.
    Replacement,
    /// Its update or restart in a rollout.
    Rollout,
    /// Its replacement because it served long enough.
    Recycling,
}

/// Which limit on provisioning delays creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProvisioningScope {
    /// That of the pool.
    Pool,
    /// That of this storage class over all pools. Empty for disks that name no class.
    StorageClass(Arc<str>),
}

/// A limit on provisioning that delays creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitedProvisioning {
    /// Which limit.
    pub scope: ProvisioningScope,
    /// How many machines may provision at the same time.
    pub limit: usize,
    /// How many do.
    pub provisioning: usize,
}

/// Names the limit, for users.
impl fmt::Display for LimitedProvisioning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, limit, provisioning } = self;
        let verb = if *provisioning == 1 { "has" } else { "have" };
        match scope {
            ProvisioningScope::Pool => write!(
                f,
                "maxProvisioning limits machines that have not been ready yet to {limit}, and {provisioning} {verb} \
                 not: the controller creates further machines as these become ready"
            ),
            ProvisioningScope::StorageClass(class) => {
                f.write_str("the controller limits machines that have not been ready yet ")?;
                match &**class {
                    "" => f.write_str("and whose disks name no storage class")?,
                    class => write!(f, "with disks of storage class {class}")?,
                }
                write!(
                    f,
                    " to {limit} over all pools, and {provisioning} {verb} not: the pool waits for its turn to \
                     create further machines"
                )
            }
        }
    }
}

/// Why the plan does not contain a step yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// The stage is in backoff after a failure.
    Backoff {
        /// The stage.
        stage: ApplyStage,
        /// The remaining delay.
        left: Duration,
    },
    /// A disk of an earlier machine with the same name is not deleted yet.
    TerminatingDisk {
        /// The machine that needs the name.
        machine: ObjectId,
        /// The disk.
        disk: Arc<str>,
    },
    /// The platform restores a disk, which is missing until then.
    RestoringDisk {
        /// The machine of the disk.
        machine: ObjectId,
        /// The disk.
        disk: Arc<str>,
    },
    /// A user must change something. The text says what.
    UserAction(String),
    /// A request has a reservation of a machine, and has neither accepted nor withdrawn it.
    Reservation {
        /// The machine.
        machine: Arc<str>,
    },
    /// The plan no longer needs an unconfirmed create, but the API server may still carry it out.
    UnconfirmedCreate {
        /// The machine that the API server may still create.
        name: Arc<str>,
    },
    /// A disk will become free soon, so the plan does not create another one.
    PendingDisk {
        /// The machine that needs a disk.
        machine: Arc<str>,
        /// The disk.
        disk: Arc<str>,
    },
    /// A machine drains.
    Drain {
        /// The machine.
        machine: Arc<str>,
        /// What waits.
        reason: DrainReason,
        /// The hooks that are not released.
        hooks: Vec<Arc<str>>,
        /// When the step is taken although they are not.
        deadline: Timestamp,
    },
    /// A machine is protected.
    Protection {
        /// The machine.
        machine: Arc<str>,
        /// What waits.
        step: ProtectedStep,
        /// When the protection ends; `None` if its annotation cannot be read.
        until: Option<Timestamp>,
    },
    /// More machines are unhealthy or being replaced than healing allows, so that it replaces no further one.
    TooManyUnhealthy {
        /// How many there are.
        affected: usize,
        /// How many healing allows.
        limit: usize,
    },
    /// A limit on provisioning delays creates.
    Provisioning(LimitedProvisioning),
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backoff { stage, left } => {
                write!(f, "stage {stage:?} is in backoff for {left:?} after a failure")
            }
            Self::TerminatingDisk { machine, disk } => {
                write!(f, "machine {machine} waits until disk {disk} of an earlier machine is deleted")
            }
            Self::RestoringDisk { machine, disk } => {
                write!(f, "machine {machine} waits until the platform has restored disk {disk}")
            }
            Self::UserAction(what) => f.write_str(what),
            Self::Provisioning(limited) => limited.fmt(f),
            Self::TooManyUnhealthy { affected, limit } => {
                let (machine, verb) = if *affected == 1 { ("machine", "is") } else { ("machines", "are") };
                write!(
                    f,
                    "{affected} {machine} {verb} unhealthy or being replaced, and maxUnhealthy allows {limit}: the \
                     controller replaces no further machine; find the common cause, such as a node, the network or the \
                     image"
                )
            }
            Self::Reservation { machine } => {
                write!(
                    f,
                    "machine {machine} is reserved by a targeted removal: no machine is created or deleted in its \
                     place"
                )
            }
            Self::PendingDisk { machine, disk } => {
                write!(f, "machine {machine} waits for disk {disk}, which will become free soon")
            }
            Self::Protection { machine, step, until } => {
                let what = match step {
                    ProtectedStep::ScaleDown => "deleted",
                    ProtectedStep::Replacement | ProtectedStep::Recycling => "replaced",
                    ProtectedStep::Rollout => "restarted or updated",
                };
                write!(f, "machine {machine} is not {what} while it is protected")?;
                until.map_or(Ok(()), |until| write!(f, ", until {}", timestamp_text(until)))
            }
            Self::Drain { machine, reason, hooks, deadline } => {
                write!(
                    f,
                    "machine {machine} drains before {}: it waits for {}, until {}",
                    reason.step(),
                    list_hooks(hooks),
                    timestamp_text(*deadline)
                )
            }
            Self::UnconfirmedCreate { name } => {
                write!(
                    f,
                    "the create of machine {name} is unconfirmed, and the API server may still carry it out"
                )
            }
        }
    }
}

/// The hooks, for a sentence: `hook agent`, or `hooks agent, backup`.
fn list_hooks(hooks: &[Arc<str>]) -> String {
    let word = if hooks.len() == 1 { "hook" } else { "hooks" };
    format!("{word} {}", hooks.join(", "))
}
