//! Competing for the Lease.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::fence::Instant;
use super::health::LeaseHealth;
use super::leadership::{Leadership, Tenure};
use super::observation::Observation;
use super::store::{Store, Written};
use super::{LeaseConfig, LeaseError, record};
use crate::env::Env;

/// How long to wait at most before the next look after somebody else was faster.
const COLLISION_PAUSE: Duration = Duration::from_millis(100);

/// Competes for one Lease in the name of one process.
pub struct Candidate {
    store: Arc<Store>,
    observation: Observation,
    /// The acquireTime of our latest claim. A Lease that carries it is ours, also if the answer to the claim was lost.
    claimed: Option<Timestamp>,
}

/// What an observed Lease tells us to do.
enum Step {
    /// Somebody may be valid still: look again after this long.
    Wait(Duration),
    /// Nobody can be valid: claim what was read.
    Claim(Option<Box<Lease>>),
    /// The Lease was deleted under somebody who may be valid for this long: put it back without a holder.
    ///
    /// An absent Lease cannot be waited out, for absence has no version: somebody else may have taken and lost a new
    /// Lease between two looks.
    Restore(Duration),
}

impl Candidate {
    /// A candidate for the Lease of `config`. Nothing happens before [`Candidate::acquire`].
    ///
    /// `client` must not repeat requests by itself: an answer that comes after the deadline is not what was waited for.
    pub fn new(client: Client, config: LeaseConfig, env: Env) -> Self {
        let observation = Observation::new(config.duration);
        Self { store: Arc::new(Store::new(client, config, env)), observation, claimed: None }
    }

    /// A view for readiness checks and metrics.
    pub fn health(&self) -> LeaseHealth {
        self.store.health.clone()
    }

    /// Waits until this process leads; `None` when `stop` fired first. Failed requests are logged and repeated.
    ///
    /// A leadership that ended can be followed by another: call this again.
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
            // A claim is not interrupted: one that the server accepts unseen would lock everybody out for a while.
            let outcome = match observed {
                Ok(Step::Wait(wait)) => Ok(Err(wait)),
                Ok(Step::Claim(lease)) => self.claim(lease.as_deref()).await,
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
                    tracing::warn!(error, "the lease is out of reach, trying again");
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
        let Store { config, env, health, .. } = &*self.store;
        let now = env.uptime();
        let holder = lease.as_ref().and_then(record::holder);
        let is_ours = self.owns(lease.as_ref());
        if self.observation.see(lease.as_ref(), now) && !is_ours {
            self.claimed = None;
        }
        if health.held_by(holder) && !is_ours {
            tracing::info!(holder, identity = config.identity, "standing by for the lease");
        }
        if let (None, Some(longest)) = (&lease, self.observation.longest()) {
            return Ok(Step::Restore(longest));
        }
        let wait = self.observation.wait(now);
        if is_ours || wait.is_zero() {
            return Ok(Step::Claim(lease.map(Box::new)));
        }
        Ok(Step::Wait(wait.min(self.spread(config.poll_interval()))))
    }

    /// Claims the Lease that was read. Returns the pause before the next look if somebody else was faster.
    async fn claim(&mut self, current: Option<&Lease>) -> Result<Result<Leadership, Duration>, LeaseError> {
        let Store { config, env, .. } = &*self.store;
        let sent = Instant::now(env);
        let claimed = *self.claimed.get_or_insert(sent.wall());
        let lease = record::claim(current, config, claimed, sent.wall());
        match self.store.write(&lease).await? {
            Written::Stored(lease) => {
                // Later we must know that there was a holder, even if it was nobody but us.
                self.observation.see(Some(&lease), env.uptime());
                let tenure = Tenure { store: Arc::clone(&self.store), claimed };
                Ok(Ok(Leadership::begin(tenure, *lease, sent)))
            }
            Written::Stale => {
                self.observation.overtaken();
                Ok(Err(env.jitter(COLLISION_PAUSE)))
            }
        }
    }

    /// Puts a deleted Lease back without a holder. Returns the pause before the next look.
    async fn restore(&mut self, longest: Duration) -> Result<Duration, LeaseError> {
        let Store { config, env, .. } = &*self.store;
        if let Written::Stored(_) = self.store.write(&record::placeholder(config, longest)).await? {
            tracing::warn!("the lease was deleted; it is put back, and its last holder is waited out");
        }
        Ok(env.jitter(COLLISION_PAUSE))
    }

    fn owns(&self, lease: Option<&Lease>) -> bool {
        let (Some(lease), Some(claimed)) = (lease, self.claimed) else { return false };
        record::is_claim(lease, &self.store.config.identity, claimed)
    }

    /// Between three quarters of `interval` and all of it, so that candidates do not ask in step.
    fn spread(&self, interval: Duration) -> Duration {
        interval.saturating_sub(self.store.env.jitter(interval / 4))
    }
}
