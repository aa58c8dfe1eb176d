//! Faults and their repair.

use std::sync::Arc;
use std::time::Duration;

use vmpool_e2e::world::{Quota, Refusal, World};
use vmpool_installation::programs::{Component, Controller};
use vmpool_invariants::object::Kind;
use vmpool_invariants::platform::PlatformName;
use vmpool_runtime::testing::SeededRandom;
use vmpool_test_cluster::control_plane::Restart;
use vmpool_test_cluster::error::Result;

/// Index of the controller and of the replicas that are never killed, so that samples of their usage are comparable.
pub(crate) const STEADY: usize = 0;

/// Index of the replicas that are killed.
pub(crate) const MORTAL: usize = 1;

/// A fault. Machines are selected when it is injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Kills a controller.
    KillController,
    /// Terminates a controller gracefully, as in an upgrade.
    StopController,
    /// Pauses the leader for longer than its lease.
    PauseLeader,
    /// Kills a replica.
    KillReplica(Component),
    /// Terminates a replica gracefully.
    StopReplica(Component),
    /// Pauses a replica.
    PauseReplica(Component),
    /// Pauses the platform simulator.
    PausePlatform,
    /// Makes the API server refuse creates of a kind.
    RefuseCreates(Kind),
    /// Sets a quota that allows no additional machines.
    Quota,
    /// Makes the platform misbehave in the whole namespace: a setting of the simulator and its value.
    Knob(&'static str, &'static str),
    /// Changes a setting of the simulator for one machine until the fault is repaired.
    MachineKnob(&'static str, &'static str),
}

/// A temporary failure of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outage {
    /// The API server restarts.
    ApiServer(Restart),
    /// etcd restarts.
    Etcd(Restart),
    /// etcd is paused repeatedly.
    Stalls,
    /// etcd has no disk space left, for longer than a lease.
    FullDisk,
}

