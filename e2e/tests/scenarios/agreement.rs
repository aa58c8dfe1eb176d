//! Admission through our rules in this process, and through a real API server with schema, webhook and all, agree.

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

/// How many pools are tried, unless `VMPOOL_AGREEMENT_POOLS` says otherwise.
const POOLS: usize = 2_000;

/// Requests at a time.
const IN_FLIGHT: usize = 32;

/// The name that the administrator of the cluster has.
const USER: &str = "admin";

/// A source of chance that is the same in every run (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let count = u64::try_from(of.len()).unwrap_or(u64::MAX);
        &of[usize::try_from(self.next() % count).unwrap_or_default()]
    }

    /// True in one of `n` throws.
    fn once_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }
}

/// Places in the object, and what may stand there. `null` takes away what is there.
#[expect(clippy::too_many_lines, reason = "a table")]
fn places() -> Vec<(&'static str, Vec<Value>)> {
    let disk = |name: &str| json!({ "kind": "VirtualDisk", "name": name });
    let image = |kind: &str, name: &str| json!({ "kind": kind, "name": name });
    let image_source =
        |kind: &str, name: &str| json!({ "type": "ObjectRef", "objectRef": { "kind": kind, "name": name } });
    let node_affinity = |operator: &str, values: Value| {
        json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "zone", "operator": operator, "values": values }] } ] } } })
    };
    let spread = |key: &str| {
        json!([{ "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": { "matchLabels": { "app": "web" } } }])
    };
    let template = "/spec/virtualMachineTemplate";
    let machine = |field: &str| -> &'static str {
        // The table lives as long as the test.
        Box::leak(format!("{template}/spec/{field}").into_boxed_str())
    };
    vec![
        (
            "/metadata/name",
            vec![json!("ok"), json!("a".repeat(57)), json!("a".repeat(58)), json!("with.dot")],
        ),
        (
            "/metadata/annotations",
            vec![
                json!({ "team": "blue" }),
                json!({ "vmpool.virtualization.deckhouse.io/scale-down-targets": "[]" }),
            ],
        ),
        ("/spec/scaleDownPolicy", vec![json!("NewestFirst"), json!("OldestFirst"), json!("Explicit")]),
        ("/spec/replicas", vec![json!(0), json!(1), json!(1000), Value::Null]),
        (
            "/spec/virtualMachineTemplate/metadata/labels",
            vec![
                json!({ "app": "web" }),
                json!({ "kubevirt.io/size": "big" }),
                json!({ "vmpool.virtualization.deckhouse.io/pool-uid": "x" }),
            ],
        ),
        (
            "/spec/virtualMachineTemplate/metadata/annotations",
            vec![
                json!({ "note": "words" }),
                json!({ "sub.kubevirt.io/x": "y" }),
                json!({ "vmpool.virtualization.deckhouse.io/mine": "x" }),
            ],
        ),
        (
            machine("cpu/cores"),
            [1, 2, 3, 16, 17, 18, 31, 33, 34, 36, 64, 65, 66, 72, 248, 249, 256]
                .iter()
                .map(|cores| json!(cores))
                .collect(),
        ),
        (
            machine("cpu/coreFraction"),
            ["1%", "5%", "25%", "99%", "100%", "Auto"]
                .iter()
                .map(|fraction| json!(fraction))
                .chain([Value::Null])
                .collect(),
        ),
        (
            machine("memory/size"),
            ["512Mi", "1Gi", "3Gi", "100Gi", "1", "0", "0Mi"].iter().map(|size| json!(size)).collect(),
        ),
        (
            machine("virtualMachineClassName"),
            ["generic", "sized", "missing"].iter().map(|class| json!(class)).collect(),
        ),
        (
            machine("blockDeviceRefs"),
            vec![
                json!([disk("root")]),
                json!([disk("root"), disk("root")]),
                json!([disk("root"), disk("other")]),
                json!([image("ClusterVirtualImage", "alpine"), disk("root")]),
                json!([image("ClusterVirtualImage", "missing"), disk("root")]),
                json!([image("ClusterVirtualImage", "ready"), disk("root")]),
                json!([image("ClusterVirtualImage", "cdrom"), disk("root")]),
                json!([disk("root"), image("ClusterVirtualImage", "ready")]),
                json!([image("VirtualImage", "missing"), disk("root")]),
                json!([{ "kind": "VirtualDisk", "name": "root", "bootOrder": 1 },
                   { "kind": "ClusterVirtualImage", "name": "ready", "bootOrder": 1 }]),
                json!([{ "kind": "VirtualDisk", "name": "root", "bootOrder": 2 },
                   { "kind": "ClusterVirtualImage", "name": "ready", "bootOrder": 1 }]),
            ],
        ),
        (
            machine("networks"),
            vec![
                json!([{ "type": "Main" }]),
                json!([{ "type": "Main", "id": 2 }]),
                json!([{ "type": "Main", "name": "x" }]),
                json!([{ "type": "ClusterNetwork", "name": "lan" }, { "type": "Main" }]),
                json!([{ "type": "Main" }, { "type": "ClusterNetwork", "name": "lan" }]),
                json!([{ "type": "Main" }, { "type": "ClusterNetwork", "name": "lan" }, { "type": "ClusterNetwork", "name": "lan" }]),
                json!([{ "type": "Main" }, { "type": "Network" }]),
                json!([{ "type": "Main", "virtualMachineMACAddressName": "mac" }]),
                json!([]),
            ],
        ),
        (machine("virtualMachineIPAddressName"), vec![json!("address")]),
        (machine("usbDevices"), vec![json!([{ "name": "stick" }]), json!([])]),
        (machine("osType"), vec![json!("Generic"), json!("Windows"), json!("Legacy")]),
        (machine("bootloader"), vec![json!("BIOS"), json!("EFI")]),
        (
            machine("affinity"),
            vec![
                node_affinity("In", json!(["a"])),
                node_affinity("In", json!([])),
                node_affinity("Exists", json!(["a"])),
                node_affinity("Near", json!(["a"])),
            ],
        ),
        (machine("topologySpreadConstraints"), vec![spread("zone"), spread("bad key"), spread("")]),
        (
            machine("provisioning"),
            vec![
                json!({ "type": "UserData", "userData": "#cloud-config\nusers: []\n" }),
                json!({ "type": "UserData", "userData": "hello" }),
                json!({ "type": "UserData", "userData": "x".repeat(2049) }),
                json!({ "type": "UserData" }),
                json!({ "type": "UserDataRef", "userDataRef": { "kind": "Secret", "name": "data" } }),
                json!({ "type": "UserDataRef", "userData": "#cloud-config\n" }),
            ],
        ),
        (
            "/spec/virtualDiskTemplates/0/spec/persistentVolumeClaim/size",
            vec![json!("64Mi"), json!("0"), json!("1Gi"), Value::Null],
        ),
        (
            "/spec/virtualDiskTemplates/0/spec/dataSource",
            vec![
                Value::Null,
                json!({ "type": "Upload" }),
                image_source("ClusterVirtualImage", "alpine"),
                image_source("ClusterVirtualImage", "cdrom"),
                image_source("ClusterVirtualImage", "missing"),
                image_source("VirtualDiskSnapshot", "missing"),
                json!({ "type": "HTTP", "http": { "url": "https://images.example/disk.qcow2" } }),
                json!({ "type": "HTTP" }),
            ],
        ),
        (
            "/spec/virtualDiskTemplates/0/reclaim",
            vec![
                json!({ "onScaleDown": "Delete" }),
                json!({ "onScaleDown": "Retain" }),
                json!({ "onScaleDown": "Delete", "keep": 2 }),
                json!({ "onScaleDown": "Retain", "keep": 2 }),
                json!({ "onScaleDown": "Retain", "keep": 2, "ttl": "1h" }),
                json!({ "onScaleDown": "Retain", "ttl": "1d" }),
                json!({ "onScaleDown": "Retain", "ttl": "-1h" }),
            ],
        ),
        (
            "/spec/virtualDiskTemplates/1",
            vec![json!({ "name": "other", "spec": { "persistentVolumeClaim": { "size": "1Gi" } } })],
        ),
    ]
}

/// Puts a value to a place, and makes way for it.
fn put(object: &mut Value, pointer: &str, value: &Value) {
    let (parent, last) = pointer.rsplit_once('/').unwrap_or(("", pointer));
    let mut at = object;
    for part in parent.split('/').skip(1) {
        at = match part.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[part],
        };
    }
    match at {
        Value::Array(items) => items.push(value.clone()),
        at if value.is_null() => {
            at.as_object_mut().map(|fields| fields.remove(last));
        }
        at => at[last] = value.clone(),
    }
}

/// A valid pool with a few changes by chance.
fn pool(world: &World, places: &[(&str, Vec<Value>)], dice: &mut Dice) -> Value {
    let mut object = world.pool("web").replicas(1).disk("root").object();
    put(&mut object, "/spec/virtualDiskTemplates/0/spec/dataSource", &Value::Null);
    let changes = 1 + usize::from(!dice.once_in(3)) + usize::from(dice.once_in(3));
    for _ in 0..changes {
        let (pointer, values) = dice.pick(places);
        put(&mut object, pointer, dice.pick(values));
    }
    object
}

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
