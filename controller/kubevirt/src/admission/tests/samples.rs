//! The definition of pools and the rules accept the same pools. On a cluster with KubeVirt's definition, only
//! the rules apply.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize as _;

use super::*;

/// A sample: its name, the reason and the field of the rejection, and the states that are applied in
/// sequence.
struct Sample {
    name: String,
    reason: Option<String>,
    field: Option<String>,
    states: Vec<Value>,
}

fn samples(kind: &str) -> Vec<Sample> {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../api/tests/samples/kubevirt").join(kind);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.retain(|file| file.file_name().unwrap().to_string_lossy().starts_with("pool-"));
    let sample = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap();
        let header = |prefix: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(prefix))?;
            Some(line.trim().to_owned())
        };
        let states = serde_yaml_ng::Deserializer::from_str(&text)
            .map(|document| Value::deserialize(document).unwrap());
        Sample {
            name: file.file_stem().unwrap().to_string_lossy().into_owned(),
            reason: header("# rejected: "),
            field: header("# field:").filter(|field| !field.is_empty()),
            states: states.filter(|state| state["kind"] == "VirtualMachinePool").collect(),
        }
    };
    files.into_iter().map(sample).collect()
}

impl Sample {
    /// The verdict for the last state.
    fn verdict(&self) -> AdmissionVerdict {
        let [old @ .., new] = &*self.states else { panic!("{} has no pool", self.name) };
        judge(old.last(), new)
    }
}

/// Samples of the types and of KubeVirt's rules about machines, which the rules do not repeat. The webhook
/// warns about unknown fields.
const SCHEMA: &[&str] = &[
    "pool-base-policy",
    "pool-container-path-dots",
    "pool-container-path-relative",
    "pool-container-path-writable",
    "pool-unknown-field",
];

/// A sample of fields in the template that no version of KubeVirt has. Its DataVolume has no volume that uses
/// it, which the definition cannot check.
const UNUSED_VOLUME: &str = "pool-of-newer-kubevirt";

#[test]
fn the_rules_accept_all_samples_that_the_definition_accepts() {
    let samples = samples("accepted");
    assert!(samples.len() >= 10);
    for sample in samples {
        let verdict = sample.verdict();
        if sample.name == UNUSED_VOLUME {
            assert_eq!(refused(&verdict), [Rule::DataVolumeInvalid]);
        } else {
            assert_eq!(verdict.outcome, AdmissionDecision::Allowed, "{}", sample.name);
        }
    }
}

#[test]
fn the_rules_reject_the_samples_that_the_definition_rejects() {
    let mut accepted = BTreeSet::new();
    let samples = samples("rejected");
    assert!(samples.len() >= 40);
    for sample in &samples {
        let (name, reason) = (&sample.name, sample.reason.as_deref().unwrap());
        match sample.verdict().outcome {
            AdmissionDecision::Allowed => drop(accepted.insert(name.as_str())),
            AdmissionDecision::Refused(refusals) => {
                // Schema errors have texts of the API server.
                let is_schema =
                    ["Required value", "supported values", "Too long", "should be", "must be of type"]
                        .iter()
                        .any(|text| reason.contains(text));
                assert!(is_schema || refusals.to_string().contains(reason), "{name}: {refusals}");
                if let Some(field) = &sample.field {
                    let fields: Vec<&str> = refusals.iter().map(|refusal| refusal.field.as_str()).collect();
                    let renamed = field == "spec.virtualMachineTemplate" && fields == ["spec.template"];
                    let known = |known: &&str| known.starts_with(field.as_str()) || field.starts_with(known);
                    assert!(renamed || fields.iter().any(known), "{name}: {fields:?}");
                }
            }
            AdmissionDecision::Malformed(text) => assert!(!text.is_empty(), "{name}"),
            AdmissionDecision::Undecided(text) => panic!("{name}: {text}"),
        }
    }
    assert_eq!(accepted, SCHEMA.iter().copied().collect());
}
