//! The writes of claims: taking a machine, renewing a claim, and giving a machine back.
//!
//! Each write carries the UID and the version of the machine that was read, so two callers never get the same
//! machine. A claim writes the machine and then reads the pool; a targeted removal writes the pool and then
//! reads the machine. At least one of the two therefore finds the other: the claim gives the machine back, or
//! the removal is refused.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use vmpool_engine::protection::{
    BY, CLAIM, Claim, Protection, REASON, UNTIL, clip_protection_text, time_after, timestamp_text,
};
use vmpool_engine::recycling::{CLAIMS, format_claim_count};
use vmpool_engine::{ObjectId, ParsedPool};
use vmpool_platforms::removal::StoredMachine;
use vmpool_runtime::Env;

use super::choose::removal_record_targets;
use super::model::{ClaimJob, ClaimRequest, Claimed, DEADLINE};
use super::observe;
use crate::cluster::{CallError, ClusterClient, WritePatience};
use crate::error::Error;
use crate::metrics::ApiServerMetrics;
use crate::removal::PoolName;

/// The maximum pause before a write is repeated.
const PAUSE: Duration = Duration::from_millis(200);

/// Writes the machines of one pool.
pub(super) struct ClaimWriter<'a> {
    pub(super) cluster: &'a ClusterClient,
    pub(super) env: &'a Env,
    pub(super) metrics: &'a ApiServerMetrics,
    pub(super) pool: &'a PoolName,
}

/// The machines that the claims of one batch have not tried yet. Each is handed out once.
pub(super) type ClaimCandidates = Mutex<VecDeque<StoredMachine>>;

