//! Disk images with their controller, on a real API server and with a simulated importer.

mod backup;
mod failures;
mod healing;
mod imports;
mod pools;
mod references;
mod wrapper;

use std::time::Duration;

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::diskimage::API_VERSION;
use vmpool_e2e::wait::{eventually, let_time_pass};
use vmpool_installation::programs::{Accounts, ControllerOptions, ControllerProgram, Simulator};
use vmpool_test_cluster::control_plane::{AuditEntry, AuditMark};

use crate::image_platform::serve;
use crate::world::accounts;
use crate::{TestNamespace, with_namespace};

/// The host that only the simulator resolves.
const HOST: &str = "http://images.vmpool.example";

/// A namespace with a controller of images, a simulator, and a server of disks.
struct Images<'p> {
    place: TestNamespace<'p>,
    controller: ControllerProgram,
    simulator: Option<Simulator>,
    since: AuditMark,
}

/// Runs a test with a controller that has these flags. It does not reconcile pools.
fn with_images(name: &str, flags: &[&str], test: impl AsyncFnOnce(Images<'_>) -> Result<()>) {
    with_namespace(name, async |place| {
        accounts(place.cluster).await?.grant_in(place.cluster, name).await?;
        let host = HOST.trim_start_matches("http://");
        let knobs = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "simulator-knobs" },
            "data": { "http-host": format!("{host}={}", serve().await?) },
        });
        place.ask(Method::POST, &format!("/api/v1/namespaces/{name}/configmaps"), &knobs).await?;
        let mut options = ControllerOptions::new(name, "one");
        options.extra.push("--feature-gates=VirtualMachinePool=false,DiskImages=true".to_owned());
        options.extra.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let controller = ControllerProgram::start(place.cluster, options).await?;
        let since = place.cluster.audit_mark();
        let mut world = Images { place, controller, simulator: None, since };
        world.simulate().await?;
        test(world).await
    });
}

/// An image with this spec.
fn image(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": API_VERSION, "kind": "VMDiskImage", "metadata": { "name": name }, "spec": spec })
}

/// An empty image, which needs no source.
fn blank(name: &str) -> Value {
    image(name, &json!({ "sourceType": "blank", "diskSize": "1Gi" }))
}

/// The condition of this type.
fn condition<'v>(object: &'v Value, kind: &str) -> &'v Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == kind));
    found.unwrap_or(&Value::Null)
}

impl Images<'_> {
    /// Starts the simulator.
    async fn simulate(&mut self) -> Result<()> {
        let namespace = format!("--namespace={}", self.place.namespace);
        let flags = ["--platform=kubevirt", &namespace];
        self.simulator = Some(Simulator::start_with(self.place.cluster, &flags).await?);
        Ok(())
    }

    /// Waits until the image is as wanted.
    async fn until(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let found = self.place.until_object(API_VERSION, "VMDiskImage", name, wanted).await;
        found.map_err(|error| anyhow::anyhow!("{error}\n{}", self.controller.log_tail(40)))
    }

    /// Waits until the image is ready.
    async fn until_ready(&self, name: &str) -> Result<Value> {
        self.until(name, |image| image["status"]["phase"] == "Ready").await
    }

    /// Waits until the image has this phase and this reason.
    async fn until_phase(&self, name: &str, phase: &str, reason: &str) -> Result<Value> {
        let is = |image: &Value| {
            image["status"]["phase"] == phase && condition(image, "Ready")["reason"] == reason
        };
        self.until(name, is).await
    }

    /// Waits until the object is gone.
    async fn until_gone(&self, api_version: &str, kind: &str, name: &str) -> Result<()> {
        eventually(&format!("{kind} {name} is gone"), Duration::from_mins(1), async || {
            let object = self.place.object(api_version, kind, name).await?;
            Ok(object.map_or(Ok(()), |left| Err(format!("{left:#}\n{}", self.controller.log_tail(40)))))
        })
        .await
    }

    /// The requests of the controller since the start, without watches, events and the lease.
    fn requests(&self) -> Result<Vec<AuditEntry>> {
        let (entries, _) = self.place.cluster.audit(self.since)?;
        let user = Accounts::controller_user();
        let counts = |entry: &AuditEntry| {
            entry.user == user
                && entry.namespace == self.place.namespace
                && entry.verb != "watch"
                && !["events", "leases"].contains(&entry.resource.as_str())
        };
        Ok(entries.into_iter().filter(counts).collect())
    }

    /// The number of accepted requests of this kind, for example `create datavolumes`. A write that the API
    /// server refuses because the simulator has changed the object in between is repeated, and changes
    /// nothing.
    fn count(&self, what: &str) -> Result<usize> {
        let is =
            |entry: &&AuditEntry| entry.code < 300 && format!("{} {}", entry.verb, entry.resource) == what;
        Ok(self.requests()?.iter().filter(is).count())
    }

    /// Checks that the controller sends nothing for a while.
    async fn is_settled(&self) -> Result<()> {
        let_time_pass(Duration::from_secs(2)).await;
        let before = self.requests()?.len();
        let_time_pass(Duration::from_secs(3)).await;
        let requests = self.requests()?;
        ensure!(requests.len() == before, "a settled image causes requests: {:#?}", &requests[before..]);
        Ok(())
    }

    /// The reasons of the events about an object, each once.
    async fn reasons(&self, name: &str) -> Result<Vec<String>> {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.place.namespace);
        let events = self.place.ask(Method::GET, &path, &Value::Null).await?;
        let items = events["items"].as_array().cloned().unwrap_or_default();
        let about = items.iter().filter(|event| event["regarding"]["name"] == name);
        let mut reasons: Vec<String> =
            about.filter_map(|event| event["reason"].as_str().map(str::to_owned)).collect();
        reasons.sort();
        reasons.dedup();
        Ok(reasons)
    }

    /// Waits until an object has events with these reasons.
    async fn until_reasons(&self, name: &str, wanted: &[&str]) -> Result<()> {
        eventually(&format!("{name} has events {wanted:?}"), Duration::from_mins(1), async || {
            let reasons = self.reasons(name).await?;
            let has = |reason: &&str| reasons.iter().any(|found| found == reason);
            Ok(if wanted.iter().all(has) { Ok(()) } else { Err(format!("{reasons:?}")) })
        })
        .await
    }
}
