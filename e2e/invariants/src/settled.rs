//! I8: in a settled world the status is correct, and the controller does not write.

use std::collections::BTreeSet;

use serde_json::Value;
use vmpool_api::{annotations, kubevirt, labels};
use vmpool_test_cluster::control_plane::AuditEntry;

use super::Violation;
use crate::object::JsonObject;
use crate::platform::TestedPlatform;

/// Differences between the status of a pool and its machines.
pub fn status_errors(pool: &JsonObject, machines: &[&JsonObject]) -> Vec<Violation> {
    let (standby, active): (Vec<&JsonObject>, Vec<&JsonObject>) =
        machines.iter().partition(|machine| machine.is_standby());
    let mut errors =
        if pool.is_kubevirt() { errors_of_kubevirt(pool, &active) } else { errors_of_dvp(pool, &active) };
    errors.extend(standby_error(pool, standby.len()));
    errors
}

/// The difference in the number of standby machines. Definitions of other origin do not have the field, and
/// it is absent without any.
fn standby_error(pool: &JsonObject, machines: usize) -> Option<Violation> {
    let shown = pool.number("/status/standbyReplicas")?;
    let what = format!("pool {}: status.standbyReplicas is {shown}, but should be {machines}", pool.name());
    (usize::try_from(shown) != Ok(machines)).then_some(Violation { invariant: "I17", what })
}

/// The differences for a pool of DVP.
fn errors_of_dvp(pool: &JsonObject, machines: &[&JsonObject]) -> Vec<Violation> {
    let live = || machines.iter().filter(|machine| !machine.is_terminating());
    let desired = count(pool.at("/spec/replicas"));
    let ready = live().filter(|machine| machine.is_running()).count();
    let hash = pool.text("/status/desiredTemplateHash");
    let waits = |machine: &&&JsonObject| {
        let waiting = machine.condition("AwaitingRestartToApplyConfiguration");
        waiting.is_some_and(|condition| condition["status"] == "True")
    };
    let current = live().filter(|machine| machine.label(labels::TEMPLATE_HASH) == Some(hash));
    let updated = current.filter(|machine| !waits(machine)).count();

    let mut status_errors = Vec::new();
    let mut compare = |field: &str, actual: &Value, expected: String| {
        let actual = actual.as_str().map_or_else(|| actual.to_string(), str::to_owned);
        if actual != expected {
            status_errors.push(format!("{field} is {actual}, but should be {expected}"));
        }
    };
    compare(
        "status.observedGeneration",
        pool.at("/status/observedGeneration"),
        pool.at("/metadata/generation").to_string(),
    );
    compare("status.replicas", pool.at("/status/replicas"), machines.len().to_string());
    compare("status.readyReplicas", pool.at("/status/readyReplicas"), ready.to_string());
    compare("status.updatedReplicas", pool.at("/status/updatedReplicas"), updated.to_string());
    compare("status.selector", pool.at("/status/selector"), format!("{}={}", labels::POOL_UID, pool.uid()));
    let record = pool.annotation(annotations::SCALE_DOWN_TARGETS).unwrap_or("none").to_owned();
    compare("the removal record", &Value::from(record), "none".to_owned());
    compare("condition Available", status_of(pool, "Available"), status_text(ready >= desired));
    // A disk that a person detached from a machine is told as well.
    let is_complete = |machine: &&&JsonObject| {
        let attached: BTreeSet<String> = machine.disk_references().map(str::to_owned).collect();
        machine.mapped_disks().is_subset(&attached)
    };
    let synced = updated == live().count() && live().all(|machine| is_complete(&machine));
    compare("condition Synced", status_of(pool, "Synced"), status_text(synced));
    // The condition is never False: it is present while the count differs, otherwise absent.
    let progressing = if machines.len() == desired { "null".to_owned() } else { status_text(true) };
    compare("condition Progressing", status_of(pool, "Progressing"), progressing);
    // A pool can also not be ready because of its spec, so only the other direction is wrong.
    let complete = ready >= desired && machines.len() == desired && updated == live().count();
    if status_of(pool, "Ready") != "False" && !complete {
        compare("condition Ready", status_of(pool, "Ready"), status_text(false));
    }
    compare(
        "condition Reconciling or Stalled of a ready pool",
        &Value::from(is_at_work(pool)),
        "false".to_owned(),
    );
    status_errors
        .into_iter()
        .map(|error| Violation { invariant: "I8", what: format!("pool {}: {error}", pool.name()) })
        .collect()
}

