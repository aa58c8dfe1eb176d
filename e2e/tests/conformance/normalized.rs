//! Responses in a form that can be compared between two servers.
//!
//! * UIDs, and the versions of each object, are numbered in the order of their first appearance;
//! * generated names are replaced by the number of their step;
//! * of times only the presence is compared;
//! * `managedFields` are removed, because the model has none;
//! * of a refusal only code and reason are compared, not the message;
//! * the version of a list must not be older than its items; of a continue token only the presence is
//!   compared.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// The response of a server.
#[derive(Clone, Debug)]
pub(crate) enum Normalized {
    /// A single response.
    Reply { code: u16, body: Value },
    /// The events of a watch.
    Events(Vec<NormalizedEvent>),
}

/// One event of a watch.
#[derive(Clone, Debug)]
pub(crate) struct NormalizedEvent {
    pub(crate) name: String,
    pub(crate) body: Value,
    /// Whether its position relative to events of other objects is compared. It is not for events of the
    /// garbage collector, which handles several objects at once, and for the initial events of a watch, whose
    /// order is undefined.
    pub(crate) ordered: bool,
}

/// Placeholders for the values of one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placeholders {
    uids: BTreeMap<String, usize>,
    versions: BTreeMap<String, Vec<String>>,
    names: BTreeMap<String, String>,
}

impl Placeholders {
    /// Records a generated name with its placeholder.
    pub(crate) fn name(&mut self, name: &str, placeholder: String) {
        self.names.insert(name.to_owned(), placeholder);
    }

    /// A body without values that cannot be compared.
    pub(crate) fn body(&mut self, body: &Value) -> Value {
        match body["kind"].as_str() {
            Some("Status") => self.status(body),
            Some(kind) if kind.ends_with("List") => self.list(body),
            _ => self.object(body),
        }
    }

    /// The name of an object, or its placeholder.
    pub(crate) fn name_of(&self, object: &Value) -> String {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.names.get(name).cloned().unwrap_or_else(|| name.to_owned())
    }

    fn status(&mut self, status: &Value) -> Value {
        if status["status"] == "Success" {
            let mut details = status["details"].clone();
            if let Some(uid) = details["uid"].as_str() {
                details["uid"] = json!(self.uid(uid));
            }
            details["name"] = self.text(&details["name"]);
            return json!({ "status": "Success", "details": details });
        }
        json!({ "reason": status["reason"], "code": status["code"] })
    }

    fn list(&mut self, list: &Value) -> Value {
        let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
        let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let version = number(&list["metadata"]["resourceVersion"]);
        let newest = items.iter().filter_map(|item| number(&item["metadata"]["resourceVersion"])).max();
        let more = list["metadata"]["continue"].as_str().is_some_and(|token| !token.is_empty());
        json!({
            "kind": list["kind"], "apiVersion": list["apiVersion"],
            "versioned": version.is_some_and(|version| newest.is_none_or(|newest| version >= newest)),
            "more": more, "remaining": list["metadata"]["remainingItemCount"],
            "items": items.iter().map(|item| self.object(item)).collect::<Vec<_>>(),
        })
    }

    fn object(&mut self, object: &Value) -> Value {
        let mut object = object.clone();
        let metadata = self.metadata(&object["metadata"]);
        object["metadata"] = metadata;
        object
    }

    fn metadata(&mut self, metadata: &Value) -> Value {
        let mut metadata = metadata.clone();
        let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
        if let Some(version) = metadata["resourceVersion"].as_str().map(str::to_owned) {
            metadata["resourceVersion"] = json!(self.version(&uid, &version));
        }
        if !uid.is_empty() {
            metadata["uid"] = json!(self.uid(&uid));
        }
        metadata["name"] = self.text(&metadata["name"]);
        for time in ["creationTimestamp", "deletionTimestamp"] {
            if metadata[time].is_string() {
                metadata[time] = json!("a time");
            }
        }
        for reference in metadata["ownerReferences"].as_array_mut().into_iter().flatten() {
            reference["uid"] = json!(self.uid(reference["uid"].as_str().unwrap_or_default()));
            reference["name"] = self.text(&reference["name"]);
        }
        if let Some(map) = metadata.as_object_mut() {
            map.remove("managedFields");
            map.retain(|_, value| !value.is_null());
        }
        metadata
    }

