//! Kubernetes-style feature gates: stages, defaults, locks and the `--feature-gates` syntax.
//!
//! A [`GateRegistry`] lists the existing gates with the attributes that this build or edition gives them.
//! [`FeatureGates`] is a registry with the user's settings applied. The crate depends neither on Kubernetes
//! nor on a flag parser, but works with any parser: [`FeatureGates`] implements `FromStr`, and [`help_text`]
//! describes the flag.
//!
//! ```
//! use vmpool_feature_gates::{Feature, FeatureGates, GateRegistry};
//!
//! let gates = FeatureGates::parse(&GateRegistry::known(), "VirtualMachinePool=true")?;
//! assert!(gates.enabled(Feature::VirtualMachinePool));
//! # Ok::<(), vmpool_feature_gates::GateParseError>(())
//! ```

mod gate;
mod gates;
mod parse;
mod registry;
mod spelling;

pub use gate::{Feature, FeatureStage, Gate, KNOWN};
pub use gates::FeatureGates;
pub use parse::GateParseError;
pub use registry::GateRegistry;

/// The `--help` text of the flag in this build: its syntax, then each gate with stage and default.
///
/// Invalid build attributes are ignored here; [`FeatureGates::from_str`](std::str::FromStr) reports them.
pub fn help_text() -> String {
    GateRegistry::of_this_build().unwrap_or_else(|_| GateRegistry::known()).help_text()
}

#[cfg(test)]
mod tests;
