//! Changes of pools, of which some break rules that they were made before.

use std::time::Instant;

use anyhow::{Context, ensure};
use futures::{StreamExt, stream};
use kube::Client;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vmpool_e2e::installation::UNGUARDED;
use vmpool_e2e::object::{Kind, REMOVAL_ANNOTATION};
use vmpool_e2e::poll;
use vmpool_e2e::programs::{Accounts, Component};
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::{DEADLINE, World};
use vmpool_engine::admission::{Request, scale};
use vmpool_platforms::dvp::admission::TERMS;

use super::judges::{ADMIN, Cluster, Tally, furnish, of_create, of_scale, of_update};
use super::pools::{Dice, places, put};
use super::{IN_FLIGHT, pools_to_try, schema};

const MACHINE: &str = "/spec/virtualMachineTemplate/spec";

/// What makes a pool that our rules refuse and the schema does not: a name, a place, and what stands there.
fn flaws() -> Vec<(&'static str, String, Value)> {
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
            json!({ REMOVAL_ANNOTATION: r#"[{"name":"a","uid":"u","reserved":"r"}]"# }),
        ),
    ]
}

/// The pools that are changed: without a flaw under each policy, one for each flaw, and one that is being deleted.
fn drafts(world: &World) -> Vec<Value> {
    let draft = |name: &str| {
        let mut pool = world.pool(name).replicas(3).disk("root").object();
        put(&mut pool, "/spec/virtualDiskTemplates/0/spec/dataSource", &Value::Null);
        pool
    };
    let policies = ["NewestFirst", "OldestFirst", "Explicit"];
    let sound = policies.map(|policy| {
        let mut pool = draft(&policy.to_lowercase());
        pool["spec"]["scaleDownPolicy"] = json!(policy);
        pool
    });
    let flawed = flaws().into_iter().zip(policies.iter().cycle()).map(|((name, place, value), policy)| {
        let mut pool = draft(name);
        pool["spec"]["scaleDownPolicy"] = json!(policy);
        put(&mut pool, &place, &value);
        pool
    });
    let mut leaving = draft("leaving");
    leaving["metadata"]["finalizers"] = json!(["e2e.vmpool.dev/hold"]);
    sound.into_iter().chain(flawed).chain([leaving]).collect()
}

/// Keeps the webhook from judging pools of the scenario's namespace, or lets it judge them again, and waits until that is
/// so.
async fn guard(world: &World, guarded: bool) -> anyhow::Result<()> {
    let label = if guarded { format!("{UNGUARDED}-") } else { format!("{UNGUARDED}=true") };
    world.kubectl(&["label", "namespace", world.namespace(), &label]).await?;
    let probe = drafts(world).into_iter().nth(3).context("a flawed draft")?;
    let what = || format!("pools are judged: {guarded}");
    let judged = poll::until(what, DEADLINE, async || {
        let answer = of_create(world, &probe).await.map_err(|error| format!("{error:#}"));
        Ok(match answer {
            Ok(answer) if answer.is_some() == guarded => Ok(()),
            Ok(answer) => Err(format!("{answer:?}")),
            Err(error) => Err(error),
        })
    });
    Ok(judged.await?)
}

/// Stores the drafts, flaws and all, and reads them back.
async fn store(world: &World) -> anyhow::Result<Vec<Value>> {
    guard(world, false).await?;
    let api = world.api(Kind::Pool);
    for draft in drafts(world) {
        api.create(&PostParams::default(), &serde_json::from_value(draft.clone())?)
            .await
            .with_context(|| draft.to_string())?;
    }
    api.delete("leaving", &DeleteParams::background()).await?;
    guard(world, true).await?;
    let listed = api.list(&ListParams::default()).await?;
    Ok(listed.into_iter().map(serde_json::to_value).collect::<Result<_, _>>()?)
}

/// Who changes pools.
struct Users(Vec<(String, Client)>);

impl Users {
    /// The administrator, whoever removes machines by name, and the controller.
    async fn of(world: &World) -> anyhow::Result<Self> {
        let groups = ["system:serviceaccounts", "system:authenticated"];
        let mut users = vec![(ADMIN.to_owned(), world.client())];
        for user in [Component::Apiserver.user(), Accounts::controller_user()] {
            let client = world.cluster().impersonating_client(&user, &groups).await?;
            users.push((user, client));
        }
        Ok(Self(users))
    }
}

