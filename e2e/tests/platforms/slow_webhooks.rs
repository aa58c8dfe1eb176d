//! Admission webhooks of other owners that do not answer and whose failures are ignored. `kubectl create`
//! works then, after their timeouts.

use std::net::TcpListener;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_e2e::world::condition::{PoolPredicate, ready_replicas};
use vmpool_e2e::world::{DEADLINE, ScenarioWorld};
use vmpool_installation::programs::{CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE};
use vmpool_invariants::object::TestedKind;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::poll;

use crate::on;

/// Three machines, one after the other, each delayed by 30 s, and the first attempt.
const LIMIT: Duration = Duration::from_mins(3);

/// The timeouts of webhooks that the API server calls one after the other.
const TWO: [u32; 2] = [10, 10];
const LONGEST: [u32; 1] = [30];

/// Accepts connections and never answers.
pub(crate) fn black_hole() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        open.extend(listener.incoming());
    });
    Ok(port)
}

fn webhook(world: &ScenarioWorld, port: u16, place: usize, seconds: u32) -> Value {
    let platform = world.platform();
    let machines = platform.resource(TestedKind::Machine);
    json!({
        "name": format!("scanner-{place}.example.com"),
        "clientConfig": { "url": format!("https://127.0.0.1:{port}/{place}") },
        "rules": [
            {
                "apiGroups": [machines.group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                "resources": ["virtualmachines"],
            },
            // The test sees with a dry run whether the API server calls the webhook.
            { "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"] },
        ],
        // The platform has to be as fast as always.
        "matchConditions": [{
            "name": "controller",
            "expression": format!(
                "request.resource.resource == 'configmaps' || \
                 request.userInfo.username == 'system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER_ACCOUNT}'"
            ),
        }],
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": world.namespace() } },
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": seconds,
    })
}

#[rstest]
#[case::dvp_two_in_a_row(TestedPlatform::Dvp, &TWO)]
#[case::dvp_the_longest(TestedPlatform::Dvp, &LONGEST)]
#[case::kubevirt_two_in_a_row(TestedPlatform::KubeVirt, &TWO)]
#[case::kubevirt_the_longest(TestedPlatform::KubeVirt, &LONGEST)]
fn a_pool_becomes_ready_under_slow_webhooks(
    #[case] platform: TestedPlatform,
    #[case] timeouts: &'static [u32],
) {
    on(platform, "a pool becomes ready under slow webhooks", async |world| {
        // Given webhooks of another owner that do not answer,
        let port = black_hole()?;
        let name = format!("slow-{}", world.namespace());
        let webhooks: Vec<Value> = timeouts
            .iter()
            .enumerate()
            .map(|(place, seconds)| webhook(world, port, place, *seconds))
            .collect();
        let configuration: MutatingWebhookConfiguration =
            serde_json::from_value(json!({ "metadata": { "name": name }, "webhooks": webhooks }))?;
        let all = Api::<MutatingWebhookConfiguration>::all(world.client());
        all.create(&PostParams::default(), &configuration).await?;
        let result = becomes_ready(world).await;
        all.delete(&name, &DeleteParams::default()).await?;
        result
    });
}

/// Waits until the API server calls the webhooks: a dry run then has no quick response.
async fn until_called(world: &ScenarioWorld) -> Result<()> {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let maps = Api::<ConfigMap>::namespaced(world.client(), world.namespace());
    let map: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "probe" } }))?;
    poll::poll_until(
        || "the API server calls the webhooks".to_owned(),
        DEADLINE,
        async || match tokio::time::timeout(Duration::from_secs(3), maps.create(&params, &map)).await {
            Ok(response) => Ok(Err(format!("{:?}", response.map(drop)))),
            Err(_) => Ok(Ok(())),
        },
    )
    .await?;
    Ok(())
}

async fn becomes_ready(world: &ScenarioWorld) -> Result<()> {
    until_called(world).await?;
    // when a user creates a pool,
    let pool = world.pool("web").replicas(3).create().await?;
    // then its condition names what is slow,
    let says = |text: &'static str| {
        PoolPredicate::new(format!("a condition with {text:?}"), move |view| {
            let conditions = view.pool().map(|pool| pool.at("/status/conditions").clone());
            conditions.is_some_and(|conditions| conditions.to_string().contains(text))
        })
    };
    pool.until_within(says("an admission webhook or the API server is slow"), LIMIT).await?;
    // and the machines become ready nevertheless.
    pool.until_within(ready_replicas(3), LIMIT).await?;
    let told = PoolPredicate::new("an event that says so", |view| {
        view.events().any(|event| event.text("/message").contains("is slow"))
    });
    pool.until(told).await?;
    Ok(())
}
