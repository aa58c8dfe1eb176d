//! Reads the status of a pool. What the user may not read is reported, and the rest is shown.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::Value;
use vmpool_controller::{Preview, preview_pool};
use vmpool_engine::activity::ActivityEntry;
use vmpool_engine::model::{DiskState, MachineActivity, StoredTime};
use vmpool_engine::{Disk, Machine, ParsedPool, Pool};
use vmpool_platforms::{ClientPlatform, InstanceOf, Instances, MachineStorage, VolumeOf};

use super::view::{
    ActivityStatus, DiskOverview, DrainStatus, MachineOverview, PoolOverview, ProtectionStatus,
    PublishedCounters, RecyclingStatus,
};
use super::volumes::list_volume_overviews;
use crate::cluster::{ListScope, UserClusterClient, name_of};
use crate::current_revision::KnownCurrentRevision;
use crate::explain::{RequestAttempt, explain_read_error, explain_request_error};
use crate::leader::read_leader_state;
use crate::observation::UnobservedSpec;
use crate::phase::read_published_phase;
use crate::pool::decode_pool;
use crate::shown::{ShownCondition, ShownEvent, ShownProtection};

/// Number of events to show.
const EVENTS: usize = 8;

/// Reads the status of this pool. `system` is the namespace of the release.
///
/// # Errors
/// A request failed for another reason than a missing right.
pub(super) async fn collect_pool_overview<P: ClientPlatform>(
    cluster: &UserClusterClient,
    stored: &Value,
    system: &str,
) -> Result<PoolOverview> {
    let (object, facts) = decode_pool::<P>(stored)?;
    let mut status = pool_overview::<P>(&facts, stored);
    // Most users of pools may not read the lease, and lack nothing else.
    status.leader = read_leader_state(cluster, system)
        .await
        .ok()
        .filter(|leader| status.unobserved.is_some() || leader.is_absent(cluster.env.now()));
    match preview_pool::<P>(&cluster.env, cluster.client.clone(), object).await {
        Ok(preview) => {
            let objects = list_stored_objects::<P>(cluster, &mut status.unreadable).await;
            match objects {
                Ok(objects) => add_machines::<P>(&mut status, &preview, &objects, cluster.env.now()),
                Err(error) => status.unreadable.push(format!("{error:#}")),
            }
        }
        Err(error) => status.unreadable.push(format!("machines and disks: {}", explain_read_error(&error))),
    }
    match list_pool_events(cluster, facts.id.uid.as_str()).await {
        Ok(events) => status.events = events,
        Err(error) => status.unreadable.push(format!("events: {error:#}")),
    }
    Ok(status)
}

/// What the object shows by itself.
fn pool_overview<P: ClientPlatform>(pool: &ParsedPool, stored: &Value) -> PoolOverview {
    let count = |field: &str| {
        let count = stored["status"][field].as_u64().unwrap_or_default();
        usize::try_from(count).unwrap_or_default()
    };
    let summary = pool.published.summary.as_ref();
    PoolOverview {
        platform: P::TITLE,
        namespace: pool.namespace.to_string(),
        pool: pool.id.name.to_string(),
        desired: pool.desired,
        replicas: summary.map_or_else(|| count("replicas"), |summary| summary.replicas),
        ready: summary.map_or_else(|| count("readyReplicas"), |summary| summary.ready),
        updated: summary.map_or_else(|| count("updatedReplicas"), |summary| summary.updated),
        restart_pending: summary.map_or(0, |summary| summary.restart_pending),
        draining: summary.map_or(0, |summary| summary.draining),
        standby: summary.map_or(0, |summary| summary.standby.total),
        ready_standby: summary.map_or(0, |summary| summary.standby.ready),
        image_outdated: summary.map_or(0, |summary| summary.image_outdated),
        revision: summary.map(|summary| summary.revision.to_string()).unwrap_or_default(),
        paused: P::is_paused(pool),
        state: read_published_phase(pool).map(|published| published.phase).unwrap_or_default(),
        unobserved: UnobservedSpec::read(stored, pool),
        conditions: pool.published.conditions.iter().map(ShownCondition::from).collect(),
        activity: pool.published.activity.iter().map(activity_status).collect(),
        ..PoolOverview::default()
    }
}