/// A change of a pool by chance: mostly of what is changed most, and sometimes by our own programs.
fn change(old: &Value, places: &[(&str, Vec<Value>)], dice: &mut Dice) -> (usize, Value) {
    let mut new = old.clone();
    let counts = [0, 1, 2, 3, 5].map(|count| json!(count));
    let policies = ["NewestFirst", "OldestFirst", "Explicit"].map(|policy| json!(policy));
    let records = [Value::Null, json!({ REMOVAL_ANNOTATION: "[]" }), json!({ "team": "blue" })];
    for _ in 0..=usize::from(dice.once_in(3)) {
        match dice.pick(&[0, 1, 2, 3, 4]) {
            0 => put(&mut new, "/spec/replicas", dice.pick(&counts)),
            1 => put(&mut new, "/spec/scaleDownPolicy", dice.pick(&policies)),
            2 => put(&mut new, "/metadata/annotations", dice.pick(&records)),
            _ => {
                let (pointer, values) = dice.pick(places);
                put(&mut new, pointer, dice.pick(values));
            }
        }
    }
    (if dice.once_in(4) { *dice.pick(&[1, 2]) } else { 0 }, new)
}

#[test]
fn our_rules_and_the_api_server_agree_about_changes_of_pools() {
    scenario("our rules and the API server agree about changes")
        .guarded()
        .controllers(0)
        .ends_unsettled()
        .run(async |world| {
            let count = pools_to_try()? / 4;
            furnish(world).await?;
            let (schema, cluster) = (schema::of_pools()?, Cluster::read(world).await?);
            // Given pools that would not be made today,
            let stored = store(world).await?;
            let flaws: Vec<&str> = flaws().iter().map(|(name, ..)| *name).collect();
            for pool in &stored {
                let refused = cluster.ours(Request { user: ADMIN, old: None, new: pool });
                let name = pool["metadata"]["name"].as_str().unwrap_or_default();
                ensure!(refused.is_some() == flaws.contains(&name), "{name}: {refused:?}");
            }
            // when they are changed in many ways,
            let users = Users::of(world).await?;
            let (mut places, mut dice) = (places(), Dice(7));
            places.retain(|(pointer, _)| !pointer.starts_with("/metadata"));
            let changes: Vec<(&Value, usize, Value)> = (0..count)
                .map(|_| {
                    let old = dice.pick(&stored);
                    let (user, new) = change(old, &places, &mut dice);
                    (old, user, new)
                })
                .collect();
            let begun = Instant::now();
            let answers = stream::iter(&changes).map(async |change| {
                let (old, user, new) = change;
                (change, of_update(&users.0[*user].1, world, old, new).await)
            });
            let mut answers = std::pin::pin!(answers.buffer_unordered(IN_FLIGHT));
            let (mut tally, mut kept) = (Tally::default(), std::collections::BTreeSet::new());
            while let Some(((old, user, new), theirs)) = answers.next().await {
                let (theirs, user) = (theirs?, &users.0[*user].0);
                let mut seen = new.clone();
                schema::put_defaults(&schema, &mut seen);
                let ours = cluster.ours(Request { user, old: Some(old), new: &seen });
                if theirs.is_none() && old["spec"] != seen["spec"] {
                    kept.insert(old["metadata"]["name"].as_str().unwrap_or_default());
                }
                let question = || format!("{user}\n{old}\n{seen}");
                if old["metadata"]["deletionTimestamp"].is_null() {
                    tally.add(ours.as_deref(), theirs.as_deref(), question);
                } else {
                    tally.add_about_leaving(ours.as_deref(), theirs.as_deref(), question);
                }
            }
            println!("within {:.1} s", begun.elapsed().as_secs_f32());
            // then the two agree; what was wrong before and stays is nobody's fault.
            tally.settle("changes", count, &["W12", "W12a", "W2", "W4", "W5", "W6", "W7"])?;
            for flaw in flaws {
                ensure!(kept.contains(flaw), "no pool with the flaw {flaw} could be changed, only {kept:?}");
            }
            scales(world, &stored).await?;
            let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
            world.api(Kind::Pool).patch("leaving", &PatchParams::default(), &free).await?;
            Ok::<_, anyhow::Error>(())
        });
}

/// The same about the scale, under each policy.
async fn scales(world: &World, stored: &[Value]) -> anyhow::Result<()> {
    let (mut tally, mut count) = (Tally::default(), 0);
    for pool in stored {
        let name = pool["metadata"]["name"].as_str().unwrap_or_default();
        let policy = pool["spec"]["scaleDownPolicy"].as_str();
        for replicas in [0, 2, 3, 4] {
            let scale = |replicas: &Value| json!({ "kind": "Scale", "spec": { "replicas": replicas } });
            let step = scale::compare(&scale(&pool["spec"]["replicas"]), &scale(&json!(replicas)))?;
            let ours = match step {
                scale::Step::Allow => None,
                scale::Step::AskPolicy(shrink) => {
                    scale::judge(&TERMS, name, policy == Some("Explicit"), shrink)
                }
            };
            let (ours, theirs) =
                (ours.map(|refusal| refusal.to_string()), of_scale(world, name, replicas).await?);
            tally.add(ours.as_deref(), theirs.as_deref(), || format!("{pool} to {replicas}"));
            count += 1;
        }
    }
    tally.settle("scales", count, &["S"])
}
