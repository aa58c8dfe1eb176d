//! Reads stored objects: images, the objects with their data, grants, and what refers to images.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use vmpool_api::diskimage::finalizers::GRANT_PROTECTION;
use vmpool_api::diskimage::{VmDiskImageGrant, vm_disk_image_grant::VmDiskImageGrantFrom};
use vmpool_api::kubevirt::DataSource;

use crate::grants::{Grant, GrantKind, GrantedNamespaces, Grantee, ImageCreationGrant, NamespaceRequirement};
use crate::model::{NamedSource, NamedSourceKind, ObjectKey};
use crate::source::SourceUrl;

pub mod backing;
pub mod image;
pub mod referrer;
pub mod wrapper;

/// Namespace and name of a stored object.
pub fn object_key(metadata: &ObjectMeta) -> ObjectKey {
    ObjectKey::of(metadata)
}

/// A stored grant. What cannot be read of it permits nothing.
pub fn read_grant(stored: &VmDiskImageGrant) -> Grant {
    let spec = &stored.spec;
    let create = spec.create.as_ref().filter(|create| create.allowed == Some(true));
    Grant {
        namespace: stored.metadata.namespace.clone().unwrap_or_default(),
        from: spec.from.iter().map(read_grantee).collect(),
        to: spec.to.iter().flatten().map(|entry| entry.name.clone()).collect(),
        create: create.map(|create| ImageCreationGrant {
            urls: create.url_prefixes.iter().flatten().filter_map(|url| SourceUrl::parse(url).ok()).collect(),
            secrets: create.secret_refs.clone().unwrap_or_default(),
            storage_classes: create.storage_classes.clone().unwrap_or_default(),
            max_disk_size: create
                .max_disk_size
                .clone()
                .map(|limit| limit.compare(&limit).is_ok().then_some(limit)),
        }),
        deleted: deletion_time(&stored.metadata),
        protected: stored.metadata.finalizers.iter().flatten().any(|name| name == GRANT_PROTECTION),
    }
}

/// When the deletion of a stored object was requested.
pub fn deletion_time(metadata: &ObjectMeta) -> Option<Timestamp> {
    metadata.deletion_timestamp.as_ref().map(|time| time.0)
}

fn read_grantee(from: &VmDiskImageGrantFrom) -> Grantee {
    let namespaces = match (&from.namespace, &from.namespace_selector) {
        (Some(name), None) => GrantedNamespaces::Name(name.clone()),
        (None, Some(selector)) => {
            let labels = selector.match_labels.iter().flatten();
            let labels =
                labels.map(|(key, value)| NamespaceRequirement::In(key.clone(), vec![value.clone()]));
            let expressions = selector.match_expressions.iter().flatten().map(|each| {
                let values = each.values.clone().unwrap_or_default();
                match each.operator.as_str() {
                    "In" if !values.is_empty() => NamespaceRequirement::In(each.key.clone(), values),
                    "NotIn" if !values.is_empty() => NamespaceRequirement::NotIn(each.key.clone(), values),
                    "Exists" if values.is_empty() => NamespaceRequirement::Exists(each.key.clone()),
                    "DoesNotExist" if values.is_empty() => {
                        NamespaceRequirement::DoesNotExist(each.key.clone())
                    }
                    _ => NamespaceRequirement::Unreadable,
                }
            });
            GrantedNamespaces::Selected(labels.chain(expressions).collect())
        }
        _ => GrantedNamespaces::None,
    };
    let kinds = from.kinds.iter().flatten().filter_map(|kind| match kind.as_str() {
        "VirtualMachine" => Some(GrantKind::VirtualMachine),
        "VirtualMachinePool" => Some(GrantKind::VirtualMachinePool),
        _ => None,
    });
    let kinds: Vec<GrantKind> = kinds.collect();
    // Without a kind that is known, the entry means none, and not all.
    let none = kinds.is_empty() && from.kinds.as_ref().is_some_and(|kinds| !kinds.is_empty());
    Grantee { namespaces: if none { GrantedNamespaces::None } else { namespaces }, kinds }
}

