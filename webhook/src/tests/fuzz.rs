//! The webhook responds to every body with a valid review or an HTTP error.
//!
//! A seed determines the bodies. `VMPOOL_FUZZ_CASES` sets their number.

use serde_json::json;
use vmpool_runtime::env::Entropy as _;
use vmpool_runtime::testing::SeededEntropy;

use super::*;

const CASES: u64 = 20_000;
const SEED: u64 = 0x5eed;

/// Random choices that a seed determines.
struct Dice(SeededEntropy);

impl Dice {
    fn below(&self, limit: usize) -> usize {
        usize::try_from(self.0.next() % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }

    fn pick<'a, T>(&self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    fn bytes(&self, limit: usize) -> Vec<u8> {
        (0..self.below(limit)).map(|_| self.0.next().to_le_bytes()[0]).collect()
    }

    /// A value that is meaningful in some field, or in none.
    fn value(&self) -> Value {
        let values = [
            json!(null),
            json!(true),
            json!(0),
            json!(-1),
            json!(1),
            json!(17),
            json!(i64::MIN),
            json!(u64::MAX),
            json!(1e300),
            json!(""),
            json!("Explicit"),
            json!("NewestFirst"),
            json!("Upload"),
            json!("Auto"),
            json!("25%"),
            json!("1e999999999"),
            json!("9999999999999999999999999999999999999999Ei"),
            json!(".5m"),
            json!("Main"),
            json!("Network"),
            json!("Legacy"),
            json!("ObjectRef"),
            json!("VirtualDiskSnapshot"),
            json!("../../x"),
            json!("\u{0}\n\u{202e}"),
            json!("a".repeat(5000)),
            json!(format!("x{}", "\u{e9}".repeat(200))),
            json!("#cloud-config\n&a [*a"),
            json!("UserData"),
            json!("In"),
            json!("Gt"),
            json!({}),
            json!([]),
            json!([[]]),
            json!({ "labels": { "kubevirt.io": 1 } }),
            json!([{ "key": "a" }]),
            json!({ "nodeSelectorTerms": [{ "matchFields": [{}] }] }),
        ];
        self.pick(&values).clone()
    }

    /// Replaces, adds or removes some fields.
    fn mutate(&self, value: &mut Value) {
        for _ in 0..=self.below(4) {
            let mut places = Vec::new();
            collect(value, String::new(), &mut places);
            if places.is_empty() {
                return;
            }
            let place = self.pick(&places).clone();
            let Some(part) = value.pointer_mut(&place) else { continue };
            match (self.below(4), &mut *part) {
                (0, Value::Object(map)) => {
                    let names = [
                        "spec",
                        "metadata",
                        "replicas",
                        "kind",
                        "type",
                        "size",
                        "name",
                        "annotations",
                        "affinity",
                        "networks",
                        "provisioning",
                        "topologySpreadConstraints",
                        "reclaim",
                        "deletionTimestamp",
                        "~/%",
                        "values",
                    ];
                    map.insert((*self.pick(&names)).to_owned(), self.value());
                }
                (0, Value::Array(list)) => list.push(self.value()),
                (1, Value::Object(map)) => {
                    let names: Vec<String> = map.keys().cloned().collect();
                    if !names.is_empty() {
                        map.remove(self.pick(&names));
                    }
                }
                (1, Value::Array(list)) if !list.is_empty() => drop(list.remove(self.below(list.len()))),
                (1, Value::String(text)) => {
                    *text = text.chars().filter(|_| self.below(5) > 0).collect();
                }
                _ => *part = self.value(),
            }
        }
    }

    /// Changes, removes and repeats bytes.
    fn garble(&self, text: &mut Vec<u8>) {
        for _ in 0..=self.below(8) {
            let at = self.below(text.len());
            match self.below(4) {
                0 => text.truncate(at),
                1 => drop(text.drain(at..(at + self.below(20)).min(text.len()))),
                2 => {
                    let copy = text[at..(at + self.below(40)).min(text.len())].to_vec();
                    text.splice(at..at, copy);
                }
                _ => {
                    if let Some(byte) = text.get_mut(at) {
                        *byte = self.0.next().to_le_bytes()[0];
                    }
                }
            }
        }
    }
}

fn collect(value: &Value, path: String, places: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                collect(value, format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), places);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                collect(value, format!("{path}/{index}"), places);
            }
        }
        _ => {}
    }
    places.push(path);
}

/// A pool with as many kinds of fields as possible.
fn rich() -> Value {
    let mut pool = pool();
    let term = json!({ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "a": "b" },
        "matchExpressions": [{ "key": "a", "operator": "In", "values": ["x"] }] }, "namespaces": ["a"], "matchLabelKeys": ["c"] });
    let nodes = json!({ "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "a", "operator": "Gt", "values": ["1"] }],
        "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n"] }] }] });
    let machine = &mut pool["spec"]["virtualMachineTemplate"]["spec"];
    machine["affinity"] = json!({
        "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": nodes },
        "virtualMachineAndPodAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
            { "weight": 3, "virtualMachineAndPodAffinityTerm": term }] },
    });
    machine["topologySpreadConstraints"] = json!([{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {} }]);
    machine["networks"] = json!([{ "type": "Main", "id": 1 }, { "type": "Network", "name": "a", "id": 7 }]);
    machine["provisioning"] = json!({ "type": "UserData", "userData": "#cloud-config\npackages: [git]\n" });
    machine["gpus"] = json!([{ "gpuClassName": "a" }]);
    machine["cpu"]["coreFraction"] = json!("25%");
    pool["spec"]["virtualMachineTemplate"]["metadata"] =
        json!({ "labels": { "a": "b" }, "annotations": { "c": "d" } });
    pool["spec"]["virtualDiskTemplates"][0]["reclaim"] =
        json!({ "onScaleDown": "Retain", "keep": 1, "ttl": "5m" });
    pool["spec"]["virtualDiskTemplates"][0]["spec"]["persistentVolumeClaim"] = json!({ "size": "5Gi" });
    pool["spec"]["rollout"] = json!({ "maxUnavailable": "10%", "paused": false });
    pool["spec"]["revisionHistoryLimit"] = json!(5);
    pool["metadata"]["annotations"] = json!({
        "vmpool.virtualization.deckhouse.io/rollout-paused": "false",
        "vmpool.virtualization.deckhouse.io/rollout-max-unavailable": "10%",
        "vmpool.virtualization.deckhouse.io/revision-history-limit": "5",
    });
    pool["status"] = json!({ "replicas": 3 });
    pool
}

