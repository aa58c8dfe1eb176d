//! Images that were restored from a backup beside their data.
//!
//! A restored image has another UID than the labels of its data say. A user decides that the data is of the
//! image, and the kubectl plugin then writes the labels. The rules here keep it from labels that would let
//! the controller delete the data.

use serde_json::{Value, json};
use vmpool_api::diskimage::labels::IMAGE_UID;
use vmpool_api::{diskimage, kubevirt};

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectKind {
    /// Group and version, as in `apiVersion`.
    pub api_version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Name of the resource.
    pub plural: &'static str,
}

impl ObjectKind {
    /// The group, which is empty for the core group, and the version.
    pub fn group_version(&self) -> (&'static str, &'static str) {
        self.api_version.split_once('/').unwrap_or(("", self.api_version))
    }
}

/// Images.
pub const IMAGE: ObjectKind =
    ObjectKind { api_version: diskimage::API_VERSION, kind: "VMDiskImage", plural: "vmdiskimages" };

const CLAIM: ObjectKind =
    ObjectKind { api_version: "v1", kind: "PersistentVolumeClaim", plural: "persistentvolumeclaims" };
const SNAPSHOT: ObjectKind = ObjectKind {
    api_version: kubevirt::SNAPSHOT_API_VERSION,
    kind: "VolumeSnapshot",
    plural: "volumesnapshots",
};
const SOURCE: ObjectKind =
    ObjectKind { api_version: kubevirt::DATA_VOLUME_API_VERSION, kind: "DataSource", plural: "datasources" };
const VOLUME: ObjectKind =
    ObjectKind { api_version: kubevirt::DATA_VOLUME_API_VERSION, kind: "DataVolume", plural: "datavolumes" };

/// The objects with the data of an image, in the order in which to adopt them. The controller touches none of
/// them before all belong to the image.
pub const PARTS: [ObjectKind; 4] = [CLAIM, SNAPSHOT, SOURCE, VOLUME];

/// Why the objects with the data of a restored image cannot be adopted: the controller would import the data
/// again, or an object was of no image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageAdoptionError {
    /// The object was of no image.
    #[error("the {kind} {name} has no label {IMAGE_UID}, so it was not of an image")]
    NotOfImage {
        /// The kind of the object.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// Another object controls it.
    #[error("the {kind} {name} has the controller {controller}")]
    Controlled {
        /// The kind of the object.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Kind and name of its controller.
        controller: String,
    },
    /// The DataVolume is missing, or its import did not succeed.
    #[error(
        "the DataVolume {name} {state}, so the controller would import the data again: restore it, and wait until CDI reports \
         the phase Succeeded"
    )]
    NotImported {
        /// The name of the DataVolume.
        name: String,
        /// Its state, as the end of a sentence.
        state: String,
    },
    /// The PersistentVolumeClaim is missing or not bound.
    #[error("the PersistentVolumeClaim {name} is missing or not bound, so the image would have no data")]
    NotBound {
        /// The name of the claim.
        name: String,
    },
    /// The VolumeSnapshot is not ready to use.
    #[error(
        "the VolumeSnapshot {name} is not ready to use: wait until it is, or delete it, and the controller takes another one"
    )]
    SnapshotNotReady {
        /// The name of the snapshot.
        name: String,
    },
}

/// The merge patches that give an image with this UID the objects `found`, of the kinds [`PARTS`] and with
/// its name. `None` for an object that does not exist, or needs no patch.
///
/// # Errors
/// The controller would import the data again, or an object was of no image. Nothing may be written then.
pub fn adoption_patches(
    name: &str,
    uid: &str,
    found: &[Option<Value>; 4],
) -> Result<[Option<Value>; 4], ImageAdoptionError> {
    let [claim, snapshot, _, volume] = found;
    for (kind, object) in PARTS.iter().zip(found) {
        if let Some(object) = object {
            check_origin(kind.kind, name, uid, object)?;
        }
    }
    // The controller deletes a DataVolume of the image whose import did not succeed, and imports the data
    // again.
    let state = match volume {
        None => "is missing".to_owned(),
        Some(volume) if volume["status"]["phase"] == "Succeeded" => String::new(),
        Some(volume) => format!("is in the phase {}", volume["status"]["phase"]),
    };
    if !state.is_empty() {
        return Err(ImageAdoptionError::NotImported { name: name.to_owned(), state });
    }
    if claim.as_ref().is_none_or(|claim| claim["status"]["phase"] != "Bound") {
        return Err(ImageAdoptionError::NotBound { name: name.to_owned() });
    }
    if snapshot.as_ref().is_some_and(|snapshot| snapshot["status"]["readyToUse"] != true) {
        return Err(ImageAdoptionError::SnapshotNotReady { name: name.to_owned() });
    }
    let patch = |object: &Option<Value>| {
        let object = object.as_ref().filter(|object| object["metadata"]["labels"][IMAGE_UID] != uid)?;
        Some(json!({ "metadata": {
            "uid": object["metadata"]["uid"],
            "resourceVersion": object["metadata"]["resourceVersion"],
            "labels": { IMAGE_UID: uid },
        }}))
    };
    Ok(found.each_ref().map(patch))
}

