//! A controller that is killed before and after each of its writes, or whose watches are late, incomplete or
//! interrupted.
//!
//! `make crashes PLATFORM=kubevirt` kills it at every write, once with a restart and once with a standby, and
//! has every watch fault (`VMPOOL_CRASHES=all`). The default is one write and one watch fault of every step,
//! with one successor.

mod step_run;
mod steps;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rstest::rstest;
use vmpool_e2e::crash::{Controllers, Coverage, Successor, is_selected};
use vmpool_e2e::scenario::LIMIT;
use vmpool_installation::fault_proxy::{DropPoint, WatchFault};
use vmpool_installation::programs::{Accounts, ControllerOptions, ControllerProgram};

use crate::orphans::until_garbage_is_collected;
use crate::world::{INSTALLED, KubeVirtWorld, accounts, behind_proxy, run_with_options};
use crate::{TestNamespace, guarded, run_to_end_within, with_namespace_within};

use self::step_run::{StepRun, counts};
use self::steps::CrashStep;

/// The watched resources, each alone and all of them.
const WATCHED: [&[&str]; 4] = [
    &["virtualmachinepools"],
    &["virtualmachines"],
    &["virtualmachineinstances"],
    &["virtualmachinepools", "virtualmachines", "virtualmachineinstances"],
];

const WATCH_FAULTS: [WatchFault; 12] = [
    WatchFault::Closed(0),
    WatchFault::Closed(2),
    WatchFault::Expired(0),
    WatchFault::Expired(2),
    WatchFault::Refused,
    WatchFault::Behind(1),
    WatchFault::Behind(3),
    WatchFault::Behind(8),
    WatchFault::Silent,
    WatchFault::Duplicated,
    WatchFault::Lost(1),
    WatchFault::Lost(3),
];

/// The trials of a step with one kind of successor.
#[derive(Clone, Copy)]
struct Run {
    step: CrashStep,
    successor: Successor,
    coverage: Coverage,
}

impl Run {
    /// All runs of a step.
    fn all(step: CrashStep) -> Vec<Self> {
        let coverage = Coverage::from_environment();
        let successors = match coverage {
            Coverage::Sample => vec![step.successor()],
            Coverage::All => Successor::BOTH.to_vec(),
        };
        successors.into_iter().map(|successor| Self { step, successor, coverage }).collect()
    }

    fn namespace(self) -> String {
        format!("kubevirt-crash-{}-{}", self.step.name().replace(' ', "-"), self.successor.name())
    }

    fn limit(self) -> Duration {
        match self.coverage {
            Coverage::Sample => LIMIT,
            Coverage::All => Duration::from_hours(1),
        }
    }

    /// Starts the controllers, each behind a fault proxy of its own, and runs the trials.
    async fn on(self, accounts: &Accounts, place: TestNamespace<'_>) -> Result<()> {
        let mut proxies = Vec::new();
        let mut options = Vec::new();
        for index in 0..self.successor.controllers() {
            let mut of_one = ControllerOptions::short_lease(place.namespace, format!("controller-{index}"));
            of_one.extra = vec!["--request-deadline=1900ms".to_owned()];
            let (proxy, of_one) = behind_proxy(place.cluster, of_one).await?;
            proxies.push(proxy);
            options.push(of_one);
        }
        let first = options.remove(0);
        run_with_options(accounts, place, first, async |world| {
            let mut running = vec![world.controller.clone()];
            for options in options {
                running.push(Arc::new(ControllerProgram::start(place.cluster, options).await?));
            }
            let proxied = running.into_iter().zip(proxies).collect();
            let controllers = Controllers::new(self.successor, proxied, counts);
            world.without_live_updates().await?;
            if self.step.needs_garbage_collector() {
                until_garbage_is_collected(&world).await?;
            }
            self.trials(&world, &controllers).await
        })
        .await
    }

