//! Certificates that are replaced while they are in use.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use vmpool_e2e::installation::GuardOptions;
use vmpool_e2e::object::{Kind, Object};
use vmpool_e2e::programs::{Component, SYSTEM_NAMESPACE};
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::{Policy, Pool, SETTLE, World};

/// The environment variable that makes the test wait until the authorities are replaced, too, some three minutes.
const AUTHORITIES: &str = "VMPOOL_ROTATE_AUTHORITIES";

/// A part of the Secret that the replicas of a component share.
async fn part(world: &World, component: Component, key: &str) -> anyhow::Result<Vec<u8>> {
    let secret = Api::<Secret>::namespaced(world.client(), SYSTEM_NAMESPACE).get(component.secret()).await?;
    let data = secret.data.unwrap_or_default();
    let part = data.get(key).map(|bytes| bytes.0.clone());
    part.with_context(|| format!("no {key} in {}", component.secret()))
}

/// One request that the webhook judges, and one that the aggregated API answers.
async fn ask(world: &World, pool: &Pool<'_>, machine: &Object) -> anyhow::Result<()> {
    let judged = json!({ "spec": { "replicas": 2 } });
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let answered = world.api(Kind::Pool).patch(pool.name(), &params, &Patch::Merge(&judged)).await;
    answered.context("the webhook")?;
    let answer = pool.removal().target(machine).dry_run_by_body().send_unchecked().await;
    ensure!(answer.code == 201, "the aggregated API: {answer}");
    Ok(())
}

#[test]
fn certificates_are_replaced_under_load_and_no_request_fails() {
    /// The shortest that the programs allow: it is replaced when a third of it is left, and its authority, which lasts
    /// four times as long, when a third of that is left.
    const VALIDITY: Duration = Duration::from_mins(1);
    let (key, deadline) = match std::env::var_os(AUTHORITIES) {
        None => ("tls.crt", VALIDITY),
        Some(_) => ("ca.crt", VALIDITY * 4),
    };
    let mut guard = GuardOptions::default();
    guard.services.extra = vec![format!("--tls-validity={}s", VALIDITY.as_secs())];
    scenario("certificates are replaced under load").guarded_by(guard).run(async |world| {
        // Given certificates that last for a minute, and users that are always at it,
        let pool = world.pool("web").policy(Policy::Explicit).replicas(1).ready().await?;
        let machine = pool.machine(0).await?;
        let mut first = Vec::new();
        for component in Component::ALL {
            first.push(part(world, component, key).await?);
        }
        let (begun, mut served, mut replaced) = (Instant::now(), 0_u32, [false; 2]);
        // when each of them is replaced,
        while replaced != [true; 2] {
            ensure!(begun.elapsed() < deadline, "after {served} rounds these were replaced: {replaced:?}");
            for _ in 0..10 {
                // then every request is served.
                ask(world, &pool, &machine).await.with_context(|| format!("after {served} rounds"))?;
                served += 1;
            }
            for (place, component) in Component::ALL.into_iter().enumerate() {
                replaced[place] |= part(world, component, key).await? != first[place];
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        // Also those that come after.
        let until = Instant::now() + SETTLE * 2;
        while Instant::now() < until {
            ask(world, &pool, &machine).await.with_context(|| format!("after {served} rounds"))?;
            served += 1;
        }
        ensure!(served > 100, "only {served} rounds");
        Ok::<_, anyhow::Error>(())
    });
}
