//! Rules about the devices of the machines and the disk templates.

use std::collections::BTreeSet;

use serde_json::Value;
use vmpool_engine::admission::{Checked, Found, Outcome, Warning, refuse, shortened};

use super::facts::{Facts, ImageId, ImageKind, Needs};
use super::rule::Rule;
use super::view::{MACHINE, Pool, field, text};

fn is_disk(device: &Value) -> bool {
    text(device, "kind") == Some("VirtualDisk")
}

/// The input of [`check_attached`]: names of attached disks and of disk templates.
pub(super) fn attached(pool: Pool<'_>) -> (Vec<&str>, Vec<&str>) {
    let devices = pool.devices().iter().filter(|device| is_disk(device));
    (
        devices.filter_map(|device| text(device, "name")).collect(),
        pool.disks().map(|disk| disk.name).collect(),
    )
}

/// Each disk template has exactly one device of kind VirtualDisk, and vice versa.
pub(super) fn check_attached(pool: Pool<'_>) -> Checked {
    let (devices, templates) = attached(pool);
    for template in &templates {
        match devices.iter().filter(|device| *device == template).count() {
            1 => {}
            0 => {
                return refuse(
                    Rule::DiskNotAttached,
                    format!("spec.virtualDiskTemplates[{template}].name"),
                    &Value::from(*template),
                    "no device of the machines has this disk",
                    format_args!(
                        "add {{kind: VirtualDisk, name: {template}}} to {MACHINE}.blockDeviceRefs, \
                         or remove the template"
                    ),
                );
            }
            _ => {
                return refuse(
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
        let name = field(device, "name");
        if !templates.iter().any(|template| name == template) {
            return refuse(
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
pub(super) fn check_list(devices: &[Value]) -> Checked {
    let (mut seen, mut orders) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in devices.iter().enumerate() {
        if !seen.insert((text(device, "kind"), text(device, "name"))) {
            return refuse(
                Rule::Devices,
                format!("{MACHINE}.blockDeviceRefs[{index}].name"),
                field(device, "name"),
                "a device of this kind and name is listed already",
                "remove one of the two",
            );
        }
        let order = field(device, "bootOrder");
        if order.is_null() {
            continue;
        }
        let path = || format!("{MACHINE}.blockDeviceRefs[{index}].bootOrder");
        if order.as_i64().is_none_or(|order| order < 1) {
            return refuse(
                Rule::Devices,
                path(),
                order,
                "boot orders begin at 1",
                "use 1 for the device to boot from first",
            );
        }
        if !orders.insert(order.as_i64()) {
            return refuse(
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

/// The device that the machines boot from, with its index: the one with the smallest boot order, or else the first.
fn boot_device(pool: Pool<'_>) -> Option<(usize, &Value)> {
    let devices = || pool.devices().iter().enumerate();
    let ordered = devices().filter_map(|(index, device)| Some((field(device, "bootOrder").as_i64()?, index)));
    let first = ordered.min().map_or(0, |(_, index)| index);
    devices().nth(first)
}

/// The images among the devices of the machines, with their indexes.
fn images(pool: Pool<'_>) -> impl Iterator<Item = (usize, ImageId)> {
    pool.devices().iter().enumerate().filter_map(|(index, device)| {
        let kind = ImageKind::named(text(device, "kind")?)?;
        Some((index, ImageId { kind, name: text(device, "name")?.to_owned() }))
    })
}

/// The images that the rules of this module need.
pub(super) fn needs(pool: Pool<'_>, needs: &mut Needs) {
    needs.images.extend(images(pool).map(|(_, id)| id));
}

/// Warns about images that do not exist. They can be created later.
pub(super) fn check_images(pool: Pool<'_>, facts: &Facts, warnings: &mut Vec<Warning>) {
    for (index, id) in images(pool).filter(|(_, id)| facts.images.get(id) == Some(&Found::Absent)) {
        let (kind, name) = (id.kind.as_str(), shortened(&id.name, 63));
        let detail = format!("there is no {kind} {name:?}; machines wait until it exists");
        let path = format!("{MACHINE}.blockDeviceRefs[{index}].name");
        warnings.push(Warning::new(Rule::ImageUnknown, path, detail));
    }
}

/// The image that the machines would boot from.
fn boot_image(pool: Pool<'_>) -> Option<ImageId> {
    let (_, device) = boot_device(pool)?;
    let kind = ImageKind::named(text(device, "kind")?)?;
    Some(ImageId { kind, name: text(device, "name")?.to_owned() })
}

/// A machine cannot boot from a read-only image that is not a CD-ROM. The rule does not apply to images that do not
/// exist or are not ready.
pub(super) fn check_boot(pool: Pool<'_>, facts: &Facts) -> Result<(), Box<Outcome>> {
    let (Some(id), Some((index, _))) = (boot_image(pool), boot_device(pool)) else { return Ok(()) };
    match facts.images.get(&id) {
        Some(Found::There(image)) if image.ready && !image.cdrom => Ok(refuse::<()>(
            Rule::BootsFromImage,
            format!("{MACHINE}.blockDeviceRefs[{index}].name"),
            &Value::from(id.name.as_str()),
            format_args!("{} is read-only and no CD-ROM, so no machine can boot from it", id.kind.as_str()),
            "put a disk first, or give a disk the smallest bootOrder; a disk template with this image as its data source gives every machine a copy of it",
        )?),
        Some(Found::Failed(reason)) => Err(Box::new(Outcome::Undecided(format!(
            "reading {} {:?}, which {MACHINE}.blockDeviceRefs[{index}] names: {reason}",
            id.kind.as_str(),
            id.name
        )))),
        Some(Found::There(_) | Found::Absent) | None => Ok(()),
    }
}