fn activity_status(entry: &ActivityEntry) -> ActivityStatus {
    let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
    ActivityStatus {
        time: entry.time,
        reason: entry.reason.as_str().to_owned(),
        actor: text(&entry.actor),
        from: text(&entry.from),
        to: text(&entry.to),
    }
}

/// The machines and instances of the namespace as the API server stores them, by name.
struct Objects {
    machines: HashMap<String, Value>,
    instances: HashMap<String, Value>,
    /// The volumes that machines own, on platforms that have them; empty if they cannot be read.
    volumes: HashMap<String, Value>,
}

async fn list_stored_objects<P: ClientPlatform>(
    cluster: &UserClusterClient,
    unreadable: &mut Vec<String>,
) -> Result<Objects> {
    let machines = index_by_name(cluster.list::<P::Machine>(None).await?);
    let instances = if P::Instances::EXIST {
        index_by_name(cluster.list::<InstanceOf<P>>(None).await?)
    } else {
        HashMap::new()
    };
    let volumes = if P::Storage::EXIST {
        match cluster.list_if_served::<VolumeOf<P>>(ListScope::Namespace).await {
            Ok(listed) => index_by_name(listed.unwrap_or_default()),
            Err(error) => {
                unreadable.push(format!("states of volumes: {error:#}"));
                HashMap::new()
            }
        }
    } else {
        HashMap::new()
    };
    Ok(Objects { machines, instances, volumes })
}

fn index_by_name(objects: Vec<Value>) -> HashMap<String, Value> {
    objects.into_iter().map(|object| (name_of(&object).to_owned(), object)).collect()
}

/// Adds what the controller sees.
fn add_machines<P: ClientPlatform>(
    status: &mut PoolOverview,
    preview: &Preview,
    objects: &Objects,
    now: Timestamp,
) {
    let pool = &preview.pool;
    let summary = &preview.status.summary;
    // The published counters count by the same rules, which differ between platforms.
    let published = PublishedCounters { replicas: status.replicas, ready: status.ready };
    let present = PublishedCounters { replicas: summary.replicas, ready: summary.ready };
    status.published = (published != present).then_some(published);
    status.updated = summary.updated;
    status.restart_pending = summary.restart_pending;
    status.draining = summary.draining;
    (status.standby, status.ready_standby) = (summary.standby.total, summary.standby.ready);
    status.revision = summary.revision.to_string();
    status.blocked = preview.next.blockers.iter().map(ToString::to_string).collect();
    let disks: HashMap<&str, &Disk> = preview.disks.iter().map(|disk| (&*disk.id.name, &**disk)).collect();
    let mut held = BTreeSet::new();
    let mut machines: Vec<&Machine> = preview.machines.iter().map(|machine| &**machine).collect();
    machines.sort_by(|a, b| a.id.cmp(&b.id));
    for machine in machines {
        held.extend(machine.held_disks().map(ToString::to_string));
        let mut shown = machine_overview(pool, machine);
        shown.protection = ShownProtection::of(&pool.id, machine, now).map(ProtectionStatus::from);
        let stored = objects.machines.get(&*machine.id.name);
        if let Some(object) = stored {
            let view = P::machine_view(object, objects.instances.get(&*machine.id.name));
            (shown.state, shown.node, shown.addresses) = (view.state, view.node, view.addresses);
        }
        shown.disks = machine
            .disks
            .iter()
            .map(|device| {
                let missing = || DiskOverview {
                    name: device.disk.to_string(),
                    state: "Missing".into(),
                    ..Default::default()
                };
                let mut disk = disks.get(&*device.disk).map_or_else(missing, |disk| disk_overview(disk));
                disk.template = device.template.as_ref().map(ToString::to_string).or(disk.template);
                disk
            })
            .collect();
        shown.disks.extend(
            stored.into_iter().flat_map(|object| list_volume_overviews::<P>(object, &objects.volumes)),
        );
        status.machines.push(shown);
    }
    count_machines(status);
    let is_free = |disk: &&std::sync::Arc<Disk>| disk.belongs_to(&pool.id) && !held.contains(&*disk.id.name);
    status.free_disks = preview.disks.iter().filter(is_free).map(|disk| disk_overview(disk)).collect();
}

