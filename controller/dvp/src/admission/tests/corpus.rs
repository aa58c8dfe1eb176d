//! Pairs of verdicts: the finding of the rules for a pool, and the result for the machines and disks that the
//! controller builds from it. A pool is accepted if and only if its machines and disks are accepted.
//!
//! The schemas of machine and disk are those of `api/crds`. The table also lists what the platform's webhooks
//! refuse and which machines never start, as observed.

use serde_json::{Value, json};

use super::super::schema;
use super::*;

/// The result for the machines and disks of a pool.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Built {
    /// The platform accepts them.
    NamesInUse,
    /// The schema of the machine or the disk refuses them.
    BySchema,
    /// The platform refuses them for another reason, or they never start.
    ByPlatform(&'static str),
}
use Built::{ByPlatform, BySchema, NamesInUse};

const LABELS: &str = "/spec/virtualMachineTemplate/metadata/labels";
const ANNOTATIONS: &str = "/spec/virtualMachineTemplate/metadata/annotations";

fn source(source: Value) -> Value {
    disk(0, "/spec/dataSource", source)
}

fn url(url: &str) -> Value {
    source(json!({ "type": "HTTP", "http": { "url": url } }))
}

fn image(image: &str) -> Value {
    source(json!({ "type": "ContainerImage", "containerImage": { "image": image } }))
}

fn devices(orders: [Option<i64>; 3]) -> Value {
    let device = |kind: &str, name: &str, order: Option<i64>| json!({ "kind": kind, "name": name, "bootOrder": order });
    let devices = [
        device("ClusterVirtualImage", "toolbox", orders[0]),
        device("VirtualDisk", "root", orders[1]),
        device("VirtualDisk", "cache", orders[2]),
    ];
    machine("/blockDeviceRefs", json!(devices))
}

/// A name, the pool, the rule that refuses it, and the result for its machines.
#[expect(clippy::too_many_lines, reason = "a table with a row for each pair")]
fn corpus() -> Vec<(&'static str, Value, Option<Rule>, Built)> {
    const LARGE_SPEC: Built =
        ByPlatform("a machine of this size is accepted; the limit of a spec protects the controller (L1)");
    const NO_KEY: Built = ByPlatform("metadata of objects is checked by the API server");
    let hex = "0123456789abcdef".repeat(4);
    let digest = |algorithm: &str| format!("reg.example.com/x@{algorithm}:{hex}");
    let annotated = |bytes: usize| with(pool(), ANNOTATIONS, json!({ "note": "x".repeat(bytes) }));
    vec![
        ("the pool of all tests", pool(), None, NamesInUse),
        // The controller omits empty strings of optional fields from the machine.
        ("an empty priority class", machine("/priorityClassName", json!("")), None, NamesInUse),
        ("an empty class", machine("/virtualMachineClassName", json!("")), None, NamesInUse),
        ("an empty address name", machine("/virtualMachineIPAddressName", json!("")), None, NamesInUse),
        (
            "a Main network with an empty name",
            machine("/networks", json!([{ "type": "Main", "name": "" }])),
            None,
            NamesInUse,
        ),
        ("an unknown run policy", machine("/runPolicy", json!("Sometimes")), Some(Rule::Schema), BySchema),
        (
            "a migration policy of the pool schema only",
            machine("/liveMigrationPolicy", json!("Manual")),
            Some(Rule::Schema),
            BySchema,
        ),
        ("an unknown guest", machine("/osType", json!("Linux")), Some(Rule::Schema), BySchema),
        ("an unknown bootloader", machine("/bootloader", json!("UEFI")), Some(Rule::Schema), BySchema),
        (
            "an unknown approval mode",
            machine("/disruptions", json!({ "restartApprovalMode": "Never" })),
            Some(Rule::Schema),
            BySchema,
        ),
        (
            "a negative grace period",
            machine("/terminationGracePeriodSeconds", json!(-1)),
            Some(Rule::Schema),
            BySchema,
        ),
        (
            "a device without a name",
            machine("/blockDeviceRefs/1/name", json!("")),
            Some(Rule::Schema),
            BySchema,
        ),
        (
            "a device of an unknown kind",
            machine("/blockDeviceRefs/1/kind", json!("Floppy")),
            Some(Rule::Schema),
            BySchema,
        ),
        (
            "a secret without a name",
            machine(
                "/provisioning",
                json!({ "type": "UserDataRef", "userDataRef": { "kind": "Secret", "name": "" } }),
            ),
            Some(Rule::Schema),
            BySchema,
        ),
        (
            "a GPU class that is no name",
            machine("/gpus", json!([{ "gpuClassName": "A_10" }])),
            Some(Rule::Schema),
            BySchema,
        ),
        (
            "a label key with a space",
            with(pool(), LABELS, json!({ "a b": "c" })),
            Some(Rule::MetadataKeys),
            NO_KEY,
        ),
        (
            "a label value with a space",
            with(pool(), LABELS, json!({ "a": "b c" })),
            Some(Rule::MetadataKeys),
            NO_KEY,
        ),
        (
            "a label value of 64 letters",
            with(pool(), LABELS, json!({ "a": "b".repeat(64) })),
            Some(Rule::MetadataKeys),
            NO_KEY,
        ),
        (
            "an annotation key with two slashes",
            with(pool(), ANNOTATIONS, json!({ "a/b/c": "" })),
            Some(Rule::MetadataKeys),
            NO_KEY,
        ),
        (
            "an annotation key with a prefix in capitals",
            with(pool(), ANNOTATIONS, json!({ "Example.com/a": "any text" })),
            None,
            NamesInUse,
        ),
        ("annotations of 300 kB", annotated(300_000), Some(Rule::SpecSize), NO_KEY),
        ("annotations above the limit of a spec", annotated(200_000), Some(Rule::SpecSize), LARGE_SPEC),
        ("annotations of 100 kB", annotated(100_000), None, NamesInUse),
        ("a data source without a type", source(json!({})), Some(Rule::DataSource), BySchema),
        ("an address", url("https://mirror.example.com/debian.qcow2"), None, NamesInUse),
        (
            "an address with a tilde",
            url("https://mirror.example.com/~me/debian.qcow2"),
            Some(Rule::Schema),
            BySchema,
        ),
        (
            "an address with a fragment",
            url("https://mirror.example.com/debian.qcow2#x"),
            Some(Rule::Schema),
            BySchema,
        ),
        ("an address with a brace", url("https://mirror.example.com/{debian}"), Some(Rule::Schema), BySchema),
        (
            "an address that is not ASCII",
            url("https://mirror.example.com/\u{e9}"),
            Some(Rule::Schema),
            BySchema,
        ),
        ("an image", image("registry.example.com/images/debian:13"), None, NamesInUse),
        ("an image of a host with an underscore", image("my_reg:5000/x"), None, NamesInUse),
        ("an image with a capital letter", image("Reg/x"), Some(Rule::Schema), BySchema),
        ("an image with a digest", image(&digest("sha256")), None, NamesInUse),
        ("a digest algorithm that is a number", image(&digest("256")), Some(Rule::Schema), BySchema),
        ("a ttl with a plus", disk(1, "/reclaim/ttl", json!("+5m")), None, NamesInUse),
        (
            "an image that cannot boot, first",
            devices([None, None, None]),
            Some(Rule::BootsFromImage),
            ByPlatform("it does not boot"),
        ),
        ("an image first, and a disk with boot order 1", devices([None, Some(1), None]), None, NamesInUse),
        (
            "an image with boot order 1",
            devices([Some(1), Some(2), None]),
            Some(Rule::BootsFromImage),
            ByPlatform("it does not boot"),
        ),
        (
            "an image behind a disk, with boot order 1",
            machine("/blockDeviceRefs/1/bootOrder", json!(1)),
            Some(Rule::BootsFromImage),
            ByPlatform("it does not boot"),
        ),
        ("an image with the second boot order", devices([Some(2), Some(1), None]), None, NamesInUse),
        (
            "no core fraction, and a class with a default",
            machine("/cpu/coreFraction", Value::Null),
            None,
            NamesInUse,
        ),
        (
            "a negative count",
            with(pool(), "/spec/replicas", json!(-1)),
            Some(Rule::Schema),
            ByPlatform("no machine is built"),
        ),
        (
            "an unknown policy",
            with(pool(), "/spec/scaleDownPolicy", json!("Random")),
            Some(Rule::Schema),
            ByPlatform("no machine is built"),
        ),
        (
            "a disk template that is no DNS label",
            with(
                disk(0, "/name", json!("Root")),
                &format!("{MACHINE}/blockDeviceRefs/0/name"),
                json!("Root"),
            ),
            Some(Rule::Schema),
            ByPlatform("names of disks are made from it"),
        ),
    ]
}

