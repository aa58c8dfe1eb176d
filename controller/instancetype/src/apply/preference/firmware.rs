//! The choice between BIOS and EFI.

use serde_json::{Map, Value};

use crate::model::FirmwarePreferences;
use crate::tree::{self, Malformed};

const BIOS: &str = "domain.firmware.bootloader.bios";
const EFI: &str = "domain.firmware.bootloader.efi";

/// The steps depend on each other: an earlier one may choose the bootloader.
pub(super) fn apply(preferred: &FirmwarePreferences, spec: &mut Value) -> Result<(), Malformed> {
    if preferred.use_bios == Some(true) && !chosen(spec)? {
        tree::set(spec, BIOS, Map::new())?;
    }
    if tree::object(spec, BIOS)?.is_some() {
        tree::set_default(spec, &format!("{BIOS}.useSerial"), preferred.use_bios_serial)?;
    }
    match &preferred.efi {
        // The deprecated fields add nothing to it.
        Some(efi) if !chosen(spec)? => return tree::set(spec, EFI, efi.clone()),
        _ => {}
    }
    if preferred.use_efi == Some(true) && !chosen(spec)? {
        tree::set(spec, EFI, Map::new())?;
    }
    if tree::object(spec, EFI)?.is_some() {
        tree::set_default(spec, &format!("{EFI}.secureBoot"), preferred.use_secure_boot)?;
    }
    Ok(())
}

fn chosen(spec: &Value) -> Result<bool, Malformed> {
    Ok(tree::get(spec, BIOS)?.is_some() || tree::get(spec, EFI)?.is_some())
}
