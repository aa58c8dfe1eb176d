//! Admission through our rules in this process, and through a real API server with schema, webhook and all, agree.

mod pools;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use anyhow::{Context, ensure};
use futures::{StreamExt, stream};
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use vmpool_e2e::cluster::apply;
use vmpool_e2e::error::chain;
use vmpool_e2e::object::{API_VERSION, Kind};
use vmpool_e2e::programs::{Accounts, Component};
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::World;
use vmpool_engine::admission::{
    self, Class, ClassName, Facts, Found, Image, ImageId, ImageKind, Outcome, Request, Settings, Stage,
};

use pools::{Dice, places, pool};

/// How many pools are tried, unless `VMPOOL_AGREEMENT_POOLS` says otherwise.
const POOLS: usize = 2_000;

/// Requests at a time.
const IN_FLIGHT: usize = 32;

/// The name that the administrator of the cluster has.
const USER: &str = "admin";

/// What the cluster has, read as it is stored.
async fn facts(world: &World) -> anyhow::Result<(BTreeMap<String, Class>, BTreeMap<String, Image>)> {
    let object = |kind: &str, name: &str, spec: Value| json!({ "apiVersion": API_VERSION, "kind": kind, "metadata": { "name": name }, "spec": spec });
    let http = json!({ "dataSource": { "type": "HTTP", "http": { "url": "https://images.example/a" } } });
    let sizing = json!({ "sizingPolicies": [
        { "cores": { "min": 1, "max": 4 }, "memory": { "min": "1Gi", "max": "4Gi", "step": "1Gi" },
          "coreFractions": ["5%", "25%", "100%"] },
        { "cores": { "min": 16, "max": 32, "step": 16 } },
    ] });
    let objects = [
        object("VirtualMachineClass", "sized", sizing),
        object("ClusterVirtualImage", "ready", http.clone()),
        object("ClusterVirtualImage", "cdrom", http),
    ];
    apply(&world.client(), &objects, None).await?;
    let resource = |kind: &str, plural: &str| kube::api::ApiResource {
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        ..Kind::Pool.resource()
    };
    let images = kube::Api::<DynamicObject>::all_with(
        world.client(),
        &resource("ClusterVirtualImage", "clustervirtualimages"),
    );
    for (name, cdrom) in [("ready", false), ("cdrom", true)] {
        let status =
            json!({ "status": { "phase": "Ready", "cdrom": cdrom, "size": { "unpackedBytes": "1048576" } } });
        let params = kube::api::PatchParams::default();
        images.patch_status(name, &params, &kube::api::Patch::Merge(&status)).await?;
    }
    let classes = kube::Api::<DynamicObject>::all_with(
        world.client(),
        &resource("VirtualMachineClass", "virtualmachineclasses"),
    );
    let all = classes.list(&kube::api::ListParams::default()).await?;
    let classes = all.into_iter().map(|class| {
        (
            class.metadata.name.clone().unwrap_or_default(),
            Class::read(&serde_json::to_value(class).unwrap_or_default()),
        )
    });
    let all = images.list(&kube::api::ListParams::default()).await?;
    let images = all.into_iter().map(|image| {
        let status = &image.data["status"];
        let unpacked =
            status.pointer("/size/unpackedBytes").and_then(Value::as_str).and_then(|text| text.parse().ok());
        let read = Image { ready: status["phase"] == "Ready", cdrom: status["cdrom"] == true, unpacked };
        (image.metadata.name.clone().unwrap_or_default(), read)
    });
    Ok((classes.collect(), images.collect()))
}

