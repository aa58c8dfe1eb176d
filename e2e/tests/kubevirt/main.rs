//! The CRDs of KubeVirt pools and of disk images on a real API server: what it serves, fills in, prunes and
//! refuses.
//!
//! Most tests run without a controller. The cluster also has the CRDs of the other platform, because one
//! cluster can have both.

mod chart;
mod checks;
mod ci_client;
mod copies;
mod crashes;
mod creation;
mod definitions;
mod documented;
mod expansion_law;
mod guarded;
mod guide;
mod handover;
mod healing;
mod hot_plugs;
mod image_attacks;
mod image_isolation;
mod image_platform;
mod images;
mod migration;
mod orphans;
mod pin_policies;
mod pins;
mod pools;
mod protection;
mod pruned;
mod races;
mod reference_group;
mod running_types;
mod samples;
mod scale;
mod scale_in;
mod states;
mod status_writes;
mod storage;
mod storage_preservation;
mod type_admission;
mod updates;
mod volumes;
mod world;
mod zero_values;

// All that these tests use of the harness.
use vmpool_e2e::harness;
use vmpool_e2e::scenario::LIMIT;
use vmpool_installation::workspace_root;
use vmpool_test_cluster::control_plane::{
    ControlPlane, apply_manifests, parse_yaml_documents, read_yaml_documents,
};
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::error::error_with_causes;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::{Method, Request};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use vmpool_api::diskimage;
use vmpool_api::kubevirt::{POOL_API_VERSION, POOL_GROUP, POOL_OLD_VERSION};

/// Resource name of pools with their group, as kubectl takes it.
const POOLS: &str = "virtualmachinepools.pool.kubevirt.io";

/// Resource names of the kinds, for paths of requests.
const PLURALS: [(&str, &str); 14] = [
    ("VirtualMachinePool", "virtualmachinepools"),
    ("VirtualMachine", "virtualmachines"),
    ("VirtualMachineInstance", "virtualmachineinstances"),
    ("KubeVirt", "kubevirts"),
    ("DataVolume", "datavolumes"),
    ("DataSource", "datasources"),
    ("VolumeSnapshot", "volumesnapshots"),
    ("VolumeSnapshotContent", "volumesnapshotcontents"),
    ("VirtualMachineInstancetype", "virtualmachineinstancetypes"),
    ("VirtualMachinePreference", "virtualmachinepreferences"),
    ("ControllerRevision", "controllerrevisions"),
    ("Event", "events"),
    ("VMDiskImage", "vmdiskimages"),
    ("VMDiskImageGrant", "vmdiskimagegrants"),
];

/// Runs a test on the shared control plane, in a namespace of its own.
fn with_namespace(name: &str, test: impl AsyncFnOnce(TestNamespace<'_>) -> Result<()>) {
    with_namespace_within(LIMIT, name, test);
}

/// As [`with_namespace`], with another time limit.
fn with_namespace_within(
    limit: Duration,
    name: &str,
    test: impl AsyncFnOnce(TestNamespace<'_>) -> Result<()>,
) {
    // A failure is shared too, or every test would wait for CRDs that are never served.
    static INSTALLED: OnceCell<Result<(), String>> = OnceCell::const_new();
    run_to_end_within(limit, async {
        let cluster = harness::shared_cluster().await?;
        let installed = async || install(&cluster).await.map_err(|error| error_with_causes(error.as_ref()));
        INSTALLED.get_or_init(installed).await.clone().map_err(anyhow::Error::msg)?;
        cluster.kubectl(&["create", "namespace", name]).await?;
        test(TestNamespace { cluster: &cluster, namespace: name }).await
    });
}

/// Runs a test. An error, or no end in time, is its failure.
fn run_to_end(run: impl Future<Output = Result<()>>) {
    run_to_end_within(LIMIT, run);
}

#[expect(clippy::panic, reason = "this is how a test fails")]
fn run_to_end_within(limit: Duration, run: impl Future<Output = Result<()>>) {
    let outcome = harness::block_on(async { Deadline::after(limit).within(run).await });
    let late = |elapsed| Err(anyhow::anyhow!("it has not completed after {elapsed}"));
    if let Err(error) = outcome.unwrap_or_else(late) {
        panic!("{}", error_with_causes(error.as_ref()));
    }
}

/// Installs the CRDs and waits until the API server serves all their versions.
async fn install(cluster: &ControlPlane) -> Result<()> {
    let mut definitions = Vec::new();
    for folder in ["kubevirt", "kubevirt/platform", "instancetype", "diskimage"] {
        definitions.extend(read_yaml_documents(&workspace_root().join("api/crds").join(folder))?);
    }
    Ok(apply_manifests(&cluster.admin(), &definitions, None).await?)
}

/// A namespace on the control plane.
#[derive(Clone, Copy)]
struct TestNamespace<'c> {
    cluster: &'c ControlPlane,
    namespace: &'c str,
}

/// Whether the API server refuses fields that it would prune.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unknown {
    Refused,
    Pruned,
}

