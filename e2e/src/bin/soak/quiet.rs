//! Quiet points: all faults are repaired, the pools return to their initial configuration, and the world must
//! settle.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;
use vmpool_api::labels;
use vmpool_e2e::world::{PoolScaleDownPolicy, ScenarioWorld};
use vmpool_invariants::leftovers;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::recorder::RecordedState;
use vmpool_runtime::testing::SeededRandom;
use vmpool_test_cluster::error::Error;

use crate::design::{EXTRA, LONG, QUIET_REPLICAS, SoakPlatform, SoakPoolConfig};
use crate::fault::{KILLED_INDEX, NEVER_KILLED_INDEX, find_leader};
use crate::operation::{self, OperationResult, TargetReference};
use crate::platform::soak_platform;
use crate::tally::SoakTally;

/// Timeout for a world to settle after the last fault. It is longer than the longest backoff, on a slow host.
pub(crate) const PATIENCE: Duration = Duration::from_mins(4);

/// How long there may be no leader: several times the lease duration.
const LEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Poll interval.
const POLL: Duration = Duration::from_millis(400);

/// What did not settle.
pub(crate) type Unsettled = Vec<String>;

/// Returns the pools to their configuration for quiet points, as users would, and waits until everything has
/// settled.
///
/// # Errors
/// If a step fails. What did not settle in time is the result.
pub(crate) async fn settle_pools(
    world: &ScenarioWorld,
    random: &SeededRandom,
    tally: &mut SoakTally,
) -> anyhow::Result<Unsettled> {
    let begin = Instant::now();
    let mut started = BTreeSet::new();
    let mut before = Vec::new();
    loop {
        if let Some(vacant) = restore_first_leader(world).await? {
            return Ok(vec![vacant]);
        }
        let left = restore_all_pools(world, random, &mut started).await?;
        if left != before {
            tally.note(format_args!("not quiet yet: {}", left.join(", ")));
            before.clone_from(&left);
        }
        if left.is_empty() {
            match world.settles().await {
                Ok(()) => {
                    // After a restart of the API server, the garbage collector reads everything again first.
                    let leftovers = leftover_violations(world);
                    if leftovers.is_empty() || begin.elapsed() > PATIENCE {
                        return Ok(leftovers);
                    }
                }
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

/// Makes the controller that is never killed the leader, so that samples compare a leader with a leader. The
/// result is a violation if there is no leader for too long.
async fn restore_first_leader(world: &ScenarioWorld) -> anyhow::Result<Option<String>> {
    let controllers = world.controllers();
    let mut vacant = Instant::now();
    while vacant.elapsed() < LEADER_TIMEOUT {
        match find_leader(world).await {
            Some(leader) if leader.identity() == controllers[NEVER_KILLED_INDEX].identity() => {
                return Ok(None);
            }
            Some(other) => {
                // A graceful stop releases the lease.
                other.stop().await?;
                vacant = Instant::now();
                while find_leader(world).await.is_none() && vacant.elapsed() < LEADER_TIMEOUT {
                    tokio::time::sleep(POLL).await;
                }
                controllers[KILLED_INDEX].restart().await?;
            }
            None => tokio::time::sleep(POLL).await,
        }
    }
    Ok(Some(format!("I8: there is no leader for {LEADER_TIMEOUT:?}")))
}

/// Performs one round of the operations that return the pools to their configuration. Returns what is not
/// done yet.
async fn restore_all_pools(
    world: &ScenarioWorld,
    random: &SeededRandom,
    started: &mut BTreeSet<String>,
) -> anyhow::Result<Vec<String>> {
    world.recorder().catch_up().await?;
    let state = world.recorder().state();
    let mut left = Vec::new();
    let spelling = soak_platform(world.platform());
    for design in spelling.pools() {
        match state.named(TestedKind::Pool, design.name) {
            None => {
                let replicas = i64::try_from(QUIET_REPLICAS)?;
                world.post(TestedKind::Pool, &spelling.object(world, design, replicas)).await?;
                left.push(format!("pool {} was just created", design.name));
            }
            Some(pool) if pool.is_terminating() => {
                left.push(format!("pool {} is terminating", design.name));
            }
            Some(pool) => left.extend(restore(world, spelling, design, pool, &state, random).await),
        }
    }
    for machine in state.all(TestedKind::Machine) {
        // A guest that shut down stays stopped until a user starts it.
        if machine.phase() == "Stopped" && started.insert(machine.uid().to_owned()) {
            operation::request_machine_operation(world, "Start", machine).await;
        }
    }
    let mounted = operation::referenced_disks(&state);
    for kind in [TestedKind::Machine, TestedKind::Disk] {
        for object in state.all(kind).filter(|object| object.owner_uid().is_empty()) {
            let waits = kind == TestedKind::Disk && mounted.contains(object.name());
            if !(object.is_terminating() || waits) {
                operation::delete_as_user(world, kind, Some(object)).await;
            }
            left.push(format!("{} {} has no owner", kind.name(), object.name()));
        }
    }
    Ok(left)
}

/// Returns one pool to its configuration. Returns what is not as it should be yet.
async fn restore(
    world: &ScenarioWorld,
    spelling: &dyn SoakPlatform,
    design: &SoakPoolConfig,
    pool: &JsonObject,
    state: &RecordedState,
    random: &SeededRandom,
) -> Option<String> {
    let machines = state.machines_of_pool(pool.uid());
    let replicas = pool.at("/spec/replicas").as_u64().unwrap_or_default();
    let calm = QUIET_REPLICAS as u64;
    if !spelling.has_quiet_settings(design, pool) {
        let patch = json!({ "spec": spelling.quiet_settings(design) });
        let answer =
            world.patch(TestedKind::Pool, design.name, &patch).await.err().map(|error| error.to_string());
        return Some(format!(
            "pool {} had other rollout settings {}",
            design.name,
            answer.unwrap_or_default()
        ));
    }
    // While `rollout.revision` is set, template changes have no effect.
    if operation::remove_disk(world, design, pool).await != OperationResult::NoTarget {
        return Some(format!("pool {} had an additional disk template", design.name));
    }
    if design.policy == PoolScaleDownPolicy::Explicit && replicas > calm {
        let live = machines.iter().filter(|machine| !machine.is_terminating()).count() as u64;
        if live == replicas {
            let target = TargetReference::NameAndUid;
            operation::request_targeted_removal(world, design, &machines, replicas - calm, target, random)
                .await;
        }
        return Some(format!("pool {} desires {replicas} machines and has {live}", design.name));
    }
    if replicas != calm {
        let patch = json!({ "spec": { "replicas": calm } });
        let answer =
            world.patch(TestedKind::Pool, design.name, &patch).await.err().map(|error| error.to_string());
        return Some(format!(
            "pool {} desired {replicas} machines {}",
            design.name,
            answer.unwrap_or_default()
        ));
    }
    let running = machines.iter().filter(|machine| machine.is_running()).count();
    // An Explicit pool keeps machines above the desired number and reports them.
    if machines.len() > QUIET_REPLICAS && design.policy == PoolScaleDownPolicy::Explicit {
        return Some(surplus(world, design, &machines).await);
    }
    let right = machines.len() == QUIET_REPLICAS && running == QUIET_REPLICAS;
    if !right {
        return Some(format!("pool {} has {} machines, of which {running} run", design.name, machines.len()));
    }
    uncollected(design, pool, state)
}

/// Deletes machines of an Explicit pool that has too many, as its user would.
async fn surplus(world: &ScenarioWorld, design: &SoakPoolConfig, machines: &[&JsonObject]) -> String {
    let live: Vec<&JsonObject> =
        machines.iter().copied().filter(|machine| !machine.is_terminating()).collect();
    for machine in live.iter().skip(QUIET_REPLICAS) {
        operation::delete_as_user(world, TestedKind::Machine, Some(machine)).await;
    }
    format!("pool {} has {} machines", design.name, machines.len())
}

/// Objects that belong to deleted pools or machines (I9).
fn leftover_violations(world: &ScenarioWorld) -> Unsettled {
    leftovers::check_leftovers(&world.recorder().history()).iter().map(ToString::to_string).collect()
}

/// Free disks that disk garbage collection should have deleted (I10): all disks of a removed template, and of
/// other templates those beyond `keep` that are older than `ttl`.
fn uncollected(design: &SoakPoolConfig, pool: &JsonObject, state: &RecordedState) -> Option<String> {
    let used = operation::referenced_disks(state);
    let free = |template: &str| {
        let of_template = state
            .owned_by(TestedKind::Disk, pool.uid())
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