fn class() -> Value {
    json!({ "metadata": { "name": "small" }, "spec": { "sizingPolicies": [{ "cores": { "min": 1, "max": 8, "step": 1 },
        "memory": { "min": "1Gi", "max": "8Gi", "step": "1Gi", "perCore": { "min": "128Mi", "max": "8Gi" } },
        "coreFractions": ["25%", "50%"], "defaultCoreFraction": "25%" }] } })
}

fn cases() -> u64 {
    std::env::var("VMPOOL_FUZZ_CASES")
        .map_or(CASES, |cases| cases.parse().expect("VMPOOL_FUZZ_CASES is a number"))
}

/// One random body.
fn body(dice: &Dice, path: &str, rich: &Value) -> Vec<u8> {
    let scale = |replicas: usize| json!({ "kind": "Scale", "spec": { "replicas": replicas } });
    let mut review = match (dice.below(8), path == SCALE_PATH) {
        (0, _) => return dice.bytes(400),
        (_, true) => review("UPDATE", "scale", &scale(dice.below(4)), &scale(dice.below(4))),
        (1..=4, false) => review("CREATE", "", &Value::Null, rich),
        (_, false) => review("UPDATE", "", rich, rich),
    };
    // Mostly the objects are changed. Otherwise few bodies would reach the rules.
    if dice.below(4) > 0 {
        dice.mutate(&mut review["request"]["object"]);
    } else {
        dice.mutate(&mut review);
    }
    let mut text = review.to_string().into_bytes();
    if dice.below(4) == 0 {
        dice.garble(&mut text);
    }
    text
}

// Two tests, so that two threads share the work.
#[tokio::test]
async fn every_body_gets_a_response() {
    respond_to_all(SEED, cases() / 2).await;
}

#[tokio::test]
async fn every_body_gets_a_response_with_another_seed() {
    respond_to_all(!SEED, cases().div_ceil(2)).await;
}

async fn respond_to_all(seed: u64, cases: u64) {
    let (dice, rich) = (Dice(SeededEntropy::new(seed)), rich());
    let world = World::with_objects();
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for case in 0..cases {
        if case % 16 == 0 {
            let (mut class, mut pool) = (class(), rich.clone());
            if dice.below(2) == 0 {
                dice.mutate(&mut class);
                dice.mutate(&mut pool);
            }
            world.server.put("/virtualmachineclasses/small", class);
            world.server.put("/namespaces/team-a/virtualmachinepools/builders", pool);
            drop(world.server.requests());
        }
        let path = if dice.below(4) == 0 { SCALE_PATH } else { POOL_PATH };
        let text = body(&dice, path, &rich);
        let (status, answer) = world.post(path, text.clone()).await;
        let show = || format!("case {case} of {path}: {}", String::from_utf8_lossy(&text));
        let kind = match status {
            StatusCode::OK => verdict(&answer, &show),
            StatusCode::BAD_REQUEST => "no review".to_owned(),
            other => panic!("{other} for {}", show()),
        };
        *seen.entry(kind).or_default() += 1;
    }
    // The bodies reach most rules: some bodies violate each of them, and some bodies are valid.
    assert!(seen.len() > 20, "only {seen:?}");
    assert!(seen["allowed"] > cases / 20 && seen["no review"] > cases / 20, "{seen:?}");
}

/// The verdict of a response, after checks that the response is valid.
fn verdict(answer: &[u8], show: &dyn Fn() -> String) -> String {
    let answer: Value =
        serde_json::from_slice(answer).unwrap_or_else(|error| panic!("{error} after {}", show()));
    let response = &answer["response"];
    assert!(!response["uid"].as_str().unwrap().is_empty());
    for warning in response["warnings"].as_array().into_iter().flatten() {
        let warning = warning.as_str().unwrap();
        assert!(warning.len() <= 256 && !warning.contains(char::is_control), "{warning:?} after {}", show());
    }
    if response["allowed"] == true {
        return "allowed".to_owned();
    }
    let status = &response["status"];
    let message = status["message"].as_str().unwrap();
    assert!(!message.is_empty() && message.len() < 12_000, "{} bytes after {}", message.len(), show());
    match status["code"].as_i64().unwrap() {
        403 | 422 => response["auditAnnotations"]["rule"].as_str().unwrap().to_owned(),
        400 => "malformed".to_owned(),
        500 => "undecided".to_owned(),
        other => panic!("{other} after {}", show()),
    }
}
