//! Translates operations into requests. The requests to each server depend on its own earlier responses.

use anyhow::Result;
use http::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::fields::Locks;
use crate::kind::{Kind, Name, Target, set};
use crate::op::{Change, Language, Lock, Op, Scaling, Selector, Step};
use crate::side::{Heard, NOBODY, Side, selected, text};

const JSON: &str = "application/json";

impl Side {
    /// Performs a step and returns all responses. The caller handles watches, because it knows which events have an
    /// undefined order.
    pub(crate) async fn perform(&mut self, step: &Step) -> Result<Vec<Answer>> {
        let id = step.id;
        match &step.op {
            Op::Create { kind, name, shape, with, dry } => {
                let object = self.new_object(*kind, *name, *shape, with, id);
                let path = with_dry(kind.collection(&self.namespace), *dry);
                let heard = self.send(Method::POST, &path, Some((JSON, object))).await?;
                let target = Target { kind: *kind, name: name.map_or(Name::Of(id), Name::Given) };
                if *dry && name.is_none() {
                    // The name differs in each response, so no later step refers to it.
                    self.symbols.name(text(&heard.body["metadata"]["name"]), "(generated)".to_owned());
                }
                Ok(vec![self.note(id, (!dry).then_some(target), &heard)])
            }
            Op::Get { target, subresource } => {
                let heard = self.send(Method::GET, &self.path(*target, subresource), None).await?;
                Ok(vec![self.note(id, Some(*target), &heard)])
            }
            Op::List { kind, selector, name, limit } => self.list(id, *kind, *selector, *name, *limit).await,
            Op::Continue { limit } => self.next_page(id, *limit).await,
            Op::Put { target, subresource, change, uid, version, dry } => {
                self.put(id, *target, subresource, change, (*uid, *version), *dry).await
            }
            Op::Patch { target, subresource, language, change, uid, version, dry } => {
                let (read, live) = self.read(id, *target, *version).await?;
                let locks = self.locks(*target, &live, (*uid, *version));
                let body = match language {
                    Language::Merge => self.merge_patch(target.kind, change, locks),
                    Language::Json => self.json_patch(target.kind, change, locks),
                };
                let path = with_dry(self.path(*target, subresource), *dry);
                let heard = self.send(Method::PATCH, &path, Some((content(*language), body))).await?;
                Ok(self.noted(id, *target, *dry, read, &heard))
            }
            Op::Scale { target, how, replicas, uid, version } => {
                self.scale(id, *target, *how, *replicas, (*uid, *version)).await
            }
            Op::Delete { target, policy, uid, version, dry } => {
                let (read, live) = self.read(id, *target, *version).await?;
                let (uid, version) = self.locks(*target, &live, (*uid, *version));
                let mut body = json!({ "apiVersion": "v1", "kind": "DeleteOptions" });
                if let Some(policy) = policy {
                    body["propagationPolicy"] = json!(policy);
                }
                for (field, lock) in [("uid", uid), ("resourceVersion", version)] {
                    if let Some(lock) = lock {
                        body["preconditions"][field] = json!(lock);
                    }
                }
                if *dry {
                    body["dryRun"] = json!(["All"]);
                }
                let heard = self.send(Method::DELETE, &self.path(*target, ""), Some((JSON, body))).await?;
                Ok(self.noted(id, *target, *dry, read, &heard))
            }
            Op::Watch { kind, since, selector } => {
                let events = self.watch(*kind, *since, *selector).await?;
                Ok(vec![self.events(&events, |_| false)])
            }
        }
    }

    fn noted(
        &mut self,
        id: usize,
        target: Target,
        dry: bool,
        read: Option<Answer>,
        heard: &Heard,
    ) -> Vec<Answer> {
        let last = self.note(id, (!dry).then_some(target), heard);
        read.into_iter().chain([last]).collect()
    }

    /// Reads an object if its current version is needed.
    async fn read(&mut self, id: usize, target: Target, version: Lock) -> Result<(Option<Answer>, Value)> {
        if version != Lock::Right {
            return Ok((None, Value::Null));
        }
        let heard = self.send(Method::GET, &self.path(target, ""), None).await?;
        let answer = self.note(id, Some(target), &heard);
        Ok((Some(answer), if heard.is_success() { heard.body } else { Value::Null }))
    }

    fn locks(&self, target: Target, live: &Value, (uid, version): (Lock, Lock)) -> Locks {
        let uid = match uid {
            Lock::Unnamed => None,
            Lock::Right => Some(self.uid(Some(target)).to_owned()),
            Lock::Wrong => Some(NOBODY.to_owned()),
        };
        let version = match version {
            Lock::Unnamed => None,
            Lock::Right => Some(live["metadata"]["resourceVersion"].as_str().unwrap_or("1").to_owned()),
            Lock::Wrong => Some(self.stale(target)),
        };
        (uid, version)
    }

