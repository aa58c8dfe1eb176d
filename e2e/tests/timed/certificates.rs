//! Certificates are replaced while they are in use.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use http::Request;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::{PoolHandle, PoolScaleDownPolicy, SETTLE, ScenarioWorld};
use vmpool_installation::installation::GuardOptions;
use vmpool_installation::programs::{Component, SYSTEM_NAMESPACE};
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::error::error_with_causes;

/// The serving certificate of a component, and the authorities that its clients trust.
#[derive(Clone, PartialEq)]
struct Material {
    serving: Vec<u8>,
    authorities: Vec<u8>,
}

async fn material(world: &ScenarioWorld, component: Component) -> anyhow::Result<Material> {
    let secret = Api::<Secret>::namespaced(world.client(), SYSTEM_NAMESPACE).get(component.secret()).await?;
    let mut data = secret.data.unwrap_or_default();
    let mut part = |key: &str| {
        data.remove(key).map(|bytes| bytes.0).with_context(|| format!("no {key} in {}", component.secret()))
    };
    Ok(Material { serving: part("tls.crt")?, authorities: part("ca.crt")? })
}

/// The progress of the replacement of a component's certificates.
struct Progress {
    component: Component,
    last: Material,
    /// Whether the serving certificate was replaced.
    serving: bool,
    /// Whether there is a new authority, which its clients trust.
    authority: bool,
    /// Whether the serving certificate was replaced after that; it is then signed by the new authority.
    taken_over: bool,
}

impl Progress {
    async fn begin(world: &ScenarioWorld, component: Component) -> anyhow::Result<Self> {
        let last = material(world, component).await?;
        Ok(Self { component, last, serving: false, authority: false, taken_over: false })
    }

    async fn look(&mut self, world: &ScenarioWorld) -> anyhow::Result<()> {
        let now = material(world, self.component).await?;
        let new_serving = now.serving != self.last.serving;
        self.serving |= new_serving;
        self.taken_over |= self.authority && new_serving;
        self.authority |= now.authorities != self.last.authorities;
        self.last = now;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.serving && self.authority && self.taken_over
    }
}

/// The kind and name of the object by which the API server finds a component, and a place of its bundle.
fn registration(component: Component) -> (ApiResource, &'static str, &'static str) {
    let (group, kind, plural, name, place) = match component {
        Component::Webhook => (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            "vmpool-webhook",
            "/webhooks/0/clientConfig/caBundle",
        ),
        Component::Apiserver => (
            "apiregistration.k8s.io",
            "APIService",
            "apiservices",
            "v1alpha1.subresources.vmpool.dev",
            "/spec/caBundle",
        ),
    };
    let resource = ApiResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        api_version: format!("{group}/v1"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    (resource, name, place)
}

/// The published CA bundle with which the API server verifies a component.
async fn bundle(world: &ScenarioWorld, component: Component) -> anyhow::Result<String> {
    let (resource, name, place) = registration(component);
    let object = Api::<DynamicObject>::all_with(world.client(), &resource).get(name).await?;
    let bundle = object.data.pointer(place).and_then(Value::as_str);
    Ok(bundle.with_context(|| format!("{} {name} has no caBundle", resource.kind))?.to_owned())
}

/// Opens a new connection to each replica with only the published CA bundle. The API server keeps its
/// connections open, so it would not detect a certificate that is temporarily untrusted.
async fn connect(world: &ScenarioWorld, component: Component) -> anyhow::Result<()> {
    let bundle = bundle(world, component).await?;
    // Both components require client certificates.
    let (certificate, key) = world.cluster().front_proxy_certificate();
    for port in world.installation().guard()?.service(component)?.ports() {
        let kubeconfig: Kubeconfig = serde_json::from_value(json!({
            "clusters": [{ "name": "c", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "tls-server-name": format!("{}.{SYSTEM_NAMESPACE}.svc", component.name()),
                "certificate-authority-data": bundle,
            } }],
            "users": [{ "name": "u", "user": { "client-certificate": certificate, "client-key": key } }],
            "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
            "current-context": "x",
        }))?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.read_timeout = Some(Duration::from_secs(30));
        let request = Request::get("/readyz").body(kube::client::Body::empty())?;
        // Any response shows that the certificate was trusted.
        Client::try_from(config)?
            .send(request)
            .await
            .with_context(|| format!("a new connection to {component:?}"))?;
    }
    Ok(())
}

/// Sends one request to the webhook, one to the aggregated API, and opens new connections to both.
async fn ask(world: &ScenarioWorld, pool: &PoolHandle<'_>, machine: &JsonObject) -> anyhow::Result<()> {
    let judged = json!({ "spec": { "replicas": 2 } });
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let answered = world.api(TestedKind::Pool).patch(pool.name(), &params, &Patch::Merge(&judged)).await;
    answered.context("the webhook")?;
    let answer = pool.removal().target(machine).dry_run_by_body().send_unchecked().await;
    ensure!(answer.code == 201, "the aggregated API: {answer}");
    for component in Component::ALL {
        connect(world, component).await?;
    }
    Ok(())
}

