mod catalogue;
mod classes;
mod corpus;
mod details;
mod laws;
mod missing;
mod page;
mod ratchet;
mod rollouts;

use serde_json::{Value, json};
use vmpool_engine::ObjectId;
use vmpool_engine::admission::{
    self, AdmissionDecision, AdmissionVerdict, LookupOutcome, PoolRequest, PrivilegedUsers, RuleSeverity,
};

use super::{
    AdmissionSettings, CapabilityState, ClusterCapabilities, DiskSnapshotFacts, DvpAdmissionFacts, ImageId,
    ImageKind, MachineClass, NeededObjects, Rule, RuleScope, StoredRevisionFacts, VirtualImageFacts,
    evaluate_request,
};

/// The user of the removal handler, which removes machines by name.
const HANDLER: &str = "system:serviceaccount:vmpool-system:vmpool-apiserver";
const CONTROLLER: &str = "system:serviceaccount:vmpool-system:vmpool-controller";
const PAUSED: &str = vmpool_api::annotations::ROLLOUT_PAUSED;
const RECORD: &str = vmpool_api::annotations::SCALE_DOWN_TARGETS;

/// A pool with a disk of each policy and a shared image, to which no rule objects.
fn pool() -> Value {
    json!({
        "metadata": { "name": "builders", "namespace": "team-a", "uid": "u" },
        "spec": {
            "replicas": 3,
            "scaleDownPolicy": "OldestFirst",
            "virtualMachineTemplate": {
                "metadata": { "labels": { "role": "builder" } },
                "spec": {
                    "virtualMachineClassName": "small",
                    "cpu": { "cores": 2, "coreFraction": "25%" },
                    "memory": { "size": "1Gi" },
                    "blockDeviceRefs": [
                        { "kind": "VirtualDisk", "name": "root" },
                        { "kind": "ClusterVirtualImage", "name": "toolbox" },
                        { "kind": "VirtualDisk", "name": "cache" },
                    ],
                },
            },
            "virtualDiskTemplates": [
                {
                    "name": "root",
                    "spec": {
                        "persistentVolumeClaim": { "size": "10Gi" },
                        "dataSource": {
                            "type": "ObjectRef",
                            "objectRef": { "kind": "ClusterVirtualImage", "name": "debian" },
                        },
                    },
                },
                {
                    "name": "cache",
                    "reclaim": { "onScaleDown": "Retain", "keep": 2, "ttl": "45m" },
                    "spec": { "persistentVolumeClaim": { "size": "20Gi" } },
                },
            ],
        },
        "status": { "replicas": 3 },
    })
}

/// The pool with another value at a JSON pointer; `null` removes the field.
fn with(mut pool: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/");
    match pool.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}")) {
        Value::Object(map) if value.is_null() => drop(map.remove(&name)),
        Value::Object(map) => drop(map.insert(name, value)),
        Value::Array(list) if name == "-" => list.push(value),
        Value::Array(list) if value.is_null() => drop(list.remove(name.parse().unwrap())),
        Value::Array(list) => list[name.parse::<usize>().unwrap()] = value,
        other => panic!("{parent} is {other}"),
    }
    pool
}

const MACHINE: &str = "/spec/virtualMachineTemplate/spec";

fn machine(below: &str, value: Value) -> Value {
    with(pool(), &format!("{MACHINE}{below}"), value)
}

fn disk(index: usize, below: &str, value: Value) -> Value {
    with(pool(), &format!("/spec/virtualDiskTemplates/{index}{below}"), value)
}

/// The facts about the cluster that admission can read.
#[derive(Clone)]
struct World {
    settings: AdmissionSettings,
    facts: DvpAdmissionFacts,
}

impl World {
    /// All facts are known and all referenced objects exist.
    fn complete() -> Self {
        let cluster = ClusterCapabilities {
            sdn: CapabilityState::Yes,
            machine_cidrs: CapabilityState::Yes,
            gpus: CapabilityState::Yes,
            in_place_resize: CapabilityState::Yes,
        };
        let (mut world, class) =
            (Self { settings: settings(cluster), facts: DvpAdmissionFacts::default() }, small());
        world.facts.class = Some(LookupOutcome::There(MachineClass::read(&class)));
        world = world.revision("u", &["root", "cache"]);
        for name in ["debian", "toolbox"] {
            world =
                world.image(name, VirtualImageFacts { ready: true, cdrom: false, unpacked: Some(2 << 30) });
        }
        world
    }

    fn image(mut self, name: &str, image: VirtualImageFacts) -> Self {
        let id = ImageId { kind: ImageKind::Cluster, name: name.to_owned() };
        self.facts.images.insert(id, LookupOutcome::There(image));
        self
    }

    /// The revision that admission reads, regardless of its name.
    fn revision(mut self, owner: &str, disks: &[&str]) -> Self {
        let disks = disks.iter().map(|&name| name.to_owned()).collect();
        self.facts.revisions = vec![LookupOutcome::There(StoredRevisionFacts {
            owner: Some(ObjectId::new("builders", owner)),
            disks,
        })];
        self
    }

    fn snapshot(mut self, name: &str, restore_size: u64) -> Self {
        let snapshot = DiskSnapshotFacts { restore_size: Some(restore_size) };
        self.facts.snapshots.insert(name.to_owned(), LookupOutcome::There(snapshot));
        self
    }

