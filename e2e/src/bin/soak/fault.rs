//! Faults and their repair.

use std::sync::Arc;
use std::time::Duration;

use vmpool_e2e::world::{Quota, ScenarioWorld, WriteRefusalPolicy};
use vmpool_installation::programs::{Component, ControllerProgram};
use vmpool_invariants::object::TestedKind;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_runtime::testing::SeededRandom;
use vmpool_test_cluster::control_plane::RestartMethod;
use vmpool_test_cluster::error::Result;

/// Index of the controller and of the replicas that are never killed, so that samples of their usage are
/// comparable.
pub(crate) const NEVER_KILLED_INDEX: usize = 0;

/// Index of the replicas that are killed.
pub(crate) const KILLED_INDEX: usize = 1;

/// A fault. Machines are selected when it is injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SoakFault {
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
    RefuseCreates(TestedKind),
    /// Sets a quota that allows no additional machines.
    Quota,
    /// Makes the platform misbehave in the whole namespace: a setting of the simulator and its value.
    Knob(&'static str, &'static str),
    /// Changes a setting of the simulator for one machine until the fault is repaired.
    MachineKnob(&'static str, &'static str),
}

/// A temporary failure of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ControlPlaneOutage {
    /// The API server restarts.
    ApiServer(RestartMethod),
    /// etcd restarts.
    Etcd(RestartMethod),
    /// etcd is paused repeatedly.
    Stalls,
    /// etcd has no disk space left, for longer than a lease.
    FullDisk,
}

