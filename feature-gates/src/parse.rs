//! The syntax `A=true,B=false`, as Kubernetes components read it.

use crate::gate::FeatureStage;

/// Names that set all gates of a stage.
pub(crate) const GROUPS: [(&str, FeatureStage); 2] =
    [("AllAlpha", FeatureStage::Alpha), ("AllBeta", FeatureStage::Beta)];

/// Why a value of `--feature-gates` is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateParseError {
    /// No gate has this name.
    #[error("unknown feature gate `{gate}`{}; known gates: {known}", nearest_name_hint(*nearest))]
    Unknown {
        /// The name.
        gate: String,
        /// The known gate with the most similar name, if it is similar enough.
        nearest: Option<&'static str>,
        /// All names, separated by commas.
        known: String,
    },
    /// The gate is locked to the opposite value.
    #[error("feature gate `{gate}` is locked to {locked_to} in this build and cannot be set to {}", !locked_to)]
    Locked {
        /// The name.
        gate: &'static str,
        /// The value to which it is locked.
        locked_to: bool,
    },
    /// The value is not a bool.
    #[error("feature gate `{gate}` has the value `{value}`: write {gate}=true or {gate}=false")]
    NotABool {
        /// The name.
        gate: String,
        /// The value.
        value: String,
    },
    /// There is no value.
    #[error("feature gate `{gate}` has no value: write {gate}=true or {gate}=false")]
    MissingValue {
        /// The name.
        gate: String,
    },
}

fn nearest_name_hint(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(", did you mean `{name}`?")).unwrap_or_default()
}

/// The names in `text` with the values after `=`. Blank entries, such as after a trailing comma, are skipped.
pub(crate) fn parse_gate_entries(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(|entry| {
        match entry.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (entry, None),
        }
    })
}

/// Parses a bool in all spellings that Kubernetes accepts.
pub(crate) fn parse_gate_value(gate: &str, value: &str) -> Result<bool, GateParseError> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(GateParseError::NotABool { gate: gate.to_owned(), value: value.to_owned() }),
    }
}
