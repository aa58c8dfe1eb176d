//! The inputs with which fuzzing begins: samples of the API and of the examples.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use serde_json::{Value, json};
use vmpool_engine::membership::losses::Rehearsal;
use vmpool_engine::model::Draft;
use vmpool_platforms::{Dvp, KubeVirt, Platform};

/// The folders with samples, relative to the root of the repository.
const SAMPLES: &[&str] = &["api/tests/samples", "docs/examples"];

/// Removal records: empty, reserved, accepted, with users, with repeated and with invalid entries.
const RECORDS: &[&str] = &[
    "",
    "[]",
    r#"[{"name":"web-1","uid":"1"}]"#,
    r#"[{"name":"web-1","uid":"1","reserved":"r1","by":"ann"},{"name":"web-2","uid":"2","reserved":"r1"}]"#,
    r#"[{"name":"web-1","uid":"1","by":"ann"},{"name":"web-2","uid":"2","by":""},{"name":"web-1","uid":"1"}]"#,
    r#"[{"name":"web-1","uid":"1","reserved":null}]"#,
    r#"[{"name":"","uid":"1"}]"#,
];

/// Settings: durations, quantities, shares, name blocks, times and claims.
const SETTINGS: &[&str] = &[
    "1h30m",
    "-1.5ms",
    "9223372036854775807ns",
    "2Gi",
    "1e3",
    "0.5m",
    "9999999999999999999999Ei",
    "25%",
    "3",
    "64-128",
    "2026-01-02T03:04:05Z",
    "-009999-01-02T01:59:59Z",
    "9999-12-30T22:00:00.9Z",
    r#"{"id":"a","user":"ann","poolUID":"1"}"#,
    "rev-5d4f",
];

/// URLs that the check allows, and spellings of local addresses that it must refuse.
const URLS: &[&str] = &[
    "https://images.example.com/a/disk.qcow2",
    "http://images.example.com:8080/a",
    "docker://quay.io/images/disk:1",
    "oci-archive:/data/disk.tar",
    "http://127.1/",
    "http://0x7f000001/",
    "http://0177.0.0.1/",
    "http://2130706433/",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://169.254.169.254/latest",
    "http://localhost./",
    "http://user:password@images.example.com/",
    "https://images.example.com/a/%2e%2e/b",
    "https://images.example.com.evil.example/a",
];

/// Waiting claims: none, valid, ended and unreadable ones; and a recorded demand.
const WAITING_CLAIMS: &[&str] = &[
    "",
    "{}",
    r#"{"00112233445566ff.00112233445566778899aabbccddeeff":1800000020}"#,
    r#"{"00112233445566ff.00112233445566778899aabbccddeeff":1700000000,"x.y":1800000020,"":null}"#,
    r#"[{"at":"2026-11-27T08:00:00Z","durationSeconds":1800}]"#,
];

/// The samples of each fuzz target.
#[derive(Debug)]
pub struct Seeds {
    objects: Vec<Value>,
}

