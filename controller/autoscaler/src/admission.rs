//! The rules of admission for autoscalers that the schema cannot express.

use vmpool_api::autoscaler::{PoolAutoscaler, PoolAutoscalerSpec};

use crate::read::{FieldError, find_field_problems};

macro_rules! rules {
    ($($name:ident $id:literal $text:literal;)+) => {
        /// A rule about autoscalers. A request that breaks one is rejected.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum AutoscalerRule {
            $(#[doc = $text] $name,)+
        }

        impl AutoscalerRule {
            /// All rules.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The identifier in messages and documentation.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id),+ }
            }

            /// The rule as a sentence.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }
        }
    };
}

rules! {
    Numbers "S1" "The limits of an autoscaler and its number of free machines can be read";
    Durations "S2" "The delay of an autoscaler and the durations of its schedules can be read";
    Start "S3" "The start of a schedule is a cron expression with five fields, and comes";
    TimeZone "S4" "The time zone of a schedule is in the IANA time zone database";
}

impl AutoscalerRule {
    fn of(error: &FieldError) -> Self {
        match error {
            FieldError::Free | FieldError::Number => Self::Numbers,
            FieldError::Delay | FieldError::Duration => Self::Durations,
            FieldError::Start(_) => Self::Start,
            FieldError::TimeZone => Self::TimeZone,
        }
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoscalerFinding {
    /// The rule.
    pub rule: AutoscalerRule,
    /// Path of the field in the object.
    pub field: String,
    /// Why the value is refused.
    pub reason: String,
}

/// Reviews a new autoscaler, or the change of one. A value that was stored before is not reviewed again, so
/// that a user can change the others.
pub fn review_autoscaler(old: Option<&PoolAutoscaler>, new: &PoolAutoscaler) -> Vec<AutoscalerFinding> {
    let known = old.map(|old| find_field_problems(&old.spec)).unwrap_or_default();
    let is_unchanged = old.is_some_and(|old| has_same_values(&old.spec, &new.spec));
    let problems = find_field_problems(&new.spec).into_iter();
    problems
        .filter(|problem| !(is_unchanged && known.contains(problem)))
        .map(|problem| AutoscalerFinding {
            rule: AutoscalerRule::of(&problem.error),
            reason: problem.error.to_string(),
            field: problem.field,
        })
        .collect()
}

/// Whether only whether the autoscaler is paused differs.
fn has_same_values(old: &PoolAutoscalerSpec, new: &PoolAutoscalerSpec) -> bool {
    PoolAutoscalerSpec { paused: new.paused, ..old.clone() } == *new
}

#[cfg(test)]
mod tests;
