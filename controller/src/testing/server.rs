//! The model of the API server, as the controller and other clients use it.

use std::sync::Arc;

use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use vmpool_model::{Call, FaultInjector, Handling as Conduct, RequestOutcome as Fate, Verb, WatchDelay};
use vmpool_runtime::Env;

use super::NAMESPACE;
use crate::metrics::RequestLayer;

/// The users of the clients.
const CONTROLLER: &str = "controller";

/// An API server in memory. Clones share the server.
#[derive(Clone)]
pub(crate) struct RecordingApiServer {
    model: vmpool_model::ApiServerModel,
    log: Arc<Mutex<Vec<Call>>>,
}

/// Records all requests except watches, which restart regularly, and asks `judge` for the conduct of each.
struct Listener<J> {
    log: Arc<Mutex<Vec<Call>>>,
    judge: J,
}

impl<J, C> FaultInjector for Listener<J>
where
    J: FnMut(&Call) -> C + Send,
    C: Into<Conduct>,
{
    fn decide(&mut self, call: &Call) -> Conduct {
        if call.verb == Verb::Watch {
            return Conduct::default();
        }
        self.log.lock().push(call.clone());
        (self.judge)(call).into()
    }
}

impl RecordingApiServer {
    pub(crate) fn new(env: &Env) -> Self {
        let resources = vmpool_model::platform_resources().chain(vmpool_model::kubevirt_resources());
        let model = vmpool_model::ApiServerModel::new(env, resources);
        model.install_definitions().unwrap();
        let server = Self { model, log: Arc::default() };
        server.behave();
        server
    }

    /// A client of the server.
    pub(crate) fn client(&self) -> Client {
        self.model.client(CONTROLLER, NAMESPACE)
    }

    /// A client of the server whose requests pass through `layer`.
    pub(crate) fn client_through(&self, layer: &RequestLayer) -> Client {
        self.model.client_through(CONTROLLER, NAMESPACE, layer)
    }

    /// Asks `judge` for the conduct of each following request except watches. Its changes of the server
    /// happen before the request is served.
    pub(crate) fn intercept<C: Into<Conduct> + 'static>(
        &self,
        judge: impl FnMut(&Call) -> C + Send + 'static,
    ) {
        self.model.set_fault_injector(Listener { log: self.log.clone(), judge });
    }

    /// Serves all following requests normally.
    pub(crate) fn behave(&self) {
        self.intercept(|_| Fate::Serve);
    }

    /// An admission policy changes each object that is created from now on.
    pub(crate) fn mutate(&self, policy: impl Fn(&Call, &mut Value) + Send + Sync + 'static) {
        self.model.set_mutation(Some(policy));
    }

    /// No policy changes objects any more.
    pub(crate) fn remove_policy(&self) {
        self.model.set_mutation(None::<fn(&Call, &mut Value)>);
    }

    /// Watches of `resource` lag behind until [`Server::release`].
    pub(crate) fn hold(&self, resource: &str) {
        self.model.delay_watches(CONTROLLER, &full_name(resource), WatchDelay::Held);
    }

    /// All watches catch up.
    pub(crate) fn release(&self) {
        self.model.release();
    }

    /// The number of the controller's open watches of `resource`.
    pub(crate) fn watches(&self, resource: &str) -> usize {
        self.model.watches(CONTROLLER, &full_name(resource))
    }

    /// The requests since the last call, in order.
    pub(crate) fn take_log(&self) -> Vec<Call> {
        std::mem::take(&mut self.log.lock())
    }

    /// The number of requests since the last [`Server::take_log`].
    pub(crate) fn requests(&self) -> usize {
        self.log.lock().len()
    }

    /// The maximum number of concurrent requests.
    pub(crate) fn most_in_flight(&self) -> usize {
        self.model.max_in_flight()
    }

    /// Another client creates an object, with its status.
    pub(crate) fn create(&self, resource: &str, object: Value) -> Value {
        self.model.create_now(&full_name(resource), object).unwrap()
    }

    /// Another client changes an object, including its status.
    pub(crate) fn edit(&self, resource: &str, name: &str, change: impl FnOnce(&mut Value)) {
        self.model.edit_now(&full_name(resource), NAMESPACE, name, change).unwrap();
    }

    /// Another client changes an object of another namespace.
    pub(crate) fn edit_in(
        &self,
        namespace: &str,
        resource: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) {
        self.model.edit_now(&full_name(resource), namespace, name, change).unwrap();
    }

    /// Another client changes an object of the cluster.
    pub(crate) fn edit_of_cluster(&self, resource: &str, name: &str, change: impl FnOnce(&mut Value)) {
        self.model.edit_now(&full_name(resource), "", name, change).unwrap();
    }

    /// Another client deletes an object.
    pub(crate) fn delete(&self, resource: &str, name: &str) {
        self.delete_with(resource, name, &Value::Null);
    }

    /// Another client deletes an object with these options.
    pub(crate) fn delete_with(&self, resource: &str, name: &str, options: &Value) {
        self.model.delete_now(&full_name(resource), NAMESPACE, name, options.clone()).unwrap();
    }

    /// Another client deletes an object of another namespace.
    pub(crate) fn delete_in(&self, namespace: &str, resource: &str, name: &str) {
        self.model.delete_now(&full_name(resource), namespace, name, Value::Null).unwrap();
    }

    /// Another client deletes an object without a namespace.
    pub(crate) fn delete_of_cluster(&self, resource: &str, name: &str) {
        self.model.delete_now(&full_name(resource), "", name, Value::Null).unwrap();
    }

    /// The garbage collector runs.
    pub(crate) fn collect_garbage(&self) {
        while self.model.collect_garbage(0).is_some() {}
    }

    /// The object of this name.
    pub(crate) fn get(&self, resource: &str, name: &str) -> Option<Value> {
        let object = self.model.get(&full_name(resource), NAMESPACE, name);
        object.map(Arc::unwrap_or_clone)
    }

    /// All objects of a resource, in the order of their names.
    pub(crate) fn all(&self, resource: &str) -> Vec<Value> {
        let all = self.model.all(&full_name(resource));
        all.into_iter().map(Arc::unwrap_or_clone).collect()
    }
}

/// The full name of a resource of the controller. Without a group, the resource is that of DVP.
fn full_name(plural: &str) -> String {
    if plural.contains('.') {
        return plural.to_owned();
    }
    let group = match plural {
        "events" | "persistentvolumeclaims" | "namespaces" => return plural.to_owned(),
        "customresourcedefinitions" => "apiextensions.k8s.io",
        "controllerrevisions" => "apps",
        _ => "virtualization.deckhouse.io",
    };
    format!("{plural}.{group}")
}