impl Seeds {
    /// Reads the samples of the repository at `root`.
    ///
    /// # Errors
    /// A folder or a file cannot be read.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        for folder in SAMPLES {
            collect(&root.join(folder), &mut files)?;
        }
        files.sort();
        let mut objects = Vec::new();
        for file in files {
            let text = fs::read_to_string(file)?;
            // Some examples are templates of other tools.
            let documents = serde_yaml_ng::Deserializer::from_str(&text);
            objects.extend(documents.map_while(|document| Value::deserialize(document).ok()));
        }
        objects.retain(Value::is_object);
        Ok(Self { objects })
    }

    /// The samples of the target with this name.
    pub fn of(&self, target: &str) -> Vec<Vec<u8>> {
        let texts = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        let documents =
            |documents: Vec<Value>| documents.iter().map(|value| value.to_string().into_bytes()).collect();
        match target {
            "pool" => documents(self.of_kinds(&["VirtualMachinePool"])),
            "machine" => documents(self.of_kinds(&["VirtualMachine"])),
            "disk" => documents(self.of_kinds(&["VirtualDisk", "VirtualMachineBlockDeviceAttachment"])),
            "list" => documents(self.lists()),
            "removal_record" => texts(RECORDS),
            "settings" => texts(SETTINGS),
            "instance_type" => documents(self.typed_machines()),
            "template" => documents(self.template_changes()),
            "review" => documents(self.reviews()),
            "url" => texts(URLS),
            "autoscaler" => documents(self.of_kinds(&["PoolAutoscaler"])),
            "waiting_claims" => texts(WAITING_CLAIMS),
            _ => Vec::new(),
        }
    }

    fn of_kinds(&self, kinds: &[&str]) -> Vec<Value> {
        let is_such = |object: &&Value| object["kind"].as_str().is_some_and(|kind| kinds.contains(&kind));
        self.objects.iter().filter(is_such).cloned().map(as_stored).collect()
    }

    fn lists(&self) -> Vec<Value> {
        let machines = self.of_kinds(&["VirtualMachine"]);
        let metadata = json!({ "resourceVersion": "7", "continue": "next" });
        let list = |items: &[Value]| json!({ "kind": "List", "metadata": metadata, "items": items });
        [&machines[..0], &machines[..machines.len().min(1)], &machines[..machines.len().min(4)]]
            .map(list)
            .into()
    }

    fn typed_machines(&self) -> Vec<Value> {
        let types = self.of_kinds(&["VirtualMachineInstancetype", "VirtualMachineClusterInstancetype"]);
        let preferences = self.of_kinds(&["VirtualMachinePreference", "VirtualMachineClusterPreference"]);
        let machines = self.of_kinds(&["VirtualMachine"]);
        let none = json!(null);
        let mut samples = Vec::new();
        for (index, machine) in machines.into_iter().enumerate() {
            let one_of = |list: &[Value]| list.get(index % list.len().max(1)).unwrap_or(&none).clone();
            let (instancetype, preference) = (one_of(&types), one_of(&preferences));
            let mut named = machine.clone();
            for (field, object) in [("instancetype", &instancetype), ("preference", &preference)] {
                named["spec"][field] = json!({ "name": object["metadata"]["name"], "kind": object["kind"] });
            }
            samples.extend([json!([machine, none, none]), json!([named, instancetype, preference])]);
        }
        samples
    }

    fn template_changes(&self) -> Vec<Value> {
        let pools = self.of_kinds(&["VirtualMachinePool"]);
        [changes_of::<Dvp>(&pools), changes_of::<KubeVirt>(&pools)].concat()
    }

    fn reviews(&self) -> Vec<Value> {
        let review = |operation: &str, object: &Value, old: &Value| {
            json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "7", "operation": operation, "namespace": "team-a", "name": object["metadata"]["name"],
                "userInfo": { "username": "ann" }, "object": object, "oldObject": old,
            }})
        };
        let mut changed = json!(null);
        let mut reviews = Vec::new();
        for pool in self.of_kinds(&["VirtualMachinePool"]) {
            reviews.push(review("CREATE", &pool, &json!(null)));
            reviews.push(review("UPDATE", &pool, &changed));
            changed = pool;
        }
        reviews
    }
}

/// An object with what the API server adds.
fn as_stored(mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!("team-a");
    object["metadata"]["uid"] = json!("d1f0");
    object["metadata"]["resourceVersion"] = json!("7");
    object["metadata"]["generation"] = json!(1);
    object
}

/// For each pool: a machine, the template that it was created from, and the template of another pool.
fn changes_of<P: Platform>(pools: &[Value]) -> Vec<Value> {
    let pools: Vec<P::Pool> =
        pools.iter().filter_map(|pool| serde_json::from_value(pool.clone()).ok()).collect();
    let templates: Vec<Value> = pools.iter().map(P::template).collect();
    let mut changes = Vec::new();
    for (index, pool) in pools.iter().enumerate() {
        let facts = P::read_pool(pool);
        let revision = P::first_revision(pool, &facts);
        let draft = Draft {
            name: "web-7".into(),
            number: 7,
            revision,
            disks: Vec::new(),
            rehearsal: Rehearsal::None,
            standby: None,
        };
        let (from, to) = (&templates[index], &templates[(index + 1) % templates.len()]);
        changes.push(json!([P::machine(pool, from, &draft), from, to]));
    }
    changes
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    Ok(())
}
