//! The CRD and the rules accept the same pools. On a cluster with a different CRD, only the rules apply.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize as _;
use vmpool_api::crds::POOL_CRD;
use vmpool_engine::admission::{AdmissionDecision, AdmissionVerdict, LookupOutcome, PoolRequest};
use vmpool_platforms::dvp::admission::{DvpAdmissionFacts, Rule, StoredRevisionFacts, evaluate_request};

use super::*;

/// The beginning of the message of each validation in the CRD, and the rules with the same meaning.
const EQUIVALENTS: &[(&str, &[Rule])] = &[
    ("the name of a pool has at most 57 characters", &[Rule::NameLength]),
    ("the name of a pool must not contain a dot", &[Rule::NameDots]),
    ("every disk template must be attached", &[Rule::DiskNotAttached]),
    ("a VirtualDisk in blockDeviceRefs must name an entry", &[Rule::DeviceWithoutTemplate]),
    ("a disk template may be attached once per machine", &[Rule::DiskAttachedTwice, Rule::Devices]),
    ("a pool cannot have osType Legacy", &[Rule::LegacyGuest]),
    ("spec.virtualMachineIPAddressName fits one machine only", &[Rule::Identities]),
    ("virtualMachineMACAddressName and ipAddressName of a network fit one", &[Rule::Identities]),
    ("a USB device fits one machine only", &[Rule::Identities]),
    ("labels under vmpool.virtualization.deckhouse.io/ belong", &[Rule::ReservedKeys]),
    ("annotations under vmpool.virtualization.deckhouse.io/ belong", &[Rule::ReservedKeys]),
    // Pools cannot have such guests at all.
    ("osType Legacy boots with BIOS only", &[Rule::LegacyGuest]),
    ("osType Legacy knows no provisioning", &[Rule::LegacyGuest]),
    ("osType Legacy without paravirtualization has room", &[Rule::LegacyGuest]),
    ("cores are spread evenly over sockets", &[Rule::Cores]),
    ("must be Auto or a percentage from 1% to 100%", &[Rule::BadCoreFraction]),
    ("must be greater than zero", &[Rule::NoMemory]),
    ("a block device may be listed once", &[Rule::Devices]),
    ("two block devices have the same bootOrder", &[Rule::Devices]),
    ("provisioning of type UserData needs", &[Rule::Provisioning]),
    ("provisioning of type UserDataRef needs", &[Rule::Provisioning]),
    ("provisioning of type SysprepRef needs", &[Rule::Provisioning]),
    ("userData holds at most 2048 bytes", &[Rule::LongUserData]),
    ("the Main network has no name", &[Rule::Networks]),
    ("networks other than Main are found by name", &[Rule::Networks]),
    ("the Main network always has id 1", &[Rule::Networks]),
    ("onScaleDown of an existing disk template cannot change", &[Rule::ReclaimChanged]),
    ("a pool cannot use a data source of type Upload", &[Rule::Upload]),
    ("keep and ttl are about disks that stay behind", &[Rule::ReclaimWithoutRetain]),
    ("keep has no effect without ttl", &[Rule::KeepWithoutTtl]),
    ("ttl must be a duration without a minus", &[Rule::BadTtl]),
    ("ttl must be longer than zero", &[Rule::BadTtl]),
    ("maxUnavailable must be a number of machines from 1", &[Rule::MaxUnavailable]),
    ("maxProtection must be a duration from 1m to 720h", &[Rule::MaxProtection]),
    ("drain.timeout must be a duration from 0s to 24h", &[Rule::Drain]),
    ("recycle.maxLifetime must be a duration of at least 10m", &[Rule::Recycle]),
    ("maxProvisioning must be a number of machines from 1", &[Rule::MaxProvisioning]),
    ("standby.warmUpDelay must be a duration from 0s to 1h", &[Rule::Standby]),
    ("healing.notReadyFor must be a duration", &[Rule::Healing]),
    ("healing.startTimeout must be a duration", &[Rule::Healing]),
    ("healing.maxUnhealthy must be a number of machines from 1", &[Rule::Healing]),
    ("healing.replaceStuckAfter must be a duration", &[Rule::Healing]),
    ("revision must be the name of a stored revision", &[Rule::RevisionName]),
    ("a disk without a data source needs a size", &[Rule::DiskSize]),
    ("say with type which data source is meant", &[Rule::DataSource]),
    ("a data source of type HTTP needs http", &[Rule::DataSource]),
    ("a data source of type ContainerImage needs containerImage", &[Rule::DataSource]),
    ("a data source of type ObjectRef needs objectRef", &[Rule::DataSource]),
    ("a data source of type Upload takes no http", &[Rule::DataSource, Rule::Upload]),
];

