//! Rules about disk templates that need no other objects.

use std::cmp::Ordering;

use serde::Deserialize as _;
use serde_json::Value;
use vmpool_api::v1alpha2::{Reclaim, VirtualDiskSpec};
use vmpool_api::{GoDuration, Quantity, labels};
use vmpool_engine::admission::{RuleResult, Warning, refuse_value, shorten_text};

use super::rule::Rule;
use super::schema;
use super::unreadable::refuse_unreadable_value;
use super::view::{ReviewedDiskTemplate, ReviewedPool, json_field, json_text};

/// Disk templates that an update removes.
pub(super) fn warn_removed_templates(
    old: ReviewedPool<'_>,
    new: ReviewedPool<'_>,
    warnings: &mut Vec<Warning>,
) {
    for gone in old.disks().filter(|disk| disk.retains() && new.disk(disk.name).is_none()) {
        let detail = format!(
            "the disk template is removed or renamed: its disks and their data are deleted, including those of \
             machines. To list them: kubectl get vd -l {}={}",
            labels::DISK_TEMPLATE,
            gone.name
        );
        warnings.push(Warning::new(Rule::RetainRemoved, gone.path(""), detail));
    }
}

/// Checks a new or changed disk template.
pub(super) fn check_disk_template(
    before: Option<ReviewedDiskTemplate<'_>>,
    disk: ReviewedDiskTemplate<'_>,
    warnings: &mut Vec<Warning>,
) -> RuleResult {
    if before.is_none_or(|before| before.reclaim() != disk.reclaim()) {
        check_reclaim_policy(before, disk)?;
        schema::disk_part("reclaim", &disk.path(".reclaim"), disk.reclaim())?;
    }
    if before.is_none_or(|before| before.spec() != disk.spec()) {
        let spec = VirtualDiskSpec::deserialize(disk.spec())
            .or_else(|error| refuse_unreadable_value(&disk.path(".spec"), disk.spec(), &error))?;
        check_data_source(disk)?;
        check_disk_size(disk, &spec)?;
        schema::disk_part("spec", &disk.path(".spec"), disk.spec())?;
        if let Some(before) = before {
            warn_smaller_disk(before, disk, warnings);
        }
    }
    Ok(())
}

fn check_reclaim_policy(
    before: Option<ReviewedDiskTemplate<'_>>,
    disk: ReviewedDiskTemplate<'_>,
) -> RuleResult {
    let value = disk.reclaim();
    if let Some(before) = before.filter(|before| before.on_scale_down() != disk.on_scale_down()) {
        return refuse_value(
            Rule::ReclaimChanged,
            disk.path(".reclaim.onScaleDown"),
            json_field(value, "onScaleDown"),
            format_args!(
                "it was {}, and absent means Delete; existing disks keep the owner that the old value gave them",
                before.on_scale_down()
            ),
            "add a disk template with another name, and remove this one",
        );
    }
    let reclaim = Option::<Reclaim>::deserialize(value)
        .or_else(|error| refuse_unreadable_value(&disk.path(".reclaim"), value, &error))?;
    let Some(reclaim) = reclaim else { return Ok(()) };
    let keep = reclaim.keep.unwrap_or(0);
    if !disk.retains() && (keep > 0 || reclaim.ttl.is_some()) {
        let name = if keep > 0 { "keep" } else { "ttl" };
        return refuse_value(
            Rule::ReclaimWithoutRetain,
            disk.path(&format!(".reclaim.{name}")),
            json_field(value, name),
            "it applies to retained disks, and with onScaleDown Delete there are none",
            format_args!("set onScaleDown to Retain, or remove {name}"),
        );
    }
    let Some(ttl) = &reclaim.ttl else {
        if keep > 0 {
            return refuse_value(
                Rule::KeepWithoutTtl,
                disk.path(".reclaim.keep"),
                json_field(value, "keep"),
                "without a ttl no free disk is ever deleted, so keep has no effect",
                "add ttl, or remove keep",
            );
        }
        return Ok(());
    };
    match GoDuration::parse_positive(ttl) {
        Ok(_) => Ok(()),
        Err(error) => refuse_value(
            Rule::BadTtl,
            disk.path(".reclaim.ttl"),
            json_field(value, "ttl"),
            shorten_text(&error.to_string(), 200),
            "use a duration such as 90s, 30m or 1h30m; without ttl free disks are never deleted",
        ),
    }
}