/// `None` if our rules accept the pool, else what they say.
fn ours(pool: &Value, classes: &BTreeMap<String, Class>, images: &BTreeMap<String, Image>) -> Option<String> {
    let settings = Settings {
        removal_handler: Some(Component::Apiserver.user()),
        controller: Some(Accounts::controller_user()),
        ..Settings::default()
    };
    let verdict = match admission::begin(&settings, Request { user: USER, old: None, new: pool }) {
        Stage::Done(verdict) => verdict,
        Stage::Look(look) => {
            let needs = look.needs().clone();
            let mut facts = Facts::default();
            if let Some(ClassName::Named(name)) = &needs.class {
                facts.class =
                    Some(classes.get(name).map_or(Found::Absent, |class| Found::There(class.clone())));
            }
            for id in needs.images {
                let ImageId { kind, name } = &id;
                let found = images.get(name).filter(|_| *kind == ImageKind::Cluster);
                let found = found.map_or(Found::Absent, |image| Found::There(image.clone()));
                facts.images.insert(id, found);
            }
            look.finish(&facts)
        }
    };
    match verdict.outcome {
        Outcome::Allowed => None,
        Outcome::Refused(refusal) => Some(refusal.to_string()),
        Outcome::Undecided(reason) => Some(format!("undecided: {reason}")),
    }
}

/// What the API server says: nothing, or how it refuses.
async fn theirs(world: &World, pool: &Value) -> anyhow::Result<Option<String>> {
    let object: DynamicObject = serde_json::from_value(pool.clone())?;
    let params = PostParams { dry_run: true, ..PostParams::default() };
    match world.api(Kind::Pool).create(&params, &object).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => Ok(Some(status.message)),
        Err(error) => anyhow::bail!("{}: {pool}", chain(&error)),
    }
}

#[test]
fn our_rules_and_the_api_server_agree_about_pools() {
    scenario("our rules and the API server agree about pools").guarded().controllers(0).run(async |world| {
        let count = match std::env::var("VMPOOL_AGREEMENT_POOLS") {
            Ok(text) => text.parse().context("VMPOOL_AGREEMENT_POOLS")?,
            Err(_) => POOLS,
        };
        let (classes, images) = facts(world).await?;
        let (places, mut dice) = (places(), Dice(5));
        let pools: Vec<Value> = (0..count).map(|_| pool(world, &places, &mut dice)).collect();
        let begun = Instant::now();
        let answers = stream::iter(&pools).map(|pool| async move { (pool, theirs(world, pool).await) });
        let mut answers = std::pin::pin!(answers.buffer_unordered(IN_FLIGHT));
        let (mut accepted, mut by_schema, mut rules, mut disagree) = (0, 0, BTreeSet::new(), Vec::new());
        while let Some((pool, theirs)) = answers.next().await {
            let ours = ours(pool, &classes, &images);
            match (&ours, theirs?) {
                (None, None) => accepted += 1,
                // The schema comes first, and says some of it in words of its own.
                (Some(_), Some(theirs)) if !theirs.contains("denied the request") => by_schema += 1,
                (Some(ours), Some(theirs)) if theirs.contains(ours.as_str()) => {
                    rules.insert(ours.rsplit_once("(rule ").map_or("", |(_, rule)| rule).trim_end_matches(')').to_owned());
                }
                (ours, theirs) => disagree.push(format!("ours: {ours:?}\ntheirs: {theirs:?}\n{pool}")),
            }
        }
        let seconds = begun.elapsed().as_secs_f32();
        println!(
            "{count} pools in {seconds:.1} s: {accepted} accepted, {by_schema} refused by the schema, the rest by {} rules",
            rules.len()
        );
        ensure!(disagree.is_empty(), "{} of {count} disagree:\n{}", disagree.len(), disagree[..disagree.len().min(8)].join("\n\n"));
        ensure!(accepted * 10 > count, "only {accepted} of {count} were accepted");
        // What the schema cannot say is what the webhook is for.
        for rule in ["W12a", "W2", "W4", "W5", "W6", "W7"] {
            ensure!(rules.contains(rule), "{rule} refused nothing, only {rules:?} did");
        }
        Ok::<_, anyhow::Error>(())
    });
}
