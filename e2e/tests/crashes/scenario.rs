//! The scenarios for fault injection: one step each, from a settled pool to a settled pool.

use std::collections::BTreeSet;

use anyhow::Context;
use serde_json::json;
use vmpool_api::{annotations, labels};
use vmpool_e2e::world::condition::{
    PoolPredicate, PoolView, disk_count, has_machine, machine_count, negate_condition, ready_replicas,
};
use vmpool_e2e::world::{
    DEADLINE, PoolDeletion, PoolHandle, PoolScaleDownPolicy, ScenarioPoolBuilder, ScenarioWorld,
};
use vmpool_installation::fault_proxy::RequestLine;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::settled;
use vmpool_test_cluster::poll;

/// A step on a pool whose machines have a `root` disk and, in scenarios about disks, a retained disk `cache`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrashScenario {
    /// A pool of three machines is created: a revision is stored, names are reserved, machines and disks are
    /// created.
    ScaleUp,
    /// Two of three machines are removed, and their caches become free.
    ScaleDown,
    /// One machine is removed by a targeted removal.
    Removal,
    /// Both machines get a new template, and restart one after the other. The former revision is pruned.
    Rollout,
    /// The disk template of the cache is removed: its disks are detached, then deleted.
    RemoveTemplate,
    /// All machines are removed, and disk garbage collection deletes their caches.
    CollectDisks,
    /// A user deletes a machine, and its replacement gets its cache.
    LoseMachine,
    /// The pool is deleted during a scale-up.
    DeletePool,
    /// Free caches are allocated to new machines.
    Allocate,
    /// All disks are expanded.
    Expand,
}

/// A scenario before its step.
pub(crate) struct Prepared<'w> {
    world: &'w ScenarioWorld,
    name: String,
    /// `None` for Up, which starts without a pool.
    pool: Option<PoolHandle<'w>>,
    /// The machine that Lost and Removal act on.
    machine: Option<JsonObject>,
}