/// Whether the object was of an image, and is of nothing else.
fn check_origin(kind: &'static str, name: &str, uid: &str, object: &Value) -> Result<(), ImageAdoptionError> {
    let Some(label) = object["metadata"]["labels"][IMAGE_UID].as_str() else {
        return Err(ImageAdoptionError::NotOfImage { kind, name: name.to_owned() });
    };
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let mut controllers = owners.filter(|owner| owner["controller"] == true);
    // The claim of a restored DataVolume has it as its controller again.
    let is_volume = |owner: &Value| kind == CLAIM.kind && owner["kind"] == VOLUME.kind;
    let is_image = |owner: &Value| owner["uid"] == uid || owner["uid"] == label;
    match controllers.find(|owner| !is_volume(owner) && !is_image(owner)) {
        Some(owner) => Err(ImageAdoptionError::Controlled {
            kind,
            name: name.to_owned(),
            controller: format!("{} {}", owner["kind"], owner["name"]),
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn restored(status: &Value) -> Value {
        json!({
            "metadata": { "uid": "object", "resourceVersion": "7", "labels": { IMAGE_UID: "former" } },
            "status": status,
        })
    }

    fn complete() -> [Option<Value>; 4] {
        let states = [
            json!({ "phase": "Bound" }),
            json!({ "readyToUse": true }),
            json!({}),
            json!({ "phase": "Succeeded" }),
        ];
        states.map(|status| Some(restored(&status)))
    }

    #[test]
    fn complete_data_gets_the_label_of_the_image_at_the_version_that_was_read() {
        let patch = json!({ "metadata": {
            "uid": "object", "resourceVersion": "7", "labels": { IMAGE_UID: "new" },
        }});
        let mut found = complete();
        assert_eq!(
            adoption_patches("debian", "new", &found).unwrap(),
            std::array::from_fn(|_| Some(patch.clone()))
        );
        found[1] = None;
        found[2].as_mut().unwrap()["metadata"]["labels"][IMAGE_UID] = json!("new");
        assert_eq!(
            adoption_patches("debian", "new", &found).unwrap(),
            [Some(patch.clone()), None, None, Some(patch)]
        );
    }

    #[rstest]
    #[case::a_missing_volume(3, Value::Null, "DataVolume debian is missing")]
    #[case::an_import_that_runs(3, json!({ "status": { "phase": "ImportInProgress" } }), "\"ImportInProgress\"")]
    #[case::a_volume_without_a_status(3, json!({ "status": null }), "the phase null")]
    #[case::a_missing_claim(0, Value::Null, "missing or not bound")]
    #[case::a_lost_claim(0, json!({ "status": { "phase": "Lost" } }), "missing or not bound")]
    #[case::a_snapshot_that_is_being_taken(1, json!({ "status": { "readyToUse": false } }), "not ready to use")]
    #[case::data_of_a_user(0, json!({ "metadata": { "labels": null } }), "was not of an image")]
    #[case::the_disk_of_a_machine(
        3,
        json!({ "metadata": { "ownerReferences": [
            { "kind": "VirtualMachine", "name": "web", "uid": "m", "controller": true }] } }),
        "has the controller"
    )]
    fn data_that_the_controller_would_delete_is_not_adopted(
        #[case] part: usize,
        #[case] change: Value,
        #[case] reason: &str,
    ) {
        let mut found = complete();
        match &mut found[part] {
            part if change.is_null() => *part = None,
            Some(object) => json_patch::merge(object, &change),
            None => unreachable!("it is complete"),
        }
        let error = adoption_patches("debian", "new", &found).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }

    #[test]
    fn the_claim_of_a_restored_volume_has_it_as_its_controller() {
        let mut found = complete();
        let owner = json!({ "kind": "DataVolume", "name": "debian", "uid": "v", "controller": true });
        found[0].as_mut().unwrap()["metadata"]["ownerReferences"] = json!([owner]);
        assert!(adoption_patches("debian", "new", &found).is_ok());
    }
}
