//! The sample pool of a platform, with machines and statuses made from it.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use vmpool_engine::failure::PoolFailure;
use vmpool_engine::membership::losses::Rehearsal;
use vmpool_engine::model::{CurrentRevision, DiskDraft, Draft, Lifetime, Membership};
use vmpool_engine::plan::{NamesInUse, ObservedPool, PlanSettings, PoolSnapshot};
use vmpool_engine::{ComputedStatus, PassMemory, Pool};

use crate::Platform;

/// UID of the sample's machines.
pub(super) const MACHINE_UID: &str = "0b1f2a60-5f2f-4f1e-9c39-7d1c3f8e2b55";

/// The sample pool and its facts.
pub(super) struct SamplePool<P: Platform> {
    pub(super) pool: P::Pool,
    pub(super) facts: Pool,
}

impl<P: Platform> SamplePool<P> {
    pub(super) fn new(pool: &Value) -> Self {
        let pool: P::Pool = decode_body(pool);
        let facts = P::read_pool(&pool);
        let id = P::first_revision(&pool, &facts);
        let facts = Pool { spec: facts.spec, revision: CurrentRevision::of_template(id, true) };
        assert!(
            facts.validation_errors.is_empty(),
            "the sample must be a good pool: {:?}",
            facts.validation_errors
        );
        assert!(
            !facts.id.uid.as_str().is_empty() && !facts.namespace.is_empty(),
            "the sample must be a stored one"
        );
        Self { pool, facts }
    }

    /// Whether the platform marks machines with labels, which the controller restores.
    pub(super) fn has_managed_labels(&self) -> bool {
        self.facts.membership == Membership::ManagedLabels
    }

    pub(super) fn draft(&self, suffix: &str, number: u64) -> Draft {
        let name: Arc<str> = format!("{}-{suffix}", self.facts.id.name).into();
        let own = self.facts.disks.iter().filter(|template| template.lifetime == Lifetime::Ephemeral);
        let disks = own
            .map(|template| DiskDraft::new(format!("{name}-{}", template.name).into(), template.name.clone()))
            .collect();
        let revision = self.facts.revision.id.clone();
        Draft { name, number, revision, disks, rehearsal: Rehearsal::None, standby: None }
    }

    pub(super) fn template(&self) -> Value {
        P::template(&self.pool)
    }

    /// A drafted machine as the API server stores it.
    pub(super) fn body(&self, draft: &Draft) -> Value {
        let mut body = P::machine(&self.pool, &self.template(), draft);
        body["metadata"]["uid"] = json!(MACHINE_UID);
        body["metadata"]["resourceVersion"] = json!("1");
        body["metadata"]["creationTimestamp"] = json!(sample_creation_time().to_string());
        body
    }

    pub(super) fn machine(&self, draft: &Draft) -> P::Machine {
        decode_body(&self.body(draft))
    }

    /// The status of the pool without machines.
    pub(super) fn status(&self, failure: Option<&PoolFailure>) -> ComputedStatus {
        let memory = PassMemory::default();
        let snapshot = PoolSnapshot {
            now: sample_creation_time(),
            uptime: std::time::Duration::ZERO,
            server_clock: None,
            machines: Vec::new(),
            disks: [].into(),
            pool_disks: Vec::new(),
            other_users: [].into(),
            replaced_disks: [].into(),
            unconfirmed_creates: Vec::new(),
        };
        let observed =
            ObservedPool::new(&snapshot, &self.facts, &[], PlanSettings::default(), &memory, &Nothing);
        vmpool_engine::compute_status(&observed, failure)
    }
}

/// No name is in use.
struct Nothing;

impl NamesInUse for Nothing {
    fn has_machine(&self, _: &str) -> bool {
        false
    }
    fn has_disk(&self, _: &str) -> bool {
        false
    }
}

pub(super) fn decode_body<K: serde::de::DeserializeOwned>(body: &Value) -> K {
    serde_json::from_value(body.clone()).expect("the platform reads what it writes")
}

/// In whole seconds, as the API server stores it.
pub(super) fn sample_creation_time() -> Timestamp {
    Timestamp::constant(1_893_456_000, 0)
}