/// The repair of a fault.
pub(crate) enum FaultRepair<'w> {
    /// Starts a controller.
    Start(Arc<ControllerProgram>),
    /// Resumes a controller.
    Resume(Arc<ControllerProgram>),
    /// Starts a replica.
    Restart(Component),
    /// Resumes a replica.
    ResumeReplica(Component),
    /// Resumes the platform simulator.
    ResumePlatform,
    /// Removes a rule that refuses creates.
    Lift(WriteRefusalPolicy<'w>),
    /// Removes a quota.
    LiftQuota(Quota<'w>),
    /// Resets a setting of the namespace.
    Reset(&'static str),
    /// Resets a setting of a machine.
    ResetMachine(String, &'static str),
}

impl SoakFault {
    /// A random fault of a platform.
    pub(crate) fn random(platform: TestedPlatform, random: &SeededRandom) -> Self {
        let component = *random.one(&Component::ALL).unwrap_or(&Component::Webhook);
        match random.number(0..=99) {
            0..=15 => Self::KillController,
            16..=19 => Self::StopController,
            20..=33 => Self::PauseLeader,
            34..=43 => Self::KillReplica(component),
            44..=48 => Self::StopReplica(component),
            49..=53 => Self::PauseReplica(component),
            54..=57 => Self::PausePlatform,
            58..=61 => Self::RefuseCreates(TestedKind::Machine),
            62..=65 => Self::RefuseCreates(TestedKind::Disk),
            66..=69 => Self::Quota,
            70..=72 => Self::Knob("start-delay", "3s"),
            73..=75 => Self::Knob("stop-delay", "4s"),
            76..=78 => Self::Knob("evaluation-delay", "3s"),
            79..=80 => Self::Knob("provisioning-delay", "3s"),
            81..=83 => Self::Knob("fail-provisioning", "2"),
            84..=88 => Self::MachineKnob("crash", "true"),
            89..=91 => Self::MachineKnob("shutdown", "now"),
            92..=94 => Self::MachineKnob("stop-delay", "never"),
            number if platform == TestedPlatform::KubeVirt => Self::of_instance(number),
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
        world: &'w ScenarioWorld,
        random: &SeededRandom,
    ) -> Result<Option<(Duration, FaultRepair<'w>)>> {
        let guard = world.installation().guard()?;
        let lasts = |seconds: std::ops::RangeInclusive<u64>| {
            Duration::from_millis(random.number(seconds.start() * 1000..=seconds.end() * 1000))
        };
        Ok(match self {
            Self::KillController | Self::StopController => {
                let controller = world.controllers()[KILLED_INDEX].clone();
                if self == Self::KillController {
                    controller.kill();
                } else {
                    // A paused process does not receive signals; `stop` resumes it.
                    controller.stop().await?;
                }
                Some((lasts(0..=8), FaultRepair::Start(controller)))
            }
            Self::PauseLeader => match find_leader(world).await {
                Some(controller) => {
                    controller.pause()?;
                    Some((lasts(7..=12), FaultRepair::Resume(controller)))
                }
                None => None,
            },
            Self::KillReplica(component) => {
                guard.service(component)?.kill(KILLED_INDEX);
                Some((lasts(1..=8), FaultRepair::Restart(component)))
            }
            Self::StopReplica(component) => {
                guard.service(component)?.stop(KILLED_INDEX).await?;
                Some((lasts(0..=4), FaultRepair::Restart(component)))
            }
            Self::PauseReplica(component) => {
                guard.service(component)?.replicas()[NEVER_KILLED_INDEX].pause()?;
                Some((lasts(1..=3), FaultRepair::ResumeReplica(component)))
            }
            Self::PausePlatform => {
                world.installation().simulator().pause()?;
                Some((lasts(1..=6), FaultRepair::ResumePlatform))
            }
            Self::RefuseCreates(kind) => {
                let rule = world.refuse_creates(kind, "refused by the soak test").await?;
                Some((lasts(2..=10), FaultRepair::Lift(rule)))
            }
            Self::Quota => {
                let exist = world.recorder().state().all(TestedKind::Machine).count();
                let quota = world.quota(TestedKind::Machine, exist).await?;
                Some((lasts(2..=10), FaultRepair::LiftQuota(quota)))
            }
            Self::Knob(knob, value) => {
                world.knob(knob, value).await?;
                Some((lasts(3..=12), FaultRepair::Reset(knob)))
            }
            Self::MachineKnob(knob, value) => {
                let state = world.recorder().state();
                let machines: Vec<_> =
                    state.all(TestedKind::Machine).filter(|machine| !machine.is_terminating()).collect();
                match random.one(&machines) {
                    Some(machine) => {
                        let name = machine.name().to_owned();
                        // The machine may be deleted meanwhile.
                        let _ = world.knob_of(TestedKind::Machine, &name, knob, Some(value)).await;
                        Some((lasts(3..=12), FaultRepair::ResetMachine(name, knob)))
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

impl FaultRepair<'_> {
    /// Repairs the fault.
    pub(crate) async fn perform(self, world: &ScenarioWorld) -> Result<()> {
        let guard = world.installation().guard()?;
        match self {
            Self::Start(controller) => controller.restart().await,
            Self::Resume(controller) => controller.resume(),
            Self::Restart(component) => guard.service(component)?.restart(KILLED_INDEX).await,
            Self::ResumeReplica(component) => {
                guard.service(component)?.replicas()[NEVER_KILLED_INDEX].resume()
            }
            Self::ResumePlatform => world.installation().simulator().resume(),
            Self::Lift(rule) => rule.lift().await,
            Self::LiftQuota(quota) => quota.lift().await,
            Self::Reset(knob) => world.reset_knob(knob).await,
            Self::ResetMachine(name, knob) => {
                match world.knob_of(TestedKind::Machine, &name, knob, None).await {
                    // The machine was deleted meanwhile.
                    Err(error) if error.status_code() == Some(404) => Ok(()),
                    other => other,
                }
            }
        }
    }
}

impl ControlPlaneOutage {
    /// A random outage.
    pub(crate) fn random(random: &SeededRandom) -> Self {
        match random.number(0..=9) {
            0..=1 => Self::ApiServer(RestartMethod::Graceful),
            2..=3 => Self::ApiServer(RestartMethod::Killed),
            4 => Self::Etcd(RestartMethod::Graceful),
            5..=6 => Self::Etcd(RestartMethod::Killed),
            7..=8 => Self::Stalls,
            _ => Self::FullDisk,
        }
    }

    /// Runs the outage to its end.
    pub(crate) async fn pass(self, world: &ScenarioWorld, random: &SeededRandom) -> Result<()> {
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
pub(crate) async fn find_leader(world: &ScenarioWorld) -> Option<Arc<ControllerProgram>> {
    for controller in world.controllers() {
        if controller.leads().await == Some(true) {
            return Some(controller);
        }
    }
    None
}
