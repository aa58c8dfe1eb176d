//! Reads the objects with the data of an image.
//!
//! An object belongs to an image if it has the label with the UID and no controller, or if the image is its
//! controller, as in earlier versions. An object without a controller also belongs to the image if the status
//! of the image has its UID: a user or a tool has removed the label, and the controller writes it again. A
//! claim belongs to it if its controller is the DataVolume of the image, or if it has the label: CDI copies
//! the labels of a DataVolume to its claim, and may remove the DataVolume after its success.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use vmpool_api::OwnerIdentity;
use vmpool_api::diskimage::VmDiskImage;
use vmpool_api::diskimage::labels::{IMAGE_UID, WRAPPER_UID};
use vmpool_api::kubevirt;

use crate::model::{
    BackingClaim, BackingDataSource, BackingDataVolume, BackingSnapshot, DataKind, DataTarget, DiskImage,
    FoundObject, NotRunning, ObjectKey, Transfer,
};
use crate::objects::{self, ImageObjectLabels, PREPOPULATED};
use crate::owner::ObjectOwnerKind;
use crate::wrapper::DiskNameOwner;

/// Reason of the condition `Bound` of a DataVolume whose claim a quota refuses.
pub(super) const OVER_QUOTA: &str = "ErrExceededQuota";

/// An object, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedObject<T> {
    /// Its controller.
    controller: Option<Controller>,
    /// UID of the wrapper whose machine it was made for, as its label names it.
    wrapper: Option<String>,
    /// UIDs of the images among its owners.
    owners: Vec<String>,
    /// Its own UID.
    uid: String,
    /// UID of an image, as its label names it.
    pub label: Option<String>,
    /// What it has of the labels of an image.
    labels: Option<Box<ImageObjectLabels>>,
    /// The object.
    pub object: T,
}

impl<T: Clone> OwnedObject<T> {
    fn new(metadata: &ObjectMeta, object: T) -> Self {
        let owners = metadata.owner_references.iter().flatten().map(OwnerIdentity::of);
        let images = owners.filter(|owner| ObjectOwnerKind::Image.is_kind_of(*owner));
        Self {
            controller: OwnerIdentity::of_controller(metadata).map(Controller::of),
            wrapper: metadata.labels.as_ref().and_then(|labels| labels.get(WRAPPER_UID)).cloned(),
            owners: images.map(|owner| owner.uid.to_owned()).collect(),
            uid: object_uid(metadata),
            label: metadata.labels.as_ref().and_then(|labels| labels.get(IMAGE_UID)).cloned(),
            labels: ImageObjectLabels::read(metadata),
            object,
        }
    }

    /// The object of this kind with the name of the image, if it belongs to the image.
    pub fn found(stored: Option<&Self>, image: &DiskImage, kind: DataKind) -> FoundObject<T> {
        match stored {
            None => FoundObject::Missing,
            Some(stored) if stored.belongs(image, kind) => FoundObject::Ours(stored.object.clone()),
            Some(_) => FoundObject::Foreign,
        }
    }

    #[cfg(test)]
    pub(crate) fn controller(&self) -> Option<&str> {
        self.controller.as_ref().map(|controller| &*controller.uid)
    }

    /// Whether the object says that it belongs to the image. One that another object controls does not,
    /// whatever its label says.
    pub fn is_of(&self, image_uid: &str) -> bool {
        match &self.controller {
            Some(controller) => controller.is(ObjectOwnerKind::Image, image_uid),
            None => self.label.as_deref() == Some(image_uid),
        }
    }

    fn belongs(&self, image: &DiskImage, kind: DataKind) -> bool {
        self.is_of(&image.uid) || self.is_recorded(image.status.recorded(kind))
    }

    /// Whether the object is the one with this UID. A controller of its own has taken it since.
    fn is_recorded(&self, recorded: Option<&String>) -> bool {
        self.controller.is_none() && recorded == Some(&self.uid)
    }

    /// Kind and UID of the object, if it belongs to the image and has an owner reference to it.
    pub fn owned(stored: Option<&Self>, image: &DiskImage, kind: DataKind) -> Option<(DataKind, String)> {
        let owned = stored.filter(|stored| stored.belongs(image, kind));
        let owned = owned.filter(|stored| stored.owners.contains(&image.uid));
        owned.map(|stored| (kind, stored.uid.clone()))
    }

    /// Kind and UID of the object, if it belongs to the image and lacks labels of it. `prefixes` are those of
    /// the labels that the objects get from the image.
    pub fn mislabeled(
        stored: Option<&Self>,
        image: &DiskImage,
        object: &VmDiskImage,
        prefixes: &[String],
        kind: DataKind,
    ) -> Option<(DataKind, String)> {
        let stored = stored.filter(|stored| stored.belongs(image, kind))?;
        stored.relabel(object, prefixes).map(|_| (kind, stored.uid.clone()))
    }

