//! Validation of objects of the four kinds and of matchers, for admission.

mod matcher;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::fields::StatusCause;
use crate::model::{InstanceTypeMemory, InstanceTypeObject, InstancetypeSpec, PreferenceSpec, TypeFamily};
use crate::topology::{self, Topology};

pub use matcher::validate_matcher;

/// The longest name of an object. The name becomes the value of a label on the copy, and such values are not
/// longer.
pub const LONGEST_NAME: usize = 63;

/// The result of a validation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValidationReport {
    /// Why the object is refused. Empty if it is accepted.
    pub causes: Vec<StatusCause>,
    /// What the user should change although the object is accepted.
    pub warnings: Vec<String>,
}

impl ValidationReport {
    fn refuse(&mut self, field: &str, message: impl Into<String>) {
        self.causes.push(StatusCause::invalid(field, message));
    }
}

/// Validates an object of one of the four kinds on creation (`old` is `None`) or update.
///
/// An update that leaves the spec as it is passes: an object that was stored without validation must not keep
/// its finalizers for ever. For the same reason, an object that is being deleted passes.
pub fn validate_object(object: &InstanceTypeObject, old: Option<&InstanceTypeObject>) -> ValidationReport {
    let mut report = ValidationReport::default();
    if old.is_some_and(|old| old.spec() == object.spec()) || bypasses_admission(object.document()) {
        return report;
    }
    let name = &object.identity.name;
    if name.len() > LONGEST_NAME {
        let message = format!(
            "the name has {} characters, but at most {LONGEST_NAME} are allowed; use a shorter name",
            name.len()
        );
        report.refuse("metadata.name", message);
    }
    match object.kind.family() {
        TypeFamily::Instancetype => validate_instancetype(object.spec(), &mut report),
        TypeFamily::Preference => validate_preference(object.spec(), &mut report),
    }
    report
}

/// Whether a document bypasses all validation and inference: it is being deleted.
///
/// Removing a finalizer is an update. By then the copy of a machine may be gone, and a refusal would block
/// the deletion of the namespace.
pub fn bypasses_admission(document: &Value) -> bool {
    document.pointer("/metadata/deletionTimestamp").is_some_and(|timestamp| !timestamp.is_null())
}

fn validate_instancetype(spec: &Value, report: &mut ValidationReport) {
    let spec = match InstancetypeSpec::read(spec) {
        Ok(spec) => spec,
        Err(error) => return report.causes.push(error.below("spec").into()),
    };
    if spec.cpu.guest == 0 {
        report.refuse("spec.cpu.guest", "the number of vCPUs must be at least 1");
    }
    validate_memory(&spec.memory, report);
    if spec.launch_security.is_some() {
        let warning = "spec.launchSecurity of an instance type is deprecated; use spec.preferredLaunchSecurity of a preference";
        report.warnings.push(warning.to_owned());
    }
}

fn validate_memory(memory: &InstanceTypeMemory, report: &mut ValidationReport) {
    if !memory.guest.is_positive() {
        report.refuse("spec.memory.guest", format!("the memory must be more than 0, not {}", memory.guest));
    }
    if let Some(max_guest) =
        memory.max_guest.as_ref().filter(|max_guest| max_guest.compare(&memory.guest).is_lt())
    {
        let message = format!("the maximum {max_guest} is less than the memory {}", memory.guest);
        report.refuse("spec.memory.maxGuest", message);
    }
    let percent = memory.overcommit_percent;
    if !(0..=100).contains(&percent) {
        let message = format!("the percentage must be from 0 to 100, not {percent}");
        report.refuse("spec.memory.overcommitPercent", message);
    }
    if percent != 0 && memory.hugepages.is_some() {
        let message =
            "memory in huge pages cannot be overcommitted; remove spec.memory.hugepages or the percentage";
        report.refuse("spec.memory.overcommitPercent", message);
    }
}

fn validate_preference(spec: &Value, report: &mut ValidationReport) {
    let spec = match PreferenceSpec::read(spec) {
        Ok(spec) => spec,
        Err(error) => return report.causes.push(error.below("spec").into()),
    };
    if let Err(error) = Topology::preferred(Some(&spec)) {
        let field = error.preference_field().unwrap_or("cpu.preferredCPUTopology");
        report.refuse(&format!("spec.{field}"), error.to_string());
    }
    let topology = spec.cpu.topology.as_deref().unwrap_or_default();
    if let Some(replacement) = topology::current_topology_name(topology) {
        let warning = format!(
            "the topology {topology} in spec.cpu.preferredCPUTopology is deprecated; use {replacement}"
        );
        report.warnings.push(warning);
    }
}
