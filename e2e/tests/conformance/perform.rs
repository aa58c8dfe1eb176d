//! Translates operations into requests. The requests to each server depend on its own earlier responses.

use anyhow::Result;
use http::Method;
use serde_json::{Value, json};

use crate::fields::Preconditions;
use crate::kind::{ConformanceKind, Name, ObjectTarget, set};
use crate::normalized::Normalized;
use crate::operation::{
    ConformanceChange, ConformanceOperation, NumberedOperation, PatchFormat, Precondition, ScaleMethod,
    SelectorWithLabels,
};
use crate::view::{RawResponse, ServerView, UNUSED_UID, selected, text};

const JSON: &str = "application/json";

impl ServerView {
    /// Performs a step and returns all responses. The caller handles watches, because it knows which events
    /// have an undefined order.
    pub(crate) async fn perform(&mut self, step: &NumberedOperation) -> Result<Vec<Normalized>> {
        let id = step.id;
        match &step.op {
            ConformanceOperation::Create { kind, name, shape, with, dry } => {
                let object = self.new_object(*kind, *name, *shape, with, id);
                let path = with_dry(kind.collection(&self.namespace), *dry);
                let response = self.send(Method::POST, &path, Some((JSON, object))).await?;
                let target = ObjectTarget { kind: *kind, name: name.map_or(Name::Of(id), Name::Given) };
                if *dry && name.is_none() {
                    // The name differs in each response, so no later step refers to it.
                    self.placeholders
                        .name(text(&response.body["metadata"]["name"]), "(generated)".to_owned());
                }
                Ok(vec![self.normalize(id, (!dry).then_some(target), &response)])
            }
            ConformanceOperation::Get { target, subresource } => {
                let response = self.send(Method::GET, &self.path(*target, subresource), None).await?;
                Ok(vec![self.normalize(id, Some(*target), &response)])
            }
            ConformanceOperation::List { kind, selector, name, limit } => {
                self.list(id, *kind, *selector, *name, *limit).await
            }
            ConformanceOperation::Continue { limit } => self.next_page(id, *limit).await,
            ConformanceOperation::Put { target, subresource, change, uid, version, dry } => {
                self.put(id, *target, subresource, change, (*uid, *version), *dry).await
            }
            ConformanceOperation::Patch { target, subresource, format, change, uid, version, dry } => {
                let (read, live) = self.read(id, *target, *version).await?;
                let preconditions = self.preconditions(*target, &live, (*uid, *version));
                let body = match format {
                    PatchFormat::Merge => self.merge_patch(target.kind, change, preconditions),
                    PatchFormat::Json => self.json_patch(target.kind, change, preconditions),
                };
                let path = with_dry(self.path(*target, subresource), *dry);
                let response = self.send(Method::PATCH, &path, Some((content(*format), body))).await?;
                Ok(self.normalize_all(id, *target, *dry, read, &response))
            }
            ConformanceOperation::Scale { target, method, replicas, uid, version } => {
                self.scale(id, *target, *method, *replicas, (*uid, *version)).await
            }
            ConformanceOperation::Delete { target, policy, uid, version, dry } => {
                let (read, live) = self.read(id, *target, *version).await?;
                let (uid, version) = self.preconditions(*target, &live, (*uid, *version));
                let mut body = json!({ "apiVersion": "v1", "kind": "DeleteOptions" });
                if let Some(policy) = policy {
                    body["propagationPolicy"] = json!(policy);
                }
                for (field, precondition) in [("uid", uid), ("resourceVersion", version)] {
                    if let Some(precondition) = precondition {
                        body["preconditions"][field] = json!(precondition);
                    }
                }
                if *dry {
                    body["dryRun"] = json!(["All"]);
                }
                let response = self.send(Method::DELETE, &self.path(*target, ""), Some((JSON, body))).await?;
                Ok(self.normalize_all(id, *target, *dry, read, &response))
            }
            ConformanceOperation::Watch { kind, since, selector } => {
                let events = self.watch(*kind, *since, *selector).await?;
                Ok(vec![self.events(&events, |_| false)])
            }
        }
    }

    fn normalize_all(
        &mut self,
        id: usize,
        target: ObjectTarget,
        dry: bool,
        read: Option<Normalized>,
        response: &RawResponse,
    ) -> Vec<Normalized> {
        let last = self.normalize(id, (!dry).then_some(target), response);
        read.into_iter().chain([last]).collect()
    }

    /// Reads an object if its current version is needed.
    async fn read(
        &mut self,
        id: usize,
        target: ObjectTarget,
        version: Precondition,
    ) -> Result<(Option<Normalized>, Value)> {
        if version != Precondition::Current {
            return Ok((None, Value::Null));
        }
        let response = self.send(Method::GET, &self.path(target, ""), None).await?;
        let normalized = self.normalize(id, Some(target), &response);
        Ok((Some(normalized), if response.is_success() { response.body } else { Value::Null }))
    }

    fn preconditions(
        &self,
        target: ObjectTarget,
        live: &Value,
        (uid, version): (Precondition, Precondition),
    ) -> Preconditions {
        let uid = match uid {
            Precondition::None => None,
            Precondition::Current => Some(self.uid(Some(target)).to_owned()),
            Precondition::Outdated => Some(UNUSED_UID.to_owned()),
        };
        let version = match version {
            Precondition::None => None,
            Precondition::Current => {
                Some(live["metadata"]["resourceVersion"].as_str().unwrap_or("1").to_owned())
            }
            Precondition::Outdated => Some(self.first_version(target)),
        };
        (uid, version)
    }