    /// A merge patch that gives the object the labels of its image again. `None` if it has them.
    pub fn relabel(&self, image: &VmDiskImage, prefixes: &[String]) -> Option<Value> {
        objects::label_patch(image, prefixes, self.labels.as_deref())
    }
}

impl<T> OwnedObject<T> {
    /// Whether its controller is the DataVolume with this UID.
    fn is_of_volume(&self, uid: &str) -> bool {
        self.controller.as_ref().is_some_and(|controller| controller.is(ObjectOwnerKind::DataVolume, uid))
    }
}

/// The controller of an object, in its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Controller {
    /// Group and kind; `None` for one that owns nothing of images.
    kind: Option<ObjectOwnerKind>,
    name: String,
    uid: String,
}

impl Controller {
    fn of(owner: OwnerIdentity<'_>) -> Self {
        let kinds = [ObjectOwnerKind::Image, ObjectOwnerKind::DataVolume, ObjectOwnerKind::Machine];
        let kind = kinds.into_iter().find(|kind| kind.is_kind_of(owner));
        Self { kind, name: owner.name.to_owned(), uid: owner.uid.to_owned() }
    }

    fn is(&self, kind: ObjectOwnerKind, uid: &str) -> bool {
        self.kind == Some(kind) && self.uid == uid
    }
}

impl OwnedObject<BackingClaim> {
    /// The claim of this image, which has this DataVolume.
    pub fn found_claim(
        stored: Option<&Self>,
        image: &DiskImage,
        data_volume: &FoundObject<BackingDataVolume>,
    ) -> FoundObject<BackingClaim> {
        let Some(claim) = stored else { return FoundObject::Missing };
        let by_owner = data_volume.ours().is_some_and(|volume| claim.is_of_volume(&volume.uid));
        let by_label = claim.label.as_deref() == Some(&*image.uid);
        if by_owner || by_label || claim.is_recorded(image.status.claim.as_ref()) {
            return FoundObject::Ours(claim.object.clone());
        }
        FoundObject::Foreign
    }
}

/// Who has the name of the disk of a wrapper's machine, according to the DataVolume and the claim with this
/// name. KubeVirt would use them as they are, and delete them with the machine.
pub fn find_disk_name_owner(
    wrapper: &ObjectKey,
    uid: &str,
    volume: Option<&OwnedObject<BackingDataVolume>>,
    claim: Option<&OwnedObject<BackingClaim>>,
) -> DiskNameOwner {
    let is_own = |label: Option<&String>| label.is_some_and(|label| label == uid);
    if let Some(volume) = volume {
        match &volume.controller {
            // The wrapper has no machine, so this one is gone or will be, and the garbage collector deletes
            // the disk. Disks of machines that no wrapper created lack the label.
            Some(Controller { kind: Some(ObjectOwnerKind::Machine), name, .. })
                if *name == wrapper.name && volume.wrapper.is_some() =>
            {
                return DiskNameOwner::Former;
            }
            // The machine was deleted without its disk, which the next one continues to use.
            None if is_own(volume.wrapper.as_ref()) => {}
            _ => return DiskNameOwner::Taken("DataVolume"),
        }
    }
    let Some(claim) = claim else { return DiskNameOwner::Free };
    match &claim.controller {
        Some(_) if volume.is_some_and(|volume| claim.is_of_volume(&volume.uid)) => DiskNameOwner::Free,
        // Its DataVolume is gone, so that the garbage collector deletes it.
        Some(Controller { kind: Some(ObjectOwnerKind::DataVolume), .. }) => DiskNameOwner::Former,
        None if is_own(claim.wrapper.as_ref()) => DiskNameOwner::Free,
        _ => DiskNameOwner::Taken("PersistentVolumeClaim"),
    }
}

fn object_uid(metadata: &ObjectMeta) -> String {
    metadata.uid.clone().unwrap_or_default()
}

fn creation_time(metadata: &ObjectMeta) -> Timestamp {
    metadata.creation_timestamp.as_ref().map(|time| time.0).unwrap_or_default()
}

