//! The catalogue of rules of a platform: their names, their effects and the requests that they apply to.

/// The requests that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleScope {
    /// Every create and every update, before any rule that allows a request.
    Always,
    /// Creates.
    Create,
    /// Updates that change the spec.
    Update,
    /// Creates, and updates that change the machine template.
    Template,
    /// Creates, and updates that change which disks are attached.
    Devices,
    /// For each disk template: creates, and updates that change that entry.
    DiskTemplate,
    /// Creates, and updates that change the part in question.
    Part,
    /// Creates, and updates that change the setting of the rollout, as a field or an annotation.
    Rollout,
    /// Updates of the scale subresource.
    Scale,
}

impl RuleScope {
    /// The text for the documentation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "every request",
            Self::Create => "create",
            Self::Update => "update of the spec",
            Self::Template => "create, changed machine template",
            Self::Devices => "create, changed names of disks",
            Self::DiskTemplate => "create, changed disk template",
            Self::Part => "create, changed part",
            Self::Rollout => "create, changed setting of the rollout",
            Self::Scale => "scale",
        }
    }
}

/// Defines the rules of a platform, in the order of the documentation.
#[macro_export]
macro_rules! rules {
    ($($name:ident $id:literal $severity:ident $scope:ident $check:literal;)+) => {
        /// A rule about pools. The order is the order in the documentation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $check] $name,)+
        }

        impl Rule {
            /// All rules.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The identifier of the rule in messages and documentation.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id),+ }
            }

            /// The effect of breaking the rule.
            pub const fn severity(self) -> vmpool_engine::admission::RuleSeverity {
                match self { $(Self::$name => vmpool_engine::admission::RuleSeverity::$severity),+ }
            }

            /// The requests that it applies to.
            pub const fn scope(self) -> $crate::rule_catalogue::RuleScope {
                match self { $(Self::$name => $crate::rule_catalogue::RuleScope::$scope),+ }
            }

            /// The rule as a sentence without a full stop.
            pub const fn check(self) -> &'static str {
                match self { $(Self::$name => $check),+ }
            }
        }

        impl std::fmt::Display for Rule {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.id())
            }
        }

        impl From<Rule> for vmpool_engine::admission::AdmissionRule {
            fn from(rule: Rule) -> Self {
                Self::new(rule.id(), rule.severity())
            }
        }

        impl PartialEq<Rule> for vmpool_engine::admission::AdmissionRule {
            fn eq(&self, other: &Rule) -> bool {
                *self == Self::from(*other)
            }
        }
    };
}