#[test]
fn a_pool_is_accepted_if_and_only_if_its_machines_are() {
    let mut wrong = Vec::new();
    for (name, pool, rule, built) in corpus() {
        let verdict = World::complete().create(&pool);
        let allowed = verdict.outcome == AdmissionDecision::Allowed;
        if refused(&verdict) != rule || allowed != (built == NamesInUse) {
            wrong.push(format!("{name}: {rule:?} and {built:?}, but {:?}", verdict.outcome));
        }
        let machine = schema::tests::machine_schema(&pool);
        let disks = schema::tests::disk_schema(&pool);
        let by_schema = machine.is_err() || disks.is_err();
        if by_schema != (built == BySchema) && !matches!(built, ByPlatform(_)) {
            wrong.push(format!("{name}: {built:?}, but {machine:?} and {disks:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// If the template has no core fraction, the rules use the default of the class.
#[test]
fn a_class_without_a_usable_default_fraction_needs_a_core_fraction() {
    let class = |default: Value| {
        let policy = json!({ "cores": { "min": 1, "max": 4 }, "coreFractions": ["5%", "25%"], "defaultCoreFraction": default });
        World::complete()
            .with_class(&json!({ "metadata": { "name": "small" }, "spec": { "sizingPolicies": [policy] } }))
    };
    let without = machine("/cpu/coreFraction", Value::Null);
    for (default, expected) in [
        (json!("25%"), None),
        // Without a default the platform uses 100%.
        (Value::Null, Some(Rule::Sizing)),
        (json!("50%"), Some(Rule::Sizing)),
    ] {
        assert_eq!(refused(&class(default.clone()).create(&without)), expected, "{default}");
        assert_eq!(
            refused(&class(default).create(&pool())),
            None,
            "a template with a fraction needs no default"
        );
    }
}