    /// The placeholder of a version: its index among the versions of the object.
    fn version(&mut self, uid: &str, version: &str) -> String {
        if version.is_empty() {
            return String::new();
        }
        let seen = self.versions.entry(uid.to_owned()).or_default();
        let place = seen.iter().position(|other| other == version).unwrap_or_else(|| {
            seen.push(version.to_owned());
            seen.len() - 1
        });
        format!("version-{place}")
    }

    fn uid(&mut self, uid: &str) -> String {
        let next = self.uids.len();
        format!("uid-{}", self.uids.entry(uid.to_owned()).or_insert(next))
    }

    fn text(&self, name: &Value) -> Value {
        name.as_str()
            .and_then(|name| self.names.get(name))
            .map_or_else(|| name.clone(), |placeholder| json!(placeholder))
    }
}

/// The difference between the responses of two servers to one operation; `None` if they are equal.
pub(crate) fn difference(model: &[Normalized], real: &[Normalized]) -> Option<String> {
    if model.len() != real.len() {
        return Some(format!("{} answers instead of {}", model.len(), real.len()));
    }
    model.iter().zip(real).find_map(|(model, real)| match (model, real) {
        (Normalized::Reply { code, body }, Normalized::Reply { code: real_code, body: real_body }) => {
            (code != real_code || body != real_body)
                .then(|| format!("    model {code}, real {real_code}{}", paths(body, real_body, "")))
        }
        (Normalized::Events(model), Normalized::Events(real)) => events_differ(model, real),
        _ => Some(format!("model {model:?}\n real {real:?}")),
    })
}

/// Compares events: per object in order, and across objects where the order is defined.
fn events_differ(model: &[NormalizedEvent], real: &[NormalizedEvent]) -> Option<String> {
    let by_name = |events: &[NormalizedEvent]| {
        let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for event in events {
            all.entry(event.name.clone()).or_default().push(event.body.clone());
        }
        all
    };
    let (of_model, of_real) = (by_name(model), by_name(real));
    for name in of_model.keys().chain(of_real.keys()) {
        let (model, real) = (of_model.get(name), of_real.get(name));
        if model != real {
            let all = |events: Option<&Vec<Value>>| json!(events.cloned().unwrap_or_default());
            return Some(format!("    events of {name}:{}", paths(&all(model), &all(real), "")));
        }
    }
    // At this point the n-th events of each object are equal on both sides.
    let places = |events: &[NormalizedEvent]| {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let place = |event: &NormalizedEvent| {
            let count = seen.entry(event.name.clone()).or_default();
            *count += 1;
            (event.name.clone(), *count)
        };
        events.iter().map(place).collect::<Vec<_>>()
    };
    let ordered: Vec<(String, usize)> = places(model)
        .into_iter()
        .zip(model)
        .filter(|(_, event)| event.ordered)
        .map(|(place, _)| place)
        .collect();
    let real_order: Vec<(String, usize)> =
        places(real).into_iter().filter(|place| ordered.contains(place)).collect();
    (ordered != real_order).then(|| format!("order of events: model {ordered:?}\n real {real_order:?}"))
}

/// The differences between two values, by path.
pub(crate) fn paths(model: &Value, real: &Value, path: &str) -> String {
    let null = &Value::Null;
    match (model, real) {
        _ if model == real => String::new(),
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            let inner = keys.into_iter().map(|key| {
                let (one, other) = (one.get(key).unwrap_or(null), other.get(key).unwrap_or(null));
                paths(one, other, &format!("{path}/{key}"))
            });
            inner.collect()
        }
        (Value::Array(one), Value::Array(other)) => {
            let inner = (0..one.len().max(other.len())).map(|at| {
                let (one, other) = (one.get(at).unwrap_or(null), other.get(at).unwrap_or(null));
                paths(one, other, &format!("{path}/{at}"))
            });
            inner.collect()
        }
        _ => format!("\n    {path}: model {model}, real {real}"),
    }
}
