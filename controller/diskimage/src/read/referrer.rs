//! Reads the objects that refer to images.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use vmpool_api::OwnerIdentity;
use vmpool_api::diskimage::VirtualMachine;
use vmpool_api::kubevirt::clone_account;

use super::{named_source, named_sources, object_key};
use crate::model::{NamedSource, NamedSourceKind, ObjectKey, ReferrerKind};
use crate::owner::ObjectOwnerKind;
use crate::references::{ImageMark, Referrer, ReferrerOwner};

fn new_referrer(kind: ReferrerKind, metadata: &ObjectMeta) -> Referrer {
    Referrer {
        kind,
        key: object_key(metadata),
        uid: metadata.uid.clone().unwrap_or_default(),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        images: BTreeSet::new(),
        data_sources: BTreeSet::new(),
        mark: None,
        owner: expected_owner(kind, metadata),
        finished: false,
        service_account: None,
    }
}

impl Referrer {
    fn add_sources(&mut self, sources: impl IntoIterator<Item = NamedSource>) {
        for source in sources {
            if source.kind == NamedSourceKind::DataSource {
                self.data_sources.insert(source.key.clone());
            }
            self.images.insert(source.key);
        }
    }
}

/// The owner of a referrer, if it has the kind that owners of such objects have.
fn expected_owner(kind: ReferrerKind, metadata: &ObjectMeta) -> Option<ReferrerOwner> {
    let expected = match kind {
        ReferrerKind::Machine => ObjectOwnerKind::Wrapper,
        ReferrerKind::DataVolume => ObjectOwnerKind::Machine,
        // They count for themselves, whatever owns them.
        ReferrerKind::Wrapper | ReferrerKind::Pool => return None,
    };
    controller_of(metadata, expected)
}

/// The controller of an object, if it has this kind.
fn controller_of(metadata: &ObjectMeta, kind: ObjectOwnerKind) -> Option<ReferrerOwner> {
    let owner = OwnerIdentity::of_controller(metadata).filter(|owner| kind.is_kind_of(*owner))?;
    let namespace = metadata.namespace.clone().unwrap_or_default();
    Some(ReferrerOwner { key: ObjectKey::new(namespace, owner.name), uid: owner.uid.to_owned() })
}

/// A wrapper.
pub fn read_wrapper_referrer(stored: &VirtualMachine) -> Referrer {
    let mut referrer = new_referrer(ReferrerKind::Wrapper, &stored.metadata);
    let named = &stored.spec.vm_disk_image_ref;
    let namespace = named.namespace.clone().unwrap_or_else(|| referrer.key.namespace.clone());
    referrer.images.insert(ObjectKey::new(namespace, &named.name));
    let mark = stored.status.as_ref().and_then(|status| status.vm_disk_image.as_ref());
    referrer.mark = mark
        .map(|mark| ImageMark { image: ObjectKey::new(&mark.namespace, &mark.name), uid: mark.uid.clone() });
    referrer.service_account =
        Some(clone_account_name(&stored.spec.virtual_machine_template.spec["template"]["spec"]));
    referrer
}

/// A machine, of which only the spec is read.
pub fn read_machine_referrer(metadata: &ObjectMeta, spec: &Value) -> Referrer {
    let mut referrer = new_referrer(ReferrerKind::Machine, metadata);
    let namespace = referrer.key.namespace.clone();
    referrer.add_sources(named_sources(&namespace, &of_spec(spec)));
    referrer.service_account = Some(clone_account_name(&spec["template"]["spec"]));
    referrer
}

/// A pool, of which only the spec is read.
pub fn read_pool_referrer(metadata: &ObjectMeta, spec: &Value) -> Referrer {
    let mut referrer = new_referrer(ReferrerKind::Pool, metadata);
    let namespace = referrer.key.namespace.clone();
    referrer.add_sources(named_sources(&namespace, &of_spec(spec)));
    referrer.service_account =
        Some(clone_account_name(&spec["virtualMachineTemplate"]["spec"]["template"]["spec"]));
    referrer
}

/// A stored revision of a pool. It has the name of the pool. `None` if the object is no revision of a pool.
///
/// While the rollout of a template is held, new machines come from the last stored revision, so its images
/// are in use, too.
pub fn read_revision_referrer(metadata: &ObjectMeta, data: &Value) -> Option<Referrer> {
    let owner = controller_of(metadata, ObjectOwnerKind::Pool)?;
    let mut referrer = read_pool_referrer(metadata, data);
    referrer.key.name.clone_from(&owner.key.name);
    referrer.owner = Some(owner);
    Some(referrer)
}

/// The only part of an object that names images.
fn of_spec(spec: &Value) -> Value {
    let templates = |spec: &Value| serde_json::json!({ "dataVolumeTemplates": spec["dataVolumeTemplates"] });
    let mut object = serde_json::json!({ "spec": templates(spec) });
    object["spec"]["virtualMachineTemplate"] =
        serde_json::json!({ "spec": templates(&spec["virtualMachineTemplate"]["spec"]) });
    object
}

