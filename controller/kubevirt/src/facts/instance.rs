//! VirtualMachineInstances.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmpool_api::OwnerIdentity;
use vmpool_api::kubevirt::values::InstancePhase;
use vmpool_engine::model::Instance;
use vmpool_platform::intern::intern_text;
use vmpool_platform::owner::is_a;

use super::super::objects::{InstanceObject, KubeVirtMachineObject};
use super::super::read::read_object_id;

/// An instance. It is available if its guest runs and is ready, and the instance is not being deleted.
pub(crate) fn read_instance(object: &InstanceObject) -> Instance {
    let metadata = &object.metadata;
    let terminating = metadata.deletion_timestamp.is_some();
    Instance {
        ready: !terminating && object.phase == Some(InstancePhase::Running) && object.ready,
        // A guest that failed may start again, depending on the machine.
        ended: !terminating && object.phase == Some(InstancePhase::Succeeded),
        machine: owner_machine_uid(metadata).map(|uid| intern_text(uid).into()),
        terminating,
        revision: object.revision.clone().map(Into::into),
        live: object.live.clone(),
        pending_update: object.pending_update.clone(),
        id: read_object_id(metadata),
    }
}

/// The UID of the VirtualMachine of the same name, if it owns the instance. KubeVirt gives an instance the
/// name of its machine.
fn owner_machine_uid(metadata: &ObjectMeta) -> Option<&str> {
    let owner =
        OwnerIdentity::of_controller(metadata).filter(|owner| is_a::<KubeVirtMachineObject>(*owner))?;
    (Some(owner.name) == metadata.name.as_deref()).then_some(owner.uid)
}
