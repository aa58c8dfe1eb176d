//! From decisions to writes: at most one at a time for each object, locked to the form that the decision is
//! based on.

use super::{
    events::{CloneReview, Download, KubeVirtModelAction, KubeVirtWrite, KubeVirtWriteOutcome},
    model::KubeVirtModel,
    objects::{KubeVirtObjectId, KubeVirtObjectKind, KubeVirtObjectMetadata},
    slots::{ObjectView, ObservationSource},
};
use crate::{
    objects::NamespacedKey,
    shared::outbox::{Outbox, Permit},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// The state of a requested write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteRequestState {
    /// It is under way, or waits for an earlier write or the end of a backoff.
    Open,
    /// It was done before and changed nothing: the API server dropped the fields.
    Useless,
}

impl KubeVirtModel {
    /// Patches an object, unless it changes before.
    pub(super) fn patch(&mut self, id: &KubeVirtObjectId, patch: Value, now: Timestamp) -> WriteRequestState {
        self.write(id, KubeVirtWrite::Patch(patch), now)
    }

    /// Patches the status of an object, unless it changes before.
    pub(super) fn patch_status(
        &mut self,
        id: &KubeVirtObjectId,
        status: &Value,
        now: Timestamp,
    ) -> WriteRequestState {
        self.write(id, KubeVirtWrite::PatchStatus(json!({ "status": status })), now)
    }

    /// Creates an object.
    pub(super) fn create(&mut self, id: &KubeVirtObjectId, body: Value, now: Timestamp) -> WriteRequestState {
        match id.kind {
            KubeVirtObjectKind::Machine => drop(self.machines.place(&id.key).version()),
            KubeVirtObjectKind::Instance => drop(self.instances.place(&id.key).version()),
            KubeVirtObjectKind::DataVolume => drop(self.data_volumes.place(&id.key).version()),
            KubeVirtObjectKind::Claim => drop(self.claims.place(&id.key).version()),
            KubeVirtObjectKind::Pod => drop(self.pods.place(&id.key).version()),
            KubeVirtObjectKind::DataSource => drop(self.data_sources.place(&id.key).version()),
            KubeVirtObjectKind::Snapshot => drop(self.snapshots.place(&id.key).version()),
            KubeVirtObjectKind::Content => drop(self.contents.place(&id.key).version()),
            KubeVirtObjectKind::Revision => drop(self.revisions.place(&id.key).version()),
        }
        self.write(id, KubeVirtWrite::Create(body), now)
    }

    /// Creates a DataVolume, if a user may clone its source.
    pub(super) fn create_clone(
        &mut self,
        id: &KubeVirtObjectId,
        body: Value,
        review: CloneReview,
        now: Timestamp,
    ) -> WriteRequestState {
        self.data_volumes.place(&id.key);
        self.write(id, KubeVirtWrite::CreateClone { body, review }, now)
    }

    /// Downloads the data of a DataVolume, and records the result in its annotations.
    pub(super) fn fetch(
        &mut self,
        id: &KubeVirtObjectId,
        download: Download,
        now: Timestamp,
    ) -> WriteRequestState {
        self.write(id, KubeVirtWrite::Fetch(download), now)
    }

    /// Deletes the object with this UID; `at_once` without the grace period of a Pod.
    pub(super) fn delete(
        &mut self,
        id: &KubeVirtObjectId,
        uid: &Arc<str>,
        at_once: bool,
        now: Timestamp,
    ) -> WriteRequestState {
        self.write(id, KubeVirtWrite::Delete { uid: uid.clone(), now: at_once }, now)
    }

    fn write(
        &mut self,
        id: &KubeVirtObjectId,
        mut write: KubeVirtWrite,
        now: Timestamp,
    ) -> WriteRequestState {
        let Some((outbox, version, lock)) = self.outbox(id) else { return WriteRequestState::Open };
        match outbox.permit(now) {
            Permit::Open => {}
            Permit::Busy => return WriteRequestState::Open,
            Permit::Until(at) => {
                self.agenda.wake(id.clone(), at);
                return WriteRequestState::Open;
            }
        }
        let fingerprint = match &write {
            KubeVirtWrite::Patch(body) => json!({"patch": body}),
            KubeVirtWrite::PatchStatus(body) => json!({"status": body}),
            KubeVirtWrite::Create(body) => json!({"create": body}),
            KubeVirtWrite::CreateClone { body, review } => json!({"create": body, "as": review.user}),
            KubeVirtWrite::Fetch(download) => json!({"fetch": download.path, "restarts": download.restarts}),
            KubeVirtWrite::Delete { uid, now } => json!({"delete": **uid, "now": now}),
        };
        if !outbox.admit(&fingerprint, version) {
            return WriteRequestState::Useless;
        }
        if let (KubeVirtWrite::Patch(body) | KubeVirtWrite::PatchStatus(body), Some(lock)) =
            (&mut write, lock)
        {
            body["metadata"]["uid"] = json!(*lock);
            body["metadata"]["resourceVersion"] = json!(version.to_string());
        }
        self.actions.push(KubeVirtModelAction::Write(id.clone(), write));
        WriteRequestState::Open
    }

