//! One of the two servers, and its observed state.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::AsyncBufReadExt;
use futures::TryStreamExt;
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::kind::{ConformanceKind, Name, ObjectTarget};
use crate::normalized::{Normalized, NormalizedEvent, Placeholders};
use crate::operation::{SelectorWithLabels, Since};

/// Longer than any response takes on a busy host.
const DEADLINE: Duration = Duration::from_mins(1);

/// A UID that no object has.
pub(crate) const UNUSED_UID: &str = "00000000-0000-4000-8000-00000000dead";

/// A server, and its observed state.
pub(crate) struct ServerView {
    client: Client,
    pub(crate) namespace: String,
    pub(crate) placeholders: Placeholders,
    /// The generated names, by step.
    names: BTreeMap<usize, String>,
    /// The first version and the last UID of each object.
    first: BTreeMap<ObjectTarget, String>,
    uids: BTreeMap<ObjectTarget, String>,
    /// The version in the response to a step.
    response_versions: BTreeMap<usize, String>,
    /// The version before the first step.
    start: String,
    /// The last list that has a next page.
    pub(crate) page: Option<(String, String)>,
    markers: usize,
}

/// A response.
pub(crate) struct RawResponse {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

impl RawResponse {
    pub(crate) fn is_success(&self) -> bool {
        self.code < 300
    }
}

impl ServerView {
    /// A server with an empty namespace.
    pub(crate) async fn new(client: Client, namespace: &str) -> Result<Self> {
        let mut view = Self {
            client,
            namespace: namespace.to_owned(),
            placeholders: Placeholders::default(),
            names: BTreeMap::new(),
            first: BTreeMap::new(),
            uids: BTreeMap::new(),
            response_versions: BTreeMap::new(),
            start: String::new(),
            page: None,
            markers: 0,
        };
        let list = view.send(Method::GET, &ConformanceKind::Pool.collection(namespace), None).await?;
        text(&list.body["metadata"]["resourceVersion"]).clone_into(&mut view.start);
        Ok(view)
    }