/// The differences for a pool of KubeVirt. Its condition is present while it is paused.
fn errors_of_kubevirt(pool: &JsonObject, machines: &[&JsonObject]) -> Vec<Violation> {
    let ready = machines.iter().filter(|machine| machine.is_running()).count();
    let labels = pool.at("/spec/selector/matchLabels").as_object().into_iter().flatten();
    let selector: Vec<String> =
        labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    let is_paused = pool.at("/spec/paused") == true;
    let expected = [
        ("replicas", Value::from(machines.len())),
        ("readyReplicas", Value::from(ready)),
        ("labelSelector", Value::from(selector.join(","))),
    ];
    let mut errors: Vec<String> = expected
        .into_iter()
        .filter(|(field, expected)| pool.at("/status")[*field] != *expected)
        .map(|(field, expected)| {
            format!("status.{field} is {}, but should be {expected}", pool.at("/status")[field])
        })
        .collect();
    if pool.condition("ReplicaPaused").is_some() != is_paused {
        errors.push(format!("paused is {is_paused}, but the condition ReplicaPaused differs"));
    }
    errors.extend(pin_errors(pool, machines));
    // The controller deletes no machine of a paused pool, and only the client of a removal may do so before.
    let waits = is_paused && !machines.is_empty();
    if let Some(record) = pool.annotation(kubevirt::annotations::SCALE_IN_TARGETS).filter(|_| !waits) {
        errors.push(format!("the removal record is {record}, but should be absent"));
    }
    errors
        .into_iter()
        .map(|error| Violation { invariant: "I8", what: format!("pool {}: {error}", pool.name()) })
        .collect()
}

/// Machines of the current revision that use other copies of instance type and preference than the status
/// shows. A machine that a user changed has its own condition, and the definition of KubeVirt has no field
/// for the current revision.
fn pin_errors(pool: &JsonObject, machines: &[&JsonObject]) -> Vec<String> {
    let current = pool.text("/status/currentRevision");
    if current.is_empty() || pool.condition("MembersDrifted").is_some() {
        return Vec::new();
    }
    let of_current = |machine: &&&JsonObject| machine.label(kubevirt::labels::REVISION) == Some(current);
    let mut errors = Vec::new();
    for field in ["instancetype", "preference"] {
        let shown = pool.text(&format!("/status/{field}Ref/controllerRevisionRef/name"));
        for machine in machines.iter().filter(of_current) {
            let used = machine.text(&format!("/spec/{field}/revisionName"));
            if used != shown {
                let name = machine.name();
                errors.push(format!("status.{field}Ref shows {shown:?}, but machine {name} uses {used:?}"));
            }
        }
    }
    errors
}

/// Writes of the controller although nothing had changed, without leases and events.
pub fn check_settled_writes(audit: &[AuditEntry], controller_user: &str) -> Vec<Violation> {
    audit
        .iter()
        .filter(|entry| entry.user == controller_user && of_platform(entry) && entry.is_write())
        .map(|entry| Violation { invariant: "I8", what: format!("a write to a settled world: {entry}") })
        .collect()
}

fn of_platform(entry: &AuditEntry) -> bool {
    [TestedPlatform::Dvp, TestedPlatform::KubeVirt]
        .iter()
        .any(|platform| platform.groups().contains(&&*entry.group))
}

fn status_of<'a>(pool: &'a JsonObject, condition: &str) -> &'a Value {
    pool.condition(condition).map_or(&Value::Null, |condition| &condition["status"])
}

/// Whether the pool is ready, and another condition says that the controller works or waits for a user.
fn is_at_work(pool: &JsonObject) -> bool {
    let holds = |condition: &str| status_of(pool, condition) != "False";
    status_of(pool, "Ready") == "True" && (holds("Reconciling") || holds("Stalled"))
}

fn status_text(holds: bool) -> String {
    (if holds { "True" } else { "False" }).to_owned()
}

fn count(value: &Value) -> usize {
    value.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
