//! Random pools: a valid pool with a few changes. The schema refuses some of them, the rules refuse others,
//! and the rest are valid.

use serde_json::{Value, json};
use vmpool_api::{annotations, labels};
use vmpool_e2e::world::ScenarioWorld;

/// A source of random numbers that is the same in every run (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let count = u64::try_from(of.len()).unwrap_or(u64::MAX);
        &of[usize::try_from(self.next() % count).unwrap_or_default()]
    }

    /// True with the probability 1/`n`.
    pub(super) fn once_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }
}

/// JSON pointers of fields, and values for them. `null` removes the field.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn fields() -> Vec<(&'static str, Vec<Value>)> {
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
        // The table is used until the test ends.
        Box::leak(format!("{template}/spec/{field}").into_boxed_str())
    };
    vec![
        (
            "/metadata/name",
            vec![json!("ok"), json!("a".repeat(57)), json!("a".repeat(58)), json!("with.dot")],
        ),
        (
            "/metadata/annotations",
            vec![json!({ "team": "blue" }), json!({ annotations::SCALE_DOWN_TARGETS: "[]" })],
        ),
        ("/spec/scaleDownPolicy", vec![json!("NewestFirst"), json!("OldestFirst"), json!("Explicit")]),
        ("/spec/replicas", vec![json!(0), json!(1), json!(1000), Value::Null]),
        (
            "/spec/virtualMachineTemplate/metadata/labels",
            vec![
                json!({ "app": "web" }),
                json!({ "kubevirt.io/size": "big" }),
                json!({ labels::POOL_UID: "x" }),
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
            "/spec/rollout",
            vec![
                json!({}),
                json!({ "maxUnavailable": 3 }),
                json!({ "maxUnavailable": 0 }),
                json!({ "maxUnavailable": "3" }),
                json!({ "maxUnavailable": "10%", "paused": true }),
                json!({ "maxUnavailable": "101%" }),
                json!({ "paused": "yes" }),
                json!({ "revision": "0123456789abcdef" }),
                json!({ "revision": "The_Last" }),
            ],
        ),
        ("/spec/revisionHistoryLimit", vec![json!(0), json!(-1), json!("3")]),
        (
            "/spec/maxProvisioning",
            vec![
                json!(1),
                json!(0),
                json!("10%"),
                json!("100%"),
                json!("101%"),
                json!("3"),
                json!(""),
                json!(true),
            ],
        ),
        (
            "/spec/standby",
            vec![
                json!({ "replicas": 2, "warmUp": "None", "warmUpDelay": "1h" }),
                json!({ "replicas": -1 }),
                json!({ "replicas": 1, "warmUp": "Never" }),
                json!({ "replicas": 1, "warmUpDelay": "61m" }),
                json!({ "replicas": 1, "warmUpDelay": "soon" }),
                json!({ "warmUp": "None" }),
                json!(2),
            ],
        ),
        ("/spec/imageRefresh", vec![json!("Off"), json!("Report"), json!("report"), json!(false)]),
        ("/spec/progressDeadlineSeconds", vec![json!(1), json!(0), json!("600"), json!(2_147_483_648_u64)]),
        (
            "/spec/recycle",
            vec![
                json!({ "maxLifetime": "10m", "maxClaims": 1, "jitter": 0 }),
                json!({ "maxLifetime": "9m59s" }),
                json!({ "maxLifetime": "-1h" }),
                json!({ "maxLifetime": "soon" }),
                json!({ "maxLifetime": 3600 }),
                json!({ "maxClaims": 0 }),
                json!({ "maxClaims": "1" }),
                json!({ "jitter": 100 }),
                json!({ "jitter": 101 }),
                json!({ "jitter": -1 }),
                json!({}),
                json!("168h"),
            ],
        ),
        (
            "/spec/maxProtection",
            vec![
                json!("90m"),
                json!("720h"),
                json!("721h"),
                json!("59s"),
                json!("soon"),
                json!(3),
                json!(""),
            ],
        ),
        (
            "/spec/virtualDiskTemplates/1",
            vec![json!({ "name": "other", "spec": { "persistentVolumeClaim": { "size": "1Gi" } } })],
        ),
    ]
}

/// Sets a field, and creates missing parents.
pub(super) fn set(object: &mut Value, pointer: &str, value: &Value) {
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

/// A valid pool with a few random changes.
pub(super) fn pool(world: &ScenarioWorld, fields: &[(&str, Vec<Value>)], random: &mut Random) -> Value {
    let mut object = world.pool("web").replicas(1).disk("root").object();
    set(&mut object, "/spec/virtualDiskTemplates/0/spec/dataSource", &Value::Null);
    let changes = 1 + usize::from(!random.once_in(3)) + usize::from(random.once_in(3));
    for _ in 0..changes {
        let (pointer, values) = random.pick(fields);
        set(&mut object, pointer, random.pick(values));
    }
    object
}
