//! Disks: bus, block size, cache, I/O mode and I/O thread.

use serde_json::{Map, Value};

use crate::model::DevicePreferences;
use crate::tree::{self, Malformed};

pub(super) fn apply_disk_preferences(
    preferred: &DevicePreferences,
    spec: &mut Value,
) -> Result<(), Malformed> {
    tree::for_each_item(spec, "domain.devices.disks", |disk| {
        let targets = ["disk", "cdrom", "lun"];
        let present = |disk: &Value, target| Ok::<_, Malformed>(tree::object_at(disk, target)?.is_some());
        let mut chosen = None;
        for target in targets {
            if chosen.is_none() && present(disk, target)? {
                chosen = Some(target);
            }
        }
        match chosen {
            Some("cdrom") => tree::set_default_text(disk, "cdrom.bus", preferred.cdrom_bus.as_deref()),
            Some("lun") => tree::set_default_text(disk, "lun.bus", preferred.lun_bus.as_deref()),
            Some(_) => fill_plain_disk(preferred, disk),
            None => {
                tree::set_value(disk, "disk", Map::new())?;
                fill_plain_disk(preferred, disk)
            }
        }
    })
}

/// A disk whose target is of type `disk`.
fn fill_plain_disk(preferred: &DevicePreferences, disk: &mut Value) -> Result<(), Malformed> {
    tree::set_default_text(disk, "disk.bus", preferred.disk_bus.as_deref())?;
    tree::set_default(disk, "blockSize", preferred.disk_block_size.clone())?;
    tree::set_default_text(disk, "cache", preferred.disk_cache.as_deref())?;
    tree::set_default_text(disk, "io", preferred.disk_io.as_deref())?;
    // Other buses have no I/O threads of their own.
    if tree::text_at(disk, "disk.bus")? == Some("virtio") {
        tree::set_default(disk, "dedicatedIOThread", preferred.disk_dedicated_io_thread)?;
    }
    Ok(())
}
