//! A value that one task publishes and others observe, for example what the cluster serves.
//!
//! Tasks that wait for a change go on in the order in which they began to wait. With `tokio::sync::watch`,
//! they go on in a random order, so a fault schedule with the same seed would not run the same way twice.

use std::pin::pin;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::Notify;

struct Shared<T> {
    value: RwLock<T>,
    changed: Notify,
}

/// Publishes a value. Dropping the publisher leaves its last value to the observers, which then wait for
/// ever.
pub struct ValuePublisher<T>(Arc<Shared<T>>);

impl<T: PartialEq> ValuePublisher<T> {
    /// A publisher of this value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(Shared { value: RwLock::new(value), changed: Notify::new() }))
    }

    /// An observer of the value.
    pub fn observe(&self) -> ValueObserver<T> {
        ValueObserver(self.0.clone())
    }

    /// Publishes a value. Returns whether it is new: the same value wakes no observer.
    pub fn publish(&self, value: T) -> bool {
        self.update(|_| value)
    }

    /// Publishes the value that follows from the last one. Returns whether it is new.
    pub fn update(&self, next: impl FnOnce(&T) -> T) -> bool {
        {
            let mut last = self.0.value.write();
            let value = next(&last);
            if *last == value {
                return false;
            }
            *last = value;
        }
        self.0.changed.notify_waiters();
        true
    }
}

/// Observes a value. Clones observe the same value.
pub struct ValueObserver<T>(Arc<Shared<T>>);

impl<T> Clone for ValueObserver<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> ValueObserver<T> {
    /// What `read` returns for the value. The value cannot change meanwhile, so `read` must be short.
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.0.value.read())
    }

    /// Waits until the value matches. A value that another one replaces at once may be missed.
    pub async fn wait_for(&self, matches: impl Fn(&T) -> bool) {
        self.find(|value| matches(value).then_some(())).await;
    }

    async fn find<R>(&self, find: impl Fn(&T) -> Option<R>) -> R {
        loop {
            let mut changed = pin!(self.0.changed.notified());
            // From here on, a change is noticed, also before the future is polled.
            changed.as_mut().enable();
            if let Some(found) = self.read(&find) {
                return found;
            }
            changed.await;
        }
    }
}

impl<T: Clone + PartialEq> ValueObserver<T> {
    /// The value.
    pub fn get(&self) -> T {
        self.read(T::clone)
    }

    /// Waits until the value is another one than `last`, and returns it.
    pub async fn next_after(&self, last: T) -> T {
        self.find(|value| (*value != last).then(|| value.clone())).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use parking_lot::Mutex;
    use vmpool_runtime::testing::{ManualClock, test_env};

    use super::*;

    #[test]
    fn only_another_value_is_new() {
        let publisher = ValuePublisher::new(1);
        let observer = publisher.observe();
        assert!(!publisher.publish(1));
        assert!(publisher.publish(2));
        assert!(publisher.update(|last| last + 1));
        assert_eq!((observer.get(), observer.read(|value| value * 2)), (3, 6));
    }

    #[test]
    fn a_change_before_the_first_poll_is_not_missed() {
        let publisher = ValuePublisher::new(1);
        let observer = publisher.observe();
        let (mut next, mut even) =
            (pin!(observer.next_after(1)), pin!(observer.wait_for(|value| value % 2 == 0)));
        publisher.publish(2);
        assert_eq!(next.as_mut().now_or_never(), Some(2));
        publisher.publish(3);
        assert_eq!(even.as_mut().now_or_never(), None, "it is odd again");
        publisher.publish(4);
        assert_eq!(even.as_mut().now_or_never(), Some(()));
    }

    /// With `tokio::sync::watch`, this fails in all but one of billions of runs.
    #[tokio::test]
    async fn those_who_wait_go_on_in_the_order_in_which_they_began() {
        let clock = ManualClock::new();
        let (publisher, order) = (ValuePublisher::new(false), Arc::<Mutex<Vec<u32>>>::default());
        let mut tasks = Vec::new();
        for number in 0..40 {
            let (observer, order) = (publisher.observe(), order.clone());
            tasks.push(test_env(&clock, 0).spawn("observer", async move {
                observer.wait_for(|value| *value).await;
                order.lock().push(number);
            }));
        }
        clock.settle().await;
        publisher.publish(true);
        clock.settle().await;
        assert!(order.lock().iter().copied().eq(0..40), "{:?}", order.lock());
    }
}
