//! One rule, and the rules that several platforms have.

use std::fmt;

/// The effect of breaking a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSeverity {
    /// The request is rejected, because a value is invalid.
    Invalid,
    /// The request is rejected, because a value is missing.
    Required,
    /// The request is rejected, because a value is valid but not supported.
    NotSupported,
    /// The request is rejected because the user is not permitted to send it.
    Forbidden,
    /// The request is allowed with a warning.
    Warning,
}

/// One rule of admission. Identifiers are unique within a platform, so rules are equal if their identifiers
/// are. The catalogue of a platform has the text of each rule.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRule {
    id: &'static str,
    severity: RuleSeverity,
}

impl AdmissionRule {
    /// Only the API server for removals and the controller write the removal record.
    pub const REMOVAL_RECORD: Self = Self::new("W12a", RuleSeverity::Forbidden);
    /// Under an explicit policy, only targeted removals lower the number of machines.
    pub const EXPLICIT_COUNT: Self = Self::new("W12", RuleSeverity::Forbidden);
    /// The same for the scale subresource.
    pub const SCALE_GUARD: Self = Self::new("S", RuleSeverity::Forbidden);
    /// The policy does not change from explicit while there are more machines than desired.
    pub const LEAVING_EXPLICIT: Self = Self::new("W16", RuleSeverity::Warning);
    /// The policy does not change to explicit while there are more machines than desired.
    pub const BECOMING_EXPLICIT: Self = Self::new("W23", RuleSeverity::Warning);
    /// The number of machines is not lowered to zero.
    pub const EMPTIED_POOL: Self = Self::new("W17", RuleSeverity::Warning);

    /// A rule with this identifier.
    pub const fn new(id: &'static str, severity: RuleSeverity) -> Self {
        Self { id, severity }
    }

    /// The identifier of the rule in messages and documentation.
    pub const fn id(self) -> &'static str {
        self.id
    }

    /// The effect of breaking the rule.
    pub const fn severity(self) -> RuleSeverity {
        self.severity
    }
}

impl PartialEq for AdmissionRule {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for AdmissionRule {}

impl fmt::Display for AdmissionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}