/// A stored DataVolume.
pub fn read_data_volume(stored: &kubevirt::DataVolume) -> OwnedObject<BackingDataVolume> {
    let metadata = &stored.metadata;
    let status = stored.status.clone().unwrap_or_default();
    // Other conditions contain messages such as "not found" in harmless situations. Only that about a quota
    // has a reason of its own.
    let condition = |is: &dyn Fn(&kubevirt::Condition) -> bool| {
        let condition = status.conditions.iter().flatten().find(|condition| is(condition))?;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let found = NotRunning { reason: text(&condition.reason), message: text(&condition.message) };
        Some(found).filter(|found| *found != NotRunning::default())
    };
    let volume = BackingDataVolume {
        uid: object_uid(metadata),
        created: creation_time(metadata),
        deleting: metadata.deletion_timestamp.is_some(),
        transfer: match status.phase.as_deref() {
            Some("Succeeded") => Transfer::Succeeded,
            Some("Failed") => Transfer::Failed,
            _ => Transfer::InProgress,
        },
        progress: status.progress.filter(|progress| !progress.is_empty()),
        restarts: status.restart_count.and_then(|count| count.try_into().ok()).unwrap_or_default(),
        not_running: condition(&|condition| condition.type_ == "Running" && condition.status == "False"),
        over_quota: condition(&|condition| {
            condition.type_ == "Bound" && condition.reason.as_deref() == Some(OVER_QUOTA)
        })
        .map(|found| found.message)
        .filter(|message| !message.is_empty()),
        prepopulated: metadata.annotations.as_ref().is_some_and(|all| all.contains_key(PREPOPULATED)),
    };
    OwnedObject::new(metadata, volume)
}

/// A stored claim.
pub fn read_claim(stored: &PersistentVolumeClaim) -> OwnedObject<BackingClaim> {
    let metadata = &stored.metadata;
    let phase = stored.status.as_ref().and_then(|status| status.phase.as_deref());
    let claim = BackingClaim {
        uid: object_uid(metadata),
        deleting: metadata.deletion_timestamp.is_some(),
        bound: phase == Some("Bound"),
        lost: phase == Some("Lost"),
        owned: metadata.owner_references.as_ref().is_some_and(|owners| !owners.is_empty()),
    };
    OwnedObject::new(metadata, claim)
}

/// A stored snapshot, and the name of its content.
pub fn read_snapshot(stored: &kubevirt::VolumeSnapshot) -> (OwnedObject<BackingSnapshot>, Option<String>) {
    let metadata = &stored.metadata;
    let status = stored.status.clone().unwrap_or_default();
    let snapshot = BackingSnapshot {
        uid: object_uid(metadata),
        created: creation_time(metadata),
        deleting: metadata.deletion_timestamp.is_some(),
        ready: status.ready_to_use == Some(true),
        unready_for: None,
        error: status
            .error
            .map(|error| error.message.unwrap_or_else(|| "the driver gives no reason".to_owned())),
        content_lost: false,
        restore_size: status.restore_size,
    };
    (OwnedObject::new(metadata, snapshot), status.bound_volume_snapshot_content_name)
}

