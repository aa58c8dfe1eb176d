//! The server: handles requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;

use crate::api_error::ApiError;
use crate::call::{Call, Verb};
use crate::delete::{self, DeletionResult};
use crate::fault::{Admission, AdmissionInput, FaultInjector, HandledRequest, Handling};
use crate::pages::Pages;
use crate::resource::Resource;
use crate::scale;
use crate::store::ApiObjectStore;
use crate::watch::{Watch, WatchDelay};
use crate::write;

/// How often a patch is retried if the object changed meanwhile, as in the real API server.
const ATTEMPTS: usize = 5;

/// A change of each created object, as a mutating admission policy makes it.
pub(crate) type MutatingPolicy = Arc<dyn Fn(&Call, &mut Value) + Send + Sync>;

/// An API server in memory. Clones share the state.
#[derive(Clone)]
pub struct ApiServerModel {
    pub(crate) env: Env,
    pub(crate) resources: Arc<BTreeMap<String, Resource>>,
    pub(crate) state: Arc<Mutex<ApiServerModelState>>,
}

#[derive(Default)]
pub(crate) struct ApiServerModelState {
    pub(crate) store: ApiObjectStore,
    pub(crate) pages: Pages,
    pub(crate) watches: Vec<Watch>,
    pub(crate) opened: u64,
    pub(crate) delays: BTreeMap<(String, String), WatchDelay>,
    pub(crate) fault_injector: Option<Arc<Mutex<dyn FaultInjector>>>,
    pub(crate) admission: Option<Arc<dyn Admission>>,
    pub(crate) mutation: Option<MutatingPolicy>,
    /// Requests that have not ended.
    pub(crate) in_flight: Vec<Task>,
    pub(crate) max_in_flight: usize,
    pub(crate) log: Vec<HandledRequest>,
}

impl std::fmt::Debug for ApiServerModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl ApiServerModel {
    /// A server with these resources and no object.
    pub fn new(env: &Env, resources: impl IntoIterator<Item = Resource>) -> Self {
        let resources = resources.into_iter().map(|resource| (resource.full_name(), resource)).collect();
        Self { env: env.clone(), resources: Arc::new(resources), state: Arc::default() }
    }

    /// Serves a request without the fault injector.
    ///
    /// # Errors
    /// The refusal of the server.
    pub async fn handle(&self, call: &Call) -> Result<(u16, Value), ApiError> {
        let resource = self.resource(call)?;
        match call.verb {
            Verb::List => {
                let ApiServerModelState { store, pages, .. } = &mut *self.state.lock();
                pages.list(store, resource, call).map(|list| (200, list))
            }
            Verb::Get => {
                let key = write::object_key(resource, &call.namespace, &call.name);
                let object = self.state.lock().store.get(&key).cloned();
                let object = object.ok_or_else(|| ApiError::not_found(&key.to_string()))?;
                match call.subresource.as_str() {
                    "scale" => scale::scale_of_object(resource, &object).map(|scale| (200, scale)),
                    _ => Ok((200, (*object).clone())),
                }
            }
            Verb::Create | Verb::Update | Verb::Patch(_) => self.write(resource, call).await,
            Verb::Delete => self.delete(resource, call).await,
            Verb::Watch => Err(ApiError::bad_request("a watch has no single response")),
        }
    }

