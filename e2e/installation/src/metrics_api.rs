//! Metrics for autoscalers, set by scenarios or in ConfigMaps: one small server for a whole cluster.
//!
//! It provides both the resource metrics (`metrics.k8s.io`, CPU of Pods) and the custom metrics
//! (`custom.metrics.k8s.io`) of a cluster, each registered as an APIService. A scenario, or a user of the
//! playground, sets the load of a namespace. The existing Pods share the load evenly, so that additional
//! machines reduce it, as in a real cluster.

mod load;

use std::net::Ipv4Addr;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Json;
use axum::routing::get;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use vmpool_runtime::Env;
use vmpool_runtime::https::{self, Limits};
use vmpool_runtime::tls::{ClientCas, ServingIdentity};
use vmpool_test_cluster::control_plane::{ControlPlane, apply_manifests};
use vmpool_test_cluster::error::{Error, Result};

use self::load::{Load, LoadSource, Loads};
use crate::api_service::until_available;

/// Name of the Service through which the API server reaches this server.
const SERVICE: &str = "e2e-metrics";

/// The Service's namespace. It is not the chart's, because scenarios delete that one.
const NAMESPACE: &str = "e2e-metrics";

/// The groups and versions that are served.
const GROUPS: [(&str, &str); 2] = [("metrics.k8s.io", "v1beta1"), ("custom.metrics.k8s.io", "v1beta2")];

/// The metrics server. Dropping it removes the metrics.
pub struct MetricsApi {
    loads: Loads,
    _task: AbortOnDropHandle<()>,
}

#[derive(Clone)]
struct Shared {
    client: Client,
    source: LoadSource,
}

impl MetricsApi {
    /// Starts the server on this host, registers it, and waits until the API server reaches it.
    ///
    /// # Errors
    /// [`Error::Port`] and errors of the API server, if the registration fails.
    pub async fn start(cluster: &ControlPlane) -> Result<Self> {
        Self::start_local(cluster, LoadSource::Scenario).await
    }

    /// As [`MetricsApi::start`]. Users set the load of a namespace in its ConfigMap `simulator-load`: the key
    /// `cpu` for the CPU usage of all Pods, such as `900m`, and other keys for custom metrics.
    ///
    /// # Errors
    /// As [`MetricsApi::start`].
    pub async fn start_with_config_maps(cluster: &ControlPlane) -> Result<Self> {
        Self::start_local(cluster, |_loads| LoadSource::ConfigMaps).await
    }

    async fn start_local(cluster: &ControlPlane, source: fn(Loads) -> LoadSource) -> Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|source| Error::Port { source })?;
        let port = listener.local_addr().map_err(|source| Error::Port { source })?.port();
        // The API server connects to the external name at the port of the APIService.
        let local = json!({ "type": "ExternalName", "externalName": "localhost" });
        Self::serve(&cluster.admin(), listener, &[service(&local)], port, source).await
    }

    /// Starts the server on the network of a cluster with its own network, registers it, and waits until the
    /// API server reaches it.
    ///
    /// # Errors
    /// [`Error::Port`], and the API server's errors for the created objects.
    pub async fn start_inside(cluster: &ControlPlane) -> Result<Self> {
        /// The port of the Service, which kube-proxy translates.
        const PORT: u16 = 443;
        let inside = cluster.namespaces().ok_or_else(|| Error::Unexpected {
            what: "the cluster has its own network".to_owned(),
            last: "it uses the loopback address".to_owned(),
        })?;
        let listener = TcpListener::from_std(inside.listen()?).map_err(|source| Error::Port { source })?;
        let address = listener.local_addr().map_err(|source| Error::Port { source })?;
        // The process is not a Pod, so no selector finds it; the EndpointSlice is written directly.
        let ports = json!([{ "name": "https", "port": PORT, "targetPort": address.port() }]);
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": SERVICE, "namespace": NAMESPACE, "labels": { "kubernetes.io/service-name": SERVICE } },
            "addressType": "IPv4",
            "endpoints": [{ "addresses": [address.ip()], "conditions": { "ready": true } }],
            "ports": [{ "name": "https", "port": address.port() }],
        });
        let way = [service(&json!({ "ports": ports })), slice];
        Self::serve(&cluster.admin(), listener, &way, PORT, LoadSource::Scenario).await
    }

    /// Serves on a socket, with these objects that route to it and this port of the Service.
    ///
    /// # Errors
    /// [`Error::Certificate`], [`Error::Api`], [`Error::Deadline`].
    async fn serve(
        client: &Client,
        listener: TcpListener,
        way: &[Value],
        port: u16,
        source: fn(Loads) -> LoadSource,
    ) -> Result<Self> {
        let loads = Loads::default();
        let identity = identity()?;
        let router = router(Shared { client: client.clone(), source: source(loads.clone()) });
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let (clients, limits, env) = (ClientCas::none(), Limits::default(), Env::system());
            let forever = std::future::pending();
            if let Err(error) =
                https::serve_https(listener, identity, clients, router, limits, &env, forever).await
            {
                tracing::warn!(%error, "the metrics server has stopped");
            }
        }));
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
        let objects: Vec<Value> =
            std::iter::once(namespace).chain(way.iter().cloned()).chain(registrations(port)).collect();
        apply_manifests(client, &objects, None).await?;
        for (group, version) in GROUPS {
            until_available(client, &format!("{version}.{group}")).await?;
        }
        Ok(Self { loads, _task: task })
    }

    /// Sets the CPU usage of the Pods of a namespace together, in thousandths of a core.
    pub fn set_cpu(&self, namespace: &str, millis: u64) {
        self.loads.lock().entry(namespace.to_owned()).or_default().cpu_millis = millis;
    }

    /// Sets a custom metric of a namespace, such as the length of a queue.
    pub fn set_custom(&self, namespace: &str, metric: &str, value: u64) {
        self.loads.lock().entry(namespace.to_owned()).or_default().custom.insert(metric.to_owned(), value);
    }
}

