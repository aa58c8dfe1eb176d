//! What holds at the end of every scenario: the invariants over the history of its namespace, and what the
//! simulator has recorded.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use parking_lot::Mutex;
use vmpool_e2e::wait::eventually;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_installation::programs::Accounts;
use vmpool_invariants::object::TestedKind;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_invariants::recorder::RecordedHistory;
use vmpool_invariants::{UserActions, Violation};
use vmpool_test_cluster::control_plane::AuditEntry;

/// How long the status of pools and the garbage collector may need after a scenario.
const REST: Duration = Duration::from_secs(40);

/// Accounts whose deletions are no actions of users.
const OTHERS: [&str; 2] = [":vmpool-simulator", ":generic-garbage-collector"];

/// The checks of a world.
pub(crate) struct Checks {
    scenario: Arc<ScenarioWorld>,
    /// Fields of the status that the definition of pools lacks.
    pruned: Mutex<Vec<String>>,
}

impl Checks {
    pub(crate) fn of(scenario: Arc<ScenarioWorld>) -> Self {
        Self { scenario, pruned: Mutex::default() }
    }

    /// The definition of pools lacks these fields, so that their values cannot be wrong.
    pub(crate) fn expect_without(&self, fields: &[(&str, &[&str])]) {
        let of_status = fields.iter().filter(|(part, _)| *part == "status");
        self.pruned
            .lock()
            .extend(of_status.flat_map(|(_, fields)| fields.iter().map(|&field| field.to_owned())));
    }

    /// Waits until the status of all pools is correct and nothing of deleted pools is left, and checks every
    /// invariant.
    pub(crate) async fn end(&self) -> Result<()> {
        let (scenario, pruned) = (&self.scenario, self.pruned.lock().clone());
        let is_pruned =
            |error: &Violation| pruned.iter().any(|field| error.what.contains(&format!("status.{field} ")));
        eventually("the world is at rest", REST, async || {
            scenario.recorder().catch_up().await?;
            let errors = scenario.errors_at_rest().into_iter().filter(|error| !is_pruned(error));
            let errors: Vec<String> = errors.map(|error| error.to_string()).collect();
            Ok(if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) })
        })
        .await?;
        let actions = scenario.user_actions().clone();
        let actions = of_users(&scenario.recorder().history(), &scenario.audit()?, actions);
        Ok(scenario.check_with(&actions).await?)
    }
}

/// Adds the deletions and returns of machines by users.
fn of_users(history: &RecordedHistory, audit: &[AuditEntry], mut actions: UserActions) -> UserActions {
    let controller = Accounts::controller_user();
    let is_user = |entry: &&AuditEntry| {
        let other = entry.user == controller || OTHERS.iter().any(|other| entry.user.ends_with(other));
        !other && !entry.dry_run && entry.is_success()
    };
    let of_kind = |entry: &AuditEntry, kind: TestedKind| {
        let resource = TestedPlatform::KubeVirt.resource(kind);
        entry.group == resource.group && entry.resource == resource.plural
    };
    let by_user: Vec<&AuditEntry> = audit.iter().filter(is_user).collect();
    history.replay(|before, change| {
        let object = &change.object;
        let Some(former) = before.get(change.kind, object.uid()) else { return };
        // Until its removal, no other object can have this name.
        let created: Option<Timestamp> = object.text("/metadata/creationTimestamp").parse().ok();
        let writes = |verbs: &[&str]| {
            by_user.iter().any(|entry| {
                of_kind(entry, change.kind)
                    && verbs.contains(&entry.verb.as_str())
                    && (entry.name == object.name() || entry.name.is_empty())
                    && created.is_none_or(|created| entry.at >= created)
                    && entry.at <= change.at
            })
        };
        let leaves = change.removed || object.is_terminating();
        if leaves && !former.is_terminating() && writes(&["delete", "deletecollection"]) {
            actions.deleted.insert(object.uid().to_owned());
        }
        let joins = !object.owner_uid().is_empty() && former.owner_uid() != object.owner_uid();
        if change.kind == TestedKind::Machine && joins && writes(&["patch", "update"]) {
            actions.returned.insert(object.uid().to_owned());
        }
    });
    actions
}
