//! What holds at the end of every scenario: the invariants over the history of its namespace, and what the
//! simulator has recorded.

use std::time::Duration;

use anyhow::{Result, bail};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use vmpool_e2e::wait::eventually;
use vmpool_installation::programs::Accounts;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_invariants::recorder::{RecordedHistory, Recorder};
use vmpool_invariants::{UserActions, Violation, finalizers, leftovers, settled, shared_disks};
use vmpool_test_cluster::control_plane::{AuditEntry, AuditMark, ControlPlane};

use crate::TestNamespace;

/// The ConfigMap in which the simulator records violations.
const VIOLATIONS: &str = "simulator-violations";

/// How long the status of pools and the garbage collector may need after a scenario.
const REST: Duration = Duration::from_secs(40);

/// Accounts whose deletions are no actions of users.
const OTHERS: [&str; 2] = [":vmpool-simulator", ":generic-garbage-collector"];

/// The recorded history of a namespace.
pub(crate) struct Checks {
    recorder: Recorder,
    since: AuditMark,
    actions: Mutex<UserActions>,
    /// Fields of the status that the definition of pools lacks.
    pruned: Mutex<Vec<String>>,
}

impl Checks {
    /// Begins to record.
    pub(crate) async fn start(cluster: &ControlPlane, namespace: &str) -> Result<Self> {
        let since = cluster.audit_mark();
        let recorder = Recorder::start_on(TestedPlatform::KubeVirt, cluster.admin(), namespace).await?;
        Ok(Self { recorder, since, actions: Mutex::default(), pruned: Mutex::default() })
    }

    /// The actions of users that the audit log does not show. Deletions and returns of machines are read from
    /// there.
    pub(crate) fn actions(&self) -> MutexGuard<'_, UserActions> {
        self.actions.lock()
    }

    /// The recorded states of the machine with this name, in their order. A state in which it was removed is
    /// the last one before.
    pub(crate) async fn states_of(&self, machine: &str) -> Result<Vec<JsonObject>> {
        self.recorder.catch_up().await?;
        let history = self.recorder.history();
        let of = history.changes().iter().filter(|change| change.kind == TestedKind::Machine);
        Ok(of.map(|change| change.object.clone()).filter(|object| object.name() == machine).collect())
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
    pub(crate) async fn end(&self, place: &TestNamespace<'_>) -> Result<()> {
        let pruned = self.pruned.lock().clone();
        eventually("the world is at rest", REST, async || {
            self.recorder.catch_up().await?;
            let mut found = at_rest(&self.recorder.history());
            found
                .retain(|error| !pruned.iter().any(|field| error.what.contains(&format!("status.{field} "))));
            Ok(fail_on(&found).map_err(|error| error.to_string()))
        })
        .await?;
        let (audit, _) = place.cluster.access().audit_of(place.namespace, self.since)?;
        let mut found = {
            let history = self.recorder.history();
            let actions = of_users(&history, &audit, self.actions().clone());
            vmpool_invariants::check_history(&history, &actions, &audit, &Accounts::controller_user())
        };
        found.extend(of_simulator(place).await?);
        fail_on(&found)
    }
}

/// What is wrong with the current state, if nothing changes any more.
fn at_rest(history: &RecordedHistory) -> Vec<Violation> {
    let state = history.state();
    let pools = state.all(TestedKind::Pool).filter(|pool| !pool.is_terminating());
    let errors = pools.flat_map(|pool| settled::status_errors(pool, &state.machines_of_pool(pool.uid())));
    let errors =
        errors.chain(shared_disks::check_shared_disks(state)).chain(leftovers::check_leftovers(history));
    errors.chain(finalizers::check_finalizers(state)).collect()
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

/// I3: a disk was mounted twice, or deleted while it was mounted.
async fn of_simulator(place: &TestNamespace<'_>) -> Result<Vec<Violation>> {
    let path = format!("/api/v1/namespaces/{}/configmaps/{VIOLATIONS}", place.namespace);
    let map = match place.send(http::Method::GET, &path, &serde_json::Value::Null).await? {
        Ok(map) => map,
        Err(status) if status.code == 404 => return Ok(Vec::new()),
        Err(status) => bail!("reading the violations of the simulator: {}", status.message),
    };
    let data = map["data"].as_object().cloned().unwrap_or_default();
    Ok(data
        .into_iter()
        .map(|(key, what)| Violation { invariant: "I3", what: format!("{key}: {what}") })
        .collect())
}

fn fail_on(found: &[Violation]) -> Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    bail!("{} violations:\n{}", lines.len(), lines.join("\n"))
}
