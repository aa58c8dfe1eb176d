//! A rule, and the rules that every platform has.

use std::fmt;

/// What happens to a request that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The API server rejects it as invalid.
    Invalid,
    /// The API server rejects it, because its user is not allowed to send it.
    Forbidden,
    /// The API server accepts it, and the user gets a warning.
    Warning,
}

/// One rule of admission.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    id: &'static str,
    severity: Severity,
    check: &'static str,
}

impl Rule {
    /// Only the removal of named machines may write the removal record.
    pub const REMOVAL_RECORD: Self = Self::new(
        "W12a",
        Severity::Forbidden,
        "Only the API server for removals and the controller write the removal record",
    );
    /// Under an explicit policy, only targeted removal may reduce the number of machines.
    pub const EXPLICIT_COUNT: Self = Self::new(
        "W12",
        Severity::Forbidden,
        "Under scaleDownPolicy Explicit, only targeted removals lower replicas",
    );
    /// The same for the scale subresource.
    pub const SCALE_GUARD: Self = Self::new(
        "S",
        Severity::Forbidden,
        "The same for the scale subresource, which autoscalers and kubectl scale use",
    );
    /// An explicit policy is given up while machines exceed the wanted number.
    pub const LEAVING_EXPLICIT: Self = Self::new(
        "W16",
        Severity::Warning,
        "scaleDownPolicy does not change from Explicit while there are more machines than replicas",
    );
    /// The number of machines is reduced to zero.
    pub const EMPTIED_POOL: Self = Self::new("W17", Severity::Warning, "replicas does not go to zero");

    /// A rule. `check` is a sentence without its full stop.
    pub const fn new(id: &'static str, severity: Severity, check: &'static str) -> Self {
        Self { id, severity, check }
    }

    /// The name of the rule in messages and in the documentation, unique within a platform.
    pub const fn id(self) -> &'static str {
        self.id
    }

    /// What happens to a request that breaks it.
    pub const fn severity(self) -> Severity {
        self.severity
    }

    /// What the rule demands, a sentence without its full stop.
    pub const fn check(self) -> &'static str {
        self.check
    }
}

/// The id identifies a rule.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Rule {}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}
