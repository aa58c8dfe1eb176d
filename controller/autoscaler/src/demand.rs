//! How many machines the demand needs.

/// How many machines stay free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeMachines {
    /// A number of machines.
    Machines(u32),
    /// A percentage of the busy machines, rounded up, at least one machine.
    Percent(u16),
}

impl FreeMachines {
    /// The number for this many busy machines.
    pub fn count(self, busy: u32) -> u32 {
        match self {
            Self::Machines(machines) => machines,
            Self::Percent(percent) => {
                let share = (u64::from(busy) * u64::from(percent)).div_ceil(100);
                u32::try_from(share).unwrap_or(u32::MAX).max(1)
            }
        }
    }
}

/// What the machines and the claims of a pool need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Number of protected machines that do not drain.
    pub busy: u32,
    /// Number of claims that wait for a machine.
    pub waiting: u32,
}
