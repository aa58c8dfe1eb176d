//! How many earlier revisions the controller keeps, so that users can return to them. KubeVirt keeps only
//! those that machines name.

use std::collections::BTreeMap;

use serde_json::Value;
use vmpool_api::kubevirt::annotations::REVISION_HISTORY_LIMIT;
use vmpool_engine::limits;
use vmpool_engine::model::RolloutPolicy;

/// The field of the spec of a pool.
pub(super) const FIELD: &str = "revisionHistoryLimit";

/// Reads the limit of a pool. The field overrides the annotation. If the limit cannot be read, the result is
/// the default, and a message is added to `invalid_settings`.
pub(super) fn read_history_limit(
    field: &Value,
    annotations: Option<&BTreeMap<String, String>>,
    invalid_settings: &mut Vec<String>,
) -> usize {
    let default = RolloutPolicy::default().history;
    let annotation = annotations.and_then(|annotations| annotations.get(REVISION_HISTORY_LIMIT));
    let (source, limit) = match (field, annotation) {
        (Value::Null, None) => return default,
        (Value::Null, Some(text)) => {
            (format!("annotation {REVISION_HISTORY_LIMIT}: {text:?}"), parse_history_limit(text))
        }
        (field, _) => (format!("{FIELD} {field}"), field.as_u64()),
    };
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or_else(|| {
        let source = limits::shorten_message(source);
        invalid_settings.push(format!(
            "{source} is not a count, so {default} earlier revisions are kept; correct or remove it"
        ));
        default
    })
}

/// The value of the annotation; `None` if it is no number from 0.
pub(super) fn parse_history_limit(text: &str) -> Option<u64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::by_default(Value::Null, None, 10)]
    #[case::by_the_field(json!(3), None, 3)]
    #[case::by_the_annotation(Value::Null, Some("0"), 0)]
    #[case::the_field_overrides_the_annotation(json!(3), Some("7"), 3)]
    fn the_limit_is_read(#[case] field: Value, #[case] annotation: Option<&str>, #[case] expected: usize) {
        let annotations =
            annotation.map(|text| BTreeMap::from([(REVISION_HISTORY_LIMIT.to_owned(), text.to_owned())]));
        let mut invalid = Vec::new();
        assert_eq!(read_history_limit(&field, annotations.as_ref(), &mut invalid), expected);
        assert_eq!(invalid, [""; 0]);
    }

    #[rstest]
    #[case::a_negative_number(json!(-1), None, "revisionHistoryLimit -1")]
    #[case::a_word(Value::Null, Some("many"), "annotation vmpool.dev/revision-history-limit: \"many\"")]
    fn another_value_is_reported(
        #[case] field: Value,
        #[case] annotation: Option<&str>,
        #[case] expected: &str,
    ) {
        let annotations =
            annotation.map(|text| BTreeMap::from([(REVISION_HISTORY_LIMIT.to_owned(), text.to_owned())]));
        let mut invalid = Vec::new();
        assert_eq!(read_history_limit(&field, annotations.as_ref(), &mut invalid), 10);
        assert!(invalid.len() == 1 && invalid[0].starts_with(expected), "{invalid:?}");
    }
}
