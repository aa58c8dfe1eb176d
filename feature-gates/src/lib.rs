//! Kubernetes-style feature gates: stages, defaults, locks and the `--feature-gates` syntax.
//!
//! A [`Registry`] lists the gates that exist, with the attributes that this build or edition gives them;
//! [`FeatureGates`] is a registry with a user's wishes applied. This crate knows neither Kubernetes nor a flag parser,
//! but suits one: [`FeatureGates`] implements `FromStr`, and [`help_text`] describes the flag.
//!
//! ```
//! use vmpool_feature_gates::{Feature, FeatureGates, Registry};
//!
//! let gates = FeatureGates::parse(&Registry::known(), "VirtualMachinePool=true")?;
//! assert!(gates.enabled(Feature::VirtualMachinePool));
//! # Ok::<(), vmpool_feature_gates::ParseError>(())
//! ```

mod gate;
mod gates;
mod parse;
mod registry;
mod spelling;

pub use gate::{Feature, Gate, KNOWN, Stage};
pub use gates::FeatureGates;
pub use parse::ParseError;
pub use registry::Registry;

/// What `--help` says about the flag of this build: its syntax, then each gate with stage and default.
///
/// Attributes that this build cannot apply are left out here; [`FeatureGates::from_str`](std::str::FromStr) reports them.
pub fn help_text() -> String {
    Registry::of_this_build().unwrap_or_else(|_| Registry::known()).help_text()
}

#[cfg(test)]
mod tests;
