//! Selectors: conditions on the labels of a machine, as Kubernetes defines them for label selectors and node
//! selectors.

use std::collections::BTreeMap;
use std::fmt;

/// Labels, or any other map of names to values.
pub type LabelMap = BTreeMap<String, String>;

/// The operator of a [`SelectorRequirement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// The value is one of the given values.
    In,
    /// The key is absent, or its value is none of the given values.
    NotIn,
    /// The key is present.
    Exists,
    /// The key is absent.
    DoesNotExist,
    /// The value is an integer greater than the only given value.
    Gt,
    /// The value is an integer smaller than the only given value.
    Lt,
}

/// One condition on the value of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SelectorRequirement {
    /// The key.
    pub key: String,
    /// The operator.
    pub operator: Operator,
    /// The values; empty for [`Operator::Exists`] and [`Operator::DoesNotExist`].
    pub values: Vec<String>,
}

impl SelectorRequirement {
    /// Whether `labels` fulfil the condition. A comparison of numbers with a text that is no integer never
    /// holds.
    pub fn matches(&self, labels: &LabelMap) -> bool {
        let value = labels.get(&self.key);
        let number = |text: &String| text.parse::<i64>().ok();
        let compared = |holds: fn(&i64, &i64) -> bool| {
            let [bound] = &self.values[..] else { return false };
            value.and_then(number).zip(number(bound)).is_some_and(|(value, bound)| holds(&value, &bound))
        };
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => compared(i64::gt),
            Operator::Lt => compared(i64::lt),
        }
    }
}

impl fmt::Display for SelectorRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = || self.values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(" or ");
        match self.operator {
            Operator::In => write!(f, "{}", values()),
            Operator::NotIn => write!(f, "neither {}", values()),
            Operator::Exists => f.write_str("any value"),
            Operator::DoesNotExist => f.write_str("no value"),
            Operator::Gt => write!(f, "a value greater than {}", values()),
            Operator::Lt => write!(f, "a value less than {}", values()),
        }
    }
}

/// Conditions that must all hold. Without conditions it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector(pub Vec<SelectorRequirement>);

impl Selector {
    /// Whether `labels` fulfil all conditions.
    pub fn matches(&self, labels: &LabelMap) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::one_of_the_values("zone", Operator::In, &["a", "b"], true)]
    #[case::none_of_the_values("zone", Operator::In, &["b", "c"], false)]
    #[case::in_without_the_key("rack", Operator::In, &["a"], false)]
    #[case::excluded("zone", Operator::NotIn, &["a"], false)]
    #[case::not_excluded("zone", Operator::NotIn, &["b"], true)]
    #[case::not_in_without_the_key("rack", Operator::NotIn, &["a"], true)]
    #[case::present("zone", Operator::Exists, &[], true)]
    #[case::not_present("rack", Operator::Exists, &[], false)]
    #[case::absent("rack", Operator::DoesNotExist, &[], true)]
    #[case::not_absent("zone", Operator::DoesNotExist, &[], false)]
    #[case::greater("size", Operator::Gt, &["7"], true)]
    #[case::not_greater("size", Operator::Gt, &["8"], false)]
    #[case::smaller("size", Operator::Lt, &["9"], true)]
    #[case::not_smaller("size", Operator::Lt, &["8"], false)]
    #[case::a_text_is_no_number("zone", Operator::Gt, &["7"], false)]
    #[case::the_bound_is_no_number("size", Operator::Lt, &["many"], false)]
    #[case::two_bounds("size", Operator::Lt, &["9", "10"], false)]
    #[case::no_number_without_the_key("rack", Operator::Lt, &["9"], false)]
    fn a_requirement_compares_the_value_of_its_key(
        #[case] key: &str,
        #[case] operator: Operator,
        #[case] values: &[&str],
        #[case] expected: bool,
    ) {
        let labels: LabelMap =
            [("zone", "a"), ("size", "8")].map(|(key, value)| (key.into(), value.into())).into();
        let values = values.iter().copied().map(String::from).collect();
        assert_eq!(SelectorRequirement { key: key.into(), operator, values }.matches(&labels), expected);
    }

    #[test]
    fn a_selector_matches_if_all_requirements_hold() {
        let labels: LabelMap =
            [("farm", "render"), ("size", "8")].map(|(key, value)| (key.into(), value.into())).into();
        let equal = |key: &str, value: &str| SelectorRequirement {
            key: key.into(),
            operator: Operator::In,
            values: vec![value.into()],
        };
        assert!(Selector::default().matches(&labels));
        assert!(Selector(vec![equal("farm", "render"), equal("size", "8")]).matches(&labels));
        assert!(!Selector(vec![equal("farm", "render"), equal("size", "9")]).matches(&labels));
    }
}
