//! The leadership of the pools of one platform, while the cluster serves them and no other controller may
//! reconcile them.

use std::marker::PhantomData;

use tokio_util::sync::CancellationToken;
use vmpool_kit::definitions::{Definitions, DefinitionsObserver};
use vmpool_kit::leadership::{ConditionalLeadership, lead_on_duty};
use vmpool_kit::observed_value::{ValueObserver, ValuePublisher};
use vmpool_platforms::{OtherController, Platform};
use vmpool_runtime::env::Task;

use crate::leadership::LeadershipResources;
use crate::metrics::PlatformState;
use crate::platform_state::ShownState;
use crate::pools::definitions::served_definitions;
use crate::pools::disk_source_watches;
use crate::pools::lead::reconcile_platform;
use crate::pools::other_controller::{self, OtherControllerState};
use crate::pools::preserved_watches;
use crate::pools::release::release_until_done;
use crate::pools::release_conditions::KstatusConditions;
use crate::pools::release_copies::UsedCopies;
use crate::pools::source_watches;

/// Reconciles the pools of a platform while the cluster has its definitions. If one of them disappears, or is
/// replaced by another one of the same name, the caches are dropped.
pub(crate) async fn lead_while_served<P: Platform>(
    shared: LeadershipResources,
    known: DefinitionsObserver,
    stop: CancellationToken,
) {
    let shown = shared.show_state::<P>();
    let leadership = WhileServed::<P> { shared, known: known.clone(), shown, platform: PhantomData };
    lead_on_duty(leadership, known, stop).await;
}

/// The leadership while the cluster has the definitions of the platform.
struct WhileServed<P> {
    shared: LeadershipResources,
    known: DefinitionsObserver,
    shown: ShownState,
    platform: PhantomData<fn() -> P>,
}

impl<P: Platform> ConditionalLeadership for WhileServed<P> {
    type Observed = Option<Definitions>;
    /// The UIDs of the definitions.
    type Duty = Vec<String>;

    fn find_duty(known: &Self::Observed) -> Option<Vec<String>> {
        served_definitions::<P>(known.as_ref()?).ok()
    }

    fn idle(&mut self, known: &Self::Observed) {
        let Some(Err(missing)) = known.as_ref().map(served_definitions::<P>) else { return };
        let missing = missing.to_string();
        tracing::info!(platform = P::NAME, missing, "waiting for a definition of this platform");
        let why = format!("the cluster has no CustomResourceDefinition {missing}");
        self.shown.set(PlatformState::Waiting, why);
    }

    async fn lead(&mut self, _served: Vec<String>, stop: CancellationToken) {
        lead_while_alone::<P>(&self.shared, &self.known, &self.shown, stop).await;
    }

    fn duty_changed(&self) {
        tracing::info!(platform = P::NAME, "a definition of this platform is gone: reconciling stops");
    }
}

/// Reconciles the pools of a platform while no other controller may reconcile them.
async fn lead_while_alone<P: Platform>(
    shared: &LeadershipResources,
    known: &DefinitionsObserver,
    shown: &ShownState,
    stop: CancellationToken,
) {
    let _sources = source_watches::watch_sources::<P>(shared, known);
    let _disk_sources = disk_source_watches::watch_disk_sources::<P>(shared, known);
    let _preserved = preserved_watches::watch_preserved_storage::<P>(shared, known);
    let exists = P::OtherController::EXISTS;
    let first = if exists { OtherControllerState::Unknown } else { OtherControllerState::Off };
    let publisher = ValuePublisher::new(first);
    let state = publisher.observe();
    let _observer = exists.then(|| {
        let observe =
            other_controller::observe_other_controller::<P>(shared.clone(), known.clone(), publisher);
        shared.env().spawn("watch of another controller", observe)
    });
    let leadership =
        WhileAlone::<P> { shared, shown, state: state.clone(), blocked: Vec::new(), platform: PhantomData };
    lead_on_duty(leadership, state, stop).await;
}

/// The leadership while no other controller may reconcile the pools.
struct WhileAlone<'a, P> {
    shared: &'a LeadershipResources,
    shown: &'a ShownState,
    state: ValueObserver<OtherControllerState>,
    /// What the leader does while another controller may reconcile the pools.
    blocked: Vec<Task>,
    platform: PhantomData<fn() -> P>,
}

impl<P: Platform> ConditionalLeadership for WhileAlone<'_, P> {
    type Observed = OtherControllerState;
    type Duty = ();

    fn find_duty(state: &OtherControllerState) -> Option<()> {
        match state {
            OtherControllerState::Off => Some(()),
            OtherControllerState::Unknown | OtherControllerState::MayRun(_) => None,
        }
    }

    fn idle(&mut self, state: &OtherControllerState) {
        let OtherControllerState::MayRun(why) = state else { return };
        tracing::error!(
            platform = P::NAME,
            why,
            "another controller may reconcile the pools of this platform: this one reconciles none"
        );
        self.shown.set(PlatformState::Blocked, why.clone());
        if self.blocked.is_empty() {
            let (env, shared) = (self.shared.env(), self.shared.clone());
            let report = other_controller::report_blocked_pools::<P>(shared.clone(), self.state.clone());
            self.blocked.push(env.spawn("events of blocked pools", report));
            let of_copies = shared.clone();
            let release = async move { release_until_done::<UsedCopies<P>>(&of_copies).await };
            self.blocked.push(env.spawn("release of pins", release));
            let release = async move { release_until_done::<KstatusConditions<P>>(&shared).await };
            self.blocked.push(env.spawn("removal of conditions", release));
        }
    }

    async fn lead(&mut self, (): (), stop: CancellationToken) {
        self.blocked.clear();
        tracing::info!(platform = P::NAME, "reconciling the pools of this platform");
        self.shown.set(PlatformState::Reconciling, String::new());
        reconcile_platform::<P>(self.shared, Vec::new(), stop).await;
    }
}