#[test]
fn certificates_and_their_authorities_are_replaced_under_load_and_no_request_fails() {
    /// The shortest validity that the programs allow. A certificate is replaced some 10 s after its creation.
    /// The authorities, whose validity is four times as long, are replaced some 40 s after the installation.
    const VALIDITY: Duration = Duration::from_secs(15);
    /// The host may be busy.
    const DEADLINE: Duration = Duration::from_mins(4);
    let after = |served: u32, deadline: &Deadline| format!("after {served} rounds in {}", deadline.elapsed());
    let mut guard = GuardOptions::default();
    guard.services.extra = vec![format!("--tls-validity={}s", VALIDITY.as_secs())];
    define_scenario("certificates and their authorities are replaced under load").guarded_by(guard).run(async |world| {
        // Given certificates that are valid for seconds, and clients that send requests continuously,
        let pool = world.pool("web").policy(PoolScaleDownPolicy::Explicit).replicas(1).ready().await?;
        let machine = pool.machine(0).await?;
        let mut all = Vec::new();
        for component in Component::ALL {
            all.push(Progress::begin(world, component).await?);
        }
        let (deadline, mut served) = (Deadline::after(DEADLINE), 0_u32);
        // when each certificate is replaced, and then the authorities that signed them,
        while !all.iter().all(Progress::is_done) {
            let steps: Vec<_> = all.iter().map(|one| [one.serving, one.authority, one.taken_over]).collect();
            ensure!(!deadline.is_over(), "{served} rounds in {}: {steps:?}", deadline.elapsed());
            for _ in 0..5 {
                // then every request is served.
                ask(world, &pool, &machine).await.with_context(|| after(served, &deadline))?;
                served += 1;
            }
            for one in &mut all {
                one.look(world).await?;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let took = deadline.elapsed().time.as_secs_f32();
        // This also applies to later requests.
        let until = Instant::now() + SETTLE * 2;
        while Instant::now() < until {
            ask(world, &pool, &machine).await.with_context(|| after(served, &deadline))?;
            served += 1;
        }
        println!("{served} rounds without a failure; authorities and certificates were replaced within {took:.1} s");
        ensure!(served > 50, "only {served} rounds");
        Ok::<_, anyhow::Error>(())
    });
}

/// Changes that a compromised program could attempt in its registration.
fn attacks(component: Component) -> Vec<Value> {
    let label = json!({ "op": "add", "path": "/metadata/labels/team", "value": "blue" });
    match component {
        Component::Webhook => vec![
            json!({ "op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore" }),
            json!({ "op": "replace", "path": "/webhooks/0/rules/0/resources", "value": ["virtualmachinepools/status"] }),
            json!({ "op": "add", "path": "/webhooks/0/rules/-", "value": {
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"] } }),
            json!({ "op": "replace", "path": "/webhooks/0/clientConfig/service/name", "value": "other" }),
            json!({ "op": "add", "path": "/webhooks/1/matchConditions/-",
                "value": { "name": "never", "expression": "false" } }),
            json!({ "op": "replace", "path": "/webhooks/0/name", "value": "other.webhook.vmpool.dev" }),
            json!({ "op": "remove", "path": "/webhooks/1" }),
            json!({ "op": "remove", "path": "/webhooks" }),
            label,
        ],
        Component::Apiserver => vec![
            json!({ "op": "replace", "path": "/spec/groupPriorityMinimum", "value": 20_000 }),
            json!({ "op": "replace", "path": "/spec/service/name", "value": "other" }),
            label,
        ],
    }
}

#[test]
fn a_program_changes_nothing_of_its_registration_but_the_ca_bundle() {
    const DEADLINE: Duration = Duration::from_mins(1);
    define_scenario("a program changes nothing of its registration but the CA bundle")
        .guarded_by(GuardOptions::default())
        .run(async |world| {
            let others = bundle(world, Component::Apiserver).await?;
            for component in Component::ALL {
                // Given the account of a program,
                let client =
                    world.cluster().service_account_client(SYSTEM_NAMESPACE, component.name()).await?;
                let (resource, name, place) = registration(component);
                let api = Api::<DynamicObject>::all_with(client, &resource);
                let params = PatchParams { dry_run: true, ..PatchParams::default() };
                let attempt = async |change: &Value| {
                    let patch = Patch::Json::<()>(serde_json::from_value(json!([change]))?);
                    anyhow::Ok(
                        api.patch(name, &params, &patch).await.err().map(|error| error_with_causes(&error)),
                    )
                };
                // when it changes other fields than the bundle, then the API server refuses,
                let begun = Instant::now();
                for change in attacks(component) {
                    loop {
                        let refused = attempt(&change).await?.unwrap_or_default();
                        if refused.contains("changes nothing but caBundle") {
                            break;
                        }
                        // The policy is not in effect immediately.
                        ensure!(begun.elapsed() < DEADLINE, "{change}: {refused:?}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
                // while it accepts changes of the bundle.
                let change = json!({ "op": "replace", "path": place, "value": others });
                let refused = attempt(&change).await?;
                ensure!(refused.is_none(), "{refused:?}");
            }
            Ok::<_, anyhow::Error>(())
        });
}
