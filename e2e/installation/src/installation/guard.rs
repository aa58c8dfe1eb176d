//! The webhook and the aggregated API of a cluster.

use std::collections::BTreeMap;

use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use vmpool_api::annotations;
use vmpool_api::v1alpha2::{API_VERSION, VirtualMachinePool};
use vmpool_test_cluster::control_plane::{ControlPlane, apply_manifests};
use vmpool_test_cluster::error::{Error, Result, error_with_causes};
use vmpool_test_cluster::poll;

use crate::api_service::{REACHED_DEADLINE, until_available};
use crate::fault_proxy::FaultProxy;
use crate::metrics_api::MetricsApi;
use crate::programs::{Chart, Component, ComponentService, DVP_ONLY, SYSTEM_NAMESPACE, ServiceOptions};

/// The class of the machines in scenarios.
pub const CLASS: &str = "generic";

/// A label of namespaces that the webhook skips, so that scenarios can store objects that it would refuse:
/// those of an earlier version, of another platform, or of a cluster without the webhook. The chart does not
/// have this label.
pub const UNGUARDED: &str = "e2e.vmpool.dev/unguarded";

/// How the webhook and the aggregated API are installed.
#[derive(Debug, Clone)]
pub struct GuardOptions {
    /// Values of the chart.
    pub values: Vec<String>,
    /// Number of replicas and additional flags.
    pub services: ServiceOptions,
    /// Whether their requests go through a fault proxy ([`FaultProxy`]).
    pub fault_proxy: bool,
    /// The platforms that the simulator plays, as its flag `--platform` takes them.
    pub simulated: &'static str,
}

/// The platform's group is not served here, but helm cannot detect that when it only renders.
const PLATFORM_GROUP: &str = "apiserver.platformGroup=true";

impl Default for GuardOptions {
    /// The defaults of the chart in a cluster with DVP only.
    fn default() -> Self {
        Self {
            values: [PLATFORM_GROUP].into_iter().chain(DVP_ONLY).map(str::to_owned).collect(),
            services: ServiceOptions::default(),
            fault_proxy: false,
            simulated: "dvp",
        }
    }
}

impl GuardOptions {
    /// Adds a value of the chart, such as `featureGates.VirtualMachinePool=false`.
    #[must_use]
    pub fn value(mut self, value: &str) -> Self {
        self.values.push(value.to_owned());
        self
    }

    /// Also serves and simulates KubeVirt. The cluster needs [`super::kubevirt_definitions`].
    #[must_use]
    pub fn with_kubevirt(self) -> Self {
        Self { simulated: "all", ..self.value("platforms.kubevirt.enabled=true") }
    }

    /// With one replica of each, whose requests go through a fault proxy ([`FaultProxy`]).
    #[must_use]
    pub fn with_fault_proxy(mut self) -> Self {
        self.services.replicas = 1;
        self.fault_proxy = true;
        self
    }
}

/// The webhook, the aggregated API, and the metrics server for autoscalers.
pub struct GuardServices {
    services: Vec<ComponentService>,
    proxies: Vec<(Component, FaultProxy)>,
    metrics: MetricsApi,
}

impl GuardServices {
    /// Starts the deployments of the chart, registers them, and waits until the API server reaches them.
    ///
    /// # Errors
    /// As [`ComponentService::prepare`] and [`ComponentService::start`], [`Error::Api`], [`Error::Deadline`].
    pub(super) async fn start(cluster: &ControlPlane, chart: &Chart, options: GuardOptions) -> Result<Self> {
        let metrics = MetricsApi::start(cluster).await?;
        let mut guard = Self { services: Vec::new(), proxies: Vec::new(), metrics };
        for component in Component::ALL {
            let deployed =
                chart.all("Deployment").any(|document| document["metadata"]["name"] == component.name());
            if !deployed {
                continue;
            }
            let mut service = options.services.clone();
            if options.fault_proxy {
                let proxy = FaultProxy::open(cluster, SYSTEM_NAMESPACE, component.name()).await?;
                service.kubeconfig = Some(proxy.kubeconfig(cluster)?);
                guard.proxies.push((component, proxy));
            }
            guard.services.push(ComponentService::prepare(cluster, chart, component, service).await?);
        }
        connect_services(cluster, chart, &guard.services, let_pass).await?;
        Ok(guard)
    }

    /// A component.
    ///
    /// # Errors
    /// [`Error::Unexpected`] if the chart did not deploy it.
    pub fn service(&self, component: Component) -> Result<&ComponentService> {
        self.services.iter().find(|service| service.component() == component).ok_or_else(|| {
            Error::Unexpected {
                what: format!("the chart deploys {}", component.name()),
                last: format!("{} components", self.services.len()),
            }
        })
    }

    /// The fault proxy of a component.
    ///
    /// # Errors
    /// [`Error::Unexpected`] if it was started without one.
    pub fn fault_proxy(&self, component: Component) -> Result<&FaultProxy> {
        let found = self.proxies.iter().find(|(proxied, _)| *proxied == component);
        found.map(|(_, proxy)| proxy).ok_or_else(|| Error::Unexpected {
            what: format!("the requests of {} go through a fault proxy", component.name()),
            last: "it was started without one".to_owned(),
        })
    }

