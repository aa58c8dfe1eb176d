//! What a leader does only while the cluster is in a certain state.

use std::pin::pin;

use futures::FutureExt;
use futures::future::{Either, select};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What a leader does while something that it observes gives it a duty, for example while the cluster serves
/// a kind.
pub trait Leadership: Send {
    /// What is observed.
    type Observed: Send + Sync + 'static;
    /// What the leader does. When it changes, the leader begins again, with new caches.
    type Duty: Clone + PartialEq + Send + Sync;

    /// The duty that follows from what is observed; `None` if there is none.
    fn find_duty(observed: &Self::Observed) -> Option<Self::Duty>;

    /// There is no duty. This is called for each observation until there is one.
    fn idle(&mut self, _observed: &Self::Observed) {}

    /// Carries out a duty until `stop`, and finishes what is in progress.
    fn lead(&mut self, duty: Self::Duty, stop: CancellationToken) -> impl Future<Output = ()> + Send;

    /// The duty changed, so the leader stops carrying it out.
    fn duty_changed(&self) {}
}

/// Carries out the duties of a leader until `stop`, each until it changes. If the leader ceases to carry out
/// a duty that has not changed, `stop` is canceled, so that the next leader starts with new caches.
pub async fn lead_on_duty<L: Leadership>(
    mut leadership: L,
    mut observed: watch::Receiver<L::Observed>,
    stop: CancellationToken,
) {
    while let Some(duty) = wait_for_duty(&mut leadership, &mut observed, &stop).await {
        let turn = stop.child_token();
        let changed = observed.wait_for(|now| L::find_duty(now).as_ref() != Some(&duty)).map(drop).boxed();
        let leading = leadership.lead(duty.clone(), turn.clone()).boxed();
        let leading = match select(leading, changed).await {
            Either::Left(_) => return stop.cancel(),
            Either::Right(((), leading)) => leading,
        };
        turn.cancel();
        leading.await;
        leadership.duty_changed();
    }
}

/// The next duty; `None` if `stop` came first, or if nothing is observed any more.
async fn wait_for_duty<L: Leadership>(
    leadership: &mut L,
    observed: &mut watch::Receiver<L::Observed>,
    stop: &CancellationToken,
) -> Option<L::Duty> {
    loop {
        {
            let now = observed.borrow_and_update();
            let duty = L::find_duty(&now);
            if duty.is_some() {
                return duty;
            }
            leadership.idle(&now);
        }
        let (changed, stopped) = (pin!(observed.changed()), pin!(stop.cancelled()));
        let Either::Left((Ok(()), _)) = select(changed, stopped).await else { return None };
    }
}
