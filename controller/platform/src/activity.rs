//! The activity log of a pool, as the status of pools of both platforms contains it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use vmpool_engine::activity::{ActivityEntry, ActivityReason, LIMIT, Writers};
use vmpool_engine::limits;

use crate::decode::{lenient_list, lenient_value};

/// Reads the entries. An entry that cannot be read is dropped.
pub fn read_activity_entries(entries: &[Value]) -> Vec<ActivityEntry> {
    let text = |entry: &Value, field: &str| entry[field].as_str().map(|text| limits::clip_name(text).into());
    let entries = entries.iter().filter_map(|entry| {
        Some(ActivityEntry {
            time: entry["time"].as_str()?.parse().ok()?,
            reason: ActivityReason::parse(entry["reason"].as_str()?)?,
            actor: text(entry, "actor"),
            from: text(entry, "from"),
            to: text(entry, "to"),
        })
    });
    entries.take(LIMIT).collect()
}

/// Writes the entries, the oldest one first.
pub fn write_activity_entries(log: &[ActivityEntry]) -> Value {
    let written = log.iter().map(|entry| {
        let mut object = Map::new();
        object.insert("time".to_owned(), entry.time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into());
        object.insert("reason".to_owned(), entry.reason.as_str().into());
        for (field, text) in [("actor", &entry.actor), ("from", &entry.from), ("to", &entry.to)] {
            if let Some(text) = text {
                object.insert(field.to_owned(), (**text).into());
            }
        }
        Value::Object(object)
    });
    written.collect()
}

/// The managed fields of a pool, as far as they name the writers of its spec.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub struct ManagedFields(#[serde(deserialize_with = "lenient_list")] Vec<Managed>);

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Managed {
    #[serde(deserialize_with = "lenient_value")]
    manager: String,
    #[serde(deserialize_with = "lenient_value")]
    time: Option<jiff::Timestamp>,
    #[serde(rename = "fieldsV1")]
    fields: Value,
}

impl ManagedFields {
    /// The clients that last wrote the fields of the log. `pause` is the path of the field that pauses the
    /// pool or its rollout.
    pub fn writers(&self, pause: &[&str]) -> Writers {
        Writers {
            replicas: self.writer(&["replicas"]),
            paused: self.writer(pause),
            template: self.writer(&["virtualMachineTemplate"]),
        }
    }

    fn writer(&self, path: &[&str]) -> Option<Arc<str>> {
        let owns = |managed: &&Managed| {
            let spec = managed.fields.get("f:spec");
            path.iter().fold(spec, |fields, name| fields?.get(format!("f:{name}"))).is_some()
        };
        let last = self.0.iter().filter(owns).max_by_key(|managed| managed.time)?;
        // The API server writes `unknown` for a client that names no field manager and no user agent.
        let is_known = !last.manager.is_empty() && last.manager != "unknown";
        is_known.then(|| limits::clip_name(&last.manager).into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_owner_of_a_field_is_its_writer() {
        let managed = json!([
            { "manager": "kubectl", "time": "2026-11-24T10:00:00Z",
              "fieldsV1": { "f:spec": { "f:replicas": {}, "f:virtualMachineTemplate": { "f:spec": {} } } } },
            { "manager": "vmpool-controller", "subresource": "status", "time": "2026-11-24T13:00:00Z",
              "fieldsV1": { "f:status": { "f:replicas": {} } } },
            { "manager": "autoscaler", "subresource": "scale", "time": "2026-11-24T12:00:00Z",
              "fieldsV1": { "f:spec": { "f:replicas": {} } } },
            { "manager": "ed", "time": "2026-11-24T09:00:00Z",
              "fieldsV1": { "f:spec": { "f:rollout": { "f:paused": {} } } } },
            { "manager": "unknown", "time": "2026-11-24T14:00:00Z", "fieldsV1": { "f:spec": { "f:paused": {} } } },
            17,
        ]);
        let managed: ManagedFields = serde_json::from_str(&managed.to_string()).unwrap();
        let expected = Writers {
            replicas: Some("autoscaler".into()),
            paused: Some("ed".into()),
            template: Some("kubectl".into()),
        };
        assert_eq!(managed.writers(&["rollout", "paused"]), expected);
        assert_eq!(managed.writers(&["paused"]).paused, None);
        let odd: ManagedFields = serde_json::from_str("3").unwrap();
        assert_eq!(odd.writers(&["paused"]), Writers::default());
    }

    #[test]
    fn entries_read_back_and_others_are_dropped() {
        let log = json!([
            { "time": "2026-11-24T10:00:00Z", "reason": "Scaled", "actor": "kubectl", "from": "3", "to": "5" },
            { "time": "2026-11-24T10:01:00Z", "reason": "Paused" },
        ]);
        let entries = read_activity_entries(log.as_array().unwrap());
        assert_eq!((entries.len(), write_activity_entries(&entries)), (2, log));
        let odd = [json!({ "time": "now", "reason": "Scaled" }), json!({ "reason": "Scaled" }), json!(3)];
        assert_eq!(read_activity_entries(&odd), []);
    }
}