/// The images that the DataVolume templates of a machine or a pool name, if they are images: a DataSource, a
/// snapshot or a claim with the name of an image.
pub fn named_images(namespace: &str, object: &Value) -> BTreeSet<ObjectKey> {
    named_sources(namespace, object).into_iter().map(|source| source.key).collect()
}

/// What the DataVolume templates of a machine or a pool name.
pub fn named_sources(namespace: &str, object: &Value) -> BTreeSet<NamedSource> {
    let of_machine = &object["spec"]["dataVolumeTemplates"];
    let of_pool = &object["spec"]["virtualMachineTemplate"]["spec"]["dataVolumeTemplates"];
    let templates = [of_machine, of_pool].into_iter().filter_map(Value::as_array).flatten();
    templates.filter_map(|template| named_source(namespace, &template["spec"])).collect()
}

/// What a DataSource points to. CDI copies the source of another DataSource into the status, and KubeVirt
/// clones that until CDI has written it again, so both count. CDI follows no DataSource into another
/// namespace.
pub fn source_targets(namespace: &str, object: &Value) -> BTreeSet<NamedSource> {
    let sources = [&object["spec"]["source"], &object["status"]["source"]];
    let targets = sources.into_iter().flat_map(|source| {
        let kinds = [
            (NamedSourceKind::DataSource, "dataSource"),
            (NamedSourceKind::Snapshot, "snapshot"),
            (NamedSourceKind::Claim, "pvc"),
        ];
        kinds.into_iter().filter_map(|(kind, field)| read_reference(namespace, kind, &source[field]))
    });
    let is_followed = |target: &NamedSource| {
        target.kind != NamedSourceKind::DataSource || target.key.namespace == namespace
    };
    targets.filter(is_followed).collect()
}

/// What a stored DataSource points to, as [`source_targets`].
pub fn data_source_targets(stored: &DataSource) -> BTreeSet<NamedSource> {
    let namespace = stored.metadata.namespace.as_deref().unwrap_or_default();
    source_targets(namespace, &json!({ "spec": stored.spec, "status": stored.status }))
}

/// What the spec of a DataVolume, or of its template, names.
pub(crate) fn named_source(namespace: &str, spec: &Value) -> Option<NamedSource> {
    let source = &spec["source"];
    let (kind, reference) = [
        (NamedSourceKind::DataSource, &spec["sourceRef"]),
        (NamedSourceKind::Snapshot, &source["snapshot"]),
        (NamedSourceKind::Claim, &source["pvc"]),
    ]
    .into_iter()
    .find(|(_, each)| each.is_object())?;
    let is_known = reference["kind"].as_str().unwrap_or("DataSource") == "DataSource";
    read_reference(namespace, kind, reference).filter(|_| is_known)
}

