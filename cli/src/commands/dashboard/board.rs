//! What the page shows, computed from the watched objects.

use std::cmp::Reverse;
use std::sync::Arc;

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde_json::Value;
use vmpool_engine::model::MachineActivity;
use vmpool_engine::{Machine, ParsedPool};
use vmpool_platforms::{ClientPlatform, InstanceOf, Instances, MachineView, PlatformName, with_platform};

use super::objects::{WatchedKey, WatchedKind, WatchedObjects};
use super::view::{BoardPool, BoardTone, DashboardBoard, MachineTile};
use crate::cluster::name_of;
use crate::current_revision::{KnownCurrentRevision, published_revision};
use crate::observation::UnobservedSpec;
use crate::phase::read_published_phase;
use crate::pool::{decode_pool, phase_tone, resource_name};
use crate::shown::{ShownCondition, ShownEvent, ShownProtection};
use crate::table::Tone;

/// Number of events of a pool to show.
const EVENTS: usize = 20;

/// What to show at this time.
pub(super) fn build_board(objects: &WatchedObjects, now: Timestamp) -> DashboardBoard {
    let unreadable = objects.problems().map(str::to_owned).collect();
    let mut board =
        DashboardBoard { version: env!("CARGO_PKG_VERSION"), unreadable, ..DashboardBoard::default() };
    for name in PlatformName::ALL {
        with_platform!(name, P => add_pools::<P>(&mut board, objects, name, now));
    }
    board.pools.sort_by(|a, b| (&a.namespace, &a.name, a.platform).cmp(&(&b.namespace, &b.name, b.platform)));
    board
}

fn add_pools<P: ClientPlatform>(
    board: &mut DashboardBoard,
    objects: &WatchedObjects,
    name: PlatformName,
    now: Timestamp,
) {
    let machines = read_machines::<P>(objects, name);
    for stored in objects.of(WatchedKind::Pools(name)) {
        match board_pool::<P>(stored, name, now) {
            Ok((mut shown, pool)) => {
                let unobserved = UnobservedSpec::read(stored, &pool);
                let current = KnownCurrentRevision::of_status::<P>(&pool, unobserved.as_ref());
                let own = machines.iter().filter(|machine| machine.belongs_to(&pool));
                shown.machines =
                    own.map(|machine| machine_tile(&pool, current.as_ref(), machine, now)).collect();
                shown.events = pool_events(objects, pool.id.uid.as_str());
                board.pools.push(shown);
            }
            Err(error) => board.unreadable.push(format!("pool {}: {error:#}", name_of(stored))),
        }
    }
}

/// A machine as the engine reads it, and as its platform shows it.
struct ReadMachine {
    namespace: String,
    facts: Machine,
    view: MachineView,
}

impl ReadMachine {
    fn belongs_to(&self, pool: &ParsedPool) -> bool {
        *self.namespace == *pool.namespace && self.facts.belongs_to(&pool.id)
    }
}

/// The machines that can be decoded, each with its instance.
fn read_machines<P: ClientPlatform>(objects: &WatchedObjects, name: PlatformName) -> Vec<ReadMachine> {
    let read = |stored: &Value| {
        let decoded: P::Machine = serde_json::from_value(stored.clone()).ok()?;
        let mut facts = P::read_machine(&decoded);
        let key = WatchedKey::of(stored);
        let instance = objects.get(WatchedKind::Instances(name), &key);
        if let Some(instance) = instance.cloned()
            && let Ok(decoded) = serde_json::from_value::<InstanceOf<P>>(instance)
        {
            let instance = P::Instances::read(&decoded);
            if instance.machine.as_ref() == Some(&facts.id.uid) {
                facts.instance = Some(Arc::new(instance));
            }
        }
        Some(ReadMachine { namespace: key.namespace, facts, view: P::machine_view(stored, instance) })
    };
    objects.of(WatchedKind::Machines(name)).filter_map(read).collect()
}

fn board_pool<P: ClientPlatform>(
    stored: &Value,
    name: PlatformName,
    now: Timestamp,
) -> Result<(BoardPool, ParsedPool)> {
    let (_, pool) = decode_pool::<P>(stored)?;
    let published = read_published_phase(&pool);
    let (phase, message) =
        published.map(|published| (published.phase, published.message)).unwrap_or_default();
    let outdated = UnobservedSpec::read(stored, &pool).map(|unobserved| unobserved.describe(None, now));
    let tone = if outdated.is_some() { Tone::Notice } else { phase_tone(&phase) };
    let shown = BoardPool {
        platform: name.as_str(),
        title: P::TITLE,
        namespace: pool.namespace.to_string(),
        name: pool.id.name.to_string(),
        resource: resource_name::<P::Pool>(&pool.id.name),
        desired: pool.desired,
        tone: tone.into(),
        outdated,
        deleting: pool.deleting,
        paused: P::is_paused(&pool),
        message,
        revision: published_revision(&pool).map(ToString::to_string).unwrap_or_default(),
        conditions: pool.published.conditions.iter().map(ShownCondition::from).collect(),
        phase,
        ..BoardPool::default()
    };
    Ok((shown, pool))
}

fn machine_tile(
    pool: &ParsedPool,
    current: Option<&KnownCurrentRevision>,
    machine: &ReadMachine,
    now: Timestamp,
) -> MachineTile {
    let ReadMachine { facts, view, .. } = machine;
    let ready = facts.activity == MachineActivity::Running && !facts.terminating;
    let tone = match (ready, &facts.problem) {
        (true, _) => BoardTone::Good,
        (false, Some(_)) => BoardTone::Bad,
        (false, None) => BoardTone::Notice,
    };
    MachineTile {
        name: facts.id.name.to_string(),
        state: if facts.terminating { "Terminating".to_owned() } else { view.state.clone() },
        tone,
        ready,
        terminating: facts.terminating,
        node: view.node.clone(),
        current: current.and_then(|current| current.is_of(facts)),
        revision: facts.effective_revision().map(ToString::to_string),
        restart_pending: facts.restart_pending,
        created: Some(facts.created),
        problem: facts.problem.as_ref().map(ToString::to_string),
        protection: ShownProtection::of(&pool.id, facts, now),
    }
}

/// The last events of a pool, the newest first.
fn pool_events(objects: &WatchedObjects, uid: &str) -> Vec<ShownEvent> {
    let is_own = |event: &&Value| event["involvedObject"]["uid"] == uid;
    let own = objects.of(WatchedKind::Events).filter(is_own);
    let decoded = own.filter_map(|event| serde_json::from_value::<Event>(event.clone()).ok());
    let mut events: Vec<ShownEvent> = decoded.map(ShownEvent::from).collect();
    events.sort_by_key(|event| Reverse(event.time));
    events.truncate(EVENTS);
    events
}

#[cfg(test)]
mod tests;
