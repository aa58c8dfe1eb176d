//! Rules about the devices of the machines and the disk templates.

use std::collections::BTreeSet;

use serde_json::Value;
use vmpool_engine::admission::{
    AdmissionDecision, LookupOutcome, RuleResult, Warning, refuse_value, shorten_text,
};

use super::facts::{DvpAdmissionFacts, ImageId, ImageKind, NeededObjects};
use super::rule::Rule;
use super::view::{MACHINE, ReviewedPool, disk_template_path, json_field, json_text};

fn is_disk(device: &Value) -> bool {
    json_text(device, "kind") == Some("VirtualDisk")
}

/// The input of [`check_attached`]: names of attached disks and of disk templates.
pub(super) fn device_and_template_names(pool: ReviewedPool<'_>) -> (Vec<&str>, Vec<&str>) {
    let devices = pool.devices().iter().filter(|device| is_disk(device));
    (
        devices.filter_map(|device| json_text(device, "name")).collect(),
        pool.disks().map(|disk| disk.name).collect(),
    )
}

/// Each disk template has exactly one device of kind VirtualDisk, and vice versa.
pub(super) fn check_attached(pool: ReviewedPool<'_>) -> RuleResult {
    let (devices, templates) = device_and_template_names(pool);
    for template in &templates {
        match devices.iter().filter(|device| *device == template).count() {
            1 => {}
            0 => {
                let shown = shorten_text(template, 63);
                return refuse_value(
                    Rule::DiskNotAttached,
                    disk_template_path(template, ".name"),
                    &Value::from(*template),
                    "no device of the machines has this disk",
                    format_args!(
                        "add {{kind: VirtualDisk, name: {shown}}} to {MACHINE}.blockDeviceRefs, \
                         or remove the template"
                    ),
                );
            }
            _ => {
                return refuse_value(
                    Rule::DiskAttachedTwice,
                    format!("{MACHINE}.blockDeviceRefs"),
                    &Value::from(*template),
                    "a machine has the disk of a template once",
                    "remove the second device, or add a second disk template for it",
                );
            }
        }
    }
    for (index, device) in pool.devices().iter().enumerate().filter(|(_, device)| is_disk(device)) {
        let name = json_field(device, "name");
        if !templates.iter().any(|template| name == template) {
            return refuse_value(
                Rule::DeviceWithoutTemplate,
                format!("{MACHINE}.blockDeviceRefs[{index}].name"),
                name,
                "it names no disk template, and machines cannot share a disk",
                "add an entry of this name to spec.virtualDiskTemplates, or correct the name",
            );
        }
    }
    Ok(())
}

/// Checks the device list alone.
pub(super) fn check_list(devices: &[Value]) -> RuleResult {
    let (mut seen, mut orders) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in devices.iter().enumerate() {
        if !seen.insert((json_text(device, "kind"), json_text(device, "name"))) {
            return refuse_value(
                Rule::Devices,
                format!("{MACHINE}.blockDeviceRefs[{index}].name"),
                json_field(device, "name"),
                "a device of this kind and name is listed already",
                "remove one of the two",
            );
        }
        let order = json_field(device, "bootOrder");
        if order.is_null() {
            continue;
        }
        let path = || format!("{MACHINE}.blockDeviceRefs[{index}].bootOrder");
        if order.as_i64().is_none_or(|order| order < 1) {
            return refuse_value(
                Rule::Devices,
                path(),
                order,
                "boot orders begin at 1",
                "use 1 for the device to boot from first",
            );
        }
        if !orders.insert(order.as_i64()) {
            return refuse_value(
                Rule::Devices,
                path(),
                order,
                "another device has the same boot order",
                "give each device its own number, or leave it out",
            );
        }
    }
    Ok(())
}

/// The device that the machines boot from, with its index: the one with the smallest boot order, or else the
/// first.
fn boot_device(pool: ReviewedPool<'_>) -> Option<(usize, &Value)> {
    let devices = || pool.devices().iter().enumerate();
    let ordered =
        devices().filter_map(|(index, device)| Some((json_field(device, "bootOrder").as_i64()?, index)));
    let first = ordered.min().map_or(0, |(_, index)| index);
    devices().nth(first)
}

/// The images among the devices of the machines, with their indexes.
fn device_images(pool: ReviewedPool<'_>) -> impl Iterator<Item = (usize, ImageId)> {
    pool.devices().iter().enumerate().filter_map(|(index, device)| {
        let kind = ImageKind::named(json_text(device, "kind")?)?;
        Some((index, ImageId { kind, name: json_text(device, "name")?.to_owned() }))
    })
}

/// The images that the rules of this module need.
pub(super) fn add_needed_images(pool: ReviewedPool<'_>, needs: &mut NeededObjects) {
    needs.images.extend(device_images(pool).map(|(_, id)| id));
}

/// Warns about images that do not exist. They can be created later.
pub(super) fn check_images(pool: ReviewedPool<'_>, facts: &DvpAdmissionFacts, warnings: &mut Vec<Warning>) {
    for (index, id) in
        device_images(pool).filter(|(_, id)| facts.images.get(id) == Some(&LookupOutcome::Absent))
    {
        let (kind, name) = (id.kind.as_str(), shorten_text(&id.name, 63));
        let detail = format!("there is no {kind} {name:?}; machines wait until it exists");
        let path = format!("{MACHINE}.blockDeviceRefs[{index}].name");
        warnings.push(Warning::new(Rule::ImageUnknown, path, detail));
    }
}

/// The image that the machines would boot from.
fn boot_image(pool: ReviewedPool<'_>) -> Option<ImageId> {
    let (_, device) = boot_device(pool)?;
    let kind = ImageKind::named(json_text(device, "kind")?)?;
    Some(ImageId { kind, name: json_text(device, "name")?.to_owned() })
}

/// A machine cannot boot from a read-only image that is not a CD-ROM. The rule does not apply to images that
/// do not exist or are not ready.
pub(super) fn check_boot(
    pool: ReviewedPool<'_>,
    facts: &DvpAdmissionFacts,
) -> Result<(), Box<AdmissionDecision>> {
    let (Some(id), Some((index, _))) = (boot_image(pool), boot_device(pool)) else { return Ok(()) };
    match facts.images.get(&id) {
        Some(LookupOutcome::There(image)) if image.ready && !image.cdrom => Ok(refuse_value::<()>(
            Rule::BootsFromImage,
            format!("{MACHINE}.blockDeviceRefs[{index}].name"),
            &Value::from(id.name.as_str()),
            format_args!("{} is read-only and no CD-ROM, so no machine can boot from it", id.kind.as_str()),
            "put a disk first, or give a disk the smallest bootOrder; a disk template with this image as its data source gives every machine a copy of it",
        )?),
        Some(LookupOutcome::Failed(reason)) => Err(Box::new(AdmissionDecision::Undecided(format!(
            "reading {} {:?}, which {MACHINE}.blockDeviceRefs[{index}] names: {reason}",
            id.kind.as_str(),
            id.name
        )))),
        Some(LookupOutcome::There(_) | LookupOutcome::Absent) | None => Ok(()),
    }
}