/// Sets the counters to those of the listed active machines.
fn count_machines(status: &mut PoolOverview) {
    let is_own = |machine: &&MachineOverview| !machine.released && machine.standby.is_none();
    let own = || status.machines.iter().filter(is_own);
    let (replicas, ready) = (own().count(), own().filter(|machine| machine.ready).count());
    (status.replicas, status.ready) = (replicas, ready);
}

fn machine_overview(pool: &Pool, machine: &Machine) -> MachineOverview {
    MachineOverview {
        name: machine.id.name.to_string(),
        ready: machine.activity == MachineActivity::Running && !machine.terminating,
        terminating: machine.terminating,
        released: !(pool.includes(machine) || machine.terminating && machine.belongs_to(&pool.id)),
        current: KnownCurrentRevision::of_pool(pool).is_of(machine) == Some(true),
        revision: machine.effective_revision().map(ToString::to_string),
        restart_pending: machine.restart_pending,
        drain: DrainStatus::of(machine),
        recycling: RecyclingStatus::of(machine),
        standby: machine.standby.as_ref().map(|state| state.phase.as_str()),
        created: Some(machine.created),
        problem: machine.problem.as_ref().map(ToString::to_string),
        ..MachineOverview::default()
    }
}

fn disk_overview(disk: &Disk) -> DiskOverview {
    let state = match disk.state {
        _ if disk.terminating => "Terminating",
        DiskState::Ready => "Ready",
        DiskState::Pending => "Preparing",
        DiskState::Changing => "Changing",
        DiskState::Failed => "Failed",
        DiskState::Lost => "Lost",
        DiskState::Superseded => "Superseded",
    };
    let free_since = match disk.annotations.free_since {
        Some(StoredTime::At(time)) => Some(time),
        Some(StoredTime::Unreadable) | None => None,
    };
    DiskOverview {
        name: disk.id.name.to_string(),
        template: disk.template.as_ref().map(ToString::to_string),
        state: state.to_owned(),
        created: Some(disk.created),
        size: disk.capacity.or(disk.size),
        free_since,
        problem: disk.failure.as_ref().map(ToString::to_string),
    }
}

/// The last events about the pool, newest last.
async fn list_pool_events(cluster: &UserClusterClient, uid: &str) -> Result<Vec<ShownEvent>> {
    let api: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let params = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
    let attempt = RequestAttempt {
        verb: "list",
        resource: "events".to_owned(),
        name: String::new(),
        namespace: cluster.namespace.clone(),
    };
    let listed = api.list(&params).await.map_err(|error| explain_request_error(&attempt, &error))?;
    let mut events: Vec<ShownEvent> = listed.items.into_iter().map(ShownEvent::from).collect();
    events.sort_by_key(|event| event.time);
    let surplus = events.len().saturating_sub(EVENTS);
    Ok(events.split_off(surplus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_are_those_of_the_listed_machines() {
        let machine = |ready, terminating, released| MachineOverview {
            ready,
            terminating,
            released,
            ..MachineOverview::default()
        };
        let mut status = PoolOverview {
            replicas: 9,
            ready: 9,
            machines: vec![
                machine(true, false, false),
                machine(false, false, false),
                machine(false, true, false),
                machine(true, false, true),
                MachineOverview { standby: Some("warming"), ..machine(true, false, false) },
            ],
            ..PoolOverview::default()
        };
        count_machines(&mut status);
        assert_eq!((status.replicas, status.ready), (3, 1));
    }
}