    async fn list(
        &mut self,
        id: usize,
        kind: Kind,
        selector: Selector,
        name: Option<Name>,
        limit: u64,
    ) -> Result<Vec<Answer>> {
        let named = name.map(|name| format!("&fieldSelector=metadata.name%3D{}", self.name(name)));
        let all = format!(
            "{}?{}{}",
            kind.collection(&self.namespace),
            selected(selector),
            named.unwrap_or_default()
        );
        let path = if limit > 0 { format!("{all}&limit={limit}") } else { all.clone() };
        let heard = self.send(Method::GET, &path, None).await?;
        self.turn(&heard, &all);
        Ok(vec![self.note(id, None, &heard)])
    }

    async fn next_page(&mut self, id: usize, limit: u64) -> Result<Vec<Answer>> {
        let Some((path, token)) = self.page.clone() else { return Ok(Vec::new()) };
        let limit = if limit > 0 { format!("&limit={limit}") } else { String::new() };
        let next = format!("{path}&continue={token}{limit}");
        let heard = self.send(Method::GET, &next, None).await?;
        self.turn(&heard, &path);
        Ok(vec![self.note(id, None, &heard)])
    }

    /// Records the position of the next page. After the last page the same page is requested again.
    fn turn(&mut self, heard: &Heard, path: &str) {
        let token = text(&heard.body["metadata"]["continue"]);
        if !token.is_empty() {
            self.page = Some((path.to_owned(), token.to_owned()));
        }
    }

    async fn put(
        &mut self,
        id: usize,
        target: Target,
        subresource: &str,
        change: &Change,
        locks: (Lock, Lock),
        dry: bool,
    ) -> Result<Vec<Answer>> {
        let (read, live) = self.read(id, target, Lock::Right).await?;
        let (uid, version) = self.locks(target, &live, locks);
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
        for (field, lock) in [("uid", uid), ("resourceVersion", version)] {
            match (lock, object["metadata"].as_object_mut()) {
                (Some(lock), Some(metadata)) => drop(metadata.insert(field.to_owned(), json!(lock))),
                (None, Some(metadata)) => drop(metadata.remove(field)),
                (_, None) => {}
            }
        }
        let path = with_dry(self.path(target, subresource), dry);
        let heard = self.send(Method::PUT, &path, Some((JSON, object))).await?;
        Ok(self.noted(id, target, dry, read, &heard))
    }

    async fn scale(
        &mut self,
        id: usize,
        target: Target,
        how: Scaling,
        replicas: i64,
        locks: (Lock, Lock),
    ) -> Result<Vec<Answer>> {
        let heard = self.send(Method::GET, &self.path(target, "scale"), None).await?;
        let read = self.note(id, None, &heard);
        let (uid, version) = self.locks(target, &heard.body, locks);
        // A write without a change may or may not be stored, depending on managed fields.
        let now = heard.body["spec"]["replicas"].as_i64().unwrap_or_default();
        let replicas = if replicas < 0 { replicas } else { (now + 1 + replicas) % 6 };
        let wish = json!({ "spec": { "replicas": replicas } });
        let locked = |mut body: Value| {
            for (field, lock) in [("uid", &uid), ("resourceVersion", &version)] {
                if let Some(lock) = lock {
                    body["metadata"][field] = json!(lock);
                }
            }
            body
        };
        let (method, content, body) = match how {
            Scaling::Put => {
                let mut scale = json!({ "apiVersion": "autoscaling/v1", "kind": "Scale",
                    "metadata": { "name": self.name(target.name), "namespace": self.namespace } });
                scale["spec"] = wish["spec"].clone();
                (Method::PUT, JSON, locked(scale))
            }
            Scaling::Patch(Language::Merge) => (Method::PATCH, content(Language::Merge), locked(wish)),
            Scaling::Patch(Language::Json) => {
                let tests = [("uid", &uid), ("resourceVersion", &version)].into_iter().filter_map(|(field, lock)| {
                    lock.as_ref()
                        .map(|lock| json!({ "op": "test", "path": format!("/metadata/{field}"), "value": lock }))
                });
                let replace = json!({ "op": "replace", "path": "/spec/replicas", "value": replicas });
                (Method::PATCH, content(Language::Json), tests.chain([replace]).collect())
            }
        };
        let heard = self.send(method, &self.path(target, "scale"), Some((content, body))).await?;
        Ok(vec![read, self.note(id, None, &heard)])
    }
}

fn content(language: Language) -> &'static str {
    match language {
        Language::Merge => "application/merge-patch+json",
        Language::Json => "application/json-patch+json",
    }
}

fn with_dry(path: String, dry: bool) -> String {
    if dry { path + "?dryRun=All" } else { path }
}
