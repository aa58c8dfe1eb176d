//! Pending writes of one object.

use crate::objects::DvpObjectMetadata;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

/// The backoff after the first failed write.
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// The maximum backoff.
const LAST_RETRY: Duration = Duration::from_secs(5);

/// One pending write per object. Failed writes are retried with exponential backoff.
#[derive(Debug)]
pub(crate) struct Outbox {
    busy: bool,
    failures: u32,
    retry_at: Timestamp,
    failure: Option<Box<str>>,
    /// The time of the last event of the object.
    pub(crate) touched: Timestamp,
    /// Fingerprint of the pending write.
    sent: u64,
    /// Fingerprint of the last successful write, and the resulting version.
    done: Option<(u64, u64)>,
}

/// Whether a write may be sent now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    /// A write may be sent.
    Open,
    /// Not until the pending write has completed.
    Busy,
    /// Not before this time.
    Until(Timestamp),
}

impl Outbox {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            busy: false,
            failures: 0,
            retry_at: Timestamp::MIN,
            failure: None,
            touched: now,
            sent: 0,
            done: None,
        }
    }

    /// Whether a write may be sent now.
    pub(crate) fn permit(&self, now: Timestamp) -> Permit {
        if self.busy {
            Permit::Busy
        } else if self.retry_at > now {
            Permit::Until(self.retry_at)
        } else {
            Permit::Open
        }
    }

    /// Whether a write is pending.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Why the last write failed, until one succeeds.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Marks a write with this content as pending, unless the same write already succeeded and resulted in
    /// this version. Otherwise a server that drops unknown fields would receive the same write again and
    /// again.
    pub(crate) fn admit(&mut self, content: &Value, version: u64) -> bool {
        let mut hasher = DefaultHasher::new();
        content.to_string().hash(&mut hasher);
        let fingerprint = hasher.finish();
        if self.done == Some((fingerprint, version)) {
            return false;
        }
        self.sent = fingerprint;
        self.busy = true;
        true
    }

    /// Processes the result of a write. If it failed, returns the time of the retry.
    pub(crate) fn ended(
        &mut self,
        failed: Option<String>,
        version: u64,
        now: Timestamp,
    ) -> Option<Timestamp> {
        self.busy = false;
        if let Some(why) = failed {
            let wait = FIRST_RETRY.saturating_mul(1 << self.failures.min(10)).min(LAST_RETRY);
            self.failures += 1;
            self.failure = Some(why.into());
            self.retry_at = now + wait;
            return Some(self.retry_at);
        }
        self.failures = 0;
        self.failure = None;
        self.retry_at = Timestamp::MIN;
        self.done = Some((self.sent, version));
        None
    }
}

/// A merge patch of a status that fails if another client has written since. The UID alone is not sufficient:
/// the status subresource of a custom resource ignores it, and a new object with the same name would receive
/// the status.
pub(crate) fn locked_status(meta: &DvpObjectMetadata, status: &Value) -> Value {
    json!({"metadata": {"uid": *meta.uid, "resourceVersion": meta.version.to_string()}, "status": status})
}

/// A merge patch of metadata with the same precondition.
pub(crate) fn locked_metadata(meta: &DvpObjectMetadata, mut content: Map<String, Value>) -> Value {
    content.insert("uid".to_owned(), json!(*meta.uid));
    content.insert("resourceVersion".to_owned(), json!(meta.version.to_string()));
    json!({ "metadata": content })
}

/// The merge patch from one status to another, or `None` if they are equal.
pub(crate) fn status_merge_patch<T: Serialize + PartialEq>(observed: &T, desired: &T) -> Option<Value> {
    if observed == desired {
        return None;
    }
    let (old, new) = (fields(observed), fields(desired));
    let mut patch = Map::new();
    for (name, value) in &new {
        if old.get(name) != Some(value) {
            patch.insert(name.clone(), value.clone());
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn fields<T: Serialize>(status: &T) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        _ => unreachable!("a status is serialized to an object with string keys"),
    }
}
