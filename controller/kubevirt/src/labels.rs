//! Labels of objects in caches. Machines of one revision have equal labels, so they share one allocation.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;
use vmpool_platform::intern::InternTable;

/// Maximum size of the labels of one object that a cache keeps: the sum of the lengths of keys and values, in
/// bytes.
const LONGEST: usize = 16 * 1024;

/// The labels of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachedLabels(Arc<BTreeMap<String, String>>);

static RECENT: InternTable<BTreeMap<String, String>> = InternTable::new();

impl CachedLabels {
    /// These labels; `None` if they exceed the size that a cache keeps.
    pub fn of(labels: &BTreeMap<String, String>) -> Option<Self> {
        let size: usize = labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        (size <= LONGEST).then(|| Self(RECENT.get(labels, || Arc::new(labels.clone()))))
    }

    /// The labels in a JSON object. Entries whose value is no text are skipped, because no object can have
    /// them.
    pub fn from_json(value: &Value) -> Option<Self> {
        let entries = value.as_object().into_iter().flatten();
        let texts = entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        Self::of(&texts.collect())
    }
}

impl Deref for CachedLabels {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_labels_are_one_allocation() {
        let labels =
            || CachedLabels::from_json(&json!({ "app": "herd", "number": 1, "none": null })).unwrap();
        assert!(Arc::ptr_eq(&labels().0, &labels().0));
        assert_eq!(labels().iter().collect::<Vec<_>>(), [(&"app".to_owned(), &"herd".to_owned())]);
    }

    #[test]
    fn labels_that_are_too_large_are_not_kept() {
        let many = (0..1024).map(|number| (format!("key-{number:04}"), "v".repeat(63))).collect();
        assert_eq!(CachedLabels::of(&many), None);
    }
}
