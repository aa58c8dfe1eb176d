//! What was said in the log, so that it is said once.

use std::collections::BTreeMap;

/// The last word on each subject.
#[derive(Debug, Default)]
pub(super) struct Said(BTreeMap<String, &'static str>);

impl Said {
    /// Whether `word` about `subject` is another one than the last time. It is the last one from now on.
    pub(super) fn is_new(&mut self, subject: &str, word: &'static str) -> bool {
        if self.0.get(subject) == Some(&word) {
            return false;
        }
        self.0.insert(subject.to_owned(), word);
        true
    }
}
