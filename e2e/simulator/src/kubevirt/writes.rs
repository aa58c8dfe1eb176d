//! From decisions to writes: at most one at a time for each object, locked to the form that the decision is based on.

use super::{
    events::{Action, Download, Outcome, Review, Write},
    model::World,
    objects::{Id, Kind, Meta},
    slots::{Source, View},
};
use crate::{
    objects::Key,
    shared::outbox::{Outbox, Permit},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// The state of a requested write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// It is under way, or waits for an earlier write or the end of a backoff.
    Open,
    /// It was done before and changed nothing: the API server dropped the fields.
    Useless,
}

impl World {
    /// Patches an object, unless it changes before.
    pub(super) fn patch(&mut self, id: &Id, patch: Value, now: Timestamp) -> Request {
        self.write(id, Write::Patch(patch), now)
    }

    /// Patches the status of an object, unless it changes before.
    pub(super) fn patch_status(&mut self, id: &Id, status: &Value, now: Timestamp) -> Request {
        self.write(id, Write::PatchStatus(json!({ "status": status })), now)
    }

    /// Creates an object.
    pub(super) fn create(&mut self, id: &Id, body: Value, now: Timestamp) -> Request {
        match id.kind {
            Kind::Machine => drop(self.machines.place(&id.key).version()),
            Kind::Instance => drop(self.instances.place(&id.key).version()),
            Kind::DataVolume => drop(self.data_volumes.place(&id.key).version()),
            Kind::Claim => drop(self.claims.place(&id.key).version()),
            Kind::Pod => drop(self.pods.place(&id.key).version()),
            Kind::DataSource => drop(self.data_sources.place(&id.key).version()),
            Kind::Snapshot => drop(self.snapshots.place(&id.key).version()),
            Kind::Content => drop(self.contents.place(&id.key).version()),
            Kind::Revision => drop(self.revisions.place(&id.key).version()),
        }
        self.write(id, Write::Create(body), now)
    }

    /// Creates a DataVolume, if a user may clone its source.
    pub(super) fn create_clone(&mut self, id: &Id, body: Value, review: Review, now: Timestamp) -> Request {
        self.data_volumes.place(&id.key);
        self.write(id, Write::CreateClone { body, review }, now)
    }

    /// Downloads the data of a DataVolume, and records the result in its annotations.
    pub(super) fn fetch(&mut self, id: &Id, download: Download, now: Timestamp) -> Request {
        self.write(id, Write::Fetch(download), now)
    }

    /// Deletes the object with this UID; `at_once` without the grace period of a Pod.
    pub(super) fn delete(&mut self, id: &Id, uid: &Arc<str>, at_once: bool, now: Timestamp) -> Request {
        self.write(id, Write::Delete { uid: uid.clone(), now: at_once }, now)
    }

    fn write(&mut self, id: &Id, mut write: Write, now: Timestamp) -> Request {
        let Some((outbox, version, lock)) = self.outbox(id) else { return Request::Open };
        match outbox.permit(now) {
            Permit::Open => {}
            Permit::Busy => return Request::Open,
            Permit::Until(at) => {
                self.agenda.wake(id.clone(), at);
                return Request::Open;
            }
        }
        let fingerprint = match &write {
            Write::Patch(body) => json!({"patch": body}),
            Write::PatchStatus(body) => json!({"status": body}),
            Write::Create(body) => json!({"create": body}),
            Write::CreateClone { body, review } => json!({"create": body, "as": review.user}),
            Write::Fetch(download) => json!({"fetch": download.path, "restarts": download.restarts}),
            Write::Delete { uid, now } => json!({"delete": **uid, "now": now}),
        };
        if !outbox.admit(&fingerprint, version) {
            return Request::Useless;
        }
        if let (Write::Patch(body) | Write::PatchStatus(body), Some(lock)) = (&mut write, lock) {
            body["metadata"]["uid"] = json!(*lock);
            body["metadata"]["resourceVersion"] = json!(version.to_string());
        }
        self.actions.push(Action::Write(id.clone(), write));
        Request::Open
    }

    /// What is under way about an object, with the version and UID that it was last seen with.
    fn outbox(&mut self, id: &Id) -> Option<(&mut Outbox, u64, Option<Arc<str>>)> {
        macro_rules! of {
            ($slots:expr) => {{
                let slot = $slots.slot(&id.key)?;
                let uid = slot.view.as_ref().map(|view| view.meta().uid.clone());
                let version = slot.version();
                Some((&mut slot.outbox, version, uid))
            }};
        }
        match id.kind {
            Kind::Machine => of!(self.machines),
            Kind::Instance => of!(self.instances),
            Kind::DataVolume => of!(self.data_volumes),
            Kind::Claim => of!(self.claims),
            Kind::Pod => of!(self.pods),
            Kind::DataSource => of!(self.data_sources),
            Kind::Snapshot => of!(self.snapshots),
            Kind::Content => of!(self.contents),
            Kind::Revision => of!(self.revisions),
        }
    }

    /// Processes the result of a write.
    pub(super) fn settle(&mut self, id: &Id, outcome: Outcome, now: Timestamp) {
        let failed = match outcome {
            Outcome::Done(object) => {
                if let Some(object) = object {
                    self.see(&id.key, object, Source::Response, now);
                }
                None
            }
            Outcome::Conflict => Some("the object has changed".to_owned()),
            Outcome::NotFound => Some("not found".to_owned()),
            Outcome::Failed(why) => {
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
    pub(super) fn give_up(&mut self, id: &Id) {
        match id.kind {
            Kind::Machine => self.machines.give_up(&id.key),
            Kind::Instance => self.instances.give_up(&id.key),
            Kind::DataVolume => self.data_volumes.give_up(&id.key),
            Kind::Claim => self.claims.give_up(&id.key),
            Kind::Pod => self.pods.give_up(&id.key),
            Kind::DataSource => self.data_sources.give_up(&id.key),
            Kind::Snapshot => self.snapshots.give_up(&id.key),
            Kind::Content => self.contents.give_up(&id.key),
            Kind::Revision => self.revisions.give_up(&id.key),
        }
    }

    /// Why an object could not be created, until it is.
    pub(super) fn creation_failure(&mut self, id: &Id) -> Option<String> {
        let (outbox, version, _) = self.outbox(id)?;
        if version == 0 { outbox.failure().map(str::to_owned) } else { None }
    }
}

/// An owner reference to an object, which controls the owned one.
pub(super) fn controller_reference(api_version: &str, kind: &str, key: &Key, meta: &Meta) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "name": *key.name,
        "uid": *meta.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}
