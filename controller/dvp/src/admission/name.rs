//! Rules about the name of a pool. They apply only to creates, because a name cannot change.

use serde_json::Value;
use vmpool_engine::admission::{RuleResult, refuse_value};

use super::rule::Rule;
use super::view::ReviewedPool;

/// The name of a machine has six more characters, and at most 63.
const LONGEST: usize = 57;

pub(super) fn check_pool_name(pool: ReviewedPool<'_>) -> RuleResult {
    let name = pool.name();
    let length = name.chars().count();
    if length > LONGEST {
        return refuse_value(
            Rule::NameLength,
            "metadata.name",
            &Value::from(name),
            format_args!("it has {length} characters; machines add 6 to it and have at most 63"),
            format_args!("choose a name of at most {LONGEST}"),
        );
    }
    if name.contains('.') {
        return refuse_value(
            Rule::NameDots,
            "metadata.name",
            &Value::from(name),
            "names of disks are made from it and may not have dots",
            format_args!("use dashes, as in {}", name.replace('.', "-")),
        );
    }
    Ok(())
}
