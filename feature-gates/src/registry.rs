//! The existing gates, and which of them users can change in this build or edition.

use std::fmt::Write as _;

use crate::gate::{Feature, Gate, KNOWN};
use crate::parse::{self, GateParseError};

/// Environment variable that changes attributes of gates when this crate is compiled.
/// [`GateRegistry::with_attributes`] documents its syntax.
const BUILD_ATTRIBUTES: Option<&str> = option_env!("VMPOOL_GATE_ATTRIBUTES");

/// The suffix that locks a gate to its value.
const LOCK: &str = ":locked";

/// A set of gates with distinct names, in alphabetical order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateRegistry {
    gates: Vec<Gate>,
}

impl GateRegistry {
    /// The gates of vmpool with the attributes of the open build.
    pub fn known() -> Self {
        Self::new(KNOWN.iter().copied())
    }

    /// The gates of vmpool with the attributes from `VMPOOL_GATE_ATTRIBUTES`, read when this crate is
    /// compiled.
    ///
    /// # Errors
    /// [`GateParseError`] if those attributes are invalid. Such a build must report the error at startup.
    pub fn of_this_build() -> Result<Self, GateParseError> {
        Self::known().with_attributes(BUILD_ATTRIBUTES.unwrap_or_default())
    }

    /// A registry of `gates`. If two gates have the same name, the last one is used.
    pub fn new(gates: impl IntoIterator<Item = Gate>) -> Self {
        let mut registry = Self { gates: Vec::new() };
        for gate in gates {
            match registry.gates.binary_search_by_key(&gate.name, |gate| gate.name) {
                Ok(same) => registry.gates[same] = gate,
                Err(place) => registry.gates.insert(place, gate),
            }
        }
        registry
    }

    /// The same gates, with this default and lock for `feature`.
    #[must_use]
    pub fn with(mut self, feature: Feature, default: bool, locked: bool) -> Self {
        for gate in self.gates.iter_mut().filter(|gate| gate.name == feature.name()) {
            (gate.default, gate.locked) = (default, locked);
        }
        self
    }

    /// The same gates with the attributes in `text`, separated by commas. `Name=true` or `Name=false` sets a
    /// default that users may change; `Name=true:locked` or `Name=false:locked` also locks the gate.
    ///
    /// # Errors
    /// [`GateParseError`] for an unknown gate or an invalid value. Existing locks are ignored.
    pub fn with_attributes(mut self, text: &str) -> Result<Self, GateParseError> {
        for (name, value) in parse::parse_gate_entries(text) {
            let value = value.ok_or_else(|| GateParseError::MissingValue { gate: name.to_owned() })?;
            let (value, locked) = value.strip_suffix(LOCK).map_or((value, false), |value| (value, true));
            let default = parse::parse_gate_value(name, value)?;
            match self.gates.iter_mut().find(|gate| gate.name == name) {
                Some(gate) => (gate.default, gate.locked) = (default, locked),
                None => return Err(self.unknown(name)),
            }
        }
        Ok(self)
    }

    /// All gates, in alphabetical order.
    pub fn gates(&self) -> &[Gate] {
        &self.gates
    }

    /// The gate of this name.
    pub fn get(&self, name: &str) -> Option<&Gate> {
        self.gates.iter().find(|gate| gate.name == name)
    }

    /// The `--help` text of the flag: its syntax, then each gate with stage, default and description.
    pub fn help_text(&self) -> String {
        let mut text = String::from(
            "Features to turn on or off, as in `A=true,B=false`. AllAlpha and AllBeta set every gate of that stage that \
             is neither named nor locked. Gates:",
        );
        for Gate { name, stage, default, locked, since, description } in &self.gates {
            let state = if *locked { "locked to" } else { "default" };
            // Writing to a String cannot fail.
            let _ = write!(text, "\n  {name} ({stage} since {since}, {state} {default}): {description}");
        }
        text
    }

    pub(crate) fn unknown(&self, name: &str) -> GateParseError {
        let names: Vec<_> = parse::GROUPS.iter().map(|(group, _)| *group).chain(self.names()).collect();
        GateParseError::Unknown {
            gate: name.to_owned(),
            nearest: crate::spelling::nearest_name(name, &names),
            known: names.join(", "),
        }
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.gates.iter().map(|gate| gate.name)
    }
}
