//! A law: the expansion of a machine is what its instance is, for random instance types, preferences and
//! machines.
//!
//! The expansion is that of the aggregated API, and the instance is that of the simulator. They share no
//! code.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Map, Value, json};
use vmpool_api::instancetype::API_VERSION as TYPES;
use vmpool_api::kubevirt::API_VERSION;
use vmpool_installation::programs::ControllerOptions;

use crate::world::{KubeVirtWorld, run_with_options, text};
use crate::{TestNamespace, guarded, run_to_end_within};

const NAMESPACE: &str = "law";
const MACHINES: u64 = 200;
/// The seed of a run, which another one can repeat.
const SEED: u64 = 19;
/// A user in the value `instancetype.copyDeleters` of the chart.
const DELETER: &str = "archivist";
const LIMIT: Duration = Duration::from_mins(5);

/// A sequence of numbers that looks random. It is the same for the same seed.
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn one_of(&mut self, number: u64) -> bool {
        self.next().is_multiple_of(number)
    }

    /// A document with about a third of these fields.
    fn document(&mut self, fields: &[(&str, Value)]) -> Value {
        let mut document = json!({});
        for (path, value) in fields {
            if self.one_of(3) {
                put(&mut document, path, value.clone());
            }
        }
        document
    }
}

fn put(document: &mut Value, path: &str, value: Value) {
    *path.split('.').fold(document, |value, name| &mut value[name]) = value;
}

fn instancetype(choices: &mut Choices) -> Value {
    let sizes = [("1", "2048Mi"), ("2", "1.5Gi"), ("12", "3G"), ("24", "1Gi")];
    let index = usize::try_from(choices.next() % 4).unwrap_or_default();
    let mut spec = choices.document(&[
        ("cpu.model", json!("host-model")),
        ("cpu.dedicatedCPUPlacement", json!(true)),
        ("cpu.isolateEmulatorThread", json!(false)),
        ("cpu.numa", json!({ "guestMappingPassthrough": {} })),
        ("cpu.realtime", json!({ "mask": "0-1" })),
        ("cpu.maxSockets", json!(32)),
        ("memory.maxGuest", json!("64Gi")),
        ("gpus", json!([{ "name": "g", "deviceName": "vendor.com/gpu" }])),
        ("hostDevices", json!([{ "name": "h", "deviceName": "vendor.com/device" }])),
        ("ioThreadsPolicy", json!("auto")),
        ("ioThreads.supplementalPoolThreadCount", json!(2)),
        ("launchSecurity", json!({ "sev": {} })),
        ("nodeSelector", json!({ "zone": "a" })),
        ("schedulerName", json!("other")),
        ("annotations", json!({ "team": "a", "size": "small" })),
    ]);
    let (vcpus, memory) = sizes[index];
    put(&mut spec, "cpu.guest", json!(vcpus.parse::<u64>().unwrap_or(1)));
    put(&mut spec, "memory.guest", json!(memory));
    match choices.next() % 3 {
        0 => put(&mut spec, "memory.overcommitPercent", json!(15)),
        1 => put(&mut spec, "memory.hugepages", json!({ "pageSize": "2Mi" })),
        _ => {}
    }
    spec
}

