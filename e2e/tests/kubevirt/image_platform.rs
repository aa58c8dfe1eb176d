//! The simulator's part of disk images on a real API server: imports with real data, snapshots, clone
//! permissions.

use std::time::Duration;

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use vmpool_api::kubevirt::{API_VERSION, DATA_VOLUME_API_VERSION, SNAPSHOT_API_VERSION};
use vmpool_e2e::wait::eventually;
use vmpool_installation::programs::Simulator;

use crate::{TestNamespace, Unknown, apply_manifests, read_yaml_documents, with_namespace, workspace_root};

/// A raw disk of one sector.
const DISK: [u8; 512] = [7; 512];
/// SHA-256 of [`DISK`].
pub(crate) const CHECKSUM: &str = "sha256:15933044960fd23a7daaac9ce51355f1f39894d1c3fe6de21b59b28ce2c77e77";

fn with_simulator(name: &str, test: impl AsyncFnOnce(TestNamespace<'_>) -> Result<()>) {
    with_namespace(name, async |place| {
        let namespace = format!("--namespace={name}");
        let _simulator = Simulator::start_with(place.cluster, &["--platform=kubevirt", &namespace]).await?;
        test(place).await
    });
}

impl TestNamespace<'_> {
    pub(crate) async fn put(&self, object: Value) -> Result<()> {
        let stored = self.write(&object, Unknown::Refused).await?;
        stored.map(drop).map_err(|status| anyhow::anyhow!("{}", status.message))
    }

    pub(crate) async fn object(&self, api_version: &str, kind: &str, name: &str) -> Result<Option<Value>> {
        let path = format!("{}/{name}", self.path(api_version, kind)?);
        Ok(self.send(Method::GET, &path, &Value::Null).await?.ok())
    }

    /// Waits until the object is as wanted.
    pub(crate) async fn until_object(
        &self,
        api_version: &str,
        kind: &str,
        name: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        eventually(&format!("{kind} {name} is as wanted"), Duration::from_mins(2), async || {
            let found = self.object(api_version, kind, name).await?;
            Ok(match found {
                Some(object) if wanted(&object) => Ok(object),
                other => Err(format!("{other:#?}")),
            })
        })
        .await
    }
}

fn import(name: &str, url: &str) -> Value {
    json!({
        "apiVersion": DATA_VOLUME_API_VERSION,
        "kind": "DataVolume",
        "metadata": { "name": name, "labels": { "vmpool.dev/vmdiskimage-uid": "uid-1" } },
        "spec": {
            "source": { "http": { "url": url, "checksum": CHECKSUM } },
            "storage": { "resources": { "requests": { "storage": "1Mi" } } },
        },
    })
}

/// Serves the disk at every path but `/corrupt.raw`, where it lacks its last byte.
pub(crate) async fn serve() -> Result<std::net::SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1024];
            let length = stream.read(&mut request).await.unwrap_or_default();
            let corrupt = request[..length].starts_with(b"GET /corrupt.raw");
            let body = if corrupt { &DISK[1..] } else { &DISK[..] };
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), body].concat()).await;
        }
    });
    Ok(address)
}

#[test]
fn an_image_is_downloaded_and_a_corrupt_one_is_refused() {
    with_simulator("kubevirt-download", async |place| {
        let knobs = json!({ "http-host": format!("images.vmpool.example={}", serve().await?) });
        let path = format!("/api/v1/namespaces/{}/configmaps", place.namespace);
        let config = json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "simulator-knobs" }, "data": knobs });
        place.ask(Method::POST, &path, &config).await?;
        place.put(import("intact", "http://images.vmpool.example/disk.raw")).await?;
        place.put(import("corrupt", "http://images.vmpool.example/corrupt.raw")).await?;
        let volume = place
            .until_object(DATA_VOLUME_API_VERSION, "DataVolume", "intact", |volume| {
                volume["status"]["phase"] == "Succeeded"
            })
            .await?;
        ensure!(volume["metadata"]["annotations"]["simulator.vmpool.dev/content"] == CHECKSUM, "{volume}");
        let volume = place
            .until_object(DATA_VOLUME_API_VERSION, "DataVolume", "corrupt", |volume| {
                volume["status"]["restartCount"].as_u64().is_some_and(|count| count >= 2)
            })
            .await?;
        ensure!(volume["status"]["phase"] == "ImportInProgress", "{volume}");
        ensure!(volume["status"]["conditions"].to_string().contains("checksum mismatch"), "{volume}");
        Ok(())
    });
}

#[test]
fn the_spec_of_a_data_volume_cannot_be_changed() {
    with_namespace("kubevirt-datavolume-spec", async |place| {
        let policies = read_yaml_documents(&workspace_root().join("e2e/simulator/admission.yaml"))?;
        apply_manifests(&place.cluster.admin(), &policies, None).await?;
        place.put(import("a", "http://images.vmpool.example/a.raw")).await?;
        let path = format!("{}/a", place.path(DATA_VOLUME_API_VERSION, "DataVolume")?);
        // A policy takes effect a while after it was created. Each attempt must be a change of what is stored
        // then.
        let mut attempt = 0;
        eventually("the change is refused", Duration::from_mins(1), async || {
            attempt += 1;
            let url = format!("http://images.vmpool.example/{attempt}.raw");
            let change = json!({ "spec": { "source": { "http": { "url": url } } } });
            let answer = place.send(Method::PATCH, &path, &change).await?;
            Ok(answer.err().map(drop).ok_or(url))
        })
        .await?;
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        place.ask(Method::PATCH, &path, &label).await.map(drop)
    });
}

