//! What a leader does only while the cluster is in a certain state.

use std::pin::pin;

use futures::FutureExt;
use futures::future::{Either, select};
use tokio_util::sync::CancellationToken;

use crate::observed_value::ValueObserver;

/// What a leader does while something that it observes gives it a duty, for example while the cluster serves
/// a kind.
pub trait ConditionalLeadership: Send {
    /// What is observed.
    type Observed: Clone + PartialEq + Send + Sync + 'static;
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
pub async fn lead_on_duty<L: ConditionalLeadership>(
    mut leadership: L,
    observed: ValueObserver<L::Observed>,
    stop: CancellationToken,
) {
    while let Some(duty) = wait_for_duty(&mut leadership, &observed, &stop).await {
        let turn = stop.child_token();
        let changed = observed.wait_for(|now| L::find_duty(now).as_ref() != Some(&duty)).boxed();
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

/// The next duty; `None` if `stop` came first.
async fn wait_for_duty<L: ConditionalLeadership>(
    leadership: &mut L,
    observed: &ValueObserver<L::Observed>,
    stop: &CancellationToken,
) -> Option<L::Duty> {
    let mut now = observed.get();
    loop {
        let duty = L::find_duty(&now);
        if duty.is_some() {
            return duty;
        }
        leadership.idle(&now);
        let (changed, stopped) = (pin!(observed.next_after(now)), pin!(stop.cancelled()));
        let Either::Left((next, _)) = select(changed, stopped).await else { return None };
        now = next;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use vmpool_runtime::env::Task;
    use vmpool_runtime::testing::{ManualClock, test_env};

    use super::*;
    use crate::observed_value::ValuePublisher;

    /// The duty is to serve a number. The leader ceases to serve zero by itself.
    struct ServedNumber(Arc<Mutex<Vec<String>>>);

    impl ConditionalLeadership for ServedNumber {
        type Observed = Option<u32>;
        type Duty = u32;

        fn find_duty(observed: &Option<u32>) -> Option<u32> {
            *observed
        }

        fn idle(&mut self, _: &Option<u32>) {
            self.0.lock().push("idle".to_owned());
        }

        async fn lead(&mut self, duty: u32, stop: CancellationToken) {
            self.0.lock().push(format!("begin {duty}"));
            if duty > 0 {
                stop.cancelled().await;
            }
            self.0.lock().push(format!("end {duty}"));
        }
    }

    struct World {
        clock: ManualClock,
        log: Arc<Mutex<Vec<String>>>,
        observed: ValuePublisher<Option<u32>>,
        stop: CancellationToken,
        leader: Task,
    }

    impl World {
        async fn new() -> Self {
            let clock = ManualClock::new();
            let (log, stop) = (Arc::<Mutex<Vec<String>>>::default(), CancellationToken::new());
            let observed = ValuePublisher::new(None);
            let leading = lead_on_duty(ServedNumber(log.clone()), observed.observe(), stop.clone());
            let leader = test_env(&clock, 0).spawn("leader", leading);
            clock.settle().await;
            Self { clock, log, observed, stop, leader }
        }

        /// What the leader does after it observes this.
        async fn observe(&self, number: Option<u32>) -> Vec<String> {
            self.log.lock().clear();
            self.observed.publish(number);
            self.clock.settle().await;
            self.log.lock().clone()
        }
    }

    #[tokio::test]
    async fn a_duty_lasts_until_it_changes() {
        let world = World::new().await;
        assert_eq!(*world.log.lock(), ["idle"]);
        assert_eq!(world.observe(Some(1)).await, ["begin 1"]);
        assert_eq!(world.observe(Some(1)).await, [""; 0], "the same duty");
        assert_eq!(world.observe(Some(2)).await, ["end 1", "begin 2"]);
        assert_eq!(world.observe(None).await, ["end 2", "idle"]);
        assert_eq!(world.observe(Some(2)).await, ["begin 2"]);
        assert!(!world.leader.is_finished());
    }

    #[tokio::test]
    async fn a_leader_that_stops_finishes_its_duty() {
        let world = World::new().await;
        world.observe(Some(1)).await;
        world.stop.cancel();
        world.clock.settle().await;
        assert_eq!(world.log.lock().last().unwrap(), "end 1");
        assert!(world.leader.is_finished());
    }

    #[tokio::test]
    async fn a_duty_that_ends_by_itself_ends_the_leadership() {
        let world = World::new().await;
        assert_eq!(world.observe(Some(0)).await, ["begin 0", "end 0"]);
        assert!(world.stop.is_cancelled() && world.leader.is_finished());
    }
}
