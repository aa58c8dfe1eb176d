//! `drain`: requests that other machines replace machines, and withdraws such requests.

use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use kube::api::Patch;
use serde::Serialize;
use serde_json::{Value, json};
use vmpool_engine::ObjectId;
use vmpool_engine::protection::timestamp_text;
use vmpool_engine::recycling::REQUEST;
use vmpool_platforms::{ClientPlatform, is_controlled_by};

use super::protect::find_named_machines;
use crate::arguments::DrainArguments;
use crate::cluster::{UserClusterClient, name_of};
use crate::dry_run::WriteMode;
use crate::format::Format;
use crate::output::{print_objects, print_text};
use crate::pool::{decode_pool, resource_name};

/// The machines whose requests the command wrote, as data. Its JSON form is stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct DrainedMachines {
    machines: Vec<DrainedMachine>,
}

/// A machine whose request the command wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct DrainedMachine {
    name: String,
    uid: Value,
    /// When its replacement was requested; `None` if the request is withdrawn.
    requested: Option<String>,
}

impl DrainedMachine {
    /// What the command writes for the machine; `None` if nothing changes.
    fn of(machine: &Value, cancel: bool, now: Timestamp) -> Option<Self> {
        let is_requested = !machine["metadata"]["annotations"][REQUEST].is_null();
        (is_requested || !cancel).then(|| Self {
            name: name_of(machine).to_owned(),
            uid: machine["metadata"]["uid"].clone(),
            requested: (!cancel).then(|| choose_request_time(machine, now)),
        })
    }

    /// The change of the machine with this UID, at any version: a request holds for the whole machine.
    fn patch(&self) -> Value {
        json!({ "metadata": { "uid": self.uid, "annotations": { REQUEST: self.requested } } })
    }

    fn text(&self, mode: WriteMode) -> String {
        let what = match &self.requested {
            Some(_) => "its replacement is requested",
            None => "the request is withdrawn",
        };
        format!("machine {}: {what}{}\n", self.name, mode.note())
    }
}

/// Requests the replacement of machines, or withdraws the request.
///
/// # Errors
/// A machine does not belong to the pool, or a request failed. The output lists the machines before it.
pub(crate) async fn drain_machines<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &DrainArguments,
) -> Result<()> {
    let (_, facts) = decode_pool::<P>(&pool)?;
    let (format, mode) = (&arguments.format.output, arguments.dry_run.mode);
    let machines = find_machines::<P>(cluster, &facts.id, arguments).await?;
    let now = cluster.env.now();
    let mut done = DrainedMachines::default();
    for machine in machines.iter().filter_map(|machine| DrainedMachine::of(machine, arguments.cancel, now)) {
        cluster.patch::<P::Machine>(&machine.name, &Patch::Merge(machine.patch()), mode).await?;
        if is_text(format) {
            print_text(&machine.text(mode))?;
        }
        done.machines.push(machine);
    }
    let names: Vec<String> =
        done.machines.iter().map(|machine| resource_name::<P::Machine>(&machine.name)).collect();
    let rest = if done.machines.is_empty() { "no machine was changed\n" } else { "" };
    print_objects(format, rest, &names, &done)
}

fn is_text(format: &Format) -> bool {
    match format {
        Format::Text | Format::Wide => true,
        Format::Name | Format::Json | Format::Yaml | Format::JsonPath(_) => false,
    }
}

/// The machines that the arguments name.
async fn find_machines<P: ClientPlatform>(
    cluster: &UserClusterClient,
    pool: &ObjectId,
    arguments: &DrainArguments,
) -> Result<Vec<Value>> {
    ensure!(
        arguments.all || !arguments.machines.is_empty(),
        "name machines of the pool, or use --all: nothing was changed"
    );
    if arguments.all {
        list_pool_machines::<P>(cluster, pool).await
    } else {
        find_named_machines::<P>(cluster, pool, &arguments.machines).await
    }
}

/// The live machines of the pool.
async fn list_pool_machines<P: ClientPlatform>(
    cluster: &UserClusterClient,
    pool: &ObjectId,
) -> Result<Vec<Value>> {
    let machines = cluster.list::<P::Machine>(None).await?;
    let belongs = |machine: &Value| {
        machine["metadata"]["deletionTimestamp"].is_null()
            && serde_json::from_value(machine["metadata"].clone())
                .is_ok_and(|metadata| is_controlled_by::<P::Pool>(&metadata, pool))
    };
    Ok(machines.into_iter().filter(belongs).collect())
}

/// The time of a request that begins now. A request counts only if it is later than the creation of the
/// machine, whose clock is that of the API server.
fn choose_request_time(machine: &Value, now: Timestamp) -> String {
    let created = machine["metadata"]["creationTimestamp"].as_str();
    let created: Option<Timestamp> = created.and_then(|created| created.parse().ok());
    let after = created.and_then(|created| created.checked_add(SignedDuration::from_secs(1)).ok());
    timestamp_text(after.map_or(now, |after| now.max(after)))
}

#[cfg(test)]
mod tests;