#[test]
fn a_machine_clones_the_snapshot_of_its_data_source() {
    with_simulator("kubevirt-clone", async |place| {
        place.put(json!({
            "apiVersion": DATA_VOLUME_API_VERSION, "kind": "DataVolume", "metadata": { "name": "debian" },
            "spec": { "source": { "blank": {} }, "storage": { "resources": { "requests": { "storage": "1Gi" } } } },
        }))
        .await?;
        place.put(json!({
            "apiVersion": SNAPSHOT_API_VERSION, "kind": "VolumeSnapshot", "metadata": { "name": "debian" },
            "spec": { "source": { "persistentVolumeClaimName": "debian" } },
        }))
        .await?;
        place
            .put(json!({
                "apiVersion": DATA_VOLUME_API_VERSION, "kind": "DataSource", "metadata": { "name": "debian" },
                "spec": { "source": { "snapshot": { "namespace": place.namespace, "name": "debian" } } },
            }))
            .await?;
        let is_ready = |object: &Value| object["status"]["readyToUse"] == true;
        let snapshot = place.until_object(SNAPSHOT_API_VERSION, "VolumeSnapshot", "debian", is_ready).await?;
        let content = snapshot["status"]["boundVolumeSnapshotContentName"].as_str().unwrap_or_default();
        ensure!(
            place.object(SNAPSHOT_API_VERSION, "VolumeSnapshotContent", content).await?.is_some(),
            "{snapshot}"
        );
        place.put(machine("a", place.namespace)).await?;
        place
            .until_object(API_VERSION, "VirtualMachine", "a", |machine| machine["status"]["ready"] == true)
            .await?;
        let volume = place.object(DATA_VOLUME_API_VERSION, "DataVolume", "a-root").await?.unwrap_or_default();
        ensure!(volume["spec"]["source"]["snapshot"]["name"] == "debian", "{volume}");
        // The deletion of a snapshot takes its content along.
        place.delete(SNAPSHOT_API_VERSION, "VolumeSnapshot", "debian").await?;
        eventually("the snapshot and its content are gone", Duration::from_mins(1), async || {
            let content = place.object(SNAPSHOT_API_VERSION, "VolumeSnapshotContent", content).await?;
            let left = content.or(place.object(SNAPSHOT_API_VERSION, "VolumeSnapshot", "debian").await?);
            Ok(left.map_or(Ok(()), |left| Err(left.to_string())))
        })
        .await?;
        Ok(())
    });
}

#[test]
fn a_clone_from_another_namespace_needs_a_role() {
    with_simulator("kubevirt-clone-role", async |place| {
        place.cluster.kubectl(&["create", "namespace", "kubevirt-clone-source"]).await?;
        // The DataSource is in the machine's namespace and names a claim of the other one.
        place
            .put(json!({
                "apiVersion": DATA_VOLUME_API_VERSION, "kind": "DataSource", "metadata": { "name": "debian" },
                "spec": { "source": { "pvc": { "namespace": "kubevirt-clone-source", "name": "debian" } } },
            }))
            .await?;
        place.put(machine("a", place.namespace)).await?;
        let refused = |machine: &Value| {
            let conditions = machine["status"]["conditions"].to_string();
            conditions.contains("insufficient permissions in clone source namespace kubevirt-clone-source")
        };
        place.until_object(API_VERSION, "VirtualMachine", "a", refused).await?;
        ensure!(place.object(DATA_VOLUME_API_VERSION, "DataVolume", "a-root").await?.is_none());
        let account = format!("--serviceaccount={}:default", place.namespace);
        let source = "--namespace=kubevirt-clone-source";
        place
            .cluster
            .kubectl(&[
                "create",
                "role",
                "clone",
                source,
                "--verb=create",
                "--resource=datavolumes.cdi.kubevirt.io/source",
                "--resource-name=debian",
            ])
            .await?;
        place.cluster.kubectl(&["create", "rolebinding", "clone", source, "--role=clone", &account]).await?;
        place
            .until_object(DATA_VOLUME_API_VERSION, "DataVolume", "a-root", |volume| {
                volume["status"]["phase"] == "CloneScheduled"
            })
            .await
            .map(drop)
    });
}

/// A machine whose disk clones the DataSource `debian`.
fn machine(name: &str, namespace: &str) -> Value {
    let disk = format!("{name}-root");
    json!({
        "apiVersion": API_VERSION, "kind": "VirtualMachine", "metadata": { "name": name },
        "spec": {
            "runStrategy": "Always",
            "dataVolumeTemplates": [{
                "metadata": { "name": disk },
                "spec": { "storage": {}, "sourceRef": { "kind": "DataSource", "name": "debian", "namespace": namespace } },
            }],
            "template": { "spec": {
                "domain": { "devices": { "disks": [{ "name": "root" }] } },
                "volumes": [{ "name": "root", "dataVolume": { "name": disk } }],
            } },
        },
    })
}
