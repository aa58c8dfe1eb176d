//! The types of `vmpool_api::kubevirt` read stored objects and write them back without loss.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that cannot go on fails its test")]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use k8s_openapi::api::apps::v1::ControllerRevision;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use vmpool_api::conditions::Conditions as _;
use vmpool_api::kubevirt::values::{
    DataVolumePhase, InstancePhase, PrintableStatus, RunStrategy, SortPolicy,
};
use vmpool_api::kubevirt::{
    DataSource, DataVolume, KubeVirt, POOL_API_VERSION, POOL_OLD_VERSION, VirtualMachine,
    VirtualMachineInstance, VirtualMachinePool, VirtualMachinePoolSpec, VolumeSnapshot,
    VolumeSnapshotContent, crds, labels,
};

const FIXTURES: &str = "tests/fixtures/kubevirt";

fn files(directory: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let entries = std::fs::read_dir(&directory).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    assert!(!paths.is_empty(), "no manifests in {}", directory.display());
    paths
}

fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    serde_yaml_ng::Deserializer::from_str(&text)
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

fn fixture<T: DeserializeOwned>(name: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FIXTURES).join(format!("{name}.yaml"));
    let [object] = documents(&path).try_into().unwrap();
    serde_json::from_value(object).unwrap()
}

fn pool_spec_of(revision: &str) -> VirtualMachinePoolSpec {
    let revision: ControllerRevision = fixture(revision);
    serde_json::from_value(revision.data.unwrap().0).unwrap()
}

/// The object after deserialization into its type and serialization.
fn through_type(object: &Value) -> Value {
    fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
        let typed: T =
            serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
        serde_json::to_value(typed).unwrap()
    }
    match object["kind"].as_str().unwrap() {
        "VirtualMachinePool" => through::<VirtualMachinePool>(object),
        "VirtualMachine" => through::<VirtualMachine>(object),
        "VirtualMachineInstance" => through::<VirtualMachineInstance>(object),
        "DataVolume" => through::<DataVolume>(object),
        "KubeVirt" => through::<KubeVirt>(object),
        "DataSource" => through::<DataSource>(object),
        "VolumeSnapshot" => through::<VolumeSnapshot>(object),
        "VolumeSnapshotContent" => through::<VolumeSnapshotContent>(object),
        "ControllerRevision" => {
            let mut object = object.clone();
            object["data"] = through::<VirtualMachinePoolSpec>(&object["data"]);
            object
        }
        other => panic!("no type for kind {other}"),
    }
}

/// A field with the value null means the same as an absent field.
fn without_nulls(mut object: Value) -> Value {
    match &mut object {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(|value| *value = without_nulls(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_nulls(item.take())),
        _ => {}
    }
    object
}

/// The object as it should be after [`through_type`]: a pool is written in the version of its type.
fn expected(object: &Value) -> Value {
    let mut object = object.clone();
    if object["kind"] == "VirtualMachinePool" {
        object["apiVersion"] = json!(POOL_API_VERSION);
    }
    object
}

fn kinds() -> impl Iterator<Item = &'static str> {
    std::iter::once(crds::POOL_CRD.kind).chain(crds::PLATFORM_CRDS.iter().map(|crd| crd.kind))
}

/// Checks that the types read and write all objects of a directory without loss. Returns their kinds.
fn survive(directory: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for path in files(directory) {
        for object in documents(&path) {
            seen.insert(object["kind"].as_str().unwrap().to_owned());
            let (found, expected) = (without_nulls(through_type(&object)), without_nulls(expected(&object)));
            assert_eq!(found, expected, "{}", path.display());
        }
    }
    seen
}

#[test]
fn stored_objects_survive_deserialization_without_loss() {
    let kinds: BTreeSet<String> = kinds().chain(["ControllerRevision"]).map(str::to_owned).collect();
    assert_eq!(survive(FIXTURES), kinds, "every kind has a fixture");
}

