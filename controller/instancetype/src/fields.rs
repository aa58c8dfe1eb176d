//! Where a machine stands in a request, and how an error names its fields.

use std::fmt;

use serde::Serialize;

use crate::model::TypeFamily;
use crate::tree::Malformed;

#[cfg(test)]
mod tests;

/// Which object contains the machine. It determines the paths in errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineLocation {
    /// A VirtualMachine.
    VirtualMachine,
    /// A VirtualMachineInstance. It has no matchers.
    Instance,
    /// A VirtualMachinePool, which contains the machine as `spec.virtualMachineTemplate`.
    Pool,
}

impl MachineLocation {
    /// The path of a field of the instance's spec, such as `domain.cpu`.
    pub fn instance_field(self, field: &str) -> String {
        let base = match self {
            Self::VirtualMachine => "spec.template.spec",
            Self::Instance => "spec",
            Self::Pool => "spec.virtualMachineTemplate.spec.template.spec",
        };
        join_field_path(base, field)
    }

    /// The path of a field of the machine's spec, such as `dataVolumeTemplates`.
    pub fn machine_field(self, field: &str) -> String {
        let base = match self {
            Self::VirtualMachine | Self::Instance => "spec",
            Self::Pool => "spec.virtualMachineTemplate.spec",
        };
        join_field_path(base, field)
    }

    /// The path of a field of a matcher, such as `name`; with an empty field, the path of the matcher.
    pub fn matcher_field(self, family: TypeFamily, field: &str) -> String {
        join_field_path(&self.machine_field(family.field()), field)
    }

    /// An error whose path is relative to the object with the machine's `spec`, with its whole path.
    pub(crate) fn in_machine(self, error: Malformed) -> Malformed {
        match self {
            Self::VirtualMachine | Self::Instance => error,
            Self::Pool => error.below("spec.virtualMachineTemplate"),
        }
    }

    /// An error whose path is relative to the instance template, with its whole path.
    pub(crate) fn in_template(self, error: Malformed) -> Malformed {
        match self {
            Self::Instance => error,
            Self::VirtualMachine | Self::Pool => self.in_machine(error.below("spec.template")),
        }
    }
}

fn join_field_path(base: &str, field: &str) -> String {
    if field.is_empty() { base.to_owned() } else { format!("{base}.{field}") }
}

/// Why a field is refused, as `details.causes[].reason` of a Kubernetes `Status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum CauseReason {
    /// The value is not valid.
    FieldValueInvalid,
    /// A required value is missing or too small.
    FieldValueNotFound,
    /// The value is not supported together with another field.
    FieldValueNotSupported,
}

/// One cause of a refusal, as in `details.causes` of a Kubernetes `Status`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct StatusCause {
    /// Why the field is refused.
    pub reason: CauseReason,
    /// What is wrong and what to do, for the user.
    pub message: String,
    /// The path of the field.
    pub field: String,
}

impl StatusCause {
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: CauseReason::FieldValueInvalid, message: message.into(), field: field.into() }
    }

    pub(crate) fn not_found(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: CauseReason::FieldValueNotFound, message: message.into(), field: field.into() }
    }

    pub(crate) fn not_supported(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: CauseReason::FieldValueNotSupported, message: message.into(), field: field.into() }
    }
}

impl From<Malformed> for StatusCause {
    fn from(error: Malformed) -> Self {
        Self::invalid(error.path.clone(), error.to_string())
    }
}

impl fmt::Display for StatusCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}
