//! Changes of pools. Some of the pools violate rules that did not apply when they were created.

use std::time::Instant;

use anyhow::{Context, ensure};
use futures::{StreamExt, stream};
use kube::Client;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vmpool_api::annotations;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::{DEADLINE, ScenarioWorld};
use vmpool_engine::admission::{PoolRequest, scale};
use vmpool_installation::installation::UNGUARDED;
use vmpool_installation::programs::{Accounts, Component};
use vmpool_invariants::object::TestedKind;
use vmpool_platforms::dvp::admission::TERMS;
use vmpool_test_cluster::poll;

use super::pools::{Random, fields, set};
use super::verdicts::{
    ADMIN, ClassesAndImages, VerdictComparison, create_objects, of_create, of_scale, of_update,
};
use super::{IN_FLIGHT, pools_to_try, schema};
use vmpool_e2e::schemas::of_pools;
use vmpool_invariants::platform::TestedPlatform;

const MACHINE: &str = "/spec/virtualMachineTemplate/spec";

/// Changes that the rules refuse and the schema accepts: a name, a field, and a value.
fn violations() -> Vec<(&'static str, String, Value)> {
    let machine = |field: &str| format!("{MACHINE}/{field}");
    let spread = json!([{ "maxSkew": 1, "topologyKey": "bad key", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } } }]);
    let networks = json!([{ "type": "ClusterNetwork", "name": "lan" }, { "type": "Main" }]);
    let image = json!([{ "kind": "ClusterVirtualImage", "name": "ready" }, { "kind": "VirtualDisk", "name": "root" }]);
    vec![
        (
            "label",
            "/spec/virtualMachineTemplate/metadata/labels".to_owned(),
            json!({ "kubevirt.io/size": "big" }),
        ),
        ("spread", machine("topologySpreadConstraints"), spread),
        ("sizing", machine("virtualMachineClassName"), json!("sized")),
        ("networks", machine("networks"), networks),
        ("image", machine("blockDeviceRefs"), image),
        (
            "record",
            "/metadata/annotations".to_owned(),
            json!({ annotations::SCALE_DOWN_TARGETS: r#"[{"name":"a","uid":"u","reserved":"r"}]"# }),
        ),
    ]
}

/// The pools to change: a valid one for each policy, an invalid one for each violation, and one that is being
/// deleted.
fn drafts(world: &ScenarioWorld) -> Vec<Value> {
    let draft = |name: &str| {
        let mut pool = world.pool(name).replicas(3).disk("root").object();
        set(&mut pool, "/spec/virtualDiskTemplates/0/spec/dataSource", &Value::Null);
        pool
    };
    let policies = ["NewestFirst", "OldestFirst", "Explicit"];
    let valid = policies.map(|policy| {
        let mut pool = draft(&policy.to_lowercase());
        pool["spec"]["scaleDownPolicy"] = json!(policy);
        pool
    });
    let invalid =
        violations().into_iter().zip(policies.iter().cycle()).map(|((name, field, value), policy)| {
            let mut pool = draft(name);
            pool["spec"]["scaleDownPolicy"] = json!(policy);
            set(&mut pool, &field, &value);
            pool
        });
    let mut terminating = draft("terminating");
    terminating["metadata"]["finalizers"] = json!(["e2e.vmpool.dev/hold"]);
    valid.into_iter().chain(invalid).chain([terminating]).collect()
}

/// Enables or disables the webhook for the scenario's namespace, and waits until the change is in
/// effect.
async fn enable_webhook(world: &ScenarioWorld, enabled: bool) -> anyhow::Result<()> {
    let label = if enabled { format!("{UNGUARDED}-") } else { format!("{UNGUARDED}=true") };
    world.kubectl(&["label", "namespace", world.namespace(), &label]).await?;
    let probe = drafts(world).into_iter().nth(3).context("the fourth draft is invalid")?;
    let what = || format!("the webhook is enabled: {enabled}");
    let in_effect = poll::poll_until(what, DEADLINE, async || {
        let answer = of_create(world, &probe).await.map_err(|error| format!("{error:#}"));
        Ok(match answer {
            Ok(answer) if answer.is_some() == enabled => Ok(()),
            Ok(answer) => Err(format!("{answer:?}")),
            Err(error) => Err(error),
        })
    });
    Ok(in_effect.await?)
}

/// Stores the drafts, including invalid ones, and reads them back.
async fn store(world: &ScenarioWorld) -> anyhow::Result<Vec<Value>> {
    enable_webhook(world, false).await?;
    let api = world.api(TestedKind::Pool);
    for draft in drafts(world) {
        api.create(&PostParams::default(), &serde_json::from_value(draft.clone())?)
            .await
            .with_context(|| draft.to_string())?;
    }
    api.delete("terminating", &DeleteParams::background()).await?;
    enable_webhook(world, true).await?;
    let listed = api.list(&ListParams::default()).await?;
    Ok(listed.into_iter().map(serde_json::to_value).collect::<Result<_, _>>()?)
}

/// The users that change pools.
struct Users(Vec<(String, Client)>);

impl Users {
    /// The administrator, the aggregated API, and the controller.
    async fn of(world: &ScenarioWorld) -> anyhow::Result<Self> {
        let groups = ["system:serviceaccounts", "system:authenticated"];
        let mut users = vec![(ADMIN.to_owned(), world.client())];
        for user in [Component::Apiserver.user(), Accounts::controller_user()] {
            let client = world.cluster().impersonating_client(&user, &groups).await?;
            users.push((user, client));
        }
        Ok(Self(users))
    }
}

/// A random change of a pool and the index of its user: mostly of frequently changed fields, sometimes by the
/// project's programs.
fn change(old: &Value, fields: &[(&str, Vec<Value>)], random: &mut Random) -> (usize, Value) {
    let mut new = old.clone();
    let counts = [0, 1, 2, 3, 5].map(|count| json!(count));
    let policies = ["NewestFirst", "OldestFirst", "Explicit"].map(|policy| json!(policy));
    let records = [Value::Null, json!({ annotations::SCALE_DOWN_TARGETS: "[]" }), json!({ "team": "blue" })];
    for _ in 0..=usize::from(random.once_in(3)) {
        match random.pick(&[0, 1, 2, 3, 4]) {
            0 => set(&mut new, "/spec/replicas", random.pick(&counts)),
            1 => set(&mut new, "/spec/scaleDownPolicy", random.pick(&policies)),
            2 => set(&mut new, "/metadata/annotations", random.pick(&records)),
            _ => {
                let (pointer, values) = random.pick(fields);
                set(&mut new, pointer, random.pick(values));
            }
        }
    }
    (if random.once_in(4) { *random.pick(&[1, 2]) } else { 0 }, new)
}

#[test]
fn rules_and_api_server_give_the_same_responses_for_changes_of_pools() {
    define_scenario("rules and API server agree about changes")
        .guarded()
        .controllers(0)
        .ends_unsettled()
        .run(async |world| {
            let count = pools_to_try()? / 4;
            create_objects(world).await?;
            let (schema, cluster) = (of_pools(TestedPlatform::Dvp)?, ClassesAndImages::read(world).await?);
            // Given stored pools, some of which the rules refuse,
            let stored = store(world).await?;
            let violations: Vec<&str> = violations().iter().map(|(name, ..)| *name).collect();
            for pool in &stored {
                let refused = cluster.verdict(PoolRequest { user: ADMIN, old: None, new: pool });
                let name = pool["metadata"]["name"].as_str().unwrap_or_default();
                ensure!(refused.is_some() == violations.contains(&name), "{name}: {refused:?}");
            }
            // when they are changed randomly,
            let users = Users::of(world).await?;
            let (mut fields, mut random) = (fields(), Random(7));
            fields.retain(|(pointer, _)| !pointer.starts_with("/metadata"));
            let changes: Vec<(&Value, usize, Value)> = (0..count)
                .map(|_| {
                    let old = random.pick(&stored);
                    let (user, new) = change(old, &fields, &mut random);
                    (old, user, new)
                })
                .collect();
            let begun = Instant::now();
            let answers = stream::iter(&changes).map(async |change| {
                let (old, user, new) = change;
                (change, of_update(&users.0[*user].1, world, old, new).await)
            });
            let mut answers = std::pin::pin!(answers.buffer_unordered(IN_FLIGHT));
            let (mut comparison, mut kept) =
                (VerdictComparison::default(), std::collections::BTreeSet::new());
            while let Some(((old, user, new), response)) = answers.next().await {
                let (response, user) = (response?, &users.0[*user].0);
                let mut seen = new.clone();
                schema::set_defaults(&schema, &mut seen);
                let verdict = cluster.verdict(PoolRequest { user, old: Some(old), new: &seen });
                if response.is_none() && old["spec"] != seen["spec"] {
                    kept.insert(old["metadata"]["name"].as_str().unwrap_or_default());
                }
                let question = || format!("{user}\n{old}\n{seen}");
                if old["metadata"]["deletionTimestamp"].is_null() {
                    comparison.add(verdict.as_deref(), response.as_deref(), question);
                } else {
                    comparison.add_terminating(verdict.as_deref(), response.as_deref(), question);
                }
            }
            println!("within {:.1} s", begun.elapsed().as_secs_f32());
            // then the responses are the same, and an existing violation does not prevent other changes.
            comparison.finish("changes", count, &["W12", "W12a", "W2", "W4", "W5", "W6", "W7"])?;
            for violation in violations {
                ensure!(
                    kept.contains(violation),
                    "no change of pool {violation} was accepted, only of {kept:?}"
                );
            }
            scales(world, &stored).await?;
            let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
            world.api(TestedKind::Pool).patch("terminating", &PatchParams::default(), &free).await?;
            Ok::<_, anyhow::Error>(())
        });
}

/// Compares the responses to changes of the scale, for each policy.
async fn scales(world: &ScenarioWorld, stored: &[Value]) -> anyhow::Result<()> {
    let (mut comparison, mut count) = (VerdictComparison::default(), 0);
    for pool in stored {
        let name = pool["metadata"]["name"].as_str().unwrap_or_default();
        let policy = pool["spec"]["scaleDownPolicy"].as_str();
        for replicas in [0, 2, 3, 4] {
            let scale = |replicas: &Value| json!({ "kind": "Scale", "spec": { "replicas": replicas } });
            let step = scale::compare_scales(&scale(&pool["spec"]["replicas"]), &scale(&json!(replicas)))?;
            let verdict = match step {
                scale::ScaleChange::Allow => None,
                scale::ScaleChange::AskPolicy(shrink) => {
                    scale::scale_guard_refusal(&TERMS, name, policy == Some("Explicit"), shrink)
                }
            };
            let (verdict, response) =
                (verdict.map(|refusal| refusal.to_string()), of_scale(world, name, replicas).await?);
            comparison.add(verdict.as_deref(), response.as_deref(), || format!("{pool} to {replicas}"));
            count += 1;
        }
    }
    comparison.finish("scales", count, &["S"])
}
