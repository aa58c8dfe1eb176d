//! How the vCPUs of an instance type are divided into sockets, cores and threads.

use crate::fields::StatusCause;
use crate::model::PreferenceSpec;

#[cfg(test)]
mod tests;

/// The field that errors about divisibility name.
const GUEST: &str = "instancetype.spec.cpu.guest";

/// The ratio of a spread if the preference sets none.
const DEFAULT_RATIO: u32 = 2;

/// The dimensions over which vCPUs are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Across {
    /// Sockets and cores. The default.
    SocketsCores,
    /// Cores and threads.
    CoresThreads,
    /// All three.
    SocketsCoresThreads,
}

/// Where vCPUs go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// All are sockets. The default.
    Sockets,
    /// All are cores.
    Cores,
    /// All are threads.
    Threads,
    /// They are divided in a fixed ratio.
    Spread {
        /// The dimensions.
        across: Across,
        /// Cores per socket. Threads are always two per core.
        ratio: u32,
    },
    /// The preference accepts any; an instance type is applied as sockets.
    Any,
}

/// Why the vCPUs cannot be laid out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// The preference names a topology that does not exist.
    #[error("unknown topology {0:?}; use sockets, cores, threads, spread or any")]
    UnknownTopology(String),
    /// The preference spreads over dimensions that do not exist.
    #[error("unknown spread {0:?}; use SocketsCores, CoresThreads or SocketsCoresThreads")]
    UnknownAcross(String),
    /// The ratio of the spread is zero.
    #[error("the ratio of the spread must be at least 1")]
    ZeroRatio,
    /// Cores and threads have a ratio other than 2.
    #[error("the ratio of a spread over CoresThreads must be 2, not {0}")]
    ThreadsRatio(u32),
    /// The vCPUs cannot be divided evenly.
    #[error(
        "the instance type has {guest} vCPUs, which is not a multiple of {divisor} as the spread of the preference requires"
    )]
    Indivisible {
        /// The number of vCPUs.
        guest: u32,
        /// What it must be divisible by.
        divisor: u64,
    },
}

impl TopologyError {
    /// The error as a cause for the machine that uses instance type and preference.
    pub fn cause(&self) -> StatusCause {
        StatusCause::invalid(GUEST, self.to_string())
    }

    /// The field of the preference that is wrong; `None` if only the number of vCPUs is.
    pub fn preference_field(&self) -> Option<&'static str> {
        match self {
            Self::UnknownTopology(_) => Some("cpu.preferredCPUTopology"),
            Self::UnknownAcross(_) => Some("cpu.spreadOptions.across"),
            Self::ZeroRatio | Self::ThreadsRatio(_) => Some("cpu.spreadOptions.ratio"),
            Self::Indivisible { .. } => None,
        }
    }
}

/// A number of sockets, of cores per socket, and of threads per core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Sockets.
    pub sockets: u32,
    /// Cores per socket.
    pub cores: u32,
    /// Threads per core.
    pub threads: u32,
}

impl Topology {
    /// The effective topology of a preference. The spread options are examined only if the topology is
    /// `spread`.
    ///
    /// # Errors
    /// The topology or the spread options are not valid.
    pub fn preferred(preference: Option<&PreferenceSpec>) -> Result<Self, TopologyError> {
        let Some(cpu) = preference.map(|preference| &preference.cpu) else { return Ok(Self::Sockets) };
        let Some(topology) = cpu.topology.as_deref() else { return Ok(Self::Sockets) };
        match current_topology_name(topology).unwrap_or(topology) {
            "sockets" => return Ok(Self::Sockets),
            "cores" => return Ok(Self::Cores),
            "threads" => return Ok(Self::Threads),
            "any" => return Ok(Self::Any),
            "spread" => {}
            _ => return Err(TopologyError::UnknownTopology(topology.to_owned())),
        }
        let across = match cpu.spread_across.as_deref() {
            None | Some("SocketsCores") => Across::SocketsCores,
            Some("CoresThreads") => Across::CoresThreads,
            Some("SocketsCoresThreads") => Across::SocketsCoresThreads,
            Some(other) => return Err(TopologyError::UnknownAcross(other.to_owned())),
        };
        match (across, cpu.spread_ratio.or(cpu.socket_to_core_ratio).unwrap_or(DEFAULT_RATIO)) {
            (_, 0) => Err(TopologyError::ZeroRatio),
            (Across::CoresThreads, ratio) if ratio != 2 => Err(TopologyError::ThreadsRatio(ratio)),
            (across, ratio) => Ok(Self::Spread { across, ratio }),
        }
    }

    /// Checks that this number of vCPUs can be spread evenly. Other topologies accept every number.
    ///
    /// # Errors
    /// [`TopologyError::Indivisible`].
    pub fn check(self, guest: u32) -> Result<(), TopologyError> {
        let Self::Spread { across, ratio } = self else { return Ok(()) };
        let divisor = match across {
            Across::SocketsCores | Across::CoresThreads => u64::from(ratio),
            Across::SocketsCoresThreads => 2 * u64::from(ratio),
        };
        if u64::from(guest).is_multiple_of(divisor) {
            Ok(())
        } else {
            Err(TopologyError::Indivisible { guest, divisor })
        }
    }

    /// The layout of this number of vCPUs. If [`check`](Self::check) accepts the number, the product of the
    /// three is the number.
    pub fn layout(self, guest: u32) -> Layout {
        let one = Layout { sockets: 1, cores: 1, threads: 1 };
        if guest == 1 {
            return one;
        }
        match self {
            Self::Sockets | Self::Any => Layout { sockets: guest, ..one },
            Self::Cores => Layout { cores: guest, ..one },
            Self::Threads => Layout { threads: guest, ..one },
            Self::Spread { across: Across::SocketsCores, ratio } => {
                Layout { cores: ratio, sockets: guest / ratio, ..one }
            }
            Self::Spread { across: Across::CoresThreads, .. } => {
                Layout { threads: 2, cores: guest / 2, ..one }
            }
            Self::Spread { across: Across::SocketsCoresThreads, ratio } => {
                Layout { threads: 2, cores: ratio, sockets: guest / 2 / ratio }
            }
        }
    }
}

/// The current name of a topology that is written with its old name.
pub(crate) fn current_topology_name(topology: &str) -> Option<&'static str> {
    Some(match topology {
        "preferSockets" => "sockets",
        "preferCores" => "cores",
        "preferThreads" => "threads",
        "preferSpread" => "spread",
        "preferAny" => "any",
        _ => return None,
    })
}
