//! DataVolumes and claims that a machine would share with another machine, or adopt.
//!
//! The name of a DataVolume contains the ordinal and not the pool. Two pools of a namespace whose templates
//! have the same name would therefore use the same DataVolumes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use serde_json::Value;
use vmpool_api::OwnerIdentity;
use vmpool_api::diskimage::labels::IMAGE_UID;
use vmpool_engine::model::ObjectId;
use vmpool_platform::VolumeUse;
use vmpool_platform::owner::is_a;

use super::keys::PRESERVED_POOL;
use super::machine::{RevisionTemplate, numbered_machine_spec};
use super::objects::{DataVolumeObject, KubeVirtMachineObject};

/// Names of the DataVolumes that KubeVirt creates for the machine with this ordinal.
pub fn new_data_volume_names(template: RevisionTemplate<'_>, ordinal: u64) -> Vec<String> {
    data_volume_names_in(&numbered_machine_spec(template, ordinal))
}

/// Names of the DataVolumes that KubeVirt creates for a machine with this spec.
pub fn data_volume_names_in(spec: &Value) -> Vec<String> {
    let templates = spec["dataVolumeTemplates"].as_array().into_iter().flatten();
    let names = templates.filter_map(|template| template["metadata"]["name"].as_str());
    names.map(str::to_owned).collect()
}