#[test]
fn accepted_manifests_survive_deserialization_without_loss() {
    let kinds: BTreeSet<String> = kinds().map(str::to_owned).collect();
    assert_eq!(survive("tests/samples/kubevirt/accepted"), kinds, "every kind has an accepted sample");
}

/// Fields whose objects are maps of texts, or of types of Kubernetes itself, which have no unknown fields.
const CLOSED: [&str; 10] = [
    "/metadata",
    "/labels",
    "/annotations",
    "/matchLabels",
    "/matchExpressions",
    "/selector",
    "/labelSelector",
    "/nodeSelectorRequirementMatcher",
    "/nodeSelector",
    "/data",
];

/// Pointers of all objects within `value` that can have further fields.
fn open_objects(value: &Value, pointer: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => {
            found.push(pointer.to_owned());
            fields.iter().map(|(name, value)| (name.clone(), value)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        let pointer = format!("{pointer}/{name}");
        let closed = CLOSED.iter().any(|field| pointer.ends_with(field));
        // The metadata of a template is open, that of the object itself is a type of Kubernetes.
        let in_template = pointer.ends_with("/metadata") && pointer != "/metadata";
        // The flags of a program are a map of texts, and so is each map within `data` of a request.
        let flags = pointer.ends_with("/flags/controller");
        if (!closed || in_template) && !flags {
            open_objects(child, &pointer, found);
        }
    }
}

#[test]
fn a_field_of_a_newer_kubevirt_is_retained_in_every_object() {
    let future = json!({"deep": [1, 2.5, "3", null, {"a": null}], "large": 9_007_199_254_740_993_i64});
    let mut tried = 0;
    for path in files(FIXTURES) {
        for object in documents(&path).into_iter().filter(|object| object["kind"] != "ControllerRevision") {
            for part in ["/spec", "/status"] {
                let mut places = Vec::new();
                if let Some(part_of) = object.pointer(part) {
                    open_objects(part_of, part, &mut places);
                }
                for place in places {
                    let mut newer = object.clone();
                    newer.pointer_mut(&place).unwrap()["futureField"] = future.clone();
                    let written = through_type(&newer);
                    let kept = written.pointer(&place).map(|object| &object["futureField"]);
                    assert_eq!(kept, Some(&future), "{place} of {}", path.display());
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 200, "only {tried} objects were tried");
}

#[test]
fn a_null_within_an_unknown_field_is_retained() {
    let object: Value = fixture("machine-of-newer-kubevirt");
    let written = through_type(&object);
    let pointer = "/spec/template/spec/volumes/2/futureSource/options";
    assert_eq!(written.pointer(pointer), object.pointer(pointer));
    assert_eq!(written.pointer(pointer).unwrap()["tls"], Value::Null);
}

#[test]
fn both_versions_of_a_pool_have_one_type() {
    let object: Value = fixture("pool-paused-v1alpha1");
    assert_eq!(object["apiVersion"], format!("pool.kubevirt.io/{POOL_OLD_VERSION}"));
    let pool: VirtualMachinePool = serde_json::from_value(object).unwrap();
    assert_eq!(pool.spec.paused, Some(true));
    assert!(pool.condition("ReplicaPaused").is_some_and(|condition| condition.last_probe_time.is_none()));
    assert_eq!(serde_json::to_value(&pool).unwrap()["apiVersion"], POOL_API_VERSION);
}

#[test]
fn a_pool_without_replicas_desires_one_machine() {
    let pool: VirtualMachinePool = fixture("pool-new");
    assert_eq!((pool.spec.replicas, pool.desired_replicas()), (None, 1));
    assert_eq!(fixture::<VirtualMachinePool>("pool").desired_replicas(), 3);
}

#[test]
fn the_state_of_a_machine_is_read() {
    let running: VirtualMachine = fixture("machine-running");
    assert_eq!(running.printable_status(), Some(PrintableStatus::Running));
    assert!(running.is_ready());
    let firmware = running.spec.template.spec.domain.as_ref().unwrap().firmware.as_ref().unwrap();
    assert_eq!(firmware.uuid.as_deref(), Some("5d307ca9-b3ef-428c-8861-06e72d69f223"));
    assert_eq!(running.metadata.labels.as_ref().unwrap()[labels::REVISION], "render-5");

    let failing: VirtualMachine = fixture("machine-failing");
    assert_eq!(failing.printable_status(), Some(PrintableStatus::CrashLoopBackOff));
    assert_eq!((failing.failed_starts(), failing.is_ready()), (4, false));
    assert!(failing.condition("Ready").is_some_and(|ready| ready.last_probe_time.is_some()));

    let old: VirtualMachine = fixture("machine-old");
    assert_eq!(old.spec.effective_run_strategy(), Some(RunStrategy::Always));

    // A value that this crate does not know leaves the object readable.
    let newer: VirtualMachine = fixture("machine-of-newer-kubevirt");
    assert_eq!(newer.printable_status(), None);
    assert_eq!(newer.status.unwrap().printable_status.as_deref(), Some("Hibernating"));
}

#[test]
fn the_states_of_instances_and_volumes_are_read() {
    let running: VirtualMachineInstance = fixture("instance-running");
    assert_eq!((running.phase(), running.is_ready()), (Some(InstancePhase::Running), true));
    let new: VirtualMachineInstance = fixture("instance-new");
    assert_eq!((new.phase(), new.is_ready()), (None, false));
    assert_eq!(fixture::<DataVolume>("datavolume").phase(), Some(DataVolumePhase::Succeeded));
    let retained: DataVolume = fixture("datavolume-retained");
    assert_eq!(retained.phase(), Some(DataVolumePhase::WaitForFirstConsumer));
}

#[test]
fn a_revision_has_the_whole_spec_of_the_pool() {
    let pool: VirtualMachinePool = fixture("pool");
    assert_eq!(pool_spec_of("revision"), pool.spec);
}

#[test]
fn revisions_of_older_releases_are_read() {
    let spec = pool_spec_of("revision-of-1.6");
    let proactive = spec.scale_in_strategy.as_ref().unwrap().proactive.as_ref().unwrap();
    let policy = proactive.selection_policy.as_ref().unwrap();
    assert_eq!((policy.sort_policy.as_deref(), policy.order()), (None, SortPolicy::DescendingOrder));

    let oldest = pool_spec_of("revision-of-1.4").virtual_machine_template.spec;
    assert_eq!(oldest.effective_run_strategy(), Some(RunStrategy::Always));
}

#[test]
fn every_rejected_manifest_documents_message_and_field() {
    for path in files("tests/samples/kubevirt/rejected") {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines = text.lines();
        let message = lines.next().unwrap().strip_prefix("# rejected: ");
        assert!(message.is_some_and(|message| message.len() > 7), "{}", path.display());
        let field = lines.next().unwrap().strip_prefix("# field:").map(str::trim);
        assert!(
            field.is_some_and(|field| field.is_empty() || field.starts_with("spec.")),
            "{}",
            path.display()
        );
        let objects = documents(&path);
        let last = objects.last().unwrap();
        for object in &objects {
            assert_eq!(object["metadata"]["name"], last["metadata"]["name"], "{}", path.display());
        }
    }
}

#[test]
fn names_in_a_directory_are_unique() {
    for directory in ["tests/samples/kubevirt/accepted", "tests/samples/kubevirt/rejected"] {
        let mut seen = BTreeSet::new();
        for path in files(directory) {
            let names: BTreeSet<(String, String)> = documents(&path)
                .iter()
                .map(|object| (object["kind"].to_string(), object["metadata"]["name"].to_string()))
                .collect();
            for name in names {
                assert!(seen.insert(name.clone()), "{name:?} of {} exists already", path.display());
            }
        }
    }
}
