//! Rules about disks, volumes and DataVolume templates, whose names the controller rewrites for each machine.

use std::collections::BTreeSet;

use serde_json::Value;
use vmpool_api::names::{is_dns_label, is_dns_subdomain};
use vmpool_platform::value::{json_at_path, json_field, json_text};

use super::findings::Findings;
use super::pool::{INSTANCE, KubeVirtPoolView, MACHINE};
use super::rule::Rule;

/// The maximum length of a name, without a hyphen and an ordinal of ten digits.
const LONGEST: usize = 253 - 11;

/// Disks and volumes.
pub(super) fn check_disks_and_volumes(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let volumes: BTreeSet<&str> =
        pool.volumes().iter().filter_map(|volume| json_text(volume, "name")).collect();
    let disks = format!("{INSTANCE}.spec.domain.devices.disks");
    for (index, disk) in pool.disks().iter().enumerate() {
        let name = json_field(disk, "name");
        if !name.as_str().is_some_and(|name| volumes.contains(name)) {
            let path = format!("{disks}[{index}].name");
            // KubeVirt spells the last part of the path as its own type does.
            let name_text = name.as_str().unwrap_or_default();
            let reason = format!("{disks}[{index}].Name '{name_text}' not found.");
            let way_out =
                format!("add a volume of this name to {INSTANCE}.spec.volumes, or correct the name");
            findings.refuse(Rule::DiskWithoutVolume, path, name, reason, way_out);
        }
    }
    check_volume_names(&disks, pool.disks(), findings);
    check_volume_names(&format!("{INSTANCE}.spec.volumes"), pool.volumes(), findings);
}

/// The names in a list.
fn check_volume_names(path: &str, entries: &[Value], findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let Some(name) = json_text(entry, "name") else { continue };
        let path = || format!("{path}[{index}].name");
        if !is_dns_label(name) {
            findings.refuse(
                Rule::VolumeNames,
                path(),
                &Value::from(name),
                "the name is no DNS label",
                "use at most 63 lower-case letters, digits and dashes",
            );
        } else if !seen.insert(name) {
            findings.refuse(
                Rule::VolumeNames,
                path(),
                &Value::from(name),
                "two entries must not have the same Name",
                "give each its own name",
            );
        }
    }
}

/// DataVolume templates.
pub(super) fn check_data_volumes(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, template) in pool.data_volumes().iter().enumerate() {
        // KubeVirt reports this field, although it has another name.
        let path = format!("{MACHINE}.dataVolumeTemplate[{index}]");
        let name = json_text(json_field(template, "metadata"), "name").unwrap_or_default();
        if let Some((reason, way_out)) = incomplete_data_volume_reason(name, json_field(template, "spec")) {
            findings.refuse(Rule::DataVolumeIncomplete, path, &Value::from(name), reason, way_out);
        } else if let Some((reason, way_out)) = invalid_data_volume_reason(name, json_field(template, "spec"))
        {
            findings.refuse(Rule::DataVolumeInvalid, path, &Value::from(name), reason, way_out);
        } else if !pool.volumes().iter().any(|volume| refers_to_data_volume(volume, name)) {
            findings.refuse(
                Rule::DataVolumeInvalid,
                &*path,
                &Value::from(name),
                format_args!(
                    "DataVolumeTemplate entry {path} must be referenced in the VMI template's 'volumes' list"
                ),
                format_args!(
                    "add {{dataVolume: {{name: {name}}}}} to {INSTANCE}.spec.volumes, or remove the template"
                ),
            );
        } else if !seen.insert(name) {
            findings.refuse(
                Rule::DataVolumeInvalid,
                path,
                &Value::from(name),
                "two DataVolume templates have this name, and each machine has one DataVolume of a name",
                "give each its own name",
            );
        }
    }
}

/// Whether a volume uses the DataVolume or the claim of a template.
fn refers_to_data_volume(volume: &Value, name: &str) -> bool {
    json_at_path(volume, &["dataVolume", "name"]) == name
        || json_at_path(volume, &["persistentVolumeClaim", "claimName"]) == name
}

/// The fields of a DataVolume that this version knows. A newer one may have other storage and other sources.
const KNOWN: [&str; 9] = [
    "checkpoints",
    "contentType",
    "finalCheckpoint",
    "preallocation",
    "priorityClassName",
    "pvc",
    "source",
    "sourceRef",
    "storage",
];

/// Whether another program fills the volume.
fn is_populated(spec: &Value) -> bool {
    ["pvc", "storage"].iter().any(|storage| {
        ["dataSource", "dataSourceRef"]
            .iter()
            .any(|source| !json_at_path(spec, &[*storage, *source]).is_null())
    })
}

fn has_source(spec: &Value) -> bool {
    !json_field(spec, "source").is_null() || !json_field(spec, "sourceRef").is_null()
}

fn incomplete_data_volume_reason(name: &str, spec: &Value) -> Option<(&'static str, &'static str)> {
    if name.is_empty() {
        return Some(("a DataVolume template needs a name", "set metadata.name"));
    }
    if spec.as_object().into_iter().flatten().any(|(name, _)| !KNOWN.contains(&name.as_str())) {
        return None;
    }
    if json_field(spec, "pvc").is_null() && json_field(spec, "storage").is_null() {
        return Some(("Missing Data volume PVC or Storage", "add spec.storage"));
    }
    (!has_source(spec) && !is_populated(spec)).then_some((
        "Data volume should have either Source, SourceRef, or be externally populated",
        "add spec.source, for example {blank: {}}",
    ))
}

fn invalid_data_volume_reason(name: &str, spec: &Value) -> Option<(&'static str, &'static str)> {
    if !is_dns_subdomain(name) || name.len() > LONGEST {
        return Some((
            "the name, with the ordinal of a machine, cannot be the name of a DataVolume",
            "use lower-case letters, digits, dashes and dots",
        ));
    }
    if !json_field(spec, "pvc").is_null() && !json_field(spec, "storage").is_null() {
        return Some((
            "Duplicate storage definition, both target storage and target pvc defined",
            "remove one of spec.pvc and spec.storage",
        ));
    }
    (has_source(spec) && is_populated(spec)).then_some((
        "External population is incompatible with Source and SourceRef",
        "remove spec.source and spec.sourceRef, or the data source of the storage",
    ))
}
