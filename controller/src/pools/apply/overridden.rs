//! Compares what the controller sent with the response of the API server, which shows what an admission
//! policy or the platform changed.
//!
//! All machines of a pool are created alike, so the first responses of a pass are representative. Only if one
//! of them differs, all are compared: otherwise the comparison of a thousand machines would cost as much time
//! as their creation.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use vmpool_engine::plan::{FieldPaths, PoolSnapshot};
use vmpool_engine::{PassMemory, Uid};
use vmpool_kit::decode;
use vmpool_kit::write::WriteError;
use vmpool_platforms::{Platform, overridden_fields};

/// Number of creates that a pass compares at least.
const COMPARED: usize = 3;

/// What the comparisons of a pass share.
#[derive(Default)]
pub(super) struct Comparisons {
    compared: AtomicUsize,
    found: AtomicBool,
    /// The fields that are known to have other values.
    known: BTreeMap<Uid, FieldPaths>,
}

impl Comparisons {
    /// With what the memory knows of the machines in `snapshot`.
    pub(super) fn of(memory: &PassMemory, snapshot: &PoolSnapshot) -> Self {
        let found = AtomicBool::new(!memory.overridden.is_empty());
        let known = snapshot.machines.iter().map(|machine| &machine.id.uid);
        let known = known.map(|uid| (uid.clone(), FieldPaths::from(memory.overridden.of(uid))));
        let known = if memory.overridden.is_empty() {
            BTreeMap::new()
        } else {
            known.filter(|(_, fields)| !fields.is_empty()).collect()
        };
        Self { compared: AtomicUsize::new(0), found, known }
    }

    /// The fields of a created machine with other values; `None` if it is not compared.
    pub(super) fn created<P: Platform>(
        &self,
        sent: impl FnOnce() -> Value,
        stored: &RawValue,
    ) -> Option<FieldPaths> {
        let is_compared =
            self.found.load(Ordering::Relaxed) || self.compared.fetch_add(1, Ordering::Relaxed) < COMPARED;
        if !is_compared {
            return None;
        }
        let found = find_overridden::<P>(&sent(), stored)?;
        self.found.fetch_or(!found.is_empty(), Ordering::Relaxed);
        Some(found.into_iter().map(Into::into).collect())
    }

    /// The fields of an updated machine with other values: those of the patch, and those that were known
    /// before and that the update did not correct. Other fields may have been edited by users. `sent` is the
    /// whole machine as the template has it.
    pub(super) fn updated<P: Platform>(
        &self,
        machine: &Uid,
        patch: &Value,
        sent: impl FnOnce() -> Value,
        stored: &RawValue,
    ) -> Option<FieldPaths> {
        let mut found = find_overridden::<P>(patch, stored)?;
        if let Some(known) = self.known.get(machine) {
            let left = find_overridden::<P>(&sent(), stored)?;
            let is_known = |field: &String| known.iter().any(|known| **known == **field);
            found.extend(left.into_iter().filter(is_known));
            found.sort();
            found.dedup();
        }
        Some(found.into_iter().map(Into::into).collect())
    }
}

/// `None` if the response cannot be read as a tree, for example because it is nested too deeply.
fn find_overridden<P: Platform>(sent: &Value, stored: &RawValue) -> Option<Vec<String>> {
    let stored: Value = serde_json::from_str(stored.get()).ok()?;
    Some(overridden_fields(sent, &stored, P::COMPLETED_FIELDS))
}

/// The object in a response.
///
/// # Errors
/// [`WriteError::UnconfirmedWrites`], because the write succeeded and its result is unknown.
pub(super) fn read_response<T: DeserializeOwned>(body: &RawValue) -> Result<T, WriteError> {
    decode::decode_json(body.get().as_bytes()).map_err(|error| WriteError::Unconfirmed(error.to_string()))
}
