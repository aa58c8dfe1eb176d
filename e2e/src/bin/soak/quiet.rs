//! Quiet points: all faults are repaired, the pools return to their initial configuration, and the world must settle.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;
use vmpool_api::labels;
use vmpool_e2e::world::{Policy, World};
use vmpool_invariants::leftovers;
use vmpool_invariants::object::{Kind, Object};
use vmpool_invariants::recorder::State;
use vmpool_runtime::testing::SeededRandom;
use vmpool_test_cluster::error::Error;

use crate::design::{CALM, Design, EXTRA, LONG, Spelling};
use crate::fault::{MORTAL, STEADY, leader};
use crate::operation::{self, Answer};
use crate::platform::spelling;
use crate::tally::Tally;

/// Timeout for a world to settle after the last fault. It is longer than the longest backoff, on a slow host.
pub(crate) const PATIENCE: Duration = Duration::from_mins(4);

/// How long there may be no leader: several times the lease duration.
const SUCCESSION: Duration = Duration::from_secs(30);

/// Poll interval.
const POLL: Duration = Duration::from_millis(400);

/// What did not settle.
pub(crate) type Unsettled = Vec<String>;

/// Returns the pools to their configuration for quiet points, as users would, and waits until everything has settled.
///
/// # Errors
/// If a step fails. What did not settle in time is the result.
pub(crate) async fn calm(
    world: &World,
    random: &SeededRandom,
    tally: &mut Tally,
) -> anyhow::Result<Unsettled> {
    let begin = Instant::now();
    let mut started = BTreeSet::new();
    let mut before = Vec::new();
    loop {
        if let Some(vacant) = lead(world).await? {
            return Ok(vec![vacant]);
        }
        let left = tidy(world, random, &mut started).await?;
        if left != before {
            tally.note(format_args!("not quiet yet: {}", left.join(", ")));
            before.clone_from(&left);
        }
        if left.is_empty() {
            match world.settles().await {
                Ok(()) => return Ok(strays(world)),
                Err(Error::Violations { violations }) if begin.elapsed() > PATIENCE => return Ok(violations),
                Err(Error::Violations { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        } else if begin.elapsed() > PATIENCE {
            return Ok(left
                .into_iter()
                .map(|what| format!("I8: after {PATIENCE:?} without faults, {what}"))
                .collect());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Makes the controller that is never killed the leader, so that samples compare a leader with a leader. The result is a
/// violation if there is no leader for too long.
async fn lead(world: &World) -> anyhow::Result<Option<String>> {
    let controllers = world.controllers();
    let mut vacant = Instant::now();
    while vacant.elapsed() < SUCCESSION {
        match leader(world).await {
            Some(leader) if leader.identity() == controllers[STEADY].identity() => return Ok(None),
            Some(other) => {
                // A graceful stop releases the lease.
                other.stop().await?;
                vacant = Instant::now();
                while leader(world).await.is_none() && vacant.elapsed() < SUCCESSION {
                    tokio::time::sleep(POLL).await;
                }
                controllers[MORTAL].restart().await?;
            }
            None => tokio::time::sleep(POLL).await,
        }
    }
    Ok(Some(format!("I8: there is no leader for {SUCCESSION:?}")))
}

/// Performs one round of the operations that return the pools to their configuration. Returns what is not done yet.
async fn tidy(
    world: &World,
    random: &SeededRandom,
    started: &mut BTreeSet<String>,
) -> anyhow::Result<Vec<String>> {
    world.recorder().catch_up().await?;
    let state = world.recorder().state();
    let mut left = Vec::new();
    let spelling = spelling(world.platform());
    for design in spelling.pools() {
        match state.named(Kind::Pool, design.name) {
            None => {
                let replicas = i64::try_from(CALM)?;
                world.post(Kind::Pool, &spelling.object(world, design, replicas)).await?;
                left.push(format!("pool {} was just created", design.name));
            }
            Some(pool) if pool.is_terminating() => {
                left.push(format!("pool {} is terminating", design.name));
            }
            Some(pool) => left.extend(restore(world, spelling, design, pool, &state, random).await),
        }
    }
    for machine in state.all(Kind::Machine) {
        // A guest that shut down stays stopped until a user starts it.
        if machine.phase() == "Stopped" && started.insert(machine.uid().to_owned()) {
            operation::operate(world, "Start", machine).await;
        }
    }
    let mounted = operation::referenced_disks(&state);
    for kind in [Kind::Machine, Kind::Disk] {
        for object in state.all(kind).filter(|object| object.owner_uid().is_empty()) {
            let waits = kind == Kind::Disk && mounted.contains(object.name());
            if !(object.is_terminating() || waits) {
                operation::delete(world, kind, Some(object)).await;
            }
            left.push(format!("{} {} has no owner", kind.name(), object.name()));
        }
    }
    Ok(left)
}

/// Returns one pool to its configuration. Returns what is not as it should be yet.
async fn restore(
    world: &World,
    spelling: &dyn Spelling,
    design: &Design,
    pool: &Object,
    state: &State,
    random: &SeededRandom,
) -> Option<String> {
    let members = state.members(pool.uid());
    let replicas = pool.at("/spec/replicas").as_u64().unwrap_or_default();
    let calm = CALM as u64;
    if !spelling.is_calm(design, pool) {
        let patch = json!({ "spec": spelling.calm(design) });
        let answer = world.patch(Kind::Pool, design.name, &patch).await.err().map(|error| error.to_string());
        return Some(format!(
            "pool {} had other rollout settings {}",
            design.name,
            answer.unwrap_or_default()
        ));
    }
    // While `rollout.revision` is set, template changes have no effect.
    if operation::remove_disk(world, design, pool).await != Answer::Idle {
        return Some(format!("pool {} had an additional disk template", design.name));
    }
    if design.policy == Policy::Explicit && replicas > calm {
        let live = members.iter().filter(|member| !member.is_terminating()).count() as u64;
        if live == replicas {
            operation::remove(world, design, &members, replicas - calm, random).await;
        }
        return Some(format!("pool {} desires {replicas} machines and has {live}", design.name));
    }
    if replicas != calm {
        let patch = json!({ "spec": { "replicas": calm } });
        let answer = world.patch(Kind::Pool, design.name, &patch).await.err().map(|error| error.to_string());
        return Some(format!(
            "pool {} desired {replicas} machines {}",
            design.name,
            answer.unwrap_or_default()
        ));
    }
    let running = members.iter().filter(|member| member.is_running()).count();
    // An Explicit pool keeps machines above the desired number and reports them.
    if members.len() > CALM && design.policy == Policy::Explicit {
        return Some(surplus(world, design, &members).await);
    }
    let right = members.len() == CALM && running == CALM;
    if !right {
        return Some(format!("pool {} has {} machines, of which {running} run", design.name, members.len()));
    }
    uncollected(design, pool, state)
}

/// Deletes machines of an Explicit pool that has too many, as its user would.
async fn surplus(world: &World, design: &Design, members: &[&Object]) -> String {
    let live: Vec<&Object> = members.iter().copied().filter(|member| !member.is_terminating()).collect();
    for machine in live.iter().skip(CALM) {
        operation::delete(world, Kind::Machine, Some(machine)).await;
    }
    format!("pool {} has {} machines", design.name, members.len())
}

/// Objects that belong to deleted pools or machines (I9).
fn strays(world: &World) -> Unsettled {
    leftovers::violations(&world.recorder().history()).iter().map(ToString::to_string).collect()
}

/// Free disks that disk garbage collection should have deleted (I10): all disks of a removed template, and of other
/// templates those beyond `keep` that are older than `ttl`.
fn uncollected(design: &Design, pool: &Object, state: &State) -> Option<String> {
    let used = operation::referenced_disks(state);
    let free = |template: &str| {
        let of_template = state
            .owned_by(Kind::Disk, pool.uid())
            .filter(|disk| disk.label(labels::DISK_TEMPLATE) == Some(template));
        of_template.filter(|disk| !used.contains(disk.name())).count()
    };
    let kept = design.disks.iter().filter_map(|(template, kept)| Some((*template, (*kept)?)));
    let short = kept.filter(|(_, (_, ttl))| *ttl != LONG).map(|(template, (keep, _))| (template, keep));
    short.chain([(EXTRA, 0)]).find_map(|(template, keep)| {
        let free = free(template);
        let most = usize::try_from(keep).unwrap_or(usize::MAX);
        (free > most)
            .then(|| format!("pool {} has {free} free disks of {template}, and keeps {keep}", design.name))
    })
}