/// A DataVolume, of which spec and phase are read.
pub fn read_data_volume_referrer(metadata: &ObjectMeta, spec: &Value, phase: Option<&str>) -> Referrer {
    let mut referrer = new_referrer(ReferrerKind::DataVolume, metadata);
    let namespace = referrer.key.namespace.clone();
    referrer.add_sources(named_source(&namespace, spec));
    referrer.finished = matches!(phase, Some("Succeeded" | "Failed"));
    referrer
}

/// The account on whose behalf KubeVirt clones.
pub(crate) fn clone_account_name(spec: &Value) -> String {
    clone_account(spec).to_owned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn metadata() -> ObjectMeta {
        ObjectMeta {
            namespace: Some("team-a".to_owned()),
            name: Some("web".to_owned()),
            uid: Some("uid-web".to_owned()),
            ..ObjectMeta::default()
        }
    }

    #[rstest]
    #[case::a_snapshot(json!({"source": {"snapshot": {"name": "debian", "namespace": "images"}}}), Some("images"))]
    #[case::a_claim_of_its_namespace(json!({"source": {"pvc": {"name": "debian"}}}), Some("team-a"))]
    #[case::a_data_source(
        json!({"sourceRef": {"kind": "DataSource", "name": "debian", "namespace": "images"}}), Some("images"))]
    #[case::an_import(json!({"source": {"http": {"url": "https://images.example"}}}), None)]
    #[case::templates_are_of_machines(
        json!({"dataVolumeTemplates": [{"spec": {"source": {"pvc": {"name": "debian"}}}}]}), None)]
    fn a_data_volume_names_the_image_in_its_own_source(#[case] spec: Value, #[case] namespace: Option<&str>) {
        let expected: BTreeSet<ObjectKey> =
            namespace.map(|namespace| ObjectKey::new(namespace, "debian")).into_iter().collect();
        assert_eq!(read_data_volume_referrer(&metadata(), &spec, Some("CloneScheduled")).images, expected);
    }

    #[test]
    fn a_stored_revision_refers_to_images_for_its_pool() {
        let spec = json!({"virtualMachineTemplate": {"spec": {"dataVolumeTemplates":
            [{"spec": {"sourceRef": {"kind": "DataSource", "name": "debian"}}}]}}});
        let owner_in = |group: &str, kind: &str| {
            let owner = json!([{"apiVersion": format!("{group}/v1beta1"), "kind": kind, "name": "farm",
                "uid": "uid-farm", "controller": true}]);
            ObjectMeta { owner_references: serde_json::from_value(owner).unwrap(), ..metadata() }
        };
        let owner = |kind: &str| owner_in("pool.kubevirt.io", kind);
        let found = read_revision_referrer(&owner("VirtualMachinePool"), &spec).unwrap();
        assert_eq!(found.key, ObjectKey::new("team-a", "farm"));
        assert_eq!(found.owner, Some(ReferrerOwner { key: found.key.clone(), uid: "uid-farm".to_owned() }));
        assert_eq!(found.images, BTreeSet::from([ObjectKey::new("team-a", "debian")]));
        assert_eq!(read_revision_referrer(&owner("StatefulSet"), &spec), None);
        assert_eq!(read_revision_referrer(&owner_in("no.such.group", "VirtualMachinePool"), &spec), None);
        assert_eq!(read_revision_referrer(&metadata(), &spec), None);
    }

    #[rstest]
    #[case::no_phase(None, false)]
    #[case::a_clone_in_progress(Some("CloneInProgress"), false)]
    #[case::waiting_for_a_consumer(Some("WaitForFirstConsumer"), false)]
    #[case::unknown(Some("Unknown"), false)]
    #[case::succeeded(Some("Succeeded"), true)]
    #[case::failed(Some("Failed"), true)]
    fn a_clone_refers_to_its_image_until_it_ends(#[case] phase: Option<&str>, #[case] finished: bool) {
        assert_eq!(read_data_volume_referrer(&metadata(), &json!({}), phase).finished, finished);
    }

    #[rstest]
    #[case::the_default(json!({}), "default")]
    #[case::an_empty_name(json!({"serviceAccountName": ""}), "default")]
    #[case::an_empty_name_and_a_volume(
        json!({"serviceAccountName": "", "volumes": [{"serviceAccount": {"serviceAccountName": "mounted"}}]}),
        "mounted")]
    #[case::named(json!({"serviceAccountName": "builder"}), "builder")]
    #[case::of_a_volume(
        json!({"volumes": [{"name": "a"}, {"name": "b", "serviceAccount": {"serviceAccountName": "mounted"}}]}),
        "mounted")]
    #[case::the_named_one_first(
        json!({"serviceAccountName": "builder", "volumes": [{"serviceAccount": {"serviceAccountName": "mounted"}}]}),
        "builder")]
    fn kubevirt_clones_with_the_account_of_the_machine(#[case] spec: Value, #[case] expected: &str) {
        let found = read_machine_referrer(&metadata(), &json!({"template": {"spec": spec}}));
        assert_eq!(found.service_account.as_deref(), Some(expected));
        let found = read_pool_referrer(
            &metadata(),
            &json!({"virtualMachineTemplate": {"spec": {"template": {"spec": spec}}}}),
        );
        assert_eq!(found.service_account.as_deref(), Some(expected));
    }
}
