//! Holding the Lease: renewal in the background, release at the end.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;

use super::fence::{Fence, Instant};
use super::store::{Store, Written};
use super::{LeaseError, record};
use crate::env::Task;

/// How often a write is repeated at once because somebody else, who does not claim the Lease, changed it meanwhile.
const ATTEMPTS: usize = 3;

/// Leadership, renewed in the background until it is lost or given up. Dropping it ends the fence; others then wait for
/// the lease to run out, while after [`Leadership::release`] they need not.
#[must_use = "leadership ends when it is dropped"]
pub struct Leadership {
    /// The permission to write. Give clones of it to all that writes.
    pub fence: Fence,
    tenure: Arc<Tenure>,
    held: Arc<Mutex<Lease>>,
    renewal: Option<Task>,
}

/// One claim of the Lease that succeeded.
pub(super) struct Tenure {
    pub(super) store: Arc<Store>,
    /// The acquireTime by which we know our own Lease.
    pub(super) claimed: Timestamp,
}

/// How a renewal ended.
enum Renewed {
    /// The server has accepted it; the validity counts from when it was sent.
    Accepted(Instant),
    /// The Lease is somebody else's, or nobody's.
    Superseded,
}

impl Leadership {
    /// `lease` is what the server answered to the claim sent at `sent`.
    pub(super) fn begin(tenure: Tenure, lease: Lease, sent: Instant) -> Self {
        let tenure = Arc::new(tenure);
        let Store { config, env, health, .. } = &*tenure.store;
        let fence = Fence::new(env.clone(), config.duration, sent);
        health.leads(&fence);
        let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
        tracing::info!(lease = %tenure.store.object(), identity = config.identity, transitions, "leading");
        let held = Arc::new(Mutex::new(lease));
        let renewal = renew_until_lost(Arc::clone(&tenure), Arc::clone(&held), fence.clone(), sent);
        let renewal = env.spawn("lease-renewal", renewal);
        Self { fence, tenure, held, renewal: Some(renewal) }
    }

    /// Waits until leadership has ended: stop what writes, or end the process.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        self.fence.lost()
    }

    /// Ends the fence and gives the Lease up, so that the next candidate takes it at once.
    ///
    /// **Assumes** that no write of this leader is in flight any more; call it last.
    ///
    /// # Errors
    /// [`LeaseError`] if the server was not told; then the others wait for the lease to run out.
    pub async fn release(mut self) -> Result<(), LeaseError> {
        self.fence.end();
        self.renewal = None;
        let Store { config, env, .. } = &*self.tenure.store;
        let mut current = self.held.lock().clone();
        for _ in 0..ATTEMPTS {
            let lease = record::release(&current, env.now());
            match self.tenure.store.write(&lease).await? {
                Written::Stored(_) => {
                    tracing::info!(identity = config.identity, "the lease is released");
                    return Ok(());
                }
                Written::Stale => match self.tenure.store.read().await? {
                    Some(lease) if self.tenure.owns(&lease) => current = lease,
                    _ => return Ok(()),
                },
            }
        }
        Err(LeaseError::Contended { lease: self.tenure.store.object() })
    }

    pub(super) async fn release_or_log(self) {
        if let Err(error) = self.release().await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the lease could not be released, others wait for it to run out");
        }
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.fence.end();
    }
}

impl Tenure {
    fn owns(&self, lease: &Lease) -> bool {
        record::is_claim(lease, &self.store.config.identity, self.claimed)
    }

    /// Writes a new renewTime, over changes by others that name no other holder, and also over its deletion.
    async fn renew(&self, held: &Mutex<Lease>) -> Result<Renewed, LeaseError> {
        let Store { config, env, health, .. } = &*self.store;
        let mut current = Some(held.lock().clone());
        for _ in 0..ATTEMPTS {
            let sent = Instant::now(env);
            let lease = record::claim(current.as_ref(), config, self.claimed, sent.wall());
            match self.store.write(&lease).await? {
                Written::Stored(stored) => {
                    *held.lock() = *stored;
                    return Ok(Renewed::Accepted(sent));
                }
                // Also how an earlier renewal shows whose answer was lost: the Lease is ours at a version unknown to us.
                Written::Stale => match self.store.read().await? {
                    // Nobody else can hold a Lease without a holder, and our fence is valid, or this would not run.
                    Some(lease) if !self.owns(&lease) && !record::is_orphaned(&lease) => {
                        health.held_by(record::holder(&lease));
                        return Ok(Renewed::Superseded);
                    }
                    found => current = found,
                },
            }
        }
        Err(LeaseError::Contended { lease: self.store.object() })
    }
}

/// Renews until the fence ends, and ends it if the Lease is not ours any more.
async fn renew_until_lost(tenure: Arc<Tenure>, held: Arc<Mutex<Lease>>, fence: Fence, mut sent: Instant) {
    let Store { config, env, .. } = &*tenure.store;
    let mut pause = config.renew_interval.saturating_sub(sent.elapsed(env));
    loop {
        let renewal = async {
            env.sleep(pause).await;
            tenure.renew(&held).await
        };
        let renewed = match select(std::pin::pin!(renewal), std::pin::pin!(fence.lost())).await {
            Either::Left((renewed, _)) => renewed,
            Either::Right(_) => {
                tracing::warn!("leadership is lost: no renewal succeeded in time");
                return;
            }
        };
        pause = match renewed {
            Ok(Renewed::Accepted(accepted)) if fence.extend(accepted) => {
                sent = accepted;
                config.renew_interval.saturating_sub(sent.elapsed(env))
            }
            Ok(Renewed::Accepted(_)) => Duration::ZERO,
            Ok(Renewed::Superseded) => {
                fence.end();
                let holder = tenure.store.health.holder();
                tracing::warn!(holder, "leadership is lost: the lease is held by another");
                return;
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                let remaining = fence.remaining().as_secs_f64();
                tracing::warn!(
                    error,
                    remaining_seconds = remaining,
                    "the lease was not renewed, trying again"
                );
                config.retry_interval()
            }
        };
    }
}
