//! The resources in the comparison, and objects that both servers accept.

use std::fmt;

use serde_json::{Value, json};

/// A resource.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConformanceKind {
    Pool,
    Machine,
    Disk,
    Revision,
    Lease,
    Event,
}

pub(crate) const GROUP: &str = "virtualization.deckhouse.io";

impl ConformanceKind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Pool, Self::Machine, Self::Disk, Self::Revision, Self::Lease, Self::Event];

    /// Kinds that may have owners.
    pub(crate) const OWNED: [Self; 3] = [Self::Machine, Self::Disk, Self::Revision];

    /// Group, version, plural, kind.
    fn names(self) -> [&'static str; 4] {
        match self {
            Self::Pool => [GROUP, "v1alpha2", "virtualmachinepools", "VirtualMachinePool"],
            Self::Machine => [GROUP, "v1alpha2", "virtualmachines", "VirtualMachine"],
            Self::Disk => [GROUP, "v1alpha2", "virtualdisks", "VirtualDisk"],
            Self::Revision => ["apps", "v1", "controllerrevisions", "ControllerRevision"],
            Self::Lease => ["coordination.k8s.io", "v1", "leases", "Lease"],
            Self::Event => ["", "v1", "events", "Event"],
        }
    }

    pub(crate) fn plural(self) -> &'static str {
        self.names()[2]
    }

    pub(crate) fn full_name(self) -> String {
        let [group, _, plural, _] = self.names();
        if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
    }

    pub(crate) fn collection(self, namespace: &str) -> String {
        let [_, _, plural, _] = self.names();
        let api = if self.api_version().contains('/') { "apis" } else { "api" };
        format!("/{api}/{}/namespaces/{namespace}/{plural}", self.api_version())
    }

    fn api_version(self) -> String {
        let [group, version, ..] = self.names();
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
    }

    pub(crate) fn has_status(self) -> bool {
        matches!(self, Self::Pool | Self::Machine | Self::Disk)
    }

    /// The kinds of possible owners. They precede the kind in the order, so that there are no cycles.
    pub(crate) fn owners(self) -> &'static [Self] {
        match self {
            Self::Machine | Self::Revision => &[Self::Pool],
            Self::Disk => &[Self::Pool, Self::Machine],
            _ => &[],
        }
    }

    /// An owner reference to an object of this kind.
    pub(crate) fn reference(self, name: &str, uid: &str, blocks: bool, controls: bool) -> Value {
        let [group, version, _, kind] = self.names();
        let mut reference =
            json!({ "apiVersion": format!("{group}/{version}"), "kind": kind, "name": name, "uid": uid });
        if blocks {
            reference["blockOwnerDeletion"] = json!(true);
        }
        if controls {
            reference["controller"] = json!(true);
        }
        reference
    }

    /// An object without metadata, in one of several shapes.
    pub(crate) fn object(self, shape: u64, namespace: &str) -> Value {
        let [_, _, _, kind] = self.names();
        let mut object = match self {
            Self::Pool => json!({ "spec": {
                "scaleDownPolicy": "NewestFirst",
                "virtualMachineTemplate": { "spec": machine() },
                "virtualDiskTemplates":
                    [{ "name": "root", "spec": { "persistentVolumeClaim": { "size": "1Gi" } } }],
            } }),
            Self::Machine => json!({ "spec": machine() }),
            Self::Disk => json!({ "spec": { "persistentVolumeClaim": { "size": "1Gi" } } }),
            Self::Revision => json!({ "data": { "spec": { "cores": 1 } } }),
            Self::Lease => json!({ "spec": { "holderIdentity": "one" } }),
            Self::Event => json!({
                "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Test", "reason": "Tested", "type": "Normal",
                "message": "a note", "reportingComponent": "vmpool.dev/test", "reportingInstance": "one",
                // The real server stores absent ones as empty values.
                "source": { "component": "vmpool.dev/test" }, "count": 1,
                "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
                "involvedObject": { "kind": "VirtualMachinePool", "name": "a", "namespace": namespace,
                    "apiVersion": format!("{GROUP}/v1alpha2") },
            }),
        };
        object["apiVersion"] = json!(self.api_version());
        object["kind"] = json!(kind);
        let (path, value) = self.content(shape);
        set(&mut object, path, value);
        object
    }

    /// A field of the object that can be changed, as a JSON pointer, and its new value.
    pub(crate) fn content(self, shape: u64) -> (&'static str, Value) {
        match self {
            Self::Pool if shape.is_multiple_of(2) => ("/spec/replicas", json!(shape)),
            Self::Pool => ("/spec/virtualMachineTemplate/spec/cpu/cores", json!(1 + shape)),
            Self::Machine => ("/spec/cpu/cores", json!(1 + shape)),
            Self::Disk => ("/spec/persistentVolumeClaim/size", json!(format!("{}Gi", 1 + shape))),
            Self::Revision => ("/revision", json!(1 + shape)),
            Self::Lease => ("/spec/leaseDurationSeconds", json!(10 + shape)),
            Self::Event => {
                ("/series", json!({ "count": 2 + shape, "lastObservedTime": "2026-01-01T00:00:01.000000Z" }))
            }
        }
    }

    /// A possible status.
    pub(crate) fn status(self, shape: u64) -> Value {
        match self {
            Self::Pool => json!({ "replicas": shape, "selector": "pool=a", "observedGeneration": 1 }),
            Self::Machine => json!({ "phase": if shape.is_multiple_of(2) { "Running" } else { "Pending" } }),
            _ => json!({ "phase": if shape.is_multiple_of(2) { "Ready" } else { "Pending" } }),
        }
    }
}

fn machine() -> Value {
    json!({ "virtualMachineClassName": "small", "cpu": { "cores": 1 }, "memory": { "size": "1Gi" },
        "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": "root" }] })
}

/// Sets the value at a pointer, and creates missing objects on the path.
pub(crate) fn set(object: &mut Value, pointer: &str, value: Value) {
    *pointer.split('/').skip(1).fold(object, |at, part| &mut at[part]) = value;
}

/// The name of an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    Given(&'static str),
    /// The name that the server generated in this step.
    Of(usize),
}

/// An object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectTarget {
    pub(crate) kind: ConformanceKind,
    pub(crate) name: Name,
}

impl fmt::Debug for ConformanceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(name) => f.write_str(name),
            Self::Of(step) => write!(f, "(generated in {step})"),
        }
    }
}

impl fmt::Debug for ObjectTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{:?}", self.kind, self.name)
    }
}