fn preference(choices: &mut Choices, vcpus: u64) -> Value {
    let mut spec = choices.document(&[
        ("annotations", json!({ "team": "b", "os": "linux" })),
        ("clock.preferredClockOffset", json!({ "timezone": "CET" })),
        ("clock.preferredTimer", json!({ "hpet": { "present": false } })),
        ("cpu.preferredCPUFeatures", json!([{ "name": "vmx", "policy": "require" }, { "name": "avx" }])),
        ("devices.preferredAutoattachInputDevice", json!(true)),
        ("devices.preferredAutoattachPodInterface", json!(false)),
        ("devices.preferredAutoattachGraphicsDevice", json!(false)),
        ("devices.preferredAutoattachMemBalloon", json!(true)),
        ("devices.preferredAutoattachSerialConsole", json!(false)),
        ("devices.preferredDisableHotplug", json!(true)),
        ("devices.preferredSoundModel", json!("ich9")),
        ("devices.preferredUseVirtioTransitional", json!(true)),
        ("devices.preferredInputBus", json!("virtio")),
        ("devices.preferredInputType", json!("keyboard")),
        ("devices.preferredDiskBus", json!("virtio")),
        ("devices.preferredDiskBlockSize", json!({ "matchVolume": {} })),
        ("devices.preferredDiskCache", json!("writeback")),
        ("devices.preferredDiskIO", json!("native")),
        ("devices.preferredDiskDedicatedIoThread", json!(true)),
        ("devices.preferredCdromBus", json!("sata")),
        ("devices.preferredLunBus", json!("scsi")),
        ("devices.preferredInterfaceModel", json!("virtio")),
        ("devices.preferredInterfaceMasquerade", json!({})),
        ("devices.preferredRng", json!({})),
        ("devices.preferredTPM", json!({ "persistent": true })),
        ("devices.preferredBlockMultiQueue", json!(true)),
        ("devices.preferredNetworkInterfaceMultiQueue", json!(true)),
        ("devices.preferredPanicDeviceModel", json!("isa")),
        ("devices.preferredVideoType", json!("virtio")),
        ("features.preferredAcpi", json!({ "enabled": false })),
        ("features.preferredApic", json!({ "enabled": false })),
        ("features.preferredKvm", json!({ "hidden": true })),
        ("features.preferredPvspinlock", json!({ "enabled": true })),
        ("features.preferredSmm", json!({ "enabled": true })),
        ("features.preferredHyperv", json!({ "relaxed": {}, "vapic": { "enabled": true } })),
        ("firmware.preferredUseBios", json!(true)),
        ("firmware.preferredUseBiosSerial", json!(true)),
        ("firmware.preferredEfi", json!({ "persistent": true })),
        ("firmware.preferredUseEfi", json!(true)),
        ("firmware.preferredUseSecureBoot", json!(false)),
        ("machine.preferredMachineType", json!("pc")),
        ("preferredSubdomain", json!("preferred")),
        ("preferredTerminationGracePeriodSeconds", json!(60)),
        ("preferredArchitecture", json!("amd64")),
        ("preferredLaunchSecurity", json!({ "tdx": {} })),
    ]);
    let topologies = [
        json!({}),
        json!({ "preferredCPUTopology": "cores" }),
        json!({ "preferredCPUTopology": "preferThreads" }),
        json!({ "preferredCPUTopology": "any" }),
        json!({ "preferredCPUTopology": "spread" }),
        json!({ "preferredCPUTopology": "spread", "spreadOptions": { "ratio": 3 } }),
        json!({ "preferredCPUTopology": "spread", "spreadOptions": { "across": "CoresThreads" } }),
        json!({ "preferredCPUTopology": "spread", "spreadOptions": { "across": "SocketsCoresThreads", "ratio": 3 } }),
    ];
    // Only some numbers of vCPUs can be spread.
    let number = if vcpus.is_multiple_of(6) { 8 } else { 4 };
    let index = usize::try_from(choices.next() % number).unwrap_or_default();
    for (field, value) in topologies[index].as_object().into_iter().flatten() {
        put(&mut spec, &format!("cpu.{field}"), value.clone());
    }
    spec
}

/// The template of a machine, which sets no field that an instance type sets.
fn template(choices: &mut Choices) -> Value {
    let disks = json!([
        { "name": "root" },
        { "name": "data", "disk": { "bus": "sata" }, "cache": "none" },
        { "name": "cd", "cdrom": {} },
        { "name": "lun", "lun": {} },
        { "name": "fast", "disk": { "bus": "virtio" }, "dedicatedIOThread": false },
    ]);
    let interfaces = json!([{ "name": "pod" }, { "name": "b", "bridge": {}, "model": "e1000" }]);
    let image = |name: &str, image: &str| json!({ "name": name, "containerDisk": { "image": image } });
    let mut spec = choices.document(&[
        ("subdomain", json!("mine")),
        ("terminationGracePeriodSeconds", json!(1)),
        ("evictionStrategy", json!("None")),
        ("domain.cpu.features", json!([{ "name": "vmx", "policy": "disable" }])),
        ("domain.cpu.dedicatedCpuPlacement", json!(false)),
        ("domain.machine.type", json!("q35")),
        ("domain.clock.utc", json!({ "offsetSeconds": 3 })),
        ("domain.clock.timer", json!({ "rtc": { "present": true } })),
        ("domain.features.acpi", json!({ "enabled": true })),
        ("domain.features.apic", json!({ "enabled": true })),
        ("domain.features.hyperv", json!({ "relaxed": { "enabled": false } })),
        ("domain.firmware.bootloader.efi", json!({ "secureBoot": true })),
        ("domain.devices.inputs", json!([{ "name": "a", "bus": "" }])),
        ("domain.devices.panicDevices", json!([{}])),
        ("domain.devices.sound", json!({ "name": "s" })),
        ("domain.devices.video", json!({})),
        ("domain.devices.rng", json!({})),
        ("domain.devices.tpm", json!({ "enabled": false })),
        ("domain.devices.disableHotplug", json!(false)),
        ("domain.devices.autoattachInputDevice", json!(true)),
        ("domain.devices.autoattachPodInterface", json!(false)),
        ("domain.devices.blockMultiQueue", json!(false)),
    ]);
    if choices.one_of(2) {
        put(&mut spec, "domain.devices.disks", disks);
    }
    if choices.one_of(2) {
        put(&mut spec, "domain.devices.interfaces", interfaces);
        put(
            &mut spec,
            "networks",
            json!([{ "name": "pod", "pod": {} }, { "name": "b", "multus": { "networkName": "b" } }]),
        );
    }
    if choices.one_of(2) {
        let moving = if choices.one_of(2) { "registry/a" } else { "registry/a:v1" };
        put(&mut spec, "volumes", json!([image("root", moving), image("more", "registry:5000/b:latest")]));
    }
    if spec.pointer("/domain/devices").is_none() {
        put(&mut spec, "domain.devices", json!({}));
    }
    let annotations = choices.document(&[("other", json!("mine"))]);
    json!({ "metadata": { "annotations": annotations }, "spec": spec })
}

