//! How machines get the instance type and the preference that their template names.

use serde_json::Value;
use vmpool_engine::limits;

/// The field of the spec of a pool, and of the content of a revision.
pub const FIELD: &str = "instancetypePolicy";

/// How machines get them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InstancetypePolicy {
    /// All machines of a revision name one copy.
    #[default]
    Pin,
    /// The controller writes them into the machines.
    Expand,
    /// KubeVirt makes a copy for each machine.
    PerMember,
}

impl InstancetypePolicy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Pin, Self::Expand, Self::PerMember];

    /// Its word in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pin => "Pin",
            Self::Expand => "Expand",
            Self::PerMember => "PerMember",
        }
    }

    /// The policy with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == word)
    }

    /// The policy of a pool with this annotation, which counts if the spec has none.
    pub fn of_pool(spec: &Value, annotation: Option<&str>) -> Self {
        let annotation = annotation.filter(|_| spec[FIELD].is_null()).and_then(Self::parse);
        annotation.unwrap_or_else(|| Self::of(spec))
    }

    /// The policy in the spec of a pool. A value that cannot be read counts as the default.
    pub fn of(spec: &Value) -> Self {
        spec[FIELD].as_str().and_then(Self::parse).unwrap_or_default()
    }
}

/// Why the policy of a pool cannot be read; `None` if it can. `source` is the name of the field or of the
/// annotation.
pub fn instancetype_policy_error(value: &Value, source: &str) -> Option<String> {
    let is_valid =
        value.is_null() || value.as_str().is_some_and(|word| InstancetypePolicy::parse(word).is_some());
    (!is_valid).then(|| {
        let value = limits::shorten_message(value.to_string());
        format!("{source} {value} is none of Pin, Expand and PerMember, so the controller uses Pin")
    })
}

/// Adds the policy in the annotation of a pool to its spec, unless the spec has one.
pub fn add_annotated_policy(spec: &mut Value, annotation: Option<&String>) {
    let Some(policy) = annotation.and_then(|word| InstancetypePolicy::parse(word)) else { return };
    if let Some(spec) = spec.as_object_mut()
        && spec.get(FIELD).is_none_or(Value::is_null)
    {
        spec.insert(FIELD.to_owned(), policy.as_str().into());
    }
}