    /// The world in which admission finds no such image.
    fn without_image(mut self, name: &str) -> Self {
        let id = ImageId { kind: ImageKind::Cluster, name: name.to_owned() };
        self.facts.images.insert(id, LookupOutcome::Absent);
        self
    }

    fn storage_class(mut self, name: &str, found: LookupOutcome<()>) -> Self {
        self.facts.storage_classes.insert(name.to_owned(), found);
        self
    }

    fn with_class(mut self, class: &Value) -> Self {
        self.facts.class = Some(LookupOutcome::There(MachineClass::read(class)));
        self
    }

    fn without(change: impl FnOnce(&mut ClusterCapabilities)) -> Self {
        let mut world = Self::complete();
        change(&mut world.settings.cluster);
        world
    }

    fn judge(&self, user: &str, old: Option<&Value>, new: &Value) -> AdmissionVerdict {
        let found: Result<_, std::convert::Infallible> =
            evaluate_request(&self.settings, PoolRequest { user, old, new }, |_| Ok(self.facts.clone()));
        found.unwrap()
    }

    /// The objects that the rules need for a request; `None` if they need none.
    fn needs(&self, old: Option<&Value>, new: &Value) -> Option<NeededObjects> {
        let request = PoolRequest { user: "a", old, new };
        evaluate_request(&self.settings, request, |needs| Err(needs.clone())).err()
    }

    fn create(&self, new: &Value) -> AdmissionVerdict {
        self.judge("alice", None, new)
    }

    fn update(&self, old: &Value, new: &Value) -> AdmissionVerdict {
        self.judge("alice", Some(old), new)
    }
}

fn settings(cluster: ClusterCapabilities) -> AdmissionSettings {
    let users = PrivilegedUsers {
        removal_handler: Some(HANDLER.to_owned()),
        controller: Some(CONTROLLER.to_owned()),
    };
    AdmissionSettings { users, cluster }
}

/// A class as the platform stores it.
fn small() -> Value {
    json!({
        "metadata": { "name": "small" },
        "spec": { "sizingPolicies": [
            {
                "cores": { "min": 1, "max": 4 },
                "memory": { "min": "512Mi", "max": "8Gi", "step": "512Mi", "perCore": { "min": "256Mi", "max": "4Gi" } },
                "coreFractions": ["5%", "25%", "100%"],
                "defaultCoreFraction": "25%",
            },
            { "cores": { "min": 8, "max": 248, "step": 8 } },
        ] },
    })
}

/// The rule in the catalogue of DVP.
fn listed(rule: admission::AdmissionRule) -> Rule {
    let listed = Rule::ALL.iter().find(|listed| rule == **listed);
    let listed = *listed.unwrap_or_else(|| panic!("{rule} is not in the catalogue"));
    assert_eq!(rule.severity(), listed.severity(), "{rule}");
    listed
}

/// The first rule that refused the request; `None` if the request is allowed.
fn refused(verdict: &AdmissionVerdict) -> Option<Rule> {
    all_refused(verdict).first().copied()
}

/// All rules that refused the request.
fn all_refused(verdict: &AdmissionVerdict) -> Vec<Rule> {
    match &verdict.outcome {
        AdmissionDecision::Refused(refusals) => refusals.iter().map(|refusal| listed(refusal.rule)).collect(),
        AdmissionDecision::Allowed | AdmissionDecision::Malformed(_) | AdmissionDecision::Undecided(_) => {
            Vec::new()
        }
    }
}

fn assert_allowed(verdict: &AdmissionVerdict) {
    assert_eq!(verdict, &AdmissionVerdict { outcome: AdmissionDecision::Allowed, warnings: Vec::new() });
}

#[test]
fn a_good_pool_is_allowed_without_a_word() {
    assert_allowed(&World::complete().create(&pool()));
}

#[test]
fn one_response_names_all_settings_that_are_bad() {
    let mut bad = pool();
    bad["spec"]["rollout"] = json!({ "maxUnavailable": "200%", "revision": "Not A Name" });
    bad["spec"]["revisionHistoryLimit"] = json!(-1);
    let rules = all_refused(&World::complete().create(&bad));
    assert_eq!(rules, [Rule::MaxUnavailable, Rule::RevisionName, Rule::HistoryLimit]);
}

#[test]
fn only_what_is_needed_is_read() {
    let world = World::complete();
    let created = world.needs(None, &pool()).unwrap();
    assert_eq!(created.class, Some(super::ClassName::Named("small".to_owned())));
    assert_eq!(created.images.len(), 2, "the source of a disk, and an image among the devices: {created:?}");
    assert_eq!(world.needs(Some(&pool()), &with(pool(), "/spec/replicas", json!(9))), None);
    let grown =
        world.needs(Some(&pool()), &disk(0, "/spec/persistentVolumeClaim/size", json!("11Gi"))).unwrap();
    assert_eq!((grown.class, grown.images.len()), (None, 1));
    let resized = world.needs(Some(&pool()), &machine("/cpu/cores", json!(4))).unwrap();
    assert_eq!((resized.class.is_some(), resized.images.len()), (true, 1));
}