    /// Sends a request and reads the response.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, Value)>,
    ) -> Result<RawResponse> {
        let mut request = Request::builder().method(method).uri(path);
        let body = match body {
            None => Body::empty(),
            Some((content, body)) => {
                request = request.header(http::header::CONTENT_TYPE, content);
                Body::from(serde_json::to_vec(&body)?)
            }
        };
        let normalized = async {
            let response = self.client.send(request.body(body)?).await?;
            let code = response.status().as_u16();
            let bytes = response.into_body().collect_bytes().await?;
            let body = serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| json!({ "text": String::from_utf8_lossy(&bytes) }));
            anyhow::Ok(RawResponse { code, body })
        };
        tokio::time::timeout(DEADLINE, normalized).await.with_context(|| format!("no response to {path}"))?
    }

    /// The comparable form of a response. `target` is the object of the request.
    pub(crate) fn normalize(
        &mut self,
        step: usize,
        target: Option<ObjectTarget>,
        response: &RawResponse,
    ) -> Normalized {
        let metadata = &response.body["metadata"];
        if response.is_success() && response.body["kind"] != "Status" {
            let version = text(&metadata["resourceVersion"]);
            if !version.is_empty() {
                self.response_versions.insert(step, version.to_owned());
            }
            if let Some(target) = target
                && !version.is_empty()
            {
                let uid = text(&metadata["uid"]).to_owned();
                if self.uids.get(&target) != Some(&uid) {
                    self.first.insert(target, version.to_owned());
                    self.uids.insert(target, uid);
                }
            }
            if let Some(Name::Of(step)) = target.map(|target| target.name) {
                let name = text(&metadata["name"]).to_owned();
                self.placeholders.name(&name, format!("(generated in {step})"));
                self.names.insert(step, name);
            }
        }
        Normalized::Reply { code: response.code, body: self.placeholders.body(&response.body) }
    }

    pub(crate) fn name(&self, name: Name) -> String {
        match name {
            Name::Given(name) => name.to_owned(),
            Name::Of(step) => self.names.get(&step).cloned().unwrap_or_else(|| "missing".to_owned()),
        }
    }

    pub(crate) fn path(&self, target: ObjectTarget, subresource: &str) -> String {
        let path = format!("{}/{}", target.kind.collection(&self.namespace), self.name(target.name));
        if subresource.is_empty() { path } else { format!("{path}/{subresource}") }
    }

    /// The last observed UID of an object.
    pub(crate) fn uid(&self, target: Option<ObjectTarget>) -> &str {
        target.and_then(|target| self.uids.get(&target)).map_or(UNUSED_UID, String::as_str)
    }

    /// The first observed version of the object.
    pub(crate) fn first_version(&self, target: ObjectTarget) -> String {
        self.first.get(&target).cloned().unwrap_or_else(|| "1".to_owned())
    }

    /// The events of a watch so far. A marker object that matches the selector is created, and its event ends
    /// the list.
    pub(crate) async fn watch(
        &mut self,
        kind: ConformanceKind,
        since: Since,
        selector: SelectorWithLabels,
    ) -> Result<Vec<Value>> {
        let version = match since {
            Since::Start => self.start.clone(),
            Since::Step(step) => {
                self.response_versions.get(&step).cloned().unwrap_or_else(|| self.start.clone())
            }
            Since::TooOld => "1".to_owned(),
            Since::Now => {
                // The existing objects must be in the watch cache first, because a watch may start from a
                // slightly older state.
                let all = SelectorWithLabels("", &[]);
                let (start, marker) = (self.start.clone(), self.marker(kind, all).await?);
                self.follow(kind, &start, all, async || Ok(marker.clone())).await?;
                String::new()
            }
        };
        if version.is_empty() {
            let (name, mut created) = (self.next_marker(), Value::Null);
            let marker = async || {
                created = self.create_marker(kind, selector, &name).await?;
                Ok(name.clone())
            };
            let events = self.follow(kind, "", selector, marker).await?;
            self.placeholders.body(&created);
            return Ok(events);
        }
        let marker = self.marker(kind, selector).await?;
        self.follow(kind, &version, selector, async || Ok(marker.clone())).await
    }

    fn next_marker(&mut self) -> String {
        self.markers += 1;
        format!("mark-{}", self.markers)
    }

    async fn marker(&mut self, kind: ConformanceKind, selector: SelectorWithLabels) -> Result<String> {
        let name = self.next_marker();
        let created = self.create_marker(kind, selector, &name).await?;
        // It counts as observed now, regardless of the order of later events.
        self.placeholders.body(&created);
        Ok(name)
    }

    async fn create_marker(
        &self,
        kind: ConformanceKind,
        selector: SelectorWithLabels,
        name: &str,
    ) -> Result<Value> {
        let mut object = kind.object(0, &self.namespace);
        let labels: BTreeMap<_, _> = selector.1.iter().copied().collect();
        object["metadata"] = json!({ "name": name, "labels": labels });
        let path = kind.collection(&self.namespace);
        let created = self.send(Method::POST, &path, Some(("application/json", object))).await?;
        if created.is_success() { Ok(created.body) } else { bail!("making {name}: {}", created.body) }
    }

    /// Reads a watch until it delivers the object that `marker` creates, or ends.
    async fn follow(
        &self,
        kind: ConformanceKind,
        version: &str,
        selector: SelectorWithLabels,
        marker: impl AsyncFnOnce() -> Result<String>,
    ) -> Result<Vec<Value>> {
        let since = if version.is_empty() { String::new() } else { format!("&resourceVersion={version}") };
        let path = format!("{}?watch=true{since}{}", kind.collection(&self.namespace), selected(selector));
        let events = async {
            let stream = match self.client.request_stream(Request::get(&path).body(Vec::new())?).await {
                Ok(stream) => stream,
                Err(kube::Error::Api(status)) => {
                    return Ok(vec![json!({ "refused": status.code, "reason": status.reason })]);
                }
                Err(other) => return Err(other.into()),
            };
            let marker = marker().await?;
            let mut lines = std::pin::pin!(stream.lines());
            let mut events = Vec::new();
            while let Some(line) = lines.try_next().await? {
                let event: Value = serde_json::from_str(&line)?;
                if event["object"]["metadata"]["name"] == marker.as_str() {
                    break;
                }
                let ended = event["type"] == "ERROR";
                events.push(event);
                if ended {
                    break;
                }
            }
            Ok(events)
        };
        let events = tokio::time::timeout(DEADLINE, events).await;
        events.with_context(|| format!("{path} does not deliver the marker"))?
    }

    /// The comparable form of events. `is_unordered` returns whether the position of a version is undefined.
    pub(crate) fn events(&mut self, events: &[Value], is_unordered: impl Fn(&str) -> bool) -> Normalized {
        let describe = |event: &Value| {
            let object = &event["object"];
            let version = text(&object["metadata"]["resourceVersion"]);
            let name = self.placeholders.name_of(object);
            let seen = json!({ "type": event["type"], "object": self.placeholders.body(object),
                "refused": event["refused"], "reason": event["reason"] });
            NormalizedEvent { name, body: seen, ordered: !is_unordered(version) }
        };
        Normalized::Events(events.iter().map(describe).collect())
    }

    /// All objects without versions, which depend on the garbage collector's timing.
    pub(crate) async fn state(&self) -> Result<Value> {
        let mut placeholders = self.placeholders.clone();
        let mut state = serde_json::Map::new();
        for kind in ConformanceKind::ALL {
            let list = self.send(Method::GET, &kind.collection(&self.namespace), None).await?;
            for item in list.body["items"].as_array().into_iter().flatten() {
                let mut object = placeholders.body(item);
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.remove("resourceVersion");
                }
                state.insert(format!("{kind:?} {}", placeholders.name_of(item)), object);
            }
        }
        Ok(Value::Object(state))
    }
}

/// A selector as a query parameter.
pub(crate) fn selected(selector: SelectorWithLabels) -> String {
    if selector.0.is_empty() {
        return String::new();
    }
    let encoded = selector.0.bytes().map(|byte| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    "&labelSelector=".to_owned() + &encoded.collect::<String>()
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