    async fn write(&self, resource: &Resource, call: &Call) -> Result<(u16, Value), ApiError> {
        let random = self.env.random();
        let scaling = call.subresource == "scale";
        for _ in 0..ATTEMPTS {
            let now = self.env.now();
            let (mut prepared, scales) = {
                let store = &mut self.state.lock().store;
                if scaling {
                    let key = write::object_key(resource, &call.namespace, &call.name);
                    let object =
                        store.get(&key).cloned().ok_or_else(|| ApiError::not_found(&key.to_string()))?;
                    let (update, old, new) = scale::translate_scale_write(resource, &object, call)?;
                    (write::prepare_change(store, resource, &update)?, Some((old, new)))
                } else {
                    (write::prepare_write(store, resource, call, now, random)?, None)
                }
            };
            let mutation = self.state.lock().mutation.clone();
            if let Some(mutate) = mutation.filter(|_| prepared.old.is_none()) {
                mutate(call, &mut prepared.new);
            }
            let objects = || (prepared.old.as_deref().cloned().unwrap_or_default(), prepared.new.clone());
            self.admit(call, || scales.unwrap_or_else(objects)).await?;
            let state = &mut *self.state.lock();
            // Another request may have changed the object while admission was running.
            let unchanged = match (&prepared.old, state.store.get(&prepared.key)) {
                (Some(old), Some(now)) => Arc::ptr_eq(old, now),
                (None, None) => true,
                _ => false,
            };
            if !unchanged {
                continue;
            }
            let created = prepared.old.is_none();
            let stored = if call.is_dry() {
                Arc::new(prepared.new)
            } else {
                write::commit_write(&mut state.store, prepared)
            };
            state.publish();
            let response =
                if scaling { scale::scale_of_object(resource, &stored)? } else { (*stored).clone() };
            return Ok((if created { 201 } else { 200 }, response));
        }
        Err(ApiError::conflict(
            "the object has been modified; please apply your changes to the latest version and try again",
        ))
    }

    async fn delete(&self, resource: &Resource, call: &Call) -> Result<(u16, Value), ApiError> {
        let (_, old) = delete::find_object_to_delete(&self.state.lock().store, resource, call)?;
        self.admit(call, || ((*old).clone(), Value::Null)).await?;
        let now = self.env.now();
        let state = &mut *self.state.lock();
        let (key, _) = delete::find_object_to_delete(&state.store, resource, call)?;
        let policy = call.deletes_how("propagationPolicy");
        let deleted = delete::delete_object(&mut state.store, resource, &key, policy, now, call.is_dry());
        state.publish();
        match deleted {
            Some(DeletionResult::Terminating(object)) => Ok((200, (*object).clone())),
            Some(DeletionResult::Removed(object)) => {
                let details = json!({ "name": &*key.name, "group": resource.group, "kind": resource.plural,
                    "uid": object["metadata"]["uid"] });
                let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                    "details": details });
                Ok((200, status))
            }
            None => Err(ApiError::not_found(&key.to_string())),
        }
    }

    /// Calls admission, if it is set, with the old and the new object.
    async fn admit(&self, call: &Call, objects: impl FnOnce() -> (Value, Value)) -> Result<(), ApiError> {
        let admission = self.state.lock().admission.clone();
        let Some(admission) = admission.filter(|_| call.subresource != "status") else { return Ok(()) };
        let (old, new) = objects();
        admission.admit(AdmissionInput { call: call.clone(), old, new }).await
    }

    pub(crate) fn resource(&self, call: &Call) -> Result<&Resource, ApiError> {
        let name = if call.group.is_empty() {
            call.resource.clone()
        } else {
            format!("{}.{}", call.resource, call.group)
        };
        let known = self.resources.get(&name).filter(|known| known.version == call.version);
        let known =
            known.ok_or_else(|| ApiError::not_found("the server could not find the requested resource"))?;
        let served = match call.subresource.as_str() {
            "" => true,
            "status" => known.status,
            "scale" => known.scale.is_some() && call.verb != Verb::Delete,
            _ => false,
        };
        if served {
            Ok(known)
        } else {
            Err(ApiError::not_found("the server could not find the requested resource"))
        }
    }

    pub(crate) fn decide(&self, call: &Call) -> Handling {
        let fault_injector = self.state.lock().fault_injector.clone();
        fault_injector.map_or_else(Handling::default, |fault_injector| fault_injector.lock().decide(call))
    }
}

impl ApiServerModelState {
    /// Delivers new changes to the watches.
    pub(crate) fn publish(&mut self) {
        let Self { store, watches, delays, .. } = self;
        watches.retain_mut(|watch| {
            let delay = delays.get(&watch.key).copied().unwrap_or_default();
            watch.follow(store.history(), delay)
        });
    }
}