/// A stored DataSource.
pub fn read_data_source(stored: &kubevirt::DataSource) -> OwnedObject<BackingDataSource> {
    let metadata = &stored.metadata;
    let source = &stored.spec.source;
    let is_own = |namespace: &String, name: &String| {
        metadata.namespace.as_ref() == Some(namespace) && metadata.name.as_ref() == Some(name)
    };
    // CDI prefers another DataSource to what stands beside it.
    let is_alias = serde_json::to_value(source).is_ok_and(|source| !source["dataSource"].is_null());
    let target = match (&source.snapshot, &source.pvc) {
        _ if is_alias => None,
        (Some(snapshot), None) if is_own(&snapshot.namespace, &snapshot.name) => Some(DataTarget::Snapshot),
        (None, Some(claim)) if is_own(&claim.namespace, &claim.name) => Some(DataTarget::Claim),
        _ => None,
    };
    let source = BackingDataSource {
        uid: object_uid(metadata),
        deleting: metadata.deletion_timestamp.is_some(),
        target,
    };
    OwnedObject::new(metadata, source)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({ "type": kind, "status": status, "reason": reason, "message": message })
    }

    #[rstest]
    #[case::the_importer(condition("Running", "False", "Error", "got 404"), (Some(("Error", "got 404")), None))]
    #[case::an_importer_that_runs(condition("Running", "True", "Pod is running", "fine"), (None, None))]
    #[case::a_quota(condition("Bound", "False", "ErrExceededQuota", "exceeded quota: q"), (None, Some("exceeded quota: q")))]
    #[case::no_claim_yet(condition("Bound", "False", "NotFound", "No PVC found"), (None, None))]
    #[case::no_message(condition("Running", "False", "ErrImagePull", ""), (Some(("ErrImagePull", "")), None))]
    #[case::nothing(condition("Running", "False", "", ""), (None, None))]
    #[case::a_quota_without_message(condition("Bound", "False", "ErrExceededQuota", ""), (None, None))]
    fn only_the_importer_and_quotas_give_messages(
        #[case] condition: Value,
        #[case] expected: (Option<(&str, &str)>, Option<&str>),
    ) {
        let stored = json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "metadata": { "name": "debian" }, "spec": {},
            "status": { "phase": "Pending", "conditions": [condition] },
        });
        let volume = read_data_volume(&serde_json::from_value(stored).unwrap()).object;
        let stopped = volume.not_running.as_ref();
        let stopped = stopped.map(|stopped| (stopped.reason.as_str(), stopped.message.as_str()));
        assert_eq!((stopped, volume.over_quota.as_deref()), expected);
    }

    /// Labels, controller, and the name of the DataVolume that controls a claim.
    fn stored(uid: &str, wrapper: Option<&str>, owner: Option<(&str, &str, &str)>) -> ObjectMeta {
        let owners: Vec<Value> = owner
            .into_iter()
            .map(|(kind, name, uid)| {
                let api_version = match kind {
                    "VirtualMachine" => kubevirt::API_VERSION,
                    "DataVolume" => kubevirt::DATA_VOLUME_API_VERSION,
                    _ => "apps/v1",
                };
                json!({ "apiVersion": api_version, "kind": kind,
                    "name": name, "uid": uid, "controller": true })
            })
            .collect();
        let labels: serde_json::Map<String, Value> =
            wrapper.into_iter().map(|uid| (WRAPPER_UID.to_owned(), json!(uid))).collect();
        let metadata = json!({ "name": "web-root", "namespace": "team-a", "uid": uid, "labels": labels,
            "ownerReferences": owners });
        serde_json::from_value(metadata).unwrap()
    }

    #[expect(clippy::unnecessary_wraps, reason = "the function under test takes what a read returned")]
    fn disk(wrapper: Option<&str>, owner: Option<(&str, &str, &str)>) -> Option<kubevirt::DataVolume> {
        let mut volume: kubevirt::DataVolume = serde_json::from_value(json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "metadata": {}, "spec": {},
        }))
        .unwrap();
        volume.metadata = stored("uid-disk", wrapper, owner);
        Some(volume)
    }

    #[expect(clippy::unnecessary_wraps, reason = "the function under test takes what a read returned")]
    fn its_claim(wrapper: Option<&str>, owner: Option<(&str, &str, &str)>) -> Option<PersistentVolumeClaim> {
        let metadata = stored("uid-claim", wrapper, owner);
        Some(PersistentVolumeClaim { metadata, ..PersistentVolumeClaim::default() })
    }

    const OWN: Option<&str> = Some("uid-web");

    #[rstest]
    #[case::nothing(None, None, DiskNameOwner::Free)]
    #[case::a_data_volume_of_a_user(disk(None, None), None, DiskNameOwner::Taken("DataVolume"))]
    #[case::of_another_wrapper(disk(Some("uid-other"), None), None, DiskNameOwner::Taken("DataVolume"))]
    #[case::of_another_machine(disk(OWN, Some(("VirtualMachine", "db", "u"))), None, DiskNameOwner::Taken("DataVolume"))]
    #[case::of_the_former_machine(disk(OWN, Some(("VirtualMachine", "web", "u"))), None, DiskNameOwner::Former)]
    #[case::of_the_machine_of_a_former_wrapper(
        disk(Some("uid-other"), Some(("VirtualMachine", "web", "u"))), None, DiskNameOwner::Former
    )]
    #[case::of_a_machine_of_a_user(
        disk(None, Some(("VirtualMachine", "web", "u"))), None, DiskNameOwner::Taken("DataVolume")
    )]
    #[case::of_a_machine_that_was_deleted_without_it(disk(OWN, None), None, DiskNameOwner::Free)]
    #[case::with_its_claim(disk(OWN, None), its_claim(OWN, Some(("DataVolume", "web-root", "uid-disk"))), DiskNameOwner::Free)]
    #[case::with_the_claim_of_a_user(
        disk(OWN, None),
        its_claim(None, None),
        DiskNameOwner::Taken("PersistentVolumeClaim")
    )]
    #[case::a_claim_of_a_user(None, its_claim(None, None), DiskNameOwner::Taken("PersistentVolumeClaim"))]
    #[case::a_claim_of_a_set(None, its_claim(None, Some(("Set", "web", "u"))), DiskNameOwner::Taken("PersistentVolumeClaim"))]
    #[case::a_claim_without_its_data_volume(None, its_claim(OWN, Some(("DataVolume", "web-root", "u"))), DiskNameOwner::Former)]
    #[case::a_claim_that_stayed(None, its_claim(OWN, None), DiskNameOwner::Free)]
    fn the_name_of_a_disk_has_an_owner(
        #[case] volume: Option<kubevirt::DataVolume>,
        #[case] claimed: Option<PersistentVolumeClaim>,
        #[case] expected: DiskNameOwner,
    ) {
        let wrapper = ObjectKey::new("team-a", "web");
        let volume = volume.as_ref().map(read_data_volume);
        let claimed = claimed.as_ref().map(read_claim);
        assert_eq!(find_disk_name_owner(&wrapper, "uid-web", volume.as_ref(), claimed.as_ref()), expected);
    }
}
