//! Objects as the API server stores them, with accessors for scenarios and checks.
//!
//! The harness reads plain JSON, so that fields which typed objects would drop or default are visible.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use serde_json::Value;
use vmpool_api::v1alpha2::{GROUP, VERSION};
use vmpool_api::{OwnerIdentity, kubevirt};

/// The kinds that scenarios use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TestedKind {
    /// VirtualMachinePool.
    Pool,
    /// VirtualMachine.
    Machine,
    /// VirtualDisk.
    Disk,
    /// VirtualMachineOperation.
    Operation,
    /// Event, of the core group.
    Event,
}

impl TestedKind {
    /// The kinds whose history is recorded.
    pub const RECORDED: [Self; 4] = [Self::Pool, Self::Machine, Self::Disk, Self::Event];

    /// Plural name of the resource.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pool => "virtualmachinepools",
            Self::Machine => "virtualmachines",
            Self::Disk => "virtualdisks",
            Self::Operation => "virtualmachineoperations",
            Self::Event => "events",
        }
    }

    /// The kind's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pool => "VirtualMachinePool",
            Self::Machine => "VirtualMachine",
            Self::Disk => "VirtualDisk",
            Self::Operation => "VirtualMachineOperation",
            Self::Event => "Event",
        }
    }

    /// The API resource.
    pub fn resource(self) -> ApiResource {
        let (group, version) = if self == Self::Event { ("", "v1") } else { (GROUP, VERSION) };
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") },
            kind: self.name().to_owned(),
            plural: self.plural().to_owned(),
        }
    }

    /// An API for it in a namespace.
    pub fn api(self, client: Client, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client, namespace, &self.resource())
    }
}

/// The UIDs of objects, in their order.
pub fn object_uids(objects: &[JsonObject]) -> Vec<String> {
    objects.iter().map(|object| object.uid().to_owned()).collect()
}

/// An object as stored at one moment. Cheap to clone.
#[derive(Clone, PartialEq)]
pub struct JsonObject(Arc<Value>);

impl JsonObject {
    /// Wraps the JSON of an object.
    pub fn new(value: Value) -> Self {
        Self(Arc::new(value))
    }

