//! The steps of a simulation.

use super::controller::RequestDelivery;
use super::disk_steps::DiskStep;

/// Maximum number of requests of a failed leader in flight.
const IN_FLIGHT: usize = 3;

/// One step. The argument selects an object. A step without a suitable object has no effect.
#[derive(Clone, Copy, Debug)]
pub(super) enum SimulationStep {
    Pass,
    Act(RequestDelivery),
    WatchMachines(usize),
    WatchDisks(usize),
    Land(usize),
    Crash(usize),
    /// The watch of machines shows no more events until the next list.
    Hang,
    Relist,
    Scale(usize),
    Policy(usize),
    Quota(usize),
    DeleteByHand(usize),
    Disown(usize),
    Unlabel(usize),
    LoseDisk(usize),
    GrabDiskName(usize),
    Toggle(usize),
    Finish(usize),
    Collect,
    /// A client starts a targeted removal.
    Call(usize),
    /// A client of a targeted removal takes its next step.
    RemovalClient(usize),
    /// A client of a targeted removal exits.
    RemovalClientExits(usize),
    /// A user protects a machine, or takes the protection off.
    Protect(usize),
    /// The owner of a hook acts on a machine.
    Hook(usize),
    Wait(usize),
    /// An administrator creates or deletes policies that take the owner from created objects.
    Policies(usize),
    /// A client takes the owner from all machines of the pool.
    TakeAll,
    /// A user changes the number and the warm-up of standby machines.
    Standby(usize),
    /// A user limits provisioning to this number of machines; 0 for no limit.
    Limit(usize),
    /// The guest or the node of a machine fails, as the platform reports it.
    Fail(usize),
    /// A user turns healing on or off.
    Heal(bool),
    /// A step about the replacement of machines.
    Recycle(usize),
    /// A step on retained disks.
    Disk(DiskStep),
}

impl SimulationStep {
    /// Decodes a step from a random number: its kind from the remainder, its argument from the quotient.
    pub(super) fn from_number(number: u32) -> Self {
        Self::of(number % 120, usize::try_from(number / 120).expect("small"))
    }

    /// The same, with changes of the limit on provisioning.
    pub(super) fn from_number_with_limits(number: u32) -> Self {
        let (kind, argument) = (number % 124, usize::try_from(number / 124).expect("small"));
        match kind.checked_sub(120) {
            Some(_) => Self::Limit(argument % 5),
            None => Self::of(kind, argument),
        }
    }

    /// The same, with changes of the standby machines.
    pub(super) fn from_number_with_standby(number: u32) -> Self {
        let (kind, argument) = (number % 124, usize::try_from(number / 124).expect("small"));
        match kind.checked_sub(120) {
            Some(_) => Self::Standby(argument),
            None => Self::of(kind, argument),
        }
    }

    /// The same, with changes of healing, and more machines that stop to be ready.
    pub(super) fn from_number_with_healing(number: u32) -> Self {
        let (kind, argument) = (number % 128, usize::try_from(number / 128).expect("small"));
        match kind.checked_sub(120) {
            Some(0) => Self::Heal(!argument.is_multiple_of(4)),
            Some(1..=3) => Self::Fail(argument),
            Some(_) => Self::Toggle(argument),
            None => Self::of(kind, argument),
        }
    }

    /// The same, with owners of hooks.
    pub(super) fn from_number_with_hooks(number: u32) -> Self {
        let (kind, argument) = (number % 134, usize::try_from(number / 134).expect("small"));
        match kind.checked_sub(120) {
            Some(_) => Self::Hook(argument),
            None => Self::of(kind, argument),
        }
    }

    /// The same, with replacements of machines and owners of hooks.
    pub(super) fn from_number_with_recycling(number: u32) -> Self {
        let (kind, argument) = (number % 138, usize::try_from(number / 138).expect("small"));
        match kind.checked_sub(120) {
            Some(kind) if kind < 6 => Self::Recycle(argument),
            Some(_) => Self::Hook(argument),
            None => Self::of(kind, argument),
        }
    }

    /// The same, including steps on retained disks.
    pub(super) fn from_number_with_disks(number: u32) -> Self {
        let (kind, argument) = (number % 145, usize::try_from(number / 145).expect("small"));
        match kind.checked_sub(120) {
            Some(kind) => Self::Disk(DiskStep::from_number(kind, argument)),
            None => Self::of(kind, argument),
        }
    }

    fn of(kind: u32, argument: usize) -> Self {
        match kind {
            0..=9 => Self::Pass,
            10..=44 => Self::Act(RequestDelivery::Answered),
            45..=47 => Self::Act(RequestDelivery::AnswerLost),
            48..=49 => Self::Act(RequestDelivery::RequestLost),
            50..=52 => Self::Act(RequestDelivery::Late),
            53..=60 => Self::WatchMachines(1 + argument % 8),
            61..=65 => Self::WatchDisks(1 + argument % 8),
            66..=68 => Self::Land(argument),
            69 => Self::Crash(argument % (IN_FLIGHT + 1)),
            70 if argument.is_multiple_of(3) => Self::Hang,
            70 => Self::Relist,
            71..=74 => Self::Scale(argument % 9),
            75 => Self::Policy(argument),
            76 => Self::Quota(argument % 12),
            77..=78 => Self::DeleteByHand(argument),
            79 => Self::Disown(argument),
            80 => Self::Unlabel(argument),
            81 => Self::LoseDisk(argument),
            82 => Self::GrabDiskName(argument % 32),
            83..=85 => Self::Toggle(argument),
            86..=90 => Self::Finish(argument),
            91..=93 => Self::Collect,
            94..=97 => Self::Call(argument),
            98..=112 => Self::RemovalClient(argument),
            113 => Self::RemovalClientExits(argument),
            114 => Self::Protect(argument),
            115 if argument.is_multiple_of(4) => Self::Policies(argument / 4),
            116 if argument.is_multiple_of(8) => Self::TakeAll,
            _ => Self::Wait(argument % 40),
        }
    }
}