impl CrashScenario {
    /// All scenarios.
    pub(crate) const ALL: [Self; 10] = [
        Self::ScaleUp,
        Self::ScaleDown,
        Self::Removal,
        Self::Rollout,
        Self::RemoveTemplate,
        Self::CollectDisks,
        Self::LoseMachine,
        Self::DeletePool,
        Self::Allocate,
        Self::Expand,
    ];

    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ScaleUp => "up",
            Self::ScaleDown => "down",
            Self::Removal => "removal by name",
            Self::Rollout => "rollout",
            Self::RemoveTemplate => "disk template removed",
            Self::CollectDisks => "free disks collected",
            Self::LoseMachine => "machine lost",
            Self::DeletePool => "pool deleted",
            Self::Allocate => "free disks handed out",
            Self::Expand => "growth",
        }
    }

    /// The most significant write of the scenario, and how many writes of this kind precede it.
    pub(crate) fn key_write(self) -> (&'static str, usize) {
        match self {
            Self::ScaleUp => ("POST controllerrevisions", 0),
            Self::ScaleDown => ("DELETE virtualmachines", 1),
            Self::Removal => ("PATCH virtualmachinepools", 0),
            Self::Rollout => ("PATCH virtualmachines", 1),
            Self::RemoveTemplate => ("DELETE virtualdisks", 0),
            Self::CollectDisks => ("DELETE virtualdisks", 1),
            Self::LoseMachine | Self::Allocate => ("PATCH virtualdisks", 0),
            Self::DeletePool => ("POST virtualmachines", 1),
            Self::Expand => ("PATCH virtualdisks", 1),
        }
    }

    fn pool<'w>(self, world: &'w ScenarioWorld, name: &str) -> ScenarioPoolBuilder<'w> {
        let pool = world.pool(name).disk("root");
        match self {
            Self::ScaleUp | Self::ScaleDown => pool.replicas(3).retained("cache", 0, "10m"),
            Self::Removal => pool.replicas(3),
            Self::Rollout => pool.policy(PoolScaleDownPolicy::Explicit).replicas(2).with(&json!({ "spec": {
                "revisionHistoryLimit": 0,
                "virtualMachineTemplate": { "spec": { "disruptions": { "restartApprovalMode": "Automatic" } } },
            } })),
            Self::RemoveTemplate => {
                pool.policy(PoolScaleDownPolicy::OldestFirst).replicas(2).retained("cache", 0, "10m")
            }
            Self::CollectDisks => pool.replicas(2).retained("cache", 0, "1s"),
            Self::LoseMachine => pool.policy(PoolScaleDownPolicy::Explicit).replicas(2).retained("cache", 0, "10m"),
            Self::DeletePool | Self::Allocate | Self::Expand => pool.replicas(2).retained("cache", 0, "10m"),
        }
    }

    /// Creates a pool with this name in the state before the step.
    pub(crate) async fn prepare<'w>(
        self,
        world: &'w ScenarioWorld,
        name: &str,
    ) -> anyhow::Result<Prepared<'w>> {
        let mut prepared = Prepared { world, name: name.to_owned(), pool: None, machine: None };
        if self == Self::ScaleUp {
            return Ok(prepared);
        }
        let pool = self.pool(world, name).ready().await?;
        pool.until(correct_status()).await?;
        if self == Self::Allocate {
            pool.scale_by_api(0).await?;
            pool.until(machine_count(0).and(of("cache", 2)).and(free("cache", 2)).and(correct_status()))
                .await?;
        }
        if [Self::LoseMachine, Self::Removal].contains(&self) {
            prepared.machine = Some(pool.machine(0).await?);
        }
        prepared.pool = Some(pool);
        Ok(prepared)
    }

    /// Performs the step.
    pub(crate) async fn begin<'w>(self, prepared: &Prepared<'w>) -> anyhow::Result<PoolHandle<'w>> {
        let Prepared { world, name, pool, machine } = prepared;
        let Some(pool) = pool else {
            return Ok(self.pool(world, name).create().await?);
        };
        let machine = || machine.as_ref().context("the scenario has selected a machine");
        match self {
            Self::ScaleUp => {}
            Self::ScaleDown => pool.scale_by_api(1).await?,
            Self::Removal => remove_until_answered(pool, machine()?).await?,
            Self::Rollout => {
                let cores = json!({ "virtualMachineTemplate": { "spec": { "cpu": { "cores": 2 } } } });
                pool.edit(&json!({ "spec": cores })).await?;
            }
            Self::RemoveTemplate => {
                pool.edit_templates(|devices, templates| {
                    devices.retain(|device| device["name"] != "cache");
                    templates.retain(|template| template["name"] != "cache");
                })
                .await?;
            }
            Self::CollectDisks => pool.scale_by_api(0).await?,
            Self::LoseMachine => world.delete(machine()?).await?,
            Self::DeletePool => pool.scale_by_api(4).await?,
            Self::Allocate => pool.scale_by_api(2).await?,
            Self::Expand => {
                pool.edit_templates(|_, templates| {
                    for template in templates {
                        template["spec"]["persistentVolumeClaim"]["size"] = json!("128Mi");
                    }
                })
                .await?;
            }
        }
        Ok(pool.clone())
    }

    /// The final state, unless the pool is deleted: the exact number of disks and a correct status.
    pub(crate) fn end(self, prepared: &Prepared<'_>) -> PoolPredicate {
        let gone = || match &prepared.machine {
            Some(machine) => negate_condition(has_machine(machine)),
            None => PoolPredicate::new("anything", |_| true),
        };
        let end = match self {
            Self::ScaleUp => ready_replicas(3).and(disk_count(6)).and(free("cache", 0)),
            Self::ScaleDown => ready_replicas(1).and(disk_count(4)).and(free("cache", 2)),
            Self::Removal => ready_replicas(2).and(disk_count(2)).and(gone()).and(unrecorded()),
            Self::Rollout => ready_replicas(2).and(disk_count(2)).and(on_one_revision(2)),
            Self::RemoveTemplate => ready_replicas(2).and(disk_count(2)).and(of("root", 2)).and(devices(1)),
            Self::CollectDisks => ready_replicas(0).and(disk_count(0)),
            Self::LoseMachine => ready_replicas(2).and(disk_count(4)).and(free("cache", 0)).and(gone()),
            Self::DeletePool => ready_replicas(4).and(disk_count(8)),
            Self::Allocate => ready_replicas(2).and(disk_count(4)).and(free("cache", 0)),
            Self::Expand => ready_replicas(2).and(disk_count(4)).and(disk_size("128Mi")),
        };
        end.and(correct_status())
    }

    /// Waits for the final state after all faults have ended.
    pub(crate) async fn finish(self, prepared: &Prepared<'_>, pool: &PoolHandle<'_>) -> anyhow::Result<()> {
        if self == Self::DeletePool {
            pool.delete(PoolDeletion::Background).await?;
            pool.leaves_nothing().await?;
        } else {
            pool.until_within(self.end(prepared), 2 * DEADLINE).await?;
        }
        Ok(())
    }
}