/// Why `machine`, a machine of `pool`, must not be created or updated while this stored DataVolume or claim
/// has the name of one of its new DataVolumes: another machine or pool uses it, used it last, or its data
/// would be deleted. `None` if nothing is against it.
///
/// Without this check, the machine would never start, or adopt the storage of another pool. The storage of an
/// earlier machine with the same name is deleted with that machine. A new machine may use an object without a
/// controller and without a record of its pool, because users prepare storage in this way. An existing
/// machine may not: the rollout deletes the machine together with the storage that it adopted, unless it
/// preserves the storage.
pub fn storage_conflict(
    kind: &str,
    object: &ObjectMeta,
    machine: &str,
    pool: &ObjectId,
    volume_use: VolumeUse,
) -> Option<String> {
    let name = object.name.as_deref().unwrap_or_default();
    let done = match volume_use {
        VolumeUse::Create => "created",
        VolumeUse::Update { .. } => "updated",
    };
    let conflict = |why: &str| Some(format!("machine {machine} is not {done}, because {kind} {name} {why}"));
    if let Some(owner) = OwnerIdentity::of_controller(object) {
        let of_its_data_volume =
            kind != DataVolumeObject::kind(&()) && is_a::<DataVolumeObject>(owner) && owner.name == name;
        let of_same_name = is_a::<KubeVirtMachineObject>(owner) && owner.name == machine;
        return if of_its_data_volume || of_same_name {
            None
        } else {
            conflict(&format!("is controlled by {} {}", owner.kind, owner.name))
        };
    }
    // Without an owner, KubeVirt would give the data of the image to the machine.
    if object.labels.as_ref().is_some_and(|labels| labels.contains_key(IMAGE_UID)) {
        return conflict("holds the data of a disk image");
    }
    let last = object.labels.as_ref().and_then(|labels| labels.get(PRESERVED_POOL));
    if let Some(last) = last.filter(|last| ***last != *pool.name) {
        return conflict(&format!("holds the preserved data of a machine of pool {last}"));
    }
    (volume_use == VolumeUse::Update { preserved: false })
        .then(|| {
            conflict(
                "exists: the machine would adopt it, and the rollout would delete it. Use another name in \
                 dataVolumeTemplates, or delete it",
            )
        })
        .flatten()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::super::fixtures;
    use super::super::read::NameGenerationSettings;
    use super::*;

    #[test]
    fn the_names_of_data_volumes_contain_the_ordinal() {
        let content = &fixtures::recorded_pool_spec()["virtualMachineTemplate"];
        let template =
            RevisionTemplate { content, names: NameGenerationSettings::default(), pins: &Value::Null };
        assert_eq!(new_data_volume_names(template, 4), ["root-4"]);
        let none = RevisionTemplate {
            content: &Value::Null,
            names: NameGenerationSettings::default(),
            pins: &Value::Null,
        };
        assert!(new_data_volume_names(none, 4).is_empty());
    }

    fn owned(kind: &str, name: &str, uid: &str) -> Value {
        let api_version = match kind {
            "DataVolume" => "cdi.kubevirt.io/v1beta1",
            _ => "kubevirt.io/v1",
        };
        json!({ "ownerReferences": [
            { "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true },
        ] })
    }

    #[rstest]
    #[case::no_owner(json!({}), None, None)]
    #[case::an_earlier_machine_with_the_name(owned("VirtualMachine", "herd-0", "earlier"), None, None)]
    #[case::another_machine(
        owned("VirtualMachine", "flock-0", "theirs"),
        Some("DataVolume root-0 is controlled by VirtualMachine flock-0"),
        Some("PersistentVolumeClaim root-0 is controlled by VirtualMachine flock-0")
    )]
    #[case::its_data_volume(
        owned("DataVolume", "root-0", "d"),
        Some("DataVolume root-0 is controlled by DataVolume root-0"),
        None
    )]
    #[case::another_data_volume(
        owned("DataVolume", "other", "d"),
        Some("DataVolume root-0 is controlled by DataVolume other"),
        Some("PersistentVolumeClaim root-0 is controlled by DataVolume other")
    )]
    #[case::another_group(
        json!({"ownerReferences": [{"apiVersion": "no.such.group/v1", "kind": "VirtualMachine",
            "name": "herd-0",
            "uid": "u", "controller": true}]}),
        Some("DataVolume root-0 is controlled by VirtualMachine herd-0"),
        Some("PersistentVolumeClaim root-0 is controlled by VirtualMachine herd-0"))]
    #[case::of_an_image(
        json!({"labels": {"vmpool.dev/vmdiskimage-uid": "i"}}),
        Some("DataVolume root-0 holds the data of a disk image"),
        Some("PersistentVolumeClaim root-0 holds the data of a disk image"))]
    #[case::preserved_by_the_pool(json!({"labels": {"vmpool.dev/preserved-pool": "herd"}}), None, None)]
    #[case::preserved_by_another_pool(
        json!({"labels": {"vmpool.dev/preserved-pool": "flock"}}),
        Some("DataVolume root-0 holds the preserved data of a machine of pool flock"),
        Some("PersistentVolumeClaim root-0 holds the preserved data of a machine of pool flock"))]
    fn storage_of_others_is_a_conflict(
        #[case] metadata: Value,
        #[case] data_volume: Option<&str>,
        #[case] claim: Option<&str>,
    ) {
        let mut metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
        metadata.name = Some("root-0".to_owned());
        let pool = ObjectId::new("herd", fixtures::POOL_UID);
        for (volume_use, done) in [
            (VolumeUse::Create, "created"),
            // The storage that it adopts is preserved.
            (VolumeUse::Update { preserved: true }, "updated"),
        ] {
            let conflict = |kind| storage_conflict(kind, &metadata, "herd-0", &pool, volume_use);
            let expected =
                |what: Option<&str>| what.map(|what| format!("machine herd-0 is not {done}, because {what}"));
            assert_eq!(conflict("DataVolume"), expected(data_volume));
            assert_eq!(conflict("PersistentVolumeClaim"), expected(claim));
        }
    }

    #[rstest]
    #[case::prepared_by_a_user(json!({}), true)]
    #[case::preserved_by_the_pool(json!({"labels": {"vmpool.dev/preserved-pool": "herd"}}), true)]
    #[case::its_own(owned("VirtualMachine", "herd-0", "current"), false)]
    fn an_existing_machine_adopts_no_storage_that_the_rollout_would_delete(
        #[case] metadata: Value,
        #[case] refused: bool,
    ) {
        let mut metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
        metadata.name = Some("root-0".to_owned());
        let pool = ObjectId::new("herd", fixtures::POOL_UID);
        let update = VolumeUse::Update { preserved: false };
        let found = storage_conflict("DataVolume", &metadata, "herd-0", &pool, update);
        let expected = "machine herd-0 is not updated, because DataVolume root-0 exists: the machine would adopt it, \
                        and the rollout would delete it. Use another name in dataVolumeTemplates, or delete it";
        assert_eq!(found, refused.then(|| expected.to_owned()));
    }
}
