//! The choice between BIOS and EFI.

use serde_json::{Map, Value};

use crate::model::FirmwarePreferences;
use crate::tree::{self, Malformed};

const BIOS: &str = "domain.firmware.bootloader.bios";
const EFI: &str = "domain.firmware.bootloader.efi";

/// The steps depend on each other: an earlier one may choose the bootloader.
pub(super) fn apply_firmware_preferences(
    preferred: &FirmwarePreferences,
    spec: &mut Value,
) -> Result<(), Malformed> {
    if preferred.use_bios == Some(true) && !has_bootloader(spec)? {
        tree::set_value(spec, BIOS, Map::new())?;
    }
    if tree::object_at(spec, BIOS)?.is_some() {
        tree::set_default(spec, &format!("{BIOS}.useSerial"), preferred.use_bios_serial)?;
    }
    match &preferred.efi {
        // The deprecated fields add nothing to it.
        Some(efi) if !has_bootloader(spec)? => return tree::set_value(spec, EFI, efi.clone()),
        _ => {}
    }
    if preferred.use_efi == Some(true) && !has_bootloader(spec)? {
        tree::set_value(spec, EFI, Map::new())?;
    }
    if tree::object_at(spec, EFI)?.is_some() {
        tree::set_default(spec, &format!("{EFI}.secureBoot"), preferred.use_secure_boot)?;
    }
    Ok(())
}

fn has_bootloader(spec: &Value) -> Result<bool, Malformed> {
    Ok(tree::value_at(spec, BIOS)?.is_some() || tree::value_at(spec, EFI)?.is_some())
}