/// The path of the objects of one of the four kinds.
fn collection(kind: &str) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    if kind.contains("Cluster") {
        format!("/apis/{TYPES}/{plural}")
    } else {
        format!("/apis/{TYPES}/namespaces/{NAMESPACE}/{plural}")
    }
}

/// Creates an instance type and a preference, each of the namespace or of the cluster, and a machine that
/// names them.
async fn create(world: &KubeVirtWorld<'_>, number: u64) -> Result<Vec<String>> {
    let mut choices = Choices(SEED.wrapping_add(number << 32));
    let name = format!("m{number}");
    let (size, template) = (instancetype(&mut choices), template(&mut choices));
    let preferred = preference(&mut choices, size["cpu"]["guest"].as_u64().unwrap_or(1));
    let mut spec = json!({ "runStrategy": "Always", "template": template });
    let mut created = Vec::new();
    let has = match number % 5 {
        0 => (false, true),
        1 => (true, false),
        _ => (true, true),
    };
    for (field, is_named, suffix, content) in
        [("instancetype", has.0, "Instancetype", size), ("preference", has.1, "Preference", preferred)]
    {
        if !is_named {
            continue;
        }
        let scope = if choices.one_of(2) { "Cluster" } else { "" };
        let kind = format!("VirtualMachine{scope}{suffix}");
        let object =
            json!({ "apiVersion": TYPES, "kind": kind, "metadata": { "name": name }, "spec": content });
        let path = collection(&kind);
        world.place.ask(Method::POST, &path, &object).await.with_context(|| object.to_string())?;
        created.push(format!("{path}/{name}"));
        spec[field] = json!({ "name": name, "kind": kind });
    }
    let machine = json!({ "apiVersion": API_VERSION, "kind": "VirtualMachine", "metadata": { "name": name }, "spec": spec });
    let path = world.place.path(API_VERSION, "VirtualMachine")?;
    world.place.ask(Method::POST, &path, &machine).await.with_context(|| machine.to_string())?;
    Ok(created)
}

/// The number of bytes of a quantity without fractions.
fn bytes(quantity: &str) -> Value {
    let digits = quantity.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor: u64 = match &quantity[digits.len()..] {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return json!(quantity),
    };
    digits.parse::<u64>().map_or(json!(quantity), |number| json!(number * factor))
}

/// What an object runs, and its annotations without the names of instance type and preference.
fn what_runs(spec: &Value, annotations: &Value) -> (Value, Map<String, Value>) {
    let mut annotations = annotations.as_object().cloned().unwrap_or_default();
    let is_name = |key: &str| key.ends_with("instancetype-name") || key.ends_with("preference-name");
    annotations.retain(|key, _| !is_name(key));
    let mut spec = spec.clone();
    // This one is computed, so its spelling is not the user's.
    if let Some(request) = spec.pointer_mut("/domain/resources/requests/memory") {
        *request = request.as_str().map_or(Value::Null, bytes);
    }
    (spec, annotations)
}

