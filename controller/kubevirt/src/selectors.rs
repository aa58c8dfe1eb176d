//! Label selectors, and the selectors of scale-in and update strategies.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;
use vmpool_engine::selector;

/// Why a selector cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The selector, or a part of it, has another JSON type.
    #[error("{what} is not {wanted}")]
    Type {
        /// The part of the selector.
        what: String,
        /// The type that it must have.
        wanted: &'static str,
    },
    /// The operator does not exist, or not in this kind of selector.
    #[error("operator {operator:?} of key {key:?} is unknown; use {known}")]
    Operator {
        /// The key of the requirement.
        key: String,
        /// The operator.
        operator: String,
        /// The operators that exist.
        known: &'static str,
    },
    /// The values do not fit the operator.
    #[error("{operator} of key {key:?} needs {wanted}")]
    Values {
        /// The key of the requirement.
        key: String,
        /// The operator.
        operator: String,
        /// The values that it needs.
        wanted: &'static str,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    /// From `matchLabels`. Only its text differs from `In` with one value.
    Equals(String),
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
    Gt(i64),
    Lt(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let list =
            |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match &self.operator {
            Operator::Equals(value) => write!(f, "{key}={value}"),
            Operator::In(values) => write!(f, "{key} in ({})", list(values)),
            Operator::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Gt(than) => write!(f, "{key}>{than}"),
            Operator::Lt(than) => write!(f, "{key}<{than}"),
        }
    }
}

/// A label selector: all its requirements must be met. Without requirements it matches all labels.
///
/// Its text is the canonical form of Kubernetes, for example `app=herd,tier in (a,b)`, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    /// Reads a selector with `matchLabels` and `matchExpressions`.
    ///
    /// # Errors
    /// [`SelectorError`].
    pub fn read(selector: &Value) -> Result<Self, SelectorError> {
        if !selector.is_object() {
            return Err(wrong_type("the selector", "an object"));
        }
        let mut requirements = Vec::new();
        match &selector["matchLabels"] {
            Value::Null => {}
            Value::Object(labels) => {
                for (key, value) in labels {
                    let value =
                        value.as_str().ok_or_else(|| wrong_type(&format!("label {key:?}"), "a text"))?;
                    let operator = Operator::Equals(value.to_owned());
                    requirements.push(Requirement { key: key.clone(), operator });
                }
            }
            _ => return Err(wrong_type("matchLabels", "an object")),
        }
        requirements.extend(read_list("matchExpressions", &selector["matchExpressions"], Kind::Labels)?);
        requirements.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(Self(requirements))
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.to_engine().matches(labels)
    }

    /// The selector as the engine evaluates it.
    pub fn to_engine(&self) -> selector::Selector {
        to_engine(&self.0)
    }
}

impl NodeRequirements {
    /// The requirements as the engine evaluates them.
    pub fn to_engine(&self) -> selector::Selector {
        to_engine(&self.0)
    }
}

fn to_engine(requirements: &[Requirement]) -> selector::Selector {
    let requirement = |Requirement { key, operator }: &Requirement| {
        let (operator, values) = match operator {
            Operator::Equals(value) => (selector::Operator::In, vec![value.clone()]),
            Operator::In(values) => (selector::Operator::In, values.iter().cloned().collect()),
            Operator::NotIn(values) => (selector::Operator::NotIn, values.iter().cloned().collect()),
            Operator::Exists => (selector::Operator::Exists, Vec::new()),
            Operator::DoesNotExist => (selector::Operator::DoesNotExist, Vec::new()),
            Operator::Gt(bound) => (selector::Operator::Gt, vec![bound.to_string()]),
            Operator::Lt(bound) => (selector::Operator::Lt, vec![bound.to_string()]),
        };
        selector::SelectorRequirement { key: key.clone(), operator, values }
    };
    selector::Selector(requirements.iter().map(requirement).collect())
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, requirement) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