    /// The whole JSON value.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// The value at a JSON pointer; null if there is none.
    pub fn at(&self, pointer: &str) -> &Value {
        self.0.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// The string at a JSON pointer; empty if there is none.
    pub fn text(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    /// The number at a JSON pointer.
    pub fn number(&self, pointer: &str) -> Option<i64> {
        self.at(pointer).as_i64()
    }

    /// The number of machines that the pool desires.
    pub fn desired_replicas(&self) -> usize {
        self.number("/spec/replicas").and_then(|count| usize::try_from(count).ok()).unwrap_or_default()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// Its UID.
    pub fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    /// The revision of the store at which the object got this state.
    pub fn revision(&self) -> u64 {
        self.text("/metadata/resourceVersion").parse().unwrap_or_default()
    }

    /// Whether the deletion timestamp is set.
    pub fn is_terminating(&self) -> bool {
        !self.at("/metadata/deletionTimestamp").is_null()
    }

    /// Whether it is a standby machine, which no count of its pool contains.
    pub fn is_standby(&self) -> bool {
        !self.at("/metadata/labels/vmpool.dev~1standby").is_null()
    }

    /// UID of its controlling owner; empty if there is none.
    pub fn owner_uid(&self) -> &str {
        let references = self.at("/metadata/ownerReferences").as_array();
        references
            .into_iter()
            .flatten()
            .find(|reference| reference["controller"] == true)
            .and_then(|reference| reference["uid"].as_str())
            .unwrap_or_default()
    }

    /// Whether another object controls it: with namespace, group, kind, name and UID.
    pub fn is_owned_by(&self, owner: &Self) -> bool {
        let references = self.at("/metadata/ownerReferences").as_array().into_iter().flatten();
        let controller = references.into_iter().find(|reference| reference["controller"] == true);
        let (api_version, kind) = (owner.text("/apiVersion"), owner.text("/kind"));
        let identity = OwnerIdentity::new(api_version, kind, owner.name(), owner.uid());
        self.namespace() == owner.namespace()
            && controller.is_some_and(|reference| OwnerIdentity::of_json(reference) == identity)
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.at("/metadata/labels").get(key).and_then(Value::as_str)
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.at("/metadata/annotations").get(key).and_then(Value::as_str)
    }

    /// `status.phase`; empty before it is set.
    pub fn phase(&self) -> &str {
        self.text("/status/phase")
    }

    /// Whether this is an object of KubeVirt.
    pub fn is_kubevirt(&self) -> bool {
        let group = self.text("/apiVersion").split('/').next().unwrap_or_default();
        group == "kubevirt.io" || group.ends_with(".kubevirt.io")
    }

    /// Whether this pool selects the machine by its labels. Pools of DVP have no selector, and select all
    /// machines that they own. The pools of the tests have no expressions in their selectors.
    pub fn selects(&self, machine: &Self) -> bool {
        let labels = self.at("/spec/selector/matchLabels").as_object();
        labels.into_iter().flatten().all(|(key, value)| machine.label(key) == value.as_str())
    }

    /// Whether the guest runs: phase Running, or Migrating. With KubeVirt: whether the machine is ready.
    pub fn is_running(&self) -> bool {
        if self.is_kubevirt() {
            return self.condition("Ready").is_some_and(|ready| ready["status"] == "True");
        }
        ["Running", "Migrating"].contains(&self.phase())
    }

    /// Whether this machine of DVP is stopped because it has not started since its activation, as its last
    /// phases show it.
    pub fn is_starting_activated(&self) -> bool {
        let is_off = ["AlwaysOff", "Manual"].contains(&self.text("/spec/runPolicy"));
        let activated =
            self.annotation("vmpool.dev/activated-at").and_then(|text| text.parse::<Timestamp>().ok());
        let Some(activated) = activated.filter(|_| !is_off && self.phase() == "Stopped") else {
            return false;
        };
        let phases = self.at("/status/stats/phasesTransitions").as_array().map_or(&[][..], Vec::as_slice);
        let has_run_since = |transition: &Value| {
            let begun = transition["timestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
            transition["phase"] != "Stopped" && begun.is_some_and(|begun| begun > activated)
        };
        !phases.is_empty() && !phases.iter().any(has_run_since)
    }

    /// Whether it has the finalizer of the pools of KubeVirt.
    pub fn has_pool_finalizer(&self) -> bool {
        let mut finalizers = self.at("/metadata/finalizers").as_array().into_iter().flatten();
        finalizers.any(|finalizer| finalizer == kubevirt::finalizers::POOL)
    }

    /// The memory in a machine's spec.
    pub fn memory(&self) -> &str {
        let guest = "/spec/template/spec/domain/memory/guest";
        self.text(if self.is_kubevirt() { guest } else { "/spec/memory/size" })
    }

    /// The condition of this type, if present.
    pub fn condition(&self, condition_type: &str) -> Option<&Value> {
        let conditions = self.at("/status/conditions").as_array();
        conditions.into_iter().flatten().find(|condition| condition["type"] == condition_type)
    }

    /// Names of the disks in a machine's spec. With KubeVirt: the DataVolumes of its volumes.
    pub fn disk_references(&self) -> impl Iterator<Item = &str> {
        let disks = self.at("/spec/blockDeviceRefs").as_array().into_iter().flatten();
        let disks = disks
            .filter(|reference| reference["kind"] == "VirtualDisk")
            .filter_map(|reference| reference["name"].as_str());
        let volumes = self.at("/spec/template/spec/volumes").as_array().into_iter().flatten();
        disks.chain(volumes.filter_map(|volume| volume["dataVolume"]["name"].as_str()))
    }

    /// Names of the disks that the disk map of a machine names; none where it cannot be read.
    pub fn mapped_disks(&self) -> BTreeSet<String> {
        let map = self.annotation(vmpool_api::annotations::DISKS);
        let map: Option<BTreeMap<String, String>> = map.and_then(|map| serde_json::from_str(map).ok());
        map.unwrap_or_default().into_values().collect()
    }

    /// YAML without managed fields.
    pub fn to_yaml(&self) -> String {
        let mut value = self.value().clone();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        serde_yaml_ng::to_string(&value).unwrap_or_else(|_| value.to_string())
    }
}

impl fmt::Debug for JsonObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl From<Arc<Value>> for JsonObject {
    fn from(value: Arc<Value>) -> Self {
        Self(value)
    }
}

impl TryFrom<DynamicObject> for JsonObject {
    type Error = serde_json::Error;

    fn try_from(object: DynamicObject) -> Result<Self, Self::Error> {
        serde_json::to_value(object).map(Self::new)
    }
}