async fn law(world: &KubeVirtWorld<'_>) -> Result<()> {
    let mut types = Vec::new();
    for number in 0..MACHINES {
        types.extend(create(world, number).await?);
    }
    let instances: BTreeMap<String, Value> = world
        .until("all machines run", async || {
            let instances = world.instances().await?;
            Ok((u64::try_from(instances.len())? == MACHINES).then_some(instances))
        })
        .await?;
    // The instances use copies, so nothing changes if all objects are gone.
    for path in &types {
        world.place.ask(Method::DELETE, path, &Value::Null).await?;
    }
    // Nothing could start a machine without its copies, so users cannot delete them.
    let copies = format!("/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions");
    let list = world.place.ask(Method::GET, &copies, &Value::Null).await?;
    let copy = format!("{copies}/{}", text(&list, "/items/0/metadata/name"));
    let refused =
        world.place.send(Method::DELETE, &copy, &Value::Null).await?.err().context("a copy was deleted")?;
    ensure!(refused.code == 403 && refused.message.contains("copyDeleters"), "{}", refused.message);
    let mut named = 0;
    for (name, instance) in &instances {
        let path = format!(
            "/apis/kubevirt.subresources.vmpool.dev/v1alpha1/namespaces/{NAMESPACE}/virtualmachines/{name}/expand-spec?complete=true"
        );
        let expanded = world.place.ask(Method::GET, &path, &Value::Null).await?;
        let template = &expanded["spec"]["template"];
        let expected = what_runs(&template["spec"], &template["metadata"]["annotations"]);
        let found = what_runs(&instance["spec"], &instance["metadata"]["annotations"]);
        ensure!(
            expected == found,
            "{name} (seed {SEED}) expands to\n{:#}\nand runs\n{:#}\n{:#?}\n{:#?}",
            expected.0,
            found.0,
            expected.1,
            found.1
        );
        let annotations = instance["metadata"]["annotations"].as_object().map_or(0, Map::len);
        named += annotations - found.1.len();
    }
    ensure!(named == types.len(), "{named} annotations name {} objects", types.len());
    copies_disappear_with_their_owners(world, &copies).await
}

/// The policy that protects copies lets the users of the chart's value, the garbage collector and the
/// namespace controller delete them.
async fn copies_disappear_with_their_owners(world: &KubeVirtWorld<'_>, copies: &str) -> Result<()> {
    let list = world.place.ask(Method::GET, copies, &Value::Null).await?;
    let by_deleter = format!("{copies}/{}", text(&list, "/items/1/metadata/name"));
    let deleted = world.place.send_as(DELETER, Method::DELETE, &by_deleter, &Value::Null).await?;
    ensure!(deleted.is_ok(), "{deleted:?}");
    let copy = &list["items"][0];
    world.delete_machine(text(copy, "/metadata/ownerReferences/0/name")).await?;
    let path = format!("{copies}/{}", text(copy, "/metadata/name"));
    let is_gone = async |path: &str| {
        Ok(world.place.send(Method::GET, path, &Value::Null).await?.is_err().then_some(()))
    };
    world.until("the garbage collector has deleted the copy", async || is_gone(&path).await).await?;
    let namespace = format!("/api/v1/namespaces/{NAMESPACE}");
    world.place.ask(Method::DELETE, &namespace, &Value::Null).await?;
    world.until("the namespace is gone", async || is_gone(&namespace).await).await
}

#[test]
fn the_expansion_of_a_machine_is_what_its_instance_is() {
    run_to_end_within(LIMIT, async {
        let (cluster, installation) =
            guarded::standalone("expansion-law", &[&format!("instancetype.copyDeleters={{{DELETER}}}")])
                .await?;
        cluster.kubectl(&["create", "namespace", NAMESPACE]).await?;
        let user = format!("--user={DELETER}");
        cluster
            .kubectl(&["create", "clusterrolebinding", DELETER, "--clusterrole=cluster-admin", &user])
            .await?;
        let place = TestNamespace { cluster: &cluster, namespace: NAMESPACE };
        let mut options = ControllerOptions::everywhere("one");
        options.extra.extend(["--platforms=kubevirt", "--instancetype-mode=Standalone"].map(str::to_owned));
        run_with_options(installation.accounts(), place, options, async |world| law(&world).await).await?;
        installation.stop().await?;
        drop(cluster);
        Ok(())
    });
}