impl ClaimWriter<'_> {
    /// Renews the claim of a machine at the version that was read. `None` if the machine has changed since.
    pub(super) async fn renew(
        &self,
        job: &ClaimJob,
        pool: &ParsedPool,
        own: StoredMachine,
    ) -> Result<Option<Claimed>, Error> {
        self.write_claim(job, pool, own, true).await
    }

    /// Takes the first candidate that no other client takes before. `None` if there is none.
    pub(super) async fn claim_first_candidate(
        &self,
        job: &ClaimJob,
        pool: &ParsedPool,
        candidates: &ClaimCandidates,
    ) -> Result<Option<Claimed>, Error> {
        loop {
            let candidate = {
                let mut candidates = candidates.lock();
                match &job.request.machine {
                    None => candidates.pop_front(),
                    Some(name) => {
                        let place = candidates.iter().position(|stored| *stored.machine.id.name == **name);
                        place.and_then(|place| candidates.remove(place))
                    }
                }
            };
            let Some(candidate) = candidate else { return Ok(None) };
            if let Some(claimed) = self.write_claim(job, pool, candidate, false).await? {
                return Ok(Some(claimed));
            }
        }
    }

    /// Writes the claim to a machine, and then checks that no removal names it. `None` if the machine cannot
    /// be claimed any more.
    async fn write_claim(
        &self,
        job: &ClaimJob,
        pool: &ParsedPool,
        machine: StoredMachine,
        renewed: bool,
    ) -> Result<Option<Claimed>, Error> {
        let expires = time_after(self.env.now(), job.request.duration);
        if job.request.dry_run {
            return self.claimed(&job.request, machine, expires, renewed).await.map(Some);
        }
        let mut body = claim_annotations(&job.user, &job.request, pool, expires, renewed);
        if !renewed {
            body[CLAIMS] = json!(format_claim_count(machine.machine.claims().saturating_add(1)));
        }
        let Some(taken) = self.write(&machine, &body, job.deadline).await? else { return Ok(None) };
        let pool = loop {
            match observe::read_parsed_pool(self.cluster, self.pool).await {
                Err(Error::Internal(_)) if self.env.uptime() < job.deadline => self.pause().await,
                Err(Error::Internal(_)) => return Err(Error::ClaimTimeout(DEADLINE)),
                Err(error) => {
                    self.withdraw_claim(&taken, job.deadline).await;
                    return Err(error);
                }
                Ok(pool) => break pool,
            }
        };
        if removal_record_targets(&pool.record).contains(&taken.machine.id.uid) {
            self.withdraw_claim(&taken, job.deadline).await;
            return Ok(None);
        }
        self.claimed(&job.request, taken, expires, renewed).await.map(Some)
    }

    /// Reads a machine whose claim could not be renewed because the machine had changed; `None` if the caller
    /// does not hold it any more.
    pub(super) async fn reread(
        &self,
        machine: &ObjectId,
        job: &ClaimJob,
        pool: &ParsedPool,
    ) -> Result<Option<StoredMachine>, Error> {
        let live = self.read_until_deadline(&machine.name, job.deadline).await?;
        Ok(live.filter(|live| {
            let protection = live.machine.protection.as_deref();
            let claim = protection.and_then(|protection| protection.claim_of(pool.id.uid.as_str()));
            live.machine.id == *machine
                && !live.machine.terminating
                && live.machine.is_protected(self.env.now())
                && claim.is_some_and(|claim| claim.user == job.user && claim.id == job.request.id)
        }))
    }

    /// Reads a machine, and repeats a read that fails for now; `None` if the machine does not exist.
    ///
    /// # Errors
    /// [`Error::ClaimTimeout`] at the deadline, and the error of a read that was refused.
    pub(super) async fn read_until_deadline(
        &self,
        name: &str,
        deadline: Duration,
    ) -> Result<Option<StoredMachine>, Error> {
        loop {
            match observe::read_stored_machine(self.cluster, self.pool, name).await {
                Ok(live) => return Ok(live),
                Err(error) if !error.is_transient() => {
                    return Err(observe::failed_call_error("reading a claimed machine", &error));
                }
                Err(_) if self.env.uptime() < deadline => self.pause().await,
                Err(_) => return Err(Error::ClaimTimeout(DEADLINE)),
            }
        }
    }

    /// Takes the claim, its count and the protection off a machine, if it has not changed since. If it has,
    /// or if the writes fail, the claim ends by itself, and its holder does not use it.
    pub(super) async fn withdraw_claim(&self, machine: &StoredMachine, deadline: Duration) {
        // A claim that has ended was used.
        let given_back = u32::from(machine.machine.is_protected(self.env.now()));
        let claims = format_claim_count(machine.machine.claims().saturating_sub(given_back));
        let body = json!({ UNTIL: null, BY: null, REASON: null, CLAIM: null, CLAIMS: claims });
        if let Err(error) = self.write(machine, &body, deadline).await {
            let name = &*machine.machine.id.name;
            tracing::warn!(machine = name, %error, "giving a machine back failed; its claim ends by itself");
        }
    }

    /// Writes annotations to a machine at the version that was read. `None` if the machine is gone or has
    /// changed.
    ///
    /// A write without response is repeated with the same version. If the machine has changed by then, a read
    /// shows whether that was this write.
    pub(super) async fn write(
        &self,
        machine: &StoredMachine,
        annotations: &Value,
        deadline: Duration,
    ) -> Result<Option<StoredMachine>, Error> {
        let id = &machine.machine.id;
        let patch = json!({ "metadata": {
            "uid": id.uid.as_str(),
            "resourceVersion": machine.version,
            "annotations": annotations,
        }});
        let (stored, namespace) = (self.pool.stored, &*self.pool.namespace);
        let mut unconfirmed = false;
        loop {
            let patience = WritePatience::after(unconfirmed);
            let result = self.cluster.patch_machine(stored, namespace, &id.name, &patch, patience).await;
            match result.and_then(|body| observe::parse_machine_response(self.pool, &body)) {
                Ok(written) => return Ok(Some(written)),
                Err(error) if error.is_not_found() || error.is_conflict() => {
                    self.metrics.claim_conflict();
                    return if unconfirmed {
                        self.confirm(machine, annotations, deadline).await
                    } else {
                        Ok(None)
                    };
                }
                Err(error) if error.is_transient() => {
                    unconfirmed |= matches!(error, CallError::Unconfirmed(_));
                }
                Err(error) => {
                    return Err(observe::failed_call_error(
                        &format!("claiming virtual machine \"{id}\""),
                        &error,
                    ));
                }
            }
            if self.env.uptime() >= deadline {
                return Err(Error::ClaimTimeout(DEADLINE));
            }
            self.pause().await;
        }
    }

    /// Whether a write without response was carried out: the machine has its annotations.
    async fn confirm(
        &self,
        machine: &StoredMachine,
        annotations: &Value,
        deadline: Duration,
    ) -> Result<Option<StoredMachine>, Error> {
        let live = self.read_until_deadline(&machine.machine.id.name, deadline).await?;
        let live = live.filter(|live| live.machine.id == machine.machine.id);
        Ok(live.filter(|live| has_claim_annotations(live, annotations)))
    }

    async fn claimed(
        &self,
        request: &ClaimRequest,
        machine: StoredMachine,
        expires: Timestamp,
        renewed: bool,
    ) -> Result<Claimed, Error> {
        let StoredMachine { machine, mut addresses, .. } = machine;
        if addresses.is_empty() {
            // The claim is valid without addresses, so a failed read is no error.
            let found =
                self.cluster.instance_addresses(self.pool.stored, &self.pool.namespace, &machine.id.name);
            addresses = found.await.unwrap_or_default();
        }
        Ok(Claimed { id: request.id.clone(), machine: machine.id, addresses, expires, renewed })
    }

    /// Waits before a request is repeated, for a random time, so that several clients of a machine do not
    /// meet again.
    pub(super) async fn pause(&self) {
        self.env.sleep(self.env.jitter(PAUSE)).await;
    }
}

/// The annotations of a claimed machine. A renewal without a reason keeps the former one.
fn claim_annotations(
    user: &str,
    request: &ClaimRequest,
    pool: &ParsedPool,
    expires: Timestamp,
    renewed: bool,
) -> Value {
    let claim =
        Claim { id: request.id.clone(), user: user.to_owned(), pool_uid: pool.id.uid.as_str().to_owned() };
    let mut annotations =
        json!({ UNTIL: timestamp_text(expires), BY: clip_protection_text(user), CLAIM: claim.text() });
    if !(renewed && request.reason.is_none()) {
        annotations[REASON] = json!(request.reason);
    }
    annotations
}

/// Whether the machine has these annotations about its claim.
fn has_claim_annotations(machine: &StoredMachine, annotations: &Value) -> bool {
    let protection = machine.machine.protection.as_deref();
    let until = protection.and_then(Protection::end).map(timestamp_text);
    let claim = protection.and_then(|protection| protection.claim.as_ref()).map(Claim::text);
    annotations[UNTIL].as_str() == until.as_deref() && annotations[CLAIM].as_str() == claim.as_deref()
}