impl TestNamespace<'_> {
    /// The path of the objects of this kind.
    fn path(&self, api_version: &str, kind: &str) -> Result<String> {
        let wrapper = api_version == diskimage::API_VERSION && kind == "VirtualMachine";
        let entry =
            PLURALS.iter().find(|(name, _)| *name == kind).with_context(|| format!("no kind {kind}"))?;
        let plural = if wrapper { diskimage::WRAPPERS } else { entry.1 };
        if kind == "VolumeSnapshotContent" {
            return Ok(format!("/apis/{api_version}/{plural}"));
        }
        Ok(format!("/apis/{api_version}/namespaces/{}/{plural}", self.namespace))
    }

    /// Sends a request. `Err` in the inner result is the API server's status.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Result<Value, kube::core::Status>> {
        self.send_as("", method, path, body).await
    }

    /// As [`Self::send`], as another user.
    async fn send_as(
        &self,
        user: &str,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Result<Value, kube::core::Status>> {
        let content =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
        let mut request = Request::builder().method(method).uri(path).header("content-type", content);
        if !user.is_empty() {
            request = request.header("impersonate-user", user);
        }
        let request = request.body(body)?;
        match self.cluster.admin().request::<Value>(request).await {
            Ok(answer) => Ok(Ok(answer)),
            Err(kube::Error::Api(status)) => Ok(Err(*status)),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Self::send`], if the API server must accept the request.
    async fn ask(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let answer = self.send(method, path, body).await?;
        answer.map_err(|status| anyhow::anyhow!("{}", status.message)).with_context(|| path.to_owned())
    }

    /// Changes an object, or its status, with a merge patch, and returns the stored object.
    async fn patch(&self, api_version: &str, kind: &str, name: &str, patch: &Value) -> Result<Value> {
        self.ask(Method::PATCH, &format!("{}/{name}", self.path(api_version, kind)?), patch).await
    }

    /// Deletes an object.
    async fn delete(&self, api_version: &str, kind: &str, name: &str) -> Result<()> {
        let path = format!("{}/{name}", self.path(api_version, kind)?);
        self.ask(Method::DELETE, &path, &Value::Null).await.map(drop)
    }

    /// Creates an object, or replaces the one with its name.
    async fn write(&self, object: &Value, unknown: Unknown) -> Result<Result<Value, kube::core::Status>> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let collection = self.path(text("/apiVersion"), text("/kind"))?;
        let path = format!("{collection}/{}", text("/metadata/name"));
        let mut validation = if unknown == Unknown::Refused { "Strict" } else { "Ignore" }.to_owned();
        // A stored KubeVirt object would stop the controllers of other tests.
        if text("/kind") == "KubeVirt" {
            validation.push_str("&dryRun=All");
        }
        match self.send(Method::GET, &path, &Value::Null).await? {
            Ok(stored) => {
                let mut object = object.clone();
                object["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
                self.send(Method::PUT, &format!("{path}?fieldValidation={validation}"), &object).await
            }
            Err(_missing) => {
                self.send(Method::POST, &format!("{collection}?fieldValidation={validation}"), object).await
            }
        }
    }

    /// The path of a pool in the storage version.
    fn pool(&self, name: &str) -> Result<String> {
        Ok(format!("{}/{name}", self.path(POOL_API_VERSION, "VirtualMachinePool")?))
    }

    /// The path of a pool in the other version.
    fn old_pool(&self, name: &str) -> Result<String> {
        let api_version = format!("{POOL_GROUP}/{POOL_OLD_VERSION}");
        Ok(format!("{}/{name}", self.path(&api_version, "VirtualMachinePool")?))
    }

    /// Creates a pool with nothing but what the schema requires.
    async fn create_pool(&self, name: &str) -> Result<Value> {
        let pool = minimal(name);
        let created = self.write(&pool, Unknown::Refused).await?;
        created.map_err(|status| anyhow::anyhow!("{}", status.message))
    }
}

/// A pool with nothing but what the schema requires.
fn minimal(name: &str) -> Value {
    json!({
        "apiVersion": POOL_API_VERSION,
        "kind": "VirtualMachinePool",
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "farm": "render" } },
            "virtualMachineTemplate": {
                "metadata": { "labels": { "farm": "render" } },
                "spec": { "template": { "spec": { "domain": { "devices": {} } } } },
            },
        },
    })
}

/// The sample manifests in a folder, such as `kubevirt/accepted`, with their texts.
fn sample_files(folder: &str) -> Result<Vec<(PathBuf, String)>> {
    let directory = workspace_root().join("api/tests/samples").join(folder);
    let entries = std::fs::read_dir(&directory).with_context(|| directory.display().to_string())?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    anyhow::ensure!(!files.is_empty(), "no samples in {}", directory.display());
    files.into_iter().map(|file| Ok((file.clone(), std::fs::read_to_string(file)?))).collect()
}

/// The only object of an accepted sample.
fn sample(name: &str) -> Result<Value> {
    let file = workspace_root().join("api/tests/samples/kubevirt/accepted").join(name);
    read_yaml_documents(&file)?.pop().with_context(|| format!("{name} is empty"))
}
