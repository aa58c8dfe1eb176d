//! The format of the removal record in the annotation.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use super::record::{RecordedTarget, RemovalRecord, TargetState};
use crate::ids::ObjectId;

/// The annotation is not a valid removal record.
///
/// Another client has written it. The targets are then unknown, so the controller must not create or delete
/// machines to reach `replicas`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemovalRecordError {
    /// It is not a JSON list of entries.
    #[error("the removal record is not a JSON list of {{\"name\", \"uid\"}}: {0}")]
    NotAList(String),
    /// An entry has an empty part.
    #[error("entry {0} of the removal record has an empty name, uid or reservation")]
    EmptyPart(usize),
}

/// An entry in its stored form.
#[derive(Serialize, Deserialize)]
struct StoredTarget<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    // An explicit null is an error and not a missing reservation, so that a client does not accept a target
    // by mistake.
    #[serde(default, deserialize_with = "deserialize_present", skip_serializing_if = "Option::is_none")]
    reserved: Option<String>,
    /// If it is absent, the user of the preceding entry; if it is empty, no user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    force: bool,
}

fn deserialize_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}

impl RemovalRecord {
    /// Parses the annotation. Repeated entries and unknown fields are ignored. An empty annotation is a
    /// record without entries.
    ///
    /// # Errors
    /// [`RemovalRecordError`] if it is not a list of complete entries.
    pub fn parse(text: &str) -> Result<Self, RemovalRecordError> {
        if text.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        let written: Vec<StoredTarget<'_>> =
            serde_json::from_str(text).map_err(|error| RemovalRecordError::NotAList(error.to_string()))?;
        let (mut record, mut known) = (Self::default(), BTreeSet::new());
        let mut asking: Option<Arc<str>> = None;
        for (index, StoredTarget { name, uid, reserved, by, force }) in written.into_iter().enumerate() {
            if let Some(by) = by {
                asking = (!by.is_empty()).then(|| by.into());
            }
            if name.is_empty() || uid.is_empty() || reserved.as_deref() == Some("") {
                return Err(RemovalRecordError::EmptyPart(index));
            }
            let state = reserved
                .map_or(TargetState::Accepted, |request| TargetState::Reserved { request: request.into() });
            let entry =
                RecordedTarget { target: ObjectId::new(&name, &uid), state, by: asking.clone(), force };
            if known.insert((entry.target.uid.clone(), entry.state.clone())) {
                record.entries.push(entry);
            }
        }
        Ok(record)
    }
}

/// The text of the annotation.
impl fmt::Display for RemovalRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut asking = None;
        let written: Vec<StoredTarget<'_>> = self
            .entries
            .iter()
            .map(|RecordedTarget { target, state, by, force }| StoredTarget {
                name: (&*target.name).into(),
                uid: target.uid.as_str().into(),
                reserved: match state {
                    TargetState::Reserved { request } => Some(request.to_string()),
                    TargetState::Accepted => None,
                },
                by: (std::mem::replace(&mut asking, by.as_deref()) != by.as_deref())
                    .then(|| by.as_deref().unwrap_or_default().into()),
                force: *force,
            })
            .collect();
        f.write_str(&serde_json::to_string(&written).expect("texts can be written as JSON"))
    }
}