/// The object that a reference names. CDI takes an empty namespace for an omitted one.
fn read_reference(namespace: &str, kind: NamedSourceKind, reference: &Value) -> Option<NamedSource> {
    let name = reference["name"].as_str().filter(|name| !name.is_empty())?;
    let named = reference["namespace"].as_str().filter(|named| !named.is_empty());
    Some(NamedSource { kind, key: ObjectKey::new(named.unwrap_or(namespace), name) })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::grants::{ReferrerNamespace, may_refer};
    use crate::model::ReferrerKind;

    fn permits(from: &Value) -> bool {
        let stored = json!({
            "apiVersion": "vmpool.dev/v1alpha1", "kind": "VMDiskImageGrant",
            "metadata": {"name": "g", "namespace": "images"}, "spec": {"from": [from]},
        });
        let grant = read_grant(&serde_json::from_value(stored).unwrap());
        let labels = [("team".to_owned(), "a".to_owned())].into();
        let origin = ReferrerNamespace { namespace: "team-a", labels: Some(&labels) };
        may_refer(&[grant], &ObjectKey::new("images", "debian"), origin, ReferrerKind::Wrapper)
    }

    #[rstest]
    #[case::a_name(json!({"namespace": "team-a"}), true)]
    #[case::another_name(json!({"namespace": "team-b"}), false)]
    #[case::labels(json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}), true)]
    #[case::other_labels(json!({"namespaceSelector": {"matchLabels": {"team": "b"}}}), false)]
    #[case::every_namespace(json!({"namespaceSelector": {}}), true)]
    #[case::an_expression(
        json!({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}}), true)]
    #[case::an_unknown_operator(
        json!({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Like", "values": ["a"]}]}}), false)]
    #[case::in_nothing(
        json!({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn"}]}}), false)]
    #[case::both(json!({"namespace": "team-a", "namespaceSelector": {}}), false)]
    #[case::neither(json!({}), false)]
    #[case::another_kind(json!({"namespace": "team-a", "kinds": ["VirtualMachinePool"]}), false)]
    #[case::an_unknown_kind(json!({"namespace": "team-a", "kinds": ["Pod"]}), false)]
    #[case::the_kind(json!({"namespace": "team-a", "kinds": ["VirtualMachine"]}), true)]
    fn a_grant_is_read(#[case] from: Value, #[case] permitted: bool) {
        assert_eq!(permits(&from), permitted);
    }

    #[rstest]
    #[case::a_data_source(json!({"sourceRef": {"kind": "DataSource", "name": "d", "namespace": "i"}}), Some(("i", "d")))]
    #[case::of_the_own_namespace(json!({"sourceRef": {"kind": "DataSource", "name": "d"}}), Some(("n", "d")))]
    #[case::of_an_empty_namespace(
        json!({"sourceRef": {"kind": "DataSource", "name": "d", "namespace": ""}}), Some(("n", "d")))]
    #[case::a_snapshot_of_an_empty_namespace(
        json!({"source": {"snapshot": {"name": "d", "namespace": ""}}}), Some(("n", "d")))]
    #[case::a_snapshot(json!({"source": {"snapshot": {"name": "d", "namespace": "i"}}}), Some(("i", "d")))]
    #[case::a_claim(json!({"source": {"pvc": {"name": "d"}}}), Some(("n", "d")))]
    #[case::another_kind(json!({"sourceRef": {"kind": "Image", "name": "d"}}), None)]
    #[case::a_download(json!({"source": {"http": {"url": "http://example.com"}}}), None)]
    fn images_are_found_in_templates(#[case] spec: Value, #[case] found: Option<(&str, &str)>) {
        let found: BTreeSet<ObjectKey> =
            found.into_iter().map(|(namespace, name)| ObjectKey::new(namespace, name)).collect();
        let machine = json!({"spec": {"dataVolumeTemplates": [{"spec": spec}]}});
        assert_eq!(named_images("n", &machine), found);
        let pool = json!({"spec": {"virtualMachineTemplate": machine}});
        assert_eq!(named_images("n", &pool), found);
    }

    #[rstest]
    #[case::a_snapshot(json!({"spec": {"source": {"snapshot": {"name": "d", "namespace": "i"}}}}), &[(NamedSourceKind::Snapshot, "i")])]
    #[case::a_claim_of_an_empty_namespace(
        json!({"spec": {"source": {"pvc": {"name": "d", "namespace": ""}}}}), &[(NamedSourceKind::Claim, "n")])]
    #[case::a_data_source(
        json!({"spec": {"source": {"dataSource": {"name": "d", "namespace": "n"}}}}), &[(NamedSourceKind::DataSource, "n")])]
    #[case::a_data_source_of_another_namespace(
        json!({"spec": {"source": {"dataSource": {"name": "d", "namespace": "i"}}}}), &[])]
    #[case::what_cdi_has_resolved(
        json!({"spec": {"source": {"dataSource": {"name": "d"}}},
            "status": {"source": {"snapshot": {"name": "d", "namespace": "i"}}}}),
        &[(NamedSourceKind::DataSource, "n"), (NamedSourceKind::Snapshot, "i")])]
    #[case::nothing(json!({"spec": {"source": {}}}), &[])]
    fn the_targets_of_a_data_source_are_read(
        #[case] object: Value,
        #[case] found: &[(NamedSourceKind, &str)],
    ) {
        let found: BTreeSet<NamedSource> = found
            .iter()
            .map(|(kind, namespace)| NamedSource { kind: *kind, key: ObjectKey::new(*namespace, "d") })
            .collect();
        assert_eq!(source_targets("n", &object), found);
    }
}
