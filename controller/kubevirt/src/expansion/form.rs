//! The forms of an expansion.

use serde_json::Value;
use vmpool_instancetype::expand::{ExpandError, expand_machine};
use vmpool_instancetype::fields::MachineLocation;
use vmpool_instancetype::kubevirt_expansion::expand_machine_as_kubevirt;
use vmpool_instancetype::model::InstanceTypeAndPreference;
use vmpool_instancetype::pins::FAMILIES;
use vmpool_instancetype::start::InstanceSettings;

use super::super::field_encodings::{MACHINE_SPEC, TEMPLATE};

/// How much of the machine an expansion contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpansionForm {
    /// What KubeVirt returns for the machine, in its encoding.
    #[default]
    KubeVirt,
    /// What the machine gets when it starts, in the spelling of the request. The requirements of the
    /// preference are checked.
    Complete,
}

impl ExpansionForm {
    /// Expands a machine that names the objects.
    pub(super) fn expand(
        self,
        machine: &Value,
        types: &InstanceTypeAndPreference,
        settings: &InstanceSettings,
        location: MachineLocation,
    ) -> Result<Value, ExpandError> {
        let expand = match self {
            Self::KubeVirt => expand_machine_as_kubevirt,
            Self::Complete => expand_machine,
        };
        Ok(self.encode(expand(machine, types, settings, location)?))
    }

    /// The machine in the encoding of this form. Fields outside of its spec stay.
    pub(super) fn encode(self, mut machine: Value) -> Value {
        if self == Self::KubeVirt
            && let Some(spec) = TEMPLATE.encoded(MACHINE_SPEC, &machine[MACHINE_SPEC])
        {
            machine[MACHINE_SPEC] = spec;
        }
        machine
    }
}

/// Whether a machine names an instance type or a preference.
pub(super) fn has_matchers(machine: &Value) -> bool {
    FAMILIES.iter().any(|family| machine["spec"][family.field()].is_object())
}
