//! The values of all gates in one process.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::gate::{Feature, FeatureStage};
use crate::parse::{self, GROUPS, GateParseError};
use crate::registry::GateRegistry;

/// A registry with the user's settings applied. It does not change while the process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureGates {
    registry: GateRegistry,
    /// One entry for every gate of the registry.
    enabled: BTreeMap<&'static str, bool>,
}

impl FeatureGates {
    /// Every gate of `registry` at its default.
    pub fn defaults(registry: &GateRegistry) -> Self {
        let enabled = registry.gates().iter().map(|gate| (gate.name, gate.default)).collect();
        Self { registry: registry.clone(), enabled }
    }

    /// Reads `A=true,B=false` over the defaults of `registry`.
    ///
    /// As in Kubernetes, the last of several values for one gate takes effect. `AllAlpha` and `AllBeta` set
    /// all gates of their stage that are not set individually, regardless of the order, and skip locked
    /// gates. A locked gate may be set to the value to which it is locked.
    ///
    /// # Errors
    /// [`GateParseError`], whose message says what to write instead.
    pub fn parse(registry: &GateRegistry, text: &str) -> Result<Self, GateParseError> {
        let mut groups: BTreeMap<&str, bool> = BTreeMap::new();
        let mut named: BTreeMap<&'static str, bool> = BTreeMap::new();
        for (name, value) in parse::parse_gate_entries(text) {
            let group = GROUPS.iter().find(|(group, _)| *group == name);
            let gate = registry.get(name);
            if group.is_none() && gate.is_none() {
                return Err(registry.unknown(name));
            }
            let value = value.ok_or_else(|| GateParseError::MissingValue { gate: name.to_owned() })?;
            let value = parse::parse_gate_value(name, value)?;
            if let Some((group, _)) = group {
                groups.insert(group, value);
            }
            if let Some(gate) = gate {
                named.insert(gate.name, value);
            }
        }
        let mut gates = Self::defaults(registry);
        for gate in registry.gates() {
            let group =
                GROUPS.iter().find(|(_, stage)| *stage == gate.stage).and_then(|(name, _)| groups.get(name));
            let value = match named.get(gate.name) {
                Some(value) if gate.locked && *value != gate.default => {
                    return Err(GateParseError::Locked { gate: gate.name, locked_to: gate.default });
                }
                Some(value) => *value,
                None if gate.locked => gate.default,
                None => group.copied().unwrap_or(gate.default),
            };
            gates.enabled.insert(gate.name, value);
        }
        Ok(gates)
    }

    /// Whether `feature` is on; off if its gate is not in the registry.
    pub fn enabled(&self, feature: Feature) -> bool {
        self.enabled_by_name(feature.name()).unwrap_or(false)
    }

    /// Whether the gate of this name is on; `None` if there is no such gate.
    pub fn enabled_by_name(&self, name: &str) -> Option<bool> {
        self.enabled.get(name).copied()
    }

    /// Warnings to log at startup about gates that will be removed.
    pub fn warnings(&self) -> Vec<String> {
        let set = self.registry.gates().iter().filter(|gate| self.enabled[gate.name] != gate.default);
        set.filter_map(|gate| match gate.stage {
            FeatureStage::Ga => {
                Some(format!("feature gate `{}` is GA and will go away; do not set it", gate.name))
            }
            FeatureStage::Deprecated => {
                Some(format!("feature gate `{}` is deprecated and will go away", gate.name))
            }
            FeatureStage::Alpha | FeatureStage::Beta => None,
        })
        .collect()
    }
}

/// The defaults of this build, or those of the open build if the build attributes are invalid.
impl Default for FeatureGates {
    fn default() -> Self {
        Self::defaults(&GateRegistry::of_this_build().unwrap_or_else(|_| GateRegistry::known()))
    }
}

/// Parses a value of `--feature-gates` with the gates of this build.
impl FromStr for FeatureGates {
    type Err = GateParseError;

    fn from_str(text: &str) -> Result<Self, GateParseError> {
        Self::parse(&GateRegistry::of_this_build()?, text)
    }
}

/// Every gate with its value, in the syntax of the flag.
impl fmt::Display for FeatureGates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, enabled)) in self.enabled.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{name}={enabled}")?;
        }
        Ok(())
    }
}