    /// Kills the controller at the writes of the step, and disturbs its watches.
    async fn trials(self, world: &KubeVirtWorld<'_>, controllers: &Controllers) -> Result<()> {
        let Self { step, successor, coverage } = self;
        let trial = StepRun { world, controllers, step };
        let writes = trial.without_fault().await.context("without a fault")?;
        ensure!(!writes.is_empty(), "the step has no writes");
        let sample = writes.len() / 2;
        let places = match coverage {
            Coverage::Sample => sample..sample + 1,
            Coverage::All => 0..writes.len(),
        };
        let named = |what: String| format!("{}, {}: {what}", step.name(), successor.name());
        let (mut tried, mut happened, mut disturbed) = (0, 0, 0);
        for place in places {
            for drop_point in DropPoint::BOTH {
                let moment = format!("{drop_point:?}").to_lowercase();
                let what = named(format!("killed {moment} {}, write {place}", writes[place]));
                if !is_selected(&what) {
                    continue;
                }
                tried += 1;
                happened += usize::from(trial.with_crash(place, drop_point).await.context(what)?);
            }
        }
        for (resources, fault) in self.watch_faults() {
            let what = named(format!("{} are {fault:?}", resources.join(", ")));
            if !is_selected(&what) {
                continue;
            }
            disturbed += 1;
            trial.with_watch_fault(resources, fault).await.context(what)?;
        }
        println!(
            "crashes: {}, {happened} of {tried} points happened, {disturbed} watch faults, 0 violations",
            named(format!("{} writes", writes.len()))
        );
        // Some steps have only two or three writes, whose number depends on conflicts with the garbage
        // collector.
        ensure!(2 * (tried - happened) <= tried, "{happened} of {tried} crashes happened");
        Ok(())
    }

    /// The watch faults do not depend on the successor, so one kind is enough.
    fn watch_faults(self) -> Vec<(&'static [&'static str], WatchFault)> {
        match (self.coverage, self.successor) {
            (Coverage::Sample, _) => vec![(WATCHED[3], self.step.watch_fault())],
            (Coverage::All, Successor::Restarted) => {
                WATCHED.iter().flat_map(|what| WATCH_FAULTS.map(|fault| (*what, fault))).collect()
            }
            (Coverage::All, Successor::Standby) => Vec::new(),
        }
    }
}

#[rstest]
#[case::a_pool_is_created(CrashStep::Create)]
#[case::a_pool_with_an_instance_type_is_created(CrashStep::CreateTyped)]
#[case::a_pool_is_scaled_in(CrashStep::ScaleIn)]
#[case::a_pool_is_updated(CrashStep::Update)]
#[case::machines_restart_by_request(CrashStep::UpdateManual)]
#[case::a_changed_instance_type_reaches_all_machines(CrashStep::UpdateTyped)]
#[case::changed_storage_is_replaced(CrashStep::ReplaceStorage)]
#[case::a_lost_machine_is_replaced(CrashStep::LoseMachine)]
#[case::a_machine_that_does_not_start_is_replaced(CrashStep::Heal)]
#[case::a_machine_with_other_labels_is_released(CrashStep::Release)]
#[case::a_detached_machine_stays(CrashStep::Detach)]
#[case::a_returned_machine_belongs_to_the_pool(CrashStep::Return)]
#[case::a_pool_is_deleted(CrashStep::Delete)]
#[case::a_pool_is_orphaned(CrashStep::Orphan)]
fn a_step_completes_although_the_controller_is_killed(#[case] step: CrashStep) {
    for run in Run::all(step) {
        with_namespace_within(run.limit(), &run.namespace(), async |place| {
            let _others = INSTALLED.read().await;
            run.on(accounts(place.cluster).await?, place).await
        });
    }
}

/// On a control plane with the aggregated API.
#[test]
fn a_machine_is_removed_by_name_although_the_controller_is_killed() {
    for run in Run::all(CrashStep::Remove) {
        run_to_end_within(run.limit(), async {
            let namespace = run.namespace();
            let (cluster, installation) = guarded::start(&namespace, "diskimage", &[]).await?;
            cluster.kubectl(&["create", "namespace", &namespace]).await?;
            let place = TestNamespace { cluster: &cluster, namespace: &namespace };
            run.on(installation.accounts(), place).await?;
            installation.stop().await?;
            drop(cluster);
            Ok(())
        });
    }
}
