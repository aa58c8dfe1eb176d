//! Instance types and preferences as they are now, and how they differ from their copies.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};
use vmpool_api::instancetype::API_VERSION;
use vmpool_api::kubevirt::annotations::REFRESH_INSTANCETYPE;
use vmpool_engine::condition::ConditionReason;
use vmpool_engine::model::PinReport;
use vmpool_platform::{CopiedObject, CopySource, CopySourceVisitor, UncopiedObject, slim_metadata};

use crate::copy::{self, Outdated};
use crate::metadata::DocumentMetadata;
use crate::model::{InstanceTypeKind, InstanceTypeObject, TypeFamily, TypeMatcher};

use super::stored::{FAMILIES, Pins};
use super::{TEMPLATE, has_references, is_resolved};

/// The fields of an instance type or a preference that vmpool reads.
#[derive(Clone, Debug, Deserialize)]
struct Facts {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
}

macro_rules! kinds {
    ($($name:ident, $kind:literal, $plural:literal, $is_namespaced:literal;)+) => {
        $(
            #[derive(Clone, Debug, Deserialize)]
            #[serde(from = "Facts")]
            struct $name {
                metadata: ObjectMeta,
                spec: Value,
            }

            impl From<Facts> for $name {
                fn from(Facts { mut metadata, spec }: Facts) -> Self {
                    (metadata.labels, metadata.annotations) = (None, None);
                    Self { metadata, spec }
                }
            }

            vmpool_platform::api_object!($name, "instancetype.kubevirt.io", "v1beta1", $kind, $plural);

            impl CopySource for $name {
                const IS_NAMESPACED: bool = $is_namespaced;

                fn content(&self) -> Value {
                    let ObjectMeta { name, namespace, uid, deletion_timestamp, .. } = &self.metadata;
                    let mut metadata = json!({ "name": name, "namespace": namespace, "uid": uid });
                    if let Some(deleted) = deletion_timestamp {
                        metadata["deletionTimestamp"] = json!(deleted);
                    }
                    json!({
                        "apiVersion": API_VERSION,
                        "kind": $kind,
                        "metadata": metadata,
                        "spec": self.spec,
                    })
                }
            }
        )+

        /// Visits the four kinds.
        pub fn each(visitor: &mut impl CopySourceVisitor) {
            $(visitor.visit::<$name>();)+
        }
    };
}

kinds! {
    Instancetype, "VirtualMachineInstancetype", "virtualmachineinstancetypes", true;
    ClusterInstancetype, "VirtualMachineClusterInstancetype", "virtualmachineclusterinstancetypes", false;
    Preference, "VirtualMachinePreference", "virtualmachinepreferences", true;
    ClusterPreference, "VirtualMachineClusterPreference", "virtualmachineclusterpreferences", false;
}

/// The objects of which the content of a revision contains copies that the controller made. What a template
/// pins itself, by a `revisionName`, is not compared.
pub fn copied_objects(revision: &Value) -> Vec<CopiedObject> {
    let pins = Pins::of(revision).into_iter().flat_map(Pins::each);
    let made = pins.filter(|(_, pin)| pin.has_copy());
    made.filter_map(|(_, pin)| {
        let object = pin.copied_object();
        let metadata = DocumentMetadata::of(&object);
        Some(CopiedObject {
            kind: object["kind"].as_str()?.to_owned(),
            namespace: metadata.namespace().unwrap_or_default().to_owned(),
            name: metadata.name().unwrap_or_default().to_owned(),
            content: object,
        })
    })
    .collect()
}

/// The objects that the template of a revision refers to and of which its content has no copies. A matcher
/// that names a volume, or that cannot be read, may refer to any object of its two kinds.
pub fn uncopied_objects(revision: &Value, namespace: &str) -> Vec<UncopiedObject> {
    let mut referents = Vec::new();
    if !has_references(revision) {
        return referents;
    }
    let template = &revision[TEMPLATE];
    for family in FAMILIES {
        if !template["spec"][family.field()].is_object() || is_resolved(revision, family) {
            continue;
        }
        let matcher = TypeMatcher::of_machine(template, family).ok().flatten();
        let mut add = |kind: InstanceTypeKind, name: Option<&str>| {
            let namespace = if kind.is_cluster() { "" } else { namespace };
            referents.push(UncopiedObject {
                kind: kind.as_str(),
                namespace: namespace.to_owned(),
                name: name.map(str::to_owned),
            });
        };
        match matcher.as_ref().map(|matcher| (matcher, matcher.kind(family))) {
            Some((matcher, _)) if !matcher.revision_name.is_empty() => {}
            Some((matcher, Ok(kind))) if matcher.infer_from_volume.is_empty() => {
                add(kind, Some(&matcher.name));
            }
            _ => kinds_of(family).into_iter().for_each(|kind| add(kind, None)),
        }
    }
    referents
}

fn kinds_of(family: TypeFamily) -> [InstanceTypeKind; 2] {
    match family {
        TypeFamily::Instancetype => [InstanceTypeKind::Instancetype, InstanceTypeKind::ClusterInstancetype],
        TypeFamily::Preference => [InstanceTypeKind::Preference, InstanceTypeKind::ClusterPreference],
    }
}

/// How a copy differs from its original.
pub fn compare_with_original(copy: &CopiedObject, original: Option<&Value>) -> Option<PinReport> {
    let CopiedObject { kind, name, .. } = copy;
    let copied = InstanceTypeObject::read(copy.content.clone()).ok()?;
    let live = original.map(|live| InstanceTypeObject::read(live.clone())).transpose().ok()?;
    let (reason, what) = match copy::outdated_reason(&copied, live.as_ref())? {
        Outdated::Deleted => (ConditionReason::Deleted, "was deleted"),
        Outdated::Recreated => (ConditionReason::Recreated, "was created again with another spec"),
        Outdated::SpecChanged => (ConditionReason::SpecChanged, "was changed"),
    };
    let remedy = match original {
        None => "create it again, or name another one, before you change the template".to_owned(),
        Some(_) => {
            format!("to use it as it is now, change annotation {REFRESH_INSTANCETYPE} of the template")
        }
    };
    let message = format!("{kind} {name} {what}, and machines use the copy of their revision; {remedy}");
    Some(PinReport { reason, message })
}
