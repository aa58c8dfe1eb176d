//! The model of the API server, as a controller and other clients use it in tests.

use std::sync::Arc;

use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use vmpool_runtime::Env;

use crate::call::{Call, Verb};
use crate::fault::{FaultInjector, Handling as Conduct, RequestOutcome as Fate};
use crate::platform::{kubevirt_resources, platform_resources};
use crate::server::ApiServerModel;
use crate::watch::WatchDelay;

/// The namespace of the objects of which a test gives only the name.
pub const NAMESPACE: &str = "team-a";

/// The users of the clients.
const CONTROLLER: &str = "controller";

/// An API server in memory. Clones share the server.
#[derive(Clone)]
pub struct RecordingApiServer {
    model: ApiServerModel,
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
    /// A server with the resources of both platforms and their definitions.
    ///
    /// # Panics
    /// If the definitions are invalid.
    pub fn new(env: &Env) -> Self {
        let resources = platform_resources().chain(kubevirt_resources());
        let model = ApiServerModel::new(env, resources);
        model.install_definitions().expect("the definitions are valid");
        let server = Self { model, log: Arc::default() };
        server.behave();
        server
    }

    /// A client of the server.
    pub fn client(&self) -> Client {
        self.model.client(CONTROLLER, NAMESPACE)
    }

    /// The model, for what this type does not offer.
    pub fn model(&self) -> &ApiServerModel {
        &self.model
    }

    /// Asks `judge` for the conduct of each following request except watches. Its changes of the server
    /// happen before the request is served.
    pub fn intercept<C: Into<Conduct> + 'static>(&self, judge: impl FnMut(&Call) -> C + Send + 'static) {
        self.model.set_fault_injector(Listener { log: self.log.clone(), judge });
    }

    /// Serves all following requests normally.
    pub fn behave(&self) {
        self.intercept(|_| Fate::Serve);
    }

    /// An admission policy changes each object that is created from now on.
    pub fn mutate(&self, policy: impl Fn(&Call, &mut Value) + Send + Sync + 'static) {
        self.model.set_mutation(Some(policy));
    }

    /// No policy changes objects any more.
    pub fn remove_policy(&self) {
        self.model.set_mutation(None::<fn(&Call, &mut Value)>);
    }

    /// Watches of `resource` lag behind until [`RecordingApiServer::release`].
    pub fn hold(&self, resource: &str) {
        self.model.delay_watches(CONTROLLER, &full_name(resource), WatchDelay::Held);
    }

    /// All watches catch up.
    pub fn release(&self) {
        self.model.release();
    }

    /// The number of the controller's open watches of `resource`.
    pub fn watches(&self, resource: &str) -> usize {
        self.model.watches(CONTROLLER, &full_name(resource))
    }

    /// The requests since the last call, in order.
    pub fn take_log(&self) -> Vec<Call> {
        std::mem::take(&mut self.log.lock())
    }

    /// The number of requests since the last [`RecordingApiServer::take_log`].
    pub fn requests(&self) -> usize {
        self.log.lock().len()
    }

    /// The maximum number of concurrent requests.
    pub fn most_in_flight(&self) -> usize {
        self.model.max_in_flight()
    }

    /// Another client creates an object, with its status.
    ///
    /// # Panics
    /// If the server rejects it, for example because the object does not exist.
    pub fn create(&self, resource: &str, object: Value) -> Value {
        self.model.create_now(&full_name(resource), object).expect("the server accepts what the test does")
    }

    /// Another client changes an object, including its status.
    ///
    /// # Panics
    /// If the server rejects it, for example because the object does not exist.
    pub fn edit(&self, resource: &str, name: &str, change: impl FnOnce(&mut Value)) {
        self.model
            .edit_now(&full_name(resource), NAMESPACE, name, change)
            .expect("the server accepts what the test does");
    }

    /// Another client changes an object of another namespace.
    ///
    /// # Panics
    /// If the server rejects it, for example because the object does not exist.
    pub fn edit_in(&self, namespace: &str, resource: &str, name: &str, change: impl FnOnce(&mut Value)) {
        self.model
            .edit_now(&full_name(resource), namespace, name, change)
            .expect("the server accepts what the test does");
    }

    /// Another client changes an object of the cluster.
    ///
    /// # Panics
    /// If the server rejects it, for example because the object does not exist.
    pub fn edit_of_cluster(&self, resource: &str, name: &str, change: impl FnOnce(&mut Value)) {
        self.model
            .edit_now(&full_name(resource), "", name, change)
            .expect("the server accepts what the test does");
    }

    /// Another client deletes an object.
    pub fn delete(&self, resource: &str, name: &str) {
        self.delete_with(resource, name, &Value::Null);
    }

    /// Another client deletes an object with these options.
    ///
    /// # Panics
    /// If the server rejects it, for example because the object does not exist.
    pub fn delete_with(&self, resource: &str, name: &str, options: &Value) {
        self.model
            .delete_now(&full_name(resource), NAMESPACE, name, options.clone())
            .expect("the server accepts what the test does");
    }

    /// Another client deletes an object of another namespace.
    ///
    /// # Panics
    /// If the server rejects it, for example because the object does not exist.
    pub fn delete_in(&self, namespace: &str, resource: &str, name: &str) {
        self.model
            .delete_now(&full_name(resource), namespace, name, Value::Null)
            .expect("the server accepts what the test does");
    }

    /// Another client deletes an object without a namespace.
    ///
    /// # Panics
    /// If the server rejects it, for example because the object does not exist.
    pub fn delete_of_cluster(&self, resource: &str, name: &str) {
        self.model
            .delete_now(&full_name(resource), "", name, Value::Null)
            .expect("the server accepts what the test does");
    }

    /// The garbage collector runs.
    pub fn collect_garbage(&self) {
        while self.model.collect_garbage(0).is_some() {}
    }

    /// The object of this name.
    pub fn get(&self, resource: &str, name: &str) -> Option<Value> {
        let object = self.model.get(&full_name(resource), NAMESPACE, name);
        object.map(Arc::unwrap_or_clone)
    }

    /// All objects of a resource, in the order of their names.
    pub fn all(&self, resource: &str) -> Vec<Value> {
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
