//! The responses to removals, claims and releases.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use serde_json::{Value, json};
use vmpool_api::subresources::RemovalOutcome;
use vmpool_engine::protection::timestamp_text;
use vmpool_platforms::removal::RemovalApi;

use crate::claims::{Claimed, ReleasedMachine};
use crate::removal::{Accepted, PoolName};

/// The maximum number of names in the message. The details contain all names.
const MAX_NAMES: usize = 10;

/// The `Status` for an accepted removal.
pub(crate) fn removal_success_status(pool: &PoolName, accepted: &Accepted, dry_run: bool) -> Status {
    let causes = accepted.targets.iter().map(|target| {
        let reason = match (target.already_removed, dry_run) {
            (true, _) => RemovalOutcome::AlreadyRemoved,
            (false, true) => RemovalOutcome::WouldBeRemoved,
            (false, false) => RemovalOutcome::Removed,
        };
        StatusCause {
            field: Some("targets".to_owned()),
            message: Some(target.id.name.to_string()),
            reason: Some(reason.into()),
        }
    });
    Status {
        code: Some(201),
        status: Some("Success".to_owned()),
        message: Some(removal_message(&pool.name, accepted, dry_run)),
        details: Some(StatusDetails {
            causes: Some(causes.collect()),
            group: Some(pool.stored.pools.group.to_owned()),
            kind: Some(pool.stored.pools.plural.to_owned()),
            name: Some(pool.name.clone()),
            uid: Some(accepted.pool_uid.clone()),
            ..StatusDetails::default()
        }),
        ..Status::default()
    }
}

fn removal_message(pool: &str, accepted: &Accepted, dry_run: bool) -> String {
    let names: Vec<&str> = accepted.targets.iter().take(MAX_NAMES).map(|target| &*target.id.name).collect();
    let more = accepted.targets.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let verb = if dry_run { "would be removed" } else { "removed" };
    let removed = accepted.targets.iter().filter(|target| !target.already_removed).count();
    let replicas = match accepted.replicas {
        Some(replicas) => format!(", which now has {replicas} replicas"),
        None if removed == 0 => " by earlier requests".to_owned(),
        None => String::new(),
    };
    format!("{}{more} {verb} from pool \"{pool}\"{replicas}", names.join(", "))
}

/// The response to a claim.
pub(crate) fn claim_response(api: &RemovalApi, claimed: &Claimed) -> Value {
    json!({
        "kind": api.claim_kind,
        "apiVersion": api.api_version(),
        "id": claimed.id,
        "machine": {
            "name": &*claimed.machine.name,
            "uid": claimed.machine.uid.as_str(),
            "addresses": claimed.addresses,
        },
        "expiresAt": timestamp_text(claimed.expires),
    })
}

/// The response to a release.
pub(crate) fn release_response(api: &RemovalApi, released: &ReleasedMachine) -> Value {
    json!({
        "kind": api.release_kind,
        "apiVersion": api.api_version(),
        "machine": { "name": &*released.machine.name, "uid": released.machine.uid.as_str() },
        "then": released.then.as_str(),
        "replicas": released.replicas,
    })
}
