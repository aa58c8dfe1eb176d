//! Machines that targeted removals deleted, for pools whose names return.
//!
//! The removal record contains a target until it is deleted. Afterwards another machine can get its name, and
//! a repeated request would remove that machine. The list therefore keeps the last targets. It contains no
//! time: a client can repeat a request after any time, and a name that no machine has again harms no request.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::ObjectId;

/// Maximum number of machines in the list. With names of the maximum length it has about 14 KiB, so that the
/// list and the largest removal record fit into the annotations of one object.
pub const MOST_REMOVED: usize = 100;

/// The last machine of each name that a targeted removal deleted, the oldest removal first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedMachines(Vec<ObjectId>);

/// A machine in its stored form.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
}

impl RemovedMachines {
    /// Parses the annotation. A text that cannot be read is an empty list, because the list only refuses
    /// requests and deletes nothing. Of a longer list, only the last machines count.
    pub fn parse(text: &str) -> Self {
        let stored: Vec<Stored<'_>> = serde_json::from_str(text).unwrap_or_default();
        let mut removed = Self::default();
        let known = stored.len().saturating_sub(MOST_REMOVED);
        let is_complete = |machine: &Stored<'_>| !machine.name.is_empty() && !machine.uid.is_empty();
        for Stored { name, uid } in stored.into_iter().skip(known).filter(is_complete) {
            removed.add(ObjectId::new(&name, &uid));
        }
        removed
    }

    /// Adds a deleted machine in the place of an earlier one with its name. Beyond [`MOST_REMOVED`] machines,
    /// the oldest one leaves the list.
    pub fn add(&mut self, machine: ObjectId) {
        self.0.retain(|known| known.name != machine.name);
        self.0.push(machine);
        let surplus = self.0.len().saturating_sub(MOST_REMOVED);
        self.0.drain(..surplus);
    }

    /// The machine of this name that was removed last.
    pub fn of_name(&self, name: &str) -> Option<&ObjectId> {
        self.0.iter().find(|machine| *machine.name == *name)
    }

    /// Whether the list contains no machine. If so, the annotation is omitted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The text of the annotation.
impl fmt::Display for RemovedMachines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stored: Vec<Stored<'_>> = self
            .0
            .iter()
            .map(|machine| Stored { name: (&*machine.name).into(), uid: machine.uid.as_str().into() })
            .collect();
        f.write_str(&serde_json::to_string(&stored).expect("texts can be written as JSON"))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn list_of(machines: impl IntoIterator<Item = (usize, usize)>) -> RemovedMachines {
        let mut removed = RemovedMachines::default();
        for (ordinal, uid) in machines {
            removed.add(ObjectId::new(&format!("web-{ordinal}"), &format!("uid-{uid}")));
        }
        removed
    }

    #[test]
    fn of_each_name_the_last_machine_is_kept() {
        let removed = list_of([(1, 1), (2, 2), (1, 3)]);
        assert_eq!(removed.of_name("web-1"), Some(&ObjectId::new("web-1", "uid-3")));
        assert_eq!(removed.of_name("web-2"), Some(&ObjectId::new("web-2", "uid-2")));
        assert_eq!(removed.of_name("web-3"), None);
        assert_eq!(RemovedMachines::parse(&removed.to_string()), removed);
    }

    #[test]
    fn the_oldest_removals_leave_a_full_list() {
        let many = list_of((0..=MOST_REMOVED).map(|number| (number, number)));
        assert_eq!(many.of_name("web-0"), None);
        assert!(many.of_name("web-1").is_some() && many.of_name(&format!("web-{MOST_REMOVED}")).is_some());
        assert!(many.to_string().len() < 16 * 1024);
    }

    #[rstest]
    #[case::no_text("")]
    #[case::no_list("{}")]
    #[case::no_machine(r#"[{"name":"web-1"}]"#)]
    #[case::an_empty_part(r#"[{"name":"web-1","uid":""}]"#)]
    fn a_list_that_cannot_be_read_is_empty(#[case] text: &str) {
        assert!(RemovedMachines::parse(text).is_empty());
    }

    #[test]
    fn of_a_list_that_is_too_long_the_last_machines_count() {
        let all: Vec<_> =
            (0..1000).map(|n| serde_json::json!({ "name": format!("web-{n}"), "uid": "u" })).collect();
        let read = RemovedMachines::parse(&serde_json::json!(all).to_string());
        assert_eq!((read.of_name("web-899"), read.of_name("web-900").is_some()), (None, true));
    }
}
