//! Reading the conditions of an object, and the types and reasons of the conditions that vmpool publishes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

pub mod autoscaler;
pub mod image;
pub mod pool;
#[cfg(test)]
mod tests;
pub mod wrapper;

/// One condition, whatever type represents it.
///
/// Kubernetes' own type has all fields. The type of KubeVirt,
/// [`kubevirt::Condition`](crate::kubevirt::Condition), can lack a reason, a message and a generation.
pub trait ConditionFields {
    /// What the condition describes, for example [`pool::AVAILABLE`].
    fn condition_type(&self) -> &str;

    /// `True`, `False` or `Unknown`.
    fn status(&self) -> &str;

    /// Why the condition has this status, one CamelCase word for programs. An absent reason is `None`.
    fn reason(&self) -> Option<&str>;

    /// The same as a sentence for users. An absent message is `None`.
    fn message(&self) -> Option<&str>;

    /// The `metadata.generation` of the object for which the condition was computed.
    fn observed_generation(&self) -> Option<i64>;
}

/// Implements [`Conditions`] for kinds with this type of conditions in their status.
macro_rules! conditions_of {
    ($condition:ty: $($kind:ty),+ $(,)?) => {$(
        impl $crate::conditions::Conditions for $kind {
            type Condition = $condition;

            fn conditions(&self) -> &[$condition] {
                self.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
            }
        }
    )+};
}
pub(crate) use conditions_of;

impl ConditionFields for Condition {
    fn condition_type(&self) -> &str {
        &self.type_
    }

    fn status(&self) -> &str {
        &self.status
    }

    fn reason(&self) -> Option<&str> {
        Some(&self.reason)
    }

    fn message(&self) -> Option<&str> {
        Some(&self.message)
    }

    fn observed_generation(&self) -> Option<i64> {
        self.observed_generation
    }
}

/// An object that reports conditions: a kind of DVP, of KubeVirt, or a disk image.
pub trait Conditions {
    /// The type of its conditions: that of Kubernetes, or that of KubeVirt.
    type Condition: ConditionFields;

    /// The conditions; empty if there is no status.
    fn conditions(&self) -> &[Self::Condition];

    /// The condition of this type.
    fn condition(&self, type_: &str) -> Option<&Self::Condition> {
        find_condition(self.conditions(), type_)
    }

    /// Whether the condition of this type exists and is True.
    fn has_condition(&self, type_: &str) -> bool {
        is_true(self.conditions(), type_)
    }
}

/// The condition of this type.
pub fn find_condition<'a, C: ConditionFields>(conditions: &'a [C], type_: &str) -> Option<&'a C> {
    conditions.iter().find(|condition| condition.condition_type() == type_)
}

/// Whether the condition of this type exists and is True. Missing and Unknown are not true.
pub fn is_true<C: ConditionFields>(conditions: &[C], type_: &str) -> bool {
    find_condition(conditions, type_).is_some_and(|condition| condition.status() == "True")
}
