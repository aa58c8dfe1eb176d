//! The sizing policies of a class.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use vmpool_api::Quantity;

use super::view::json_at_path;

/// The annotation that makes a class the default of the cluster.
const DEFAULT_CLASS: &str = "virtualmachineclass.virtualization.deckhouse.io/is-default-class";

/// The sizing policies of a VirtualMachineClass.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineClass {
    pub(super) name: String,
    /// The error, if the policies could not be parsed.
    pub(super) policies: Result<Vec<SizingPolicy>, SizingPoliciesError>,
}

/// Why sizing policies cannot be parsed. It holds the text instead of the error, because facts are copied and
/// compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct SizingPoliciesError(String);

impl MachineClass {
    /// Reads a stored class. If its policies cannot be parsed, it does not limit sizes.
    pub fn read(object: &Value) -> Self {
        let name = json_at_path(object, &["metadata", "name"]).as_str().unwrap_or_default().to_owned();
        let policies =
            Option::<Vec<SizingPolicy>>::deserialize(json_at_path(object, &["spec", "sizingPolicies"]));
        let policies =
            policies.map(Option::unwrap_or_default).map_err(|error| SizingPoliciesError(error.to_string()));
        Self { name, policies }
    }
}

/// The default class among all classes of the cluster.
pub fn default_class(classes: &[Value]) -> Option<&Value> {
    classes.iter().find(|class| json_at_path(class, &["metadata", "annotations", DEFAULT_CLASS]) == "true")
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SizingPolicy {
    pub(super) cores: CorePolicy,
    pub(super) memory: Option<MemoryPolicy>,
    /// Allowed percentages. Without a list, all are allowed.
    #[serde(default)]
    pub(super) core_fractions: Option<Vec<Fraction>>,
    /// The default for machines without a fraction; 100% if absent.
    #[serde(default)]
    pub(super) default_core_fraction: Option<DefaultFraction>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct CorePolicy {
    pub(super) min: i32,
    pub(super) max: i32,
    pub(super) step: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MemoryPolicy {
    pub(super) min: Option<Quantity>,
    pub(super) max: Option<Quantity>,
    pub(super) step: Option<Quantity>,
    pub(super) per_core: Option<PerCore>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct PerCore {
    pub(super) min: Option<Quantity>,
    pub(super) max: Option<Quantity>,
}

/// The fraction that a class gives to machines without one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DefaultFraction {
    /// The vertical autoscaler of the platform chooses one of the allowed fractions while the machine runs.
    Auto,
    /// Always this one.
    Fixed(Fraction),
}

impl<'de> Deserialize<'de> for DefaultFraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value == AUTO {
            return Ok(Self::Auto);
        }
        Fraction::deserialize(value).map(Self::Fixed).map_err(serde::de::Error::custom)
    }
}

/// The core fraction that the platform chooses.
pub(super) const AUTO: &str = "Auto";

/// Depending on the version of the platform, a fraction is `25` or `25%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fraction(pub(super) u32);

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let number = match &value {
            Value::String(text) => parse_core_fraction(text),
            other => other.as_u64().and_then(|number| parse_core_fraction(&format!("{number}%"))),
        };
        number.map(Self).ok_or_else(|| serde::de::Error::custom(format_args!("{value} is no core fraction")))
    }
}

/// The percentage of a core fraction; `None` if it is not in the canonical form of 1% to 100%.
pub(super) fn parse_core_fraction(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('%')?;
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|percent| plain && (1..=100).contains(percent))
}
