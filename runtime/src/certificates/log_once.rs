//! Logs each state of a subject once.

use std::collections::BTreeMap;

/// The last logged state of each subject.
#[derive(Debug, Default)]
pub(super) struct LogOnce(BTreeMap<String, &'static str>);

impl LogOnce {
    /// Records the state of a subject. Returns whether it differs from the last state.
    pub(super) fn is_new(&mut self, subject: &str, state: &'static str) -> bool {
        if self.0.get(subject) == Some(&state) {
            return false;
        }
        self.0.insert(subject.to_owned(), state);
        true
    }
}