    /// The metrics server for autoscalers.
    pub fn metrics(&self) -> &MetricsApi {
        &self.metrics
    }

    pub(super) fn check(&self) -> Result<()> {
        check(&self.services)
    }

    pub(super) fn kill(&self) {
        self.services.iter().for_each(ComponentService::kill_all);
    }

    pub(super) fn logs(&self, lines: usize) -> Vec<(String, String)> {
        let replicas = self.services.iter().flat_map(ComponentService::replicas);
        replicas.map(|replica| (replica.log().display().to_string(), replica.log_tail(lines))).collect()
    }

    /// Waits until the webhook validates pools.
    ///
    /// # Errors
    /// [`Error::Deadline`] with the last response.
    pub async fn until_webhook_answers(&self, cluster: &ControlPlane) -> Result<()> {
        until_pools_are_validated(&cluster.admin(), || self.check()).await
    }
}

/// Starts these components and points the API server at them, until it gets answers. `adapt` may change the
/// objects of the chart that register them.
///
/// # Errors
/// As [`ComponentService::start`], [`Error::Api`], [`Error::Deadline`].
pub async fn connect_services(
    cluster: &ControlPlane,
    chart: &Chart,
    services: &[ComponentService],
    adapt: impl Fn(&mut Value),
) -> Result<()> {
    let ports: BTreeMap<&str, &[u16]> =
        services.iter().map(|service| (service.component().name(), service.ports())).collect();
    let mut wiring = chart.wiring(&ports);
    wiring.iter_mut().for_each(adapt);
    apply_manifests(&cluster.admin(), &wiring, None).await?;
    futures::future::try_join_all(services.iter().map(ComponentService::start)).await?;
    if wiring.iter().any(|object| object["kind"] == "ValidatingWebhookConfiguration") {
        until_pools_are_validated(&cluster.admin(), || check(services)).await?;
    }
    for service in wiring.iter().filter(|object| object["kind"] == "APIService") {
        until_available(&cluster.admin(), service["metadata"]["name"].as_str().unwrap_or_default()).await?;
    }
    Ok(())
}

/// Whether no replica of these components ended by itself.
fn check(services: &[ComponentService]) -> Result<()> {
    services.iter().try_for_each(ComponentService::check)
}

/// Excludes namespaces with the label [`UNGUARDED`] from the webhooks of a configuration.
fn let_pass(object: &mut Value) {
    for webhook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        let selector = &mut webhook["namespaceSelector"];
        if selector.is_null() {
            *selector = json!({ "matchExpressions": [{ "key": UNGUARDED, "operator": "DoesNotExist" }] });
        }
    }
}

/// Waits until a webhook validates pools, as long as `check` succeeds.
///
/// # Errors
/// [`Error::Deadline`] with the last response, and the errors of `check`.
pub(crate) async fn until_pools_are_validated(client: &Client, check: impl Fn() -> Result<()>) -> Result<()> {
    let probe = probe()?;
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let api = Api::<DynamicObject>::namespaced_with(
        client.clone(),
        "default",
        &ApiResource::erase::<VirtualMachinePool>(&()),
    );
    poll::poll_until(
        || "the webhook validates pools".to_owned(),
        REACHED_DEADLINE,
        async || {
            check()?;
            Ok(match api.create(&params, &probe).await {
                Err(kube::Error::Api(status)) if status.message.contains("denied the request") => Ok(()),
                // The schema refused the probe, so retrying would not help.
                Err(kube::Error::Api(status)) if status.code == 422 => {
                    return Err(Error::Unexpected {
                        what: "the schema accepts the probe".to_owned(),
                        last: status.message.clone(),
                    });
                }
                Err(error) => Err(error_with_causes(&error)),
                Ok(_) => Err("a pool with a removal record was accepted".to_owned()),
            })
        },
    )
    .await
}

/// A pool that the schema accepts and the webhook refuses on any cluster, because only the aggregated API may
/// write a removal record.
fn probe() -> Result<DynamicObject> {
    let probe = json!({
        "apiVersion": API_VERSION,
        "kind": VirtualMachinePool::kind(&()),
        "metadata": { "name": "probe", "annotations": { annotations::SCALE_DOWN_TARGETS: "[]" } },
        "spec": {
            "replicas": 0,
            "scaleDownPolicy": "NewestFirst",
            "virtualDiskTemplates": [{
                "name": "root", "spec": { "persistentVolumeClaim": { "size": "64Mi" } } }],
            "virtualMachineTemplate": { "spec": {
                "virtualMachineClassName": CLASS,
                "cpu": { "cores": 1, "coreFraction": "5%" },
                "memory": { "size": "512Mi" },
                "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": "root" }],
            } },
        },
    });
    serde_json::from_value(probe).map_err(Error::json("writing a probe"))
}