fn identity() -> Result<ServingIdentity> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
        .map_err(|source| Error::Certificate { subject: SERVICE, source })?;
    let identity = ServingIdentity::new();
    identity.replace(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes()).map_err(
        |source| Error::Unexpected {
            what: "the new certificate is usable".to_owned(),
            last: source.to_string(),
        },
    )?;
    Ok(identity)
}

fn service(spec: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": SERVICE, "namespace": NAMESPACE },
        "spec": spec,
    })
}

fn registrations(port: u16) -> impl Iterator<Item = Value> {
    GROUPS.iter().map(move |(group, version)| {
        json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": { "name": format!("{version}.{group}") },
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": true,
                "service": { "name": SERVICE, "namespace": NAMESPACE, "port": port },
            },
        })
    })
}

fn router(shared: Shared) -> axum::Router {
    axum::Router::new()
        .route(
            "/apis/metrics.k8s.io/v1beta1",
            get(async || resources("metrics.k8s.io/v1beta1", "PodMetrics")),
        )
        .route(
            "/apis/custom.metrics.k8s.io/v1beta2",
            get(async || resources("custom.metrics.k8s.io/v1beta2", "MetricValueList")),
        )
        .route("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods", get(pod_metrics))
        .route(
            "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/{resource}/{name}/{metric}",
            get(custom_metrics),
        )
        .with_state(shared)
}

fn resources(group_version: &'static str, kind: &'static str) -> Json<Value> {
    let pods = json!({
        "name": "pods", "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get", "list"] });
    Json(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": [pods] }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Selection {
    #[serde(default)]
    label_selector: String,
}

type Answer = Result<Json<Value>, (StatusCode, String)>;

impl Shared {
    async fn load(&self, namespace: &str) -> Result<Load, (StatusCode, String)> {
        let read = self.source.read(self.client.clone(), namespace).await;
        read.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
    }
}

/// The running Pods of a namespace that match a selector.
async fn pods(client: Client, namespace: &str, selector: &str) -> Result<Vec<Pod>, (StatusCode, String)> {
    let params = ListParams::default().labels(selector);
    let listed = Api::<Pod>::namespaced(client, namespace).list(&params).await;
    let mut pods = listed.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?.items;
    pods.retain(|pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
    });
    Ok(pods)
}

fn share(total: u64, among: usize) -> u64 {
    total.div_ceil(u64::try_from(among).unwrap_or(u64::MAX).max(1))
}

async fn pod_metrics(
    State(shared): State<Shared>,
    Path(namespace): Path<String>,
    Query(selection): Query<Selection>,
) -> Answer {
    let total = shared.load(&namespace).await?.cpu_millis;
    let found = pods(shared.client, &namespace, &selection.label_selector).await?;
    let each = share(total, found.len());
    let item = |pod: &Pod| {
        let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
        json!({
            "metadata": { "name": pod.metadata.name, "namespace": namespace, "labels": pod.metadata.labels },
            "timestamp": now(),
            "window": "1s",
            "containers": [{
                "name": container.map_or("", |container| container.name.as_str()),
                "usage": { "cpu": format!("{each}m"), "memory": "64Mi" },
            }],
        })
    };
    let items: Vec<Value> = found.iter().map(item).collect();
    Ok(Json(json!({
        "kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items })))
}

async fn custom_metrics(
    State(shared): State<Shared>,
    Path((namespace, resource, name, metric)): Path<(String, String, String, String)>,
    Query(selection): Query<Selection>,
) -> Answer {
    let known = shared.load(&namespace).await?.custom.get(&metric).copied();
    let total = known.ok_or_else(|| (StatusCode::NOT_FOUND, format!("no metric {metric} in {namespace}")))?;
    let value = |kind: &str, name: &str, value: u64| {
        json!({
            "describedObject": { "kind": kind, "namespace": namespace, "name": name },
            "metric": { "name": metric },
            "timestamp": now(),
            "value": value.to_string(),
        })
    };
    let items: Vec<Value> = if resource == "pods" {
        let found = pods(shared.client, &namespace, &selection.label_selector).await?;
        let each = share(total, found.len());
        found.iter().map(|pod| value("Pod", pod.metadata.name.as_deref().unwrap_or_default(), each)).collect()
    } else {
        vec![value("VirtualMachinePool", &name, total)]
    };
    Ok(Json(json!({
        "kind": "MetricValueList",
        "apiVersion": "custom.metrics.k8s.io/v1beta2",
        "metadata": {},
        "items": items,
    })))
}

/// The time in whole seconds, as Kubernetes writes it.
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_shared_without_remainder() {
        assert_eq!([share(100, 1), share(100, 3), share(0, 3), share(100, 0)], [100, 34, 0, 100]);
    }
}
