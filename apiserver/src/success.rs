//! What a caller is told when machines leave.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};

use crate::api::{POOLS, STORED_GROUP};
use crate::removal::Accepted;

/// Names in the text for people; all of them are in the details.
const MOST_NAMES: usize = 10;

/// The answer to a removal that was accepted.
pub(crate) fn success(pool: &str, accepted: &Accepted, dry_run: bool) -> Status {
    let causes = accepted.machines.iter().map(|machine| {
        let reason = match (machine.already, dry_run) {
            (true, _) => "AlreadyRemoved",
            (false, true) => "WouldBeRemoved",
            (false, false) => "Removed",
        };
        StatusCause {
            field: Some("targets".to_owned()),
            message: Some(machine.id.name.to_string()),
            reason: Some(reason.to_owned()),
        }
    });
    Status {
        code: Some(201),
        status: Some("Success".to_owned()),
        message: Some(message(pool, accepted, dry_run)),
        details: Some(StatusDetails {
            causes: Some(causes.collect()),
            group: Some(STORED_GROUP.to_owned()),
            kind: Some(POOLS.to_owned()),
            name: Some(pool.to_owned()),
            uid: Some(accepted.pool_uid.clone()),
            ..StatusDetails::default()
        }),
        ..Status::default()
    }
}

fn message(pool: &str, accepted: &Accepted, dry_run: bool) -> String {
    let names: Vec<&str> =
        accepted.machines.iter().take(MOST_NAMES).map(|machine| &*machine.id.name).collect();
    let more = accepted.machines.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let verb = if dry_run { "would be removed" } else { "removed" };
    let counted = accepted.machines.iter().filter(|machine| !machine.already).count();
    let replicas = match accepted.replicas {
        Some(replicas) => format!(", which now has {replicas} replicas"),
        None if counted == 0 => ", as earlier requests have asked".to_owned(),
        None => String::new(),
    };
    format!("{}{more} {verb} from pool \"{pool}\"{replicas}", names.join(", "))
}
