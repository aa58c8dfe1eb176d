//! The gates themselves.

use std::fmt;

/// How far a feature has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// May change or vanish in any release; off unless wanted. `AllAlpha` sets these.
    Alpha,
    /// Well tested; its details may still change. `AllBeta` sets these.
    Beta,
    /// Here to stay; the gate will go away.
    Ga,
    /// Will go away together with its gate.
    Deprecated,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Ga => "GA",
            Self::Deprecated => "DEPRECATED",
        })
    }
}

/// A feature that code asks for. Its gate says whether it is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Feature {
    /// Pools of virtual machines.
    VirtualMachinePool,
}

impl Feature {
    /// The name of its gate.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VirtualMachinePool => "VirtualMachinePool",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One gate with its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Its name in `--feature-gates`.
    pub name: &'static str,
    /// How far the feature has come.
    pub stage: Stage,
    /// Whether the feature is on when nobody says anything.
    pub default: bool,
    /// Whether the default cannot be changed.
    pub locked: bool,
    /// The version that brought the gate.
    pub since: &'static str,
    /// What the feature does, in one line without a full stop.
    pub description: &'static str,
}

/// The gates of vmpool with the attributes of the open build.
pub const KNOWN: &[Gate] = &[Gate {
    name: Feature::VirtualMachinePool.name(),
    stage: Stage::Alpha,
    default: false,
    locked: false,
    since: "0.1",
    description: "Pools of identical virtual machines: controller, admission and addressed removal",
}];
