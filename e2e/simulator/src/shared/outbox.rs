//! What is under way to the API server about one object.

use crate::objects::Meta;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

/// The first wait after a failed write.
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// No wait is longer.
const LAST_RETRY: Duration = Duration::from_secs(5);

/// One write at a time per object; failures are repeated with growing waits.
#[derive(Debug)]
pub(crate) struct Outbox {
    busy: bool,
    failures: u32,
    retry_at: Timestamp,
    failure: Option<Box<str>>,
    /// When the object was last heard of.
    pub(crate) touched: Timestamp,
    /// Fingerprint of the write under way.
    sent: u64,
    /// Fingerprint of the last successful write and the version that it led to.
    done: Option<(u64, u64)>,
}

/// What may be written now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    /// A write.
    Open,
    /// Nothing until the write under way has ended.
    Busy,
    /// Nothing until then.
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

    /// Whether something may be written now.
    pub(crate) fn permit(&self, now: Timestamp) -> Permit {
        if self.busy {
            Permit::Busy
        } else if self.retry_at > now {
            Permit::Until(self.retry_at)
        } else {
            Permit::Open
        }
    }

    /// Whether a write is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Why the last write failed, until one succeeds.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Takes a write with this content on its way, unless exactly it succeeded already and left the object at
    /// this version: a server that drops what it does not know would otherwise be told the same for ever.
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

    /// Takes note of the end of a write; says when to try again, if it failed.
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

/// A merge patch of a status that fails if anybody wrote since: the UID alone would not do, because the status
/// subresource of a custom resource ignores it, and a twin of the same name would inherit the status.
pub(crate) fn locked_status(meta: &Meta, status: &Value) -> Value {
    json!({"metadata": {"uid": *meta.uid, "resourceVersion": meta.version.to_string()}, "status": status})
}

/// The same lock around a patch of metadata.
pub(crate) fn locked_metadata(meta: &Meta, mut content: Map<String, Value>) -> Value {
    content.insert("uid".to_owned(), json!(*meta.uid));
    content.insert("resourceVersion".to_owned(), json!(meta.version.to_string()));
    json!({ "metadata": content })
}

/// The merge patch from one status to another, or nothing if they are equal.
pub(crate) fn difference<T: Serialize + PartialEq>(observed: &T, desired: &T) -> Option<Value> {
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
        _ => unreachable!("a status serialises to an object with string keys"),
    }
}
