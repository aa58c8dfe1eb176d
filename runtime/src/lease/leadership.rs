//! Leadership: renewal in the background, and release at the end.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;

use super::error::LeaseError;
use super::fence::{Fence, Instant};
use super::record;
use super::store::{LeaseStore, LeaseWriteResult};
use crate::env::Task;

/// The maximum number of immediate retries of a write if another client changes the Lease without acquiring
/// it.
const ATTEMPTS: usize = 3;

/// Leadership, renewed in the background until it is lost or released.
///
/// Dropping it ends the fence, and standbys wait until the lease expires. After [`Leadership::release`] they
/// do not wait.
#[must_use = "leadership ends when it is dropped"]
pub struct Leadership {
    /// The permission to write. Every component that writes needs a clone.
    pub fence: Fence,
    acquisition: Arc<Acquisition>,
    held: Arc<Mutex<Lease>>,
    renewal: Option<Task>,
}

/// A successful acquisition of the Lease.
pub(super) struct Acquisition {
    pub(super) store: Arc<LeaseStore>,
    /// The acquireTime, which identifies the Lease of this acquisition.
    pub(super) acquired_at: Timestamp,
}

/// The result of a renewal.
enum Renewed {
    /// The API server accepted it. The validity counts from the time at which it was sent.
    Accepted(Instant),
    /// The Lease has another holder, or was released.
    Superseded,
}

impl Leadership {
    /// Starts the leadership. `lease` is the response to the acquisition that was sent at `sent`.
    pub(super) fn begin(acquisition: Acquisition, lease: Lease, sent: Instant) -> Self {
        let acquisition = Arc::new(acquisition);
        let LeaseStore { config, env, health, .. } = &*acquisition.store;
        let fence = Fence::new(env.clone(), config.duration, sent);
        health.set_fence(&fence);
        let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
        tracing::info!(lease = %acquisition.store.object(), identity = config.identity, transitions, "leading");
        let held = Arc::new(Mutex::new(lease));
        let renewal = renew_until_lost(Arc::clone(&acquisition), Arc::clone(&held), fence.clone(), sent);
        let renewal = env.spawn("lease-renewal", renewal);
        Self { fence, acquisition, held, renewal: Some(renewal) }
    }

    /// Waits until the leadership has ended. All components that write must then stop.
    pub fn wait_until_lost(&self) -> impl Future<Output = ()> + Send + 'static {
        self.fence.wait_until_ended()
    }

    /// Ends the fence and releases the Lease, so that the next candidate can acquire it immediately.
    ///
    /// Assumption: no write of this leader is in flight. Call it last.
    ///
    /// # Errors
    /// [`LeaseError`] if the Lease was not written. Standbys then wait until the lease expires.
    pub async fn release(mut self) -> Result<(), LeaseError> {
        self.fence.end();
        self.renewal = None;
        let LeaseStore { config, env, .. } = &*self.acquisition.store;
        let mut current = self.held.lock().clone();
        for _ in 0..ATTEMPTS {
            let lease = record::released_lease(&current, env.now());
            match self.acquisition.store.write(&lease).await? {
                LeaseWriteResult::Stored(_) => {
                    tracing::info!(identity = config.identity, "released the lease");
                    return Ok(());
                }
                LeaseWriteResult::Stale => match self.acquisition.store.read().await? {
                    Some(lease) if self.acquisition.owns(&lease) => current = lease,
                    _ => return Ok(()),
                },
            }
        }
        Err(LeaseError::Contended { lease: self.acquisition.store.object() })
    }

    pub(super) async fn release_or_log(self) {
        if let Err(error) = self.release().await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "releasing the lease failed; standbys wait until it expires");
        }
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.fence.end();
    }
}

impl Acquisition {
    fn owns(&self, lease: &Lease) -> bool {
        record::is_held_since(lease, &self.store.config.identity, self.acquired_at)
    }

    /// Writes a new renewTime. Retries if another client changed the Lease without another holder, or deleted
    /// it.
    async fn renew(&self, held: &Mutex<Lease>) -> Result<Renewed, LeaseError> {
        let LeaseStore { config, env, health, .. } = &*self.store;
        let mut current = Some(held.lock().clone());
        for _ in 0..ATTEMPTS {
            let sent = Instant::now(env);
            let lease = record::held_lease(current.as_ref(), config, self.acquired_at, sent.wall());
            match self.store.write(&lease).await? {
                LeaseWriteResult::Stored(stored) => {
                    *held.lock() = *stored;
                    return Ok(Renewed::Accepted(sent));
                }
                // This includes an earlier, unconfirmed renewal: this process holds the Lease at an unknown
                // version.
                LeaseWriteResult::Stale => match self.store.read().await? {
                    // If the Lease has no holder, no other process leads, and the fence of this process is
                    // still valid.
                    Some(lease) if !self.owns(&lease) && !record::is_orphaned(&lease) => {
                        health.set_holder(record::lease_holder(&lease));
                        return Ok(Renewed::Superseded);
                    }
                    found => current = found,
                },
            }
        }
        Err(LeaseError::Contended { lease: self.store.object() })
    }
}

/// Renews the Lease until the fence ends. Ends the fence if another process holds the Lease.
async fn renew_until_lost(
    acquisition: Arc<Acquisition>,
    held: Arc<Mutex<Lease>>,
    fence: Fence,
    mut sent: Instant,
) {
    let LeaseStore { config, env, .. } = &*acquisition.store;
    let mut pause = config.renew_interval.saturating_sub(sent.elapsed(env));
    loop {
        let renewal = async {
            env.sleep(pause).await;
            acquisition.renew(&held).await
        };
        let renewed = match select(std::pin::pin!(renewal), std::pin::pin!(fence.wait_until_ended())).await {
            Either::Left((renewed, _)) => renewed,
            Either::Right(_) => {
                tracing::warn!("lost leadership: no renewal succeeded before the lease expired");
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
                let holder = acquisition.store.health.holder();
                tracing::warn!(holder, "lost leadership: another process holds the lease");
                return;
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                let remaining = fence.remaining().as_secs_f64();
                tracing::warn!(error, remaining_seconds = remaining, "renewing the lease failed, retrying");
                config.retry_interval()
            }
        };
    }
}