/// Types of data sources, each with the part that it needs.
const SOURCES: [(&str, &str); 4] = [
    ("HTTP", "http"),
    ("ContainerImage", "containerImage"),
    ("ObjectRef", "objectRef"),
    ("Upload", "upload"),
];

fn check_data_source(disk: ReviewedDiskTemplate<'_>) -> RuleResult {
    let source = json_field(disk.spec(), "dataSource");
    if source.is_null() {
        return Ok(());
    }
    let path = disk.path(".spec.dataSource.type");
    let given = json_field(source, "type");
    let kind = json_text(source, "type");
    if kind == Some("Upload") {
        return refuse_value(
            Rule::Upload,
            path,
            given,
            "every machine would wait for an upload of its own",
            "upload once into a VirtualImage, and use type ObjectRef",
        );
    }
    let present = |name: &str| !json_field(source, name).is_null();
    let Some(kind) = kind else {
        return refuse_value(
            Rule::DataSource,
            path,
            given,
            "the type of the data source is missing",
            "set type to HTTP, ContainerImage or ObjectRef, or remove dataSource for a disk that starts empty",
        );
    };
    let Some((_, needed)) = SOURCES.iter().find(|(name, _)| *name == kind) else {
        return refuse_value(
            Rule::DataSource,
            path,
            given,
            "no such type",
            "use HTTP, ContainerImage or ObjectRef",
        );
    };
    if !present(needed) {
        return refuse_value(
            Rule::DataSource,
            path,
            given,
            format_args!("this type needs {needed}"),
            format_args!("add {needed}, or change type"),
        );
    }
    match SOURCES.iter().find(|(_, part)| part != needed && present(part)) {
        Some((_, other)) => refuse_value(
            Rule::DataSource,
            path,
            given,
            format_args!("this type takes no {other}"),
            format_args!("remove {other}, or change type"),
        ),
        None => Ok(()),
    }
}

fn check_disk_size(disk: ReviewedDiskTemplate<'_>, spec: &VirtualDiskSpec) -> RuleResult {
    let path = || disk.path(".spec.persistentVolumeClaim.size");
    let size = spec.persistent_volume_claim.as_ref().and_then(|claim| claim.size.as_ref());
    let Some(size) = size else {
        if spec.data_source.is_none() {
            return refuse_value(
                Rule::DiskSize,
                path(),
                &Value::Null,
                "a disk that starts empty needs a size",
                "set it, for example to 10Gi, or give the disk a data source",
            );
        }
        return Ok(());
    };
    let reason = match size.bytes() {
        Ok(0) => "a disk has some size".to_owned(),
        Ok(_) => return Ok(()),
        Err(error) => shorten_text(&error.to_string(), 200),
    };
    refuse_value(Rule::DiskSize, path(), disk.size(), reason, "use an amount greater than zero, such as 10Gi")
}

/// Existing disks are never shrunk. The smaller size applies to new disks.
fn warn_smaller_disk(
    before: ReviewedDiskTemplate<'_>,
    disk: ReviewedDiskTemplate<'_>,
    warnings: &mut Vec<Warning>,
) {
    let read = |disk: ReviewedDiskTemplate<'_>| Quantity::deserialize(disk.size()).ok();
    let (Some(was), Some(is)) = (read(before), read(disk)) else { return };
    if is.compare(&was) == Ok(Ordering::Less) {
        let detail = format!("goes from {was} to {is}: disks never shrink, only new ones are smaller");
        warnings.push(Warning::new(Rule::DiskSmaller, disk.path(".spec.persistentVolumeClaim.size"), detail));
    }
}
