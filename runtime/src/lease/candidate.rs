//! A candidate for the Lease.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::config::LeaseConfig;
use super::error::LeaseError;
use super::fence::Instant;
use super::health::LeaseHealth;
use super::leadership::{Acquisition, Leadership};
use super::observation::LeaseObservation;
use super::record;
use super::store::{LeaseStore, LeaseWriteResult};
use crate::env::Env;

/// The maximum pause after another candidate acquired the Lease first.
const COLLISION_PAUSE: Duration = Duration::from_millis(100);

/// A candidate for a Lease, for one process.
pub struct Candidate {
    store: Arc<LeaseStore>,
    observation: LeaseObservation,
    /// The acquireTime of the latest attempt to acquire the Lease. A Lease with it belongs to this process,
    /// even if the response to the attempt was lost.
    acquired_at: Option<Timestamp>,
}

/// The next step after a read.
enum Step {
    /// A holder may still lead: read again after this duration.
    Wait(Duration),
    /// No holder can lead: acquire the Lease that was read.
    Acquire(Option<Box<Lease>>),
    /// The Lease was deleted, and its holder may lead for this duration: create it without a holder.
    ///
    /// A missing Lease has no version that could show a change: another candidate may acquire and lose a new
    /// Lease between two reads.
    Restore(Duration),
}

impl Candidate {
    /// A candidate for the Lease of `config`. It sends no request before [`Candidate::acquire`].
    ///
    /// `client` must not retry requests by itself, because a retry could exceed the deadline.
    pub fn new(client: Client, config: LeaseConfig, env: Env) -> Self {
        let observation = LeaseObservation::new(config.duration);
        Self { store: Arc::new(LeaseStore::new(client, config, env)), observation, acquired_at: None }
    }

    /// The state of the lease for readiness checks and metrics.
    pub fn health(&self) -> LeaseHealth {
        self.store.health.clone()
    }

    /// Waits until this process leads. Returns `None` if `stop` is cancelled first. Failed requests are
    /// logged and retried.
    ///
    /// After a leadership has ended, call this again to lead again.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> Option<Leadership> {
        while !stop.is_cancelled() {
            let observed = {
                let observing = std::pin::pin!(self.observe());
                let stopped = std::pin::pin!(stop.cancelled());
                match select(observing, stopped).await {
                    Either::Left((observed, _)) => observed,
                    Either::Right(_) => return None,
                }
            };
            // An attempt to acquire is not interrupted. If the API server accepted it unnoticed, no candidate
            // could lead for the duration of the lease.
            let outcome = match observed {
                Ok(Step::Wait(wait)) => Ok(Err(wait)),
                Ok(Step::Acquire(lease)) => self.try_acquire(lease.as_deref()).await,
                Ok(Step::Restore(longest)) => self.restore(longest).await.map(Err),
                Err(error) => Err(error),
            };
            let pause = match outcome {
                Ok(Ok(leadership)) if stop.is_cancelled() => {
                    leadership.release_or_log().await;
                    return None;
                }
                Ok(Ok(leadership)) => return Some(leadership),
                Ok(Err(wait)) => wait,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "requesting the lease failed, retrying");
                    self.spread(self.store.config.retry_interval())
                }
            };
            let stopped = std::pin::pin!(stop.cancelled());
            select(stopped, self.store.env.sleep(pause)).await;
        }
        None
    }

    async fn observe(&mut self) -> Result<Step, LeaseError> {
        let lease = self.store.read().await?;
        let LeaseStore { config, env, health, .. } = &*self.store;
        let now = env.uptime();
        let holder = lease.as_ref().and_then(record::lease_holder);
        let is_own = self.owns(lease.as_ref());
        if self.observation.record(lease.as_ref(), now) && !is_own {
            self.acquired_at = None;
        }
        if health.set_holder(holder) && !is_own {
            tracing::info!(holder, identity = config.identity, "waiting as standby for the lease");
        }
        if let (None, Some(longest)) = (&lease, self.observation.longest()) {
            return Ok(Step::Restore(longest));
        }
        let wait = self.observation.wait(now);
        if is_own || wait.is_zero() {
            return Ok(Step::Acquire(lease.map(Box::new)));
        }
        Ok(Step::Wait(wait.min(self.spread(config.poll_interval()))))
    }

    /// Tries to acquire the Lease that was read. If another candidate was faster, returns the pause before
    /// the next read.
    async fn try_acquire(
        &mut self,
        current: Option<&Lease>,
    ) -> Result<Result<Leadership, Duration>, LeaseError> {
        let LeaseStore { config, env, .. } = &*self.store;
        let sent = Instant::now(env);
        let acquired_at = *self.acquired_at.get_or_insert(sent.wall());
        let lease = record::held_lease(current, config, acquired_at, sent.wall());
        match self.store.write(&lease).await? {
            LeaseWriteResult::Stored(lease) => {
                // The observation must contain a holder, even if it was only this process.
                self.observation.record(Some(&lease), env.uptime());
                let acquisition = Acquisition { store: Arc::clone(&self.store), acquired_at };
                Ok(Ok(Leadership::begin(acquisition, *lease, sent)))
            }
            LeaseWriteResult::Stale => {
                self.observation.record_conflict();
                Ok(Err(env.jitter(COLLISION_PAUSE)))
            }
        }
    }

    /// Creates a deleted Lease again without a holder. Returns the pause before the next read.
    async fn restore(&mut self, longest: Duration) -> Result<Duration, LeaseError> {
        let LeaseStore { config, env, .. } = &*self.store;
        if let LeaseWriteResult::Stored(_) =
            self.store.write(&record::placeholder_lease(config, longest)).await?
        {
            tracing::warn!("restored the deleted lease; waiting until its last holder can no longer lead");
        }
        Ok(env.jitter(COLLISION_PAUSE))
    }

    fn owns(&self, lease: Option<&Lease>) -> bool {
        let (Some(lease), Some(acquired_at)) = (lease, self.acquired_at) else { return false };
        record::is_held_since(lease, &self.store.config.identity, acquired_at)
    }

    /// A duration from three quarters of `interval` to `interval`, so that candidates do not send requests at
    /// the same time.
    fn spread(&self, interval: Duration) -> Duration {
        interval.saturating_sub(self.store.env.jitter(interval / 4))
    }
}