/// The repair of a fault.
pub(crate) enum Mend<'w> {
    /// Starts a controller.
    Start(Arc<Controller>),
    /// Resumes a controller.
    Resume(Arc<Controller>),
    /// Starts a replica.
    Restart(Component),
    /// Resumes a replica.
    ResumeReplica(Component),
    /// Resumes the platform simulator.
    ResumePlatform,
    /// Removes a rule that refuses creates.
    Lift(Refusal<'w>),
    /// Removes a quota.
    LiftQuota(Quota<'w>),
    /// Resets a setting of the namespace.
    Reset(&'static str),
    /// Resets a setting of a machine.
    ResetMachine(String, &'static str),
}

impl Fault {
    /// A random fault of a platform.
    pub(crate) fn random(platform: PlatformName, random: &SeededRandom) -> Self {
        let component = *random.one(&Component::ALL).unwrap_or(&Component::Webhook);
        match random.number(0..=99) {
            0..=15 => Self::KillController,
            16..=19 => Self::StopController,
            20..=33 => Self::PauseLeader,
            34..=43 => Self::KillReplica(component),
            44..=48 => Self::StopReplica(component),
            49..=53 => Self::PauseReplica(component),
            54..=57 => Self::PausePlatform,
            58..=61 => Self::RefuseCreates(Kind::Machine),
            62..=65 => Self::RefuseCreates(Kind::Disk),
            66..=69 => Self::Quota,
            70..=72 => Self::Knob("start-delay", "3s"),
            73..=75 => Self::Knob("stop-delay", "4s"),
            76..=78 => Self::Knob("evaluation-delay", "3s"),
            79..=80 => Self::Knob("provisioning-delay", "3s"),
            81..=83 => Self::Knob("fail-provisioning", "2"),
            84..=88 => Self::MachineKnob("crash", "true"),
            89..=91 => Self::MachineKnob("shutdown", "now"),
            92..=94 => Self::MachineKnob("stop-delay", "never"),
            number if platform == PlatformName::KubeVirt => Self::of_instance(number),
            95..=96 => Self::MachineKnob("bump-annotations", "5"),
            97..=98 => Self::MachineKnob("hold-restart", "true"),
            _ => Self::MachineKnob("skip-finalizers", "true"),
        }
    }

    /// A fault of the guest of one machine of KubeVirt.
    fn of_instance(number: u64) -> Self {
        match number {
            95..=96 => Self::MachineKnob("unschedulable", "true"),
            97..=98 => Self::MachineKnob("node-loss", "true"),
            _ => Self::MachineKnob("never-ready", "true"),
        }
    }

    /// Injects the fault. Returns its repair and duration, or `None` if there is nothing to inject it into.
    pub(crate) async fn happen<'w>(
        self,
        world: &'w World,
        random: &SeededRandom,
    ) -> Result<Option<(Duration, Mend<'w>)>> {
        let guard = world.installation().guard()?;
        let lasts = |seconds: std::ops::RangeInclusive<u64>| {
            Duration::from_millis(random.number(seconds.start() * 1000..=seconds.end() * 1000))
        };
        Ok(match self {
            Self::KillController | Self::StopController => {
                let controller = world.controllers()[MORTAL].clone();
                if self == Self::KillController {
                    controller.kill();
                } else {
                    // A paused process does not receive signals; `stop` resumes it.
                    controller.stop().await?;
                }
                Some((lasts(0..=8), Mend::Start(controller)))
            }
            Self::PauseLeader => match leader(world).await {
                Some(controller) => {
                    controller.pause()?;
                    Some((lasts(7..=12), Mend::Resume(controller)))
                }
                None => None,
            },
            Self::KillReplica(component) => {
                guard.service(component)?.kill(MORTAL);
                Some((lasts(1..=8), Mend::Restart(component)))
            }
            Self::StopReplica(component) => {
                guard.service(component)?.stop(MORTAL).await?;
                Some((lasts(0..=4), Mend::Restart(component)))
            }
            Self::PauseReplica(component) => {
                guard.service(component)?.replicas()[STEADY].pause()?;
                Some((lasts(1..=3), Mend::ResumeReplica(component)))
            }
            Self::PausePlatform => {
                world.installation().simulator().pause()?;
                Some((lasts(1..=6), Mend::ResumePlatform))
            }
            Self::RefuseCreates(kind) => {
                let rule = world.refuse_creates(kind, "refused by the soak test").await?;
                Some((lasts(2..=10), Mend::Lift(rule)))
            }
            Self::Quota => {
                let exist = world.recorder().state().all(Kind::Machine).count();
                let quota = world.quota(Kind::Machine, exist).await?;
                Some((lasts(2..=10), Mend::LiftQuota(quota)))
            }
            Self::Knob(knob, value) => {
                world.knob(knob, value).await?;
                Some((lasts(3..=12), Mend::Reset(knob)))
            }
            Self::MachineKnob(knob, value) => {
                let state = world.recorder().state();
                let machines: Vec<_> =
                    state.all(Kind::Machine).filter(|machine| !machine.is_terminating()).collect();
                match random.one(&machines) {
                    Some(machine) => {
                        let name = machine.name().to_owned();
                        // The machine may be deleted meanwhile.
                        let _ = world.knob_of(Kind::Machine, &name, knob, Some(value)).await;
                        Some((lasts(3..=12), Mend::ResetMachine(name, knob)))
                    }
                    None => None,
                }
            }
        })
    }

    /// What the fault affects. No other fault affects it at the same time.
    pub(crate) fn victim(self) -> String {
        match self {
            Self::KillController | Self::StopController | Self::PauseLeader => "controllers".to_owned(),
            Self::KillReplica(component) | Self::StopReplica(component) | Self::PauseReplica(component) => {
                component.name().to_owned()
            }
            Self::PausePlatform => "platform".to_owned(),
            Self::RefuseCreates(kind) => format!("creates of {}", kind.plural()),
            Self::Quota => "quota".to_owned(),
            Self::Knob(knob, _) => knob.to_owned(),
            Self::MachineKnob(..) => "a machine".to_owned(),
        }
    }
}

impl Mend<'_> {
    /// Repairs the fault.
    pub(crate) async fn perform(self, world: &World) -> Result<()> {
        let guard = world.installation().guard()?;
        match self {
            Self::Start(controller) => controller.restart().await,
            Self::Resume(controller) => controller.resume(),
            Self::Restart(component) => guard.service(component)?.restart(MORTAL).await,
            Self::ResumeReplica(component) => guard.service(component)?.replicas()[STEADY].resume(),
            Self::ResumePlatform => world.installation().simulator().resume(),
            Self::Lift(rule) => rule.lift().await,
            Self::LiftQuota(quota) => quota.lift().await,
            Self::Reset(knob) => world.reset_knob(knob).await,
            Self::ResetMachine(name, knob) => match world.knob_of(Kind::Machine, &name, knob, None).await {
                // The machine was deleted meanwhile.
                Err(error) if error.status_code() == Some(404) => Ok(()),
                other => other,
            },
        }
    }
}

impl Outage {
    /// A random outage.
    pub(crate) fn random(random: &SeededRandom) -> Self {
        match random.number(0..=9) {
            0..=1 => Self::ApiServer(Restart::Graceful),
            2..=3 => Self::ApiServer(Restart::Killed),
            4 => Self::Etcd(Restart::Graceful),
            5..=6 => Self::Etcd(Restart::Killed),
            7..=8 => Self::Stalls,
            _ => Self::FullDisk,
        }
    }

    /// Runs the outage to its end.
    pub(crate) async fn pass(self, world: &World, random: &SeededRandom) -> Result<()> {
        let cluster = world.cluster();
        match self {
            Self::ApiServer(how) => cluster.restart_api_server(how).await,
            Self::Etcd(how) => cluster.restart_etcd(how).await,
            Self::Stalls => {
                for _ in 0..random.number(2..=5) {
                    cluster.pause_etcd()?;
                    tokio::time::sleep(Duration::from_millis(random.number(100..=2500))).await;
                    cluster.resume_etcd()?;
                    tokio::time::sleep(Duration::from_millis(random.number(50..=600))).await;
                }
                Ok(())
            }
            Self::FullDisk => {
                cluster.fill_disk().await?;
                tokio::time::sleep(Duration::from_millis(random.number(2000..=8000))).await;
                cluster.clear_disk().await.map(drop)
            }
        }
    }
}

/// The controller that reports itself as the leader.
pub(crate) async fn leader(world: &World) -> Option<Arc<Controller>> {
    for controller in world.controllers() {
        if controller.leads().await == Some(true) {
            return Some(controller);
        }
    }
    None
}