fn messages(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            for rule in map.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten() {
                found.insert(rule["message"].as_str().expect("a validation has a message").to_owned());
            }
            map.values().for_each(|value| messages(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| messages(value, found)),
        _ => {}
    }
}

#[test]
fn every_validation_of_the_crd_has_a_rule() {
    let definition: Value = serde_yaml_ng::from_str(POOL_CRD.yaml).unwrap();
    let mut found = BTreeSet::new();
    messages(&definition, &mut found);
    assert!(found.len() > 30, "{} validations", found.len());
    for message in &found {
        let known = EQUIVALENTS.iter().filter(|(begin, _)| message.starts_with(begin)).count();
        assert_eq!(known, 1, "{known} entries match the validation {message:?}");
    }
    for (begin, _) in EQUIVALENTS {
        assert!(
            found.iter().any(|message| message.starts_with(begin)),
            "no validation begins with {begin:?}"
        );
    }
}

/// Samples that the types, enums, patterns and lengths of every CRD refuse. They need no rule.
const SCHEMA: &[&str] = &["pool-spread-constraint-unknown-to-machines", "pool-template-with-a-name"];

/// The samples of pools: name, reason of the refusal, and the states that are applied in sequence.
fn samples(kind: &str) -> Vec<(String, Option<String>, Vec<Value>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../api/tests/samples").join(kind);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let pools =
        files.into_iter().filter(|file| file.file_name().unwrap().to_string_lossy().starts_with("pool-"));
    pools
        .map(|file| {
            let text = fs::read_to_string(&file).unwrap();
            let reason = text
                .lines()
                .next()
                .unwrap()
                .strip_prefix("# rejected: ")
                .map(|reason| reason.trim().to_owned());
            let states = serde_yaml_ng::Deserializer::from_str(&text)
                .map(|document| Value::deserialize(document).unwrap());
            let states = states.filter(|state| state["kind"] == "VirtualMachinePool").collect();
            (file.file_stem().unwrap().to_string_lossy().into_owned(), reason, states)
        })
        .collect()
}

/// The verdict for the last state. The state before it is the old object, if it belongs to the same pool.
fn verdict(states: &[Value]) -> AdmissionVerdict {
    let settings = AdmissionSettings::default();
    let new = states.last().expect("a sample has a pool");
    let old = states.iter().rev().nth(1).filter(|old| old["metadata"]["name"] == new["metadata"]["name"]);
    // The CRD cannot check whether a revision exists, so every revision that a sample names exists.
    let facts = |_: &_| {
        Ok::<_, std::convert::Infallible>(DvpAdmissionFacts {
            revisions: vec![LookupOutcome::There(StoredRevisionFacts::default())],
            ..DvpAdmissionFacts::default()
        })
    };
    evaluate_request(&settings, PoolRequest { user: "alice", old, new }, facts).unwrap()
}

#[test]
fn the_rules_accept_all_samples_that_the_crd_accepts() {
    let samples = samples("accepted");
    assert!(samples.len() >= 10);
    for (name, _, states) in samples {
        assert_eq!(verdict(&states).outcome, AdmissionDecision::Allowed, "{name}");
    }
}

#[test]
fn a_rule_refuses_each_sample_that_a_validation_refuses() {
    let samples = samples("rejected");
    let mut by_schema = BTreeSet::new();
    for (name, reason, states) in &samples {
        let reason = reason.as_ref().unwrap_or_else(|| panic!("{name} names no reason"));
        let rules =
            EQUIVALENTS.iter().find(|(begin, _)| begin.starts_with(reason) || reason.starts_with(begin));
        match (verdict(states).outcome, rules) {
            (AdmissionDecision::Refused(refusal), Some((_, rules))) => {
                let broken = refusal.first().rule;
                assert!(rules.iter().any(|rule| broken == *rule), "{name}: {refusal}");
            }
            (AdmissionDecision::Refused(_), None) => {}
            (AdmissionDecision::Allowed, _) => drop(by_schema.insert(name.as_str())),
            (AdmissionDecision::Malformed(reason) | AdmissionDecision::Undecided(reason), _) => {
                panic!("{name}: {reason}")
            }
        }
    }
    assert_eq!(by_schema, SCHEMA.iter().copied().collect());
}