/// Whether a request is a write of the controller other than leases and events.
pub(crate) fn is_counted_write(request: &RequestLine) -> bool {
    request.is_write()
        && ["virtualization.deckhouse.io", "controllerrevisions"]
            .iter()
            .any(|part| request.path.contains(part))
}

/// Repeats the removal until it gets a response, as a user would.
pub(crate) async fn remove_until_answered(pool: &PoolHandle<'_>, machine: &JsonObject) -> anyhow::Result<()> {
    poll::poll_until(
        || format!("the removal of {} gets a response", machine.name()),
        DEADLINE,
        async || {
            let answer = pool.removal().target(machine).send().await?;
            let gone = answer.code == 400 && answer.message().contains(machine.name());
            Ok(if answer.is_success() || gone { Ok(()) } else { Err(answer.to_string()) })
        },
    )
    .await
    .with_context(|| format!("repeating the removal in pool {}", pool.name()))
}

/// The pool has no removal record.
pub(crate) fn unrecorded() -> PoolPredicate {
    PoolPredicate::new("no removal record", |view| {
        view.pool().is_some_and(|pool| pool.annotation(annotations::SCALE_DOWN_TARGETS).is_none())
    })
}

/// The status is correct (I8).
fn correct_status() -> PoolPredicate {
    PoolPredicate::new("a correct status", |view| {
        view.pool().is_some_and(|pool| settled::status_errors(pool, &view.machines()).is_empty())
    })
}

/// The disks of a template.
fn filling<'a>(view: PoolView<'a>, template: &str) -> Vec<&'a JsonObject> {
    view.disks().into_iter().filter(|disk| disk.label(labels::DISK_TEMPLATE) == Some(template)).collect()
}

fn of(template: &'static str, count: usize) -> PoolPredicate {
    PoolPredicate::new(format!("{count} disks of {template}"), move |view| {
        filling(view, template).len() == count
    })
}

fn free(template: &'static str, count: usize) -> PoolPredicate {
    PoolPredicate::new(format!("{count} free disks of {template}"), move |view| {
        filling(view, template)
            .iter()
            .filter(|disk| disk.annotation(annotations::FREE_SINCE).is_some())
            .count()
            == count
    })
}

/// All disks request this size.
fn disk_size(size: &'static str) -> PoolPredicate {
    PoolPredicate::new(format!("disks of {size}"), move |view| {
        view.disks().iter().all(|disk| disk.text("/spec/persistentVolumeClaim/size") == size)
    })
}

/// All machines that are not terminating run and use this number of disks.
fn devices(count: usize) -> PoolPredicate {
    PoolPredicate::new(format!("running machines with {count} disks each"), move |view| {
        view.live().all(|machine| machine.is_running() && machine.disk_references().count() == count)
    })
}

/// All machines that are not terminating have this number of cores and the same revision.
fn on_one_revision(cores: i64) -> PoolPredicate {
    PoolPredicate::new(format!("machines of one revision with {cores} cores"), move |view| {
        let revisions: BTreeSet<_> =
            view.live().map(|machine| machine.label(labels::TEMPLATE_HASH)).collect();
        revisions.len() == 1 && view.live().all(|machine| machine.number("/spec/cpu/cores") == Some(cores))
    })
}

/// The number of disks in the namespace, regardless of their owner.
pub(crate) async fn all_disks(world: &ScenarioWorld) -> anyhow::Result<usize> {
    world.recorder().catch_up().await?;
    Ok(world.recorder().history().state().all(TestedKind::Disk).count())
}
