//! VirtualMachineInstances.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmpool_api::OwnerIdentity;
use vmpool_api::kubevirt::values::InstancePhase;
use vmpool_engine::model::{ObjectId, Uid};
use vmpool_engine::revisions::LiveParts;
use vmpool_platform::intern::intern_text;
use vmpool_platform::owner::is_a;

use super::super::objects::{InstanceObject, KubeVirtMachineObject};

/// The facts of one VirtualMachineInstance. It has the name of its machine.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceFacts {
    /// Name and UID.
    pub id: ObjectId,
    /// UID of the VirtualMachine of the same name that owns it.
    pub machine: Option<Uid>,
    /// Whether it has a deletionTimestamp.
    pub terminating: bool,
    /// Name of the revision in its label.
    pub revision: Option<Arc<str>>,
    /// Its parts that KubeVirt can change while it runs, as its guest has them.
    pub live: LiveParts,
    /// Why its guest does not have all of its spec yet, in the words of KubeVirt.
    pub pending_update: Option<Arc<str>>,
    /// Its phase; `None` before the first phase, or if vmpool does not know it.
    pub phase: Option<InstancePhase>,
    /// Whether the condition `Ready` is True.
    pub ready: bool,
}

impl InstanceFacts {
    /// Whether its guest runs and is ready, so that a disruption budget counts it as available.
    pub fn is_available(&self) -> bool {
        !self.terminating && self.phase == Some(InstancePhase::Running) && self.ready
    }

    /// Whether its guest has shut down by itself. One that failed may start again, depending on the machine.
    pub fn has_shut_down(&self) -> bool {
        !self.terminating && self.phase == Some(InstancePhase::Succeeded)
    }
}

/// The UID of the VirtualMachine of the same name, if it owns the instance. KubeVirt gives an instance the
/// name of its machine.
fn owner_machine_uid(metadata: &ObjectMeta) -> Option<&str> {
    let owner =
        OwnerIdentity::of_controller(metadata).filter(|owner| is_a::<KubeVirtMachineObject>(*owner))?;
    (Some(owner.name) == metadata.name.as_deref()).then_some(owner.uid)
}

/// Translates a stored VirtualMachineInstance.
pub fn read_instance_facts(object: &InstanceObject) -> InstanceFacts {
    let metadata = &object.metadata;
    InstanceFacts {
        id: super::read_object_id(metadata),
        machine: owner_machine_uid(metadata).map(|uid| intern_text(uid).into()),
        terminating: metadata.deletion_timestamp.is_some(),
        revision: object.revision.clone(),
        live: object.live.clone(),
        pending_update: object.pending_update.clone(),
        phase: object.phase,
        ready: object.ready,
    }
}
