use kube::runtime::watcher::Event;
use serde_json::json;

use super::*;

/// A watch with simulated events.
struct Told {
    sink: HistorySink,
    listed: BTreeSet<String>,
    newest: u64,
}

impl Told {
    fn new() -> Self {
        let (notify, _) = watch::channel(0);
        let sink =
            HistorySink { kind: TestedKind::Machine, history: Arc::default(), notify: Arc::new(notify) };
        Self { sink, listed: BTreeSet::new(), newest: 0 }
    }

    fn sees(mut self, event: Event<DynamicObject>) -> Self {
        receive(event, &self.sink, &mut self.listed, &mut self.newest);
        self
    }

    /// Every change as `name@revision`, with `-` before a removal.
    fn changes(&self) -> Vec<String> {
        let history = self.sink.history.lock();
        let line = |change: &RecordedChange| {
            format!("{}{}@{}", if change.removed { "-" } else { "" }, change.object.name(), change.revision)
        };
        history.changes().iter().map(line).collect()
    }
}

fn machine(name: &str, revision: u64) -> DynamicObject {
    serde_json::from_value(json!({
        "metadata": { "name": name, "uid": format!("uid-{name}"), "resourceVersion": revision.to_string() },
    }))
    .unwrap()
}

#[test]
fn all_events_of_a_watch_are_recorded() {
    let told = Told::new()
        .sees(Event::Init)
        .sees(Event::InitApply(machine("a", 1)))
        .sees(Event::InitDone)
        .sees(Event::Apply(machine("a", 2)))
        .sees(Event::Apply(machine("b", 3)))
        .sees(Event::Delete(machine("a", 4)));
    assert_eq!(told.changes(), ["a@1", "a@2", "b@3", "-a@4"]);
    assert!(told.sink.history.lock().was_removed("uid-a"));
}

#[test]
fn a_relist_records_only_changes_and_removals() {
    let told = Told::new()
        .sees(Event::Init)
        .sees(Event::InitApply(machine("a", 1)))
        .sees(Event::InitApply(machine("b", 2)))
        .sees(Event::InitDone)
        .sees(Event::Init)
        .sees(Event::InitApply(machine("b", 2)))
        .sees(Event::InitApply(machine("c", 7)))
        .sees(Event::InitDone);
    // The revision of the removal is unknown, so that of the list is used.
    assert_eq!(told.changes(), ["a@1", "b@2", "c@7", "-a@7"]);
}

#[test]
fn forget_keeps_the_last_change_of_each_existing_object() {
    let told = Told::new()
        .sees(Event::Init)
        .sees(Event::InitApply(machine("a", 1)))
        .sees(Event::InitApply(machine("b", 2)))
        .sees(Event::InitDone)
        .sees(Event::Apply(machine("a", 3)))
        .sees(Event::Apply(machine("c", 4)))
        .sees(Event::Delete(machine("b", 5)));
    told.sink.history.lock().forget();
    assert_eq!(told.changes(), ["a@3", "c@4"]);
    let known: Vec<String> = told
        .sink
        .history
        .lock()
        .state()
        .all(TestedKind::Machine)
        .map(|object| object.name().to_owned())
        .collect();
    assert_eq!(known, ["a", "c"]);
    // Later changes are appended.
    assert_eq!(told.sees(Event::Delete(machine("a", 6))).changes(), ["a@3", "c@4", "-a@6"]);
}

#[test]
fn a_write_counts_as_shown_in_the_same_or_a_later_state_or_after_a_removal() {
    let shows = |told: &Told, revision| {
        shows_object(&told.sink.history.lock(), TestedKind::Machine, "uid-a", revision)
    };
    let told = Told::new().sees(Event::Init).sees(Event::InitDone);
    assert!(!shows(&told, 1), "no event was observed");
    let told = told.sees(Event::Apply(machine("b", 7)));
    assert!(!shows(&told, 1), "another object was observed");
    let told = told.sees(Event::Apply(machine("a", 3)));
    assert!(!shows(&told, 4), "an earlier state was observed");
    assert!(shows(&told, 3) && shows(&told, 2));
    let told = told.sees(Event::Delete(machine("a", 9)));
    assert!(shows(&told, 4), "the object was removed again");
}