    async fn list(
        &mut self,
        id: usize,
        kind: ConformanceKind,
        selector: SelectorWithLabels,
        name: Option<Name>,
        limit: u64,
    ) -> Result<Vec<Normalized>> {
        let named = name.map(|name| format!("&fieldSelector=metadata.name%3D{}", self.name(name)));
        let all = format!(
            "{}?{}{}",
            kind.collection(&self.namespace),
            selected(selector),
            named.unwrap_or_default()
        );
        let path = if limit > 0 { format!("{all}&limit={limit}") } else { all.clone() };
        let response = self.send(Method::GET, &path, None).await?;
        self.record_page(&response, &all);
        Ok(vec![self.normalize(id, None, &response)])
    }

    async fn next_page(&mut self, id: usize, limit: u64) -> Result<Vec<Normalized>> {
        let Some((path, token)) = self.page.clone() else { return Ok(Vec::new()) };
        let limit = if limit > 0 { format!("&limit={limit}") } else { String::new() };
        let next = format!("{path}&continue={token}{limit}");
        let response = self.send(Method::GET, &next, None).await?;
        self.record_page(&response, &path);
        Ok(vec![self.normalize(id, None, &response)])
    }

    /// Records the position of the next page. After the last page the same page is requested again.
    fn record_page(&mut self, response: &RawResponse, path: &str) {
        let token = text(&response.body["metadata"]["continue"]);
        if !token.is_empty() {
            self.page = Some((path.to_owned(), token.to_owned()));
        }
    }

    async fn put(
        &mut self,
        id: usize,
        target: ObjectTarget,
        subresource: &str,
        change: &ConformanceChange,
        preconditions: (Precondition, Precondition),
        dry: bool,
    ) -> Result<Vec<Normalized>> {
        let (read, live) = self.read(id, target, Precondition::Current).await?;
        let (uid, version) = self.preconditions(target, &live, preconditions);
        let mut object = if live.is_null() {
            let mut object = target.kind.object(0, &self.namespace);
            object["metadata"] = json!({ "name": self.name(target.name) });
            object
        } else {
            live
        };
        for (path, value) in self.fields(target.kind, change) {
            set(&mut object, &path, value);
        }
        for (field, precondition) in [("uid", uid), ("resourceVersion", version)] {
            match (precondition, object["metadata"].as_object_mut()) {
                (Some(precondition), Some(metadata)) => {
                    drop(metadata.insert(field.to_owned(), json!(precondition)));
                }
                (None, Some(metadata)) => drop(metadata.remove(field)),
                (_, None) => {}
            }
        }
        let path = with_dry(self.path(target, subresource), dry);
        let response = self.send(Method::PUT, &path, Some((JSON, object))).await?;
        Ok(self.normalize_all(id, target, dry, read, &response))
    }

    async fn scale(
        &mut self,
        id: usize,
        target: ObjectTarget,
        method: ScaleMethod,
        replicas: i64,
        preconditions: (Precondition, Precondition),
    ) -> Result<Vec<Normalized>> {
        let response = self.send(Method::GET, &self.path(target, "scale"), None).await?;
        let read = self.normalize(id, None, &response);
        let (uid, version) = self.preconditions(target, &response.body, preconditions);
        // A write without a change may or may not be stored, depending on managed fields.
        let now = response.body["spec"]["replicas"].as_i64().unwrap_or_default();
        let replicas = if replicas < 0 { replicas } else { (now + 1 + replicas) % 6 };
        let body_with_replicas = json!({ "spec": { "replicas": replicas } });
        let with_preconditions = |mut body: Value| {
            for (field, precondition) in [("uid", &uid), ("resourceVersion", &version)] {
                if let Some(precondition) = precondition {
                    body["metadata"][field] = json!(precondition);
                }
            }
            body
        };
        let (method, content, body) = match method {
            ScaleMethod::Put => {
                let mut scale = json!({ "apiVersion": "autoscaling/v1", "kind": "Scale",
                    "metadata": { "name": self.name(target.name), "namespace": self.namespace } });
                scale["spec"] = body_with_replicas["spec"].clone();
                (Method::PUT, JSON, with_preconditions(scale))
            }
            ScaleMethod::Patch(PatchFormat::Merge) => {
                (Method::PATCH, content(PatchFormat::Merge), with_preconditions(body_with_replicas))
            }
            ScaleMethod::Patch(PatchFormat::Json) => {
                let tests = [("uid", &uid), ("resourceVersion", &version)].into_iter().filter_map(|(field, precondition)| {
                    precondition.as_ref()
                        .map(|precondition| json!({ "op": "test", "path": format!("/metadata/{field}"), "value": precondition }))
                });
                let replace = json!({ "op": "replace", "path": "/spec/replicas", "value": replicas });
                (Method::PATCH, content(PatchFormat::Json), tests.chain([replace]).collect())
            }
        };
        let response = self.send(method, &self.path(target, "scale"), Some((content, body))).await?;
        Ok(vec![read, self.normalize(id, None, &response)])
    }
}

fn content(format: PatchFormat) -> &'static str {
    match format {
        PatchFormat::Merge => "application/merge-patch+json",
        PatchFormat::Json => "application/json-patch+json",
    }
}

fn with_dry(path: String, dry: bool) -> String {
    if dry { path + "?dryRun=All" } else { path }
}