/// The selectors of a selection policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MachineSelector {
    /// All machines.
    #[default]
    All,
    /// No machine, because the selectors cannot be read.
    Nothing,
    /// The machines that match both.
    Matching {
        /// Selects by the labels in the template of the machine, which its VirtualMachineInstance gets.
        labels: LabelSelector,
        /// Selects by the node selector in the template of the machine. Labels of nodes are not compared.
        nodes: NodeRequirements,
    },
}

impl MachineSelector {
    /// Reads `selectors` of a selection policy. Absent and empty selectors select all machines.
    ///
    /// # Errors
    /// [`SelectorError`].
    pub fn read(selectors: &Value) -> Result<Self, SelectorError> {
        if selectors.is_null() {
            return Ok(Self::All);
        }
        if !selectors.is_object() {
            return Err(wrong_type("selectors", "an object"));
        }
        let labels = match &selectors["labelSelector"] {
            Value::Null => LabelSelector::default(),
            selector => LabelSelector::read(selector)?,
        };
        let nodes = &selectors["nodeSelectorRequirementMatcher"];
        let nodes = NodeRequirements(read_list("nodeSelectorRequirementMatcher", nodes, Kind::Nodes)?);
        let is_empty = labels.0.is_empty() && nodes.0.is_empty();
        Ok(if is_empty { Self::All } else { Self::Matching { labels, nodes } })
    }
}

/// Requirements on the node selector of a machine: all must be met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRequirements(Vec<Requirement>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Labels,
    Nodes,
}

fn read_list(name: &str, list: &Value, kind: Kind) -> Result<Vec<Requirement>, SelectorError> {
    match list {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items.iter().map(|item| read_requirement(item, kind)).collect(),
        _ => Err(wrong_type(name, "a list")),
    }
}

fn read_requirement(item: &Value, kind: Kind) -> Result<Requirement, SelectorError> {
    let text = |name: &str| item[name].as_str().ok_or_else(|| wrong_type(name, "a text"));
    let (key, name) = (text("key")?.to_owned(), text("operator")?);
    let values: BTreeSet<String> = match &item["values"] {
        Value::Null => BTreeSet::new(),
        Value::Array(values) => {
            let texts = values.iter().map(|value| value.as_str().map(str::to_owned));
            texts.collect::<Option<_>>().ok_or_else(|| wrong_type("values", "a list of texts"))?
        }
        _ => return Err(wrong_type("values", "a list")),
    };
    let wrong = |wanted| SelectorError::Values { key: key.clone(), operator: name.to_owned(), wanted };
    let number = || {
        let values = item["values"].as_array().map_or(&[][..], Vec::as_slice);
        match values {
            [Value::String(only)] => only.parse().map_err(|_| wrong("one whole number")),
            _ => Err(wrong("one whole number")),
        }
    };
    let operator = match (name, kind) {
        ("In" | "NotIn", _) if values.is_empty() => return Err(wrong("at least one value")),
        ("Exists" | "DoesNotExist", _) if !values.is_empty() => return Err(wrong("no values")),
        ("In", _) => Operator::In(values),
        ("NotIn", _) => Operator::NotIn(values),
        ("Exists", _) => Operator::Exists,
        ("DoesNotExist", _) => Operator::DoesNotExist,
        ("Gt", Kind::Nodes) => Operator::Gt(number()?),
        ("Lt", Kind::Nodes) => Operator::Lt(number()?),
        _ => {
            let known = match kind {
                Kind::Labels => "In, NotIn, Exists or DoesNotExist",
                Kind::Nodes => "In, NotIn, Exists, DoesNotExist, Gt or Lt",
            };
            return Err(SelectorError::Operator { key, operator: name.to_owned(), known });
        }
    };
    Ok(Requirement { key, operator })
}

fn wrong_type(what: &str, wanted: &'static str) -> SelectorError {
    SelectorError::Type { what: what.to_owned(), wanted }
}

#[cfg(test)]
mod tests;