    /// What is under way about an object, with the version and UID that it was last seen with.
    fn outbox(&mut self, id: &KubeVirtObjectId) -> Option<(&mut Outbox, u64, Option<Arc<str>>)> {
        macro_rules! of {
            ($slots:expr) => {{
                let slot = $slots.slot(&id.key)?;
                let uid = slot.view.as_ref().map(|view| view.meta().uid.clone());
                let version = slot.version();
                Some((&mut slot.outbox, version, uid))
            }};
        }
        match id.kind {
            KubeVirtObjectKind::Machine => of!(self.machines),
            KubeVirtObjectKind::Instance => of!(self.instances),
            KubeVirtObjectKind::DataVolume => of!(self.data_volumes),
            KubeVirtObjectKind::Claim => of!(self.claims),
            KubeVirtObjectKind::Pod => of!(self.pods),
            KubeVirtObjectKind::DataSource => of!(self.data_sources),
            KubeVirtObjectKind::Snapshot => of!(self.snapshots),
            KubeVirtObjectKind::Content => of!(self.contents),
            KubeVirtObjectKind::Revision => of!(self.revisions),
        }
    }

    /// Processes the result of a write.
    pub(super) fn settle(&mut self, id: &KubeVirtObjectId, outcome: KubeVirtWriteOutcome, now: Timestamp) {
        let failed = match outcome {
            KubeVirtWriteOutcome::Done(object) => {
                if let Some(object) = object {
                    self.see(&id.key, object, ObservationSource::Response, now);
                }
                None
            }
            KubeVirtWriteOutcome::Conflict => Some("the object has changed".to_owned()),
            KubeVirtWriteOutcome::NotFound => Some("not found".to_owned()),
            KubeVirtWriteOutcome::Failed(why) => {
                tracing::debug!(kind = ?id.kind, object = %id.key, %why, "a write failed; the simulator retries it");
                Some(why)
            }
        };
        let succeeded = failed.is_none();
        let Some((outbox, version, _)) = self.outbox(id) else { return };
        match outbox.ended(failed, version, now) {
            Some(at) => self.agenda.wake(id.clone(), at),
            None => self.agenda.mark(id.clone()),
        }
        if succeeded && version == 0 {
            // The object was created and is gone again, or was deleted: a later one begins anew.
            self.give_up(id);
        }
        self.mark_neighbors(id);
    }

    /// Removes the place of an object that does not exist.
    pub(super) fn give_up(&mut self, id: &KubeVirtObjectId) {
        match id.kind {
            KubeVirtObjectKind::Machine => self.machines.remove_empty_slot(&id.key),
            KubeVirtObjectKind::Instance => self.instances.remove_empty_slot(&id.key),
            KubeVirtObjectKind::DataVolume => self.data_volumes.remove_empty_slot(&id.key),
            KubeVirtObjectKind::Claim => self.claims.remove_empty_slot(&id.key),
            KubeVirtObjectKind::Pod => self.pods.remove_empty_slot(&id.key),
            KubeVirtObjectKind::DataSource => self.data_sources.remove_empty_slot(&id.key),
            KubeVirtObjectKind::Snapshot => self.snapshots.remove_empty_slot(&id.key),
            KubeVirtObjectKind::Content => self.contents.remove_empty_slot(&id.key),
            KubeVirtObjectKind::Revision => self.revisions.remove_empty_slot(&id.key),
        }
    }

    /// Why an object could not be created, until it is.
    pub(super) fn creation_failure(&mut self, id: &KubeVirtObjectId) -> Option<String> {
        let (outbox, version, _) = self.outbox(id)?;
        if version == 0 { outbox.failure().map(str::to_owned) } else { None }
    }
}

/// An owner reference to an object, which controls the owned one.
pub(super) fn controller_reference(
    api_version: &str,
    kind: &str,
    key: &NamespacedKey,
    meta: &KubeVirtObjectMetadata,
) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "name": *key.name,
        "uid": *meta.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}
