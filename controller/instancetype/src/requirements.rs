//! What a preference requires of a machine at least.

use std::cmp::Ordering;

use crate::apply::ApplyError;
use crate::defaults;
use crate::fields::{MachineLocation, StatusCause};
use crate::model::{InstanceTemplate, InstancetypeSpec, PreferenceSpec, amount_at};
use crate::quantity::Amount;
use crate::topology::{Across, Topology};
use crate::tree::{self, Malformed};

#[cfg(test)]
mod tests;

/// Checks the requirements against an instance to which instance type and preference were applied. The result
/// has a cause for each field that is too small; it is empty if all requirements are met. `template` is the
/// instance without them.
///
/// The number of vCPUs and the memory are completed first, as they are when the instance starts: a machine
/// may state its memory as a request only, and has one vCPU if it states none. As in KubeVirt, this decides
/// whether a requirement is met, and not which settings the machine has.
///
/// # Errors
/// The topology of the preference is not valid, or a field of the machine has the wrong type.
pub fn unmet_requirements(
    template: &InstanceTemplate,
    applied: &InstanceTemplate,
    instancetype: Option<&InstancetypeSpec>,
    preference: &PreferenceSpec,
    location: MachineLocation,
) -> Result<Vec<StatusCause>, ApplyError> {
    let check = Check { instancetype, preference, location };
    let absolute = |error: Malformed| location.in_template(error.below("spec"));
    let mut completed = applied.clone();
    let has_cpu_settings = tree::value_at(template.spec(), "domain.cpu").map_err(absolute)?.is_some();
    defaults::fill_cpu_and_memory(completed.spec_mut()).map_err(absolute)?;
    let mut causes = check.cpu(&completed, has_cpu_settings)?;
    causes.extend(check.memory(&completed).map_err(absolute)?);
    causes.extend(check.architecture(&completed).map_err(absolute)?);
    Ok(causes)
}

struct Check<'a> {
    instancetype: Option<&'a InstancetypeSpec>,
    preference: &'a PreferenceSpec,
    location: MachineLocation,
}

impl Check<'_> {
    fn cpu(&self, completed: &InstanceTemplate, has_settings: bool) -> Result<Vec<StatusCause>, ApplyError> {
        let Some(required) = self.preference.requirements.cpu else { return Ok(Vec::new()) };
        if let Some(instancetype) = self.instancetype {
            let provided = instancetype.cpu.guest;
            let cause = || self.too_small("vCPUs", required, provided);
            return Ok((provided < required).then(cause).into_iter().collect());
        }
        let topology = Topology::preferred(Some(self.preference))?;
        let dimensions = vcpu_dimensions(topology);
        let mut provided: u64 = 1;
        for dimension in dimensions {
            let count = tree::u32_at(completed.spec(), &format!("domain.cpu.{dimension}"));
            let count = count.map_err(|error| self.location.in_template(error.below("spec")))?;
            provided = provided.saturating_mul(count.unwrap_or(0).into());
        }
        if provided >= required.into() {
            return Ok(Vec::new());
        }
        if !has_settings {
            let message = format!(
                "the preference requires {required} vCPUs, but the machine has no CPU settings, and so {provided}"
            );
            return Ok(vec![StatusCause::not_found(self.location.instance_field("domain.cpu"), message)]);
        }
        let message = format!(
            "the preference requires {required} vCPUs as {}, but the machine has {provided}",
            dimensions.join(" times ")
        );
        let cause = |dimension| {
            StatusCause::not_found(
                self.location.instance_field(&format!("domain.cpu.{dimension}")),
                message.clone(),
            )
        };
        Ok(dimensions.iter().map(cause).collect())
    }

    fn memory(&self, completed: &InstanceTemplate) -> Result<Option<StatusCause>, Malformed> {
        let Some(required) = &self.preference.requirements.memory else { return Ok(None) };
        let guest = amount_at(completed.spec(), "domain.memory.guest")?;
        let of_type = self.instancetype.map(|instancetype| instancetype.memory.guest.clone());
        let provided = guest.or(of_type).unwrap_or_else(Amount::zero);
        if provided.compare(required) != Ordering::Less {
            return Ok(None);
        }
        if self.instancetype.is_some() {
            return Ok(Some(self.too_small("of memory", required, &provided)));
        }
        let message = format!("the preference requires {required} of memory, but the machine has {provided}");
        Ok(Some(StatusCause::not_found(self.location.instance_field("domain.memory"), message)))
    }

    fn architecture(&self, completed: &InstanceTemplate) -> Result<Option<StatusCause>, Malformed> {
        let Some(required) = &self.preference.requirements.architecture else { return Ok(None) };
        // KubeVirt fills an empty architecture from its configuration before it checks the requirement. Here
        // that configuration is unknown.
        let provided = tree::text_at(completed.spec(), "architecture")?.unwrap_or_default();
        if provided.is_empty() || provided == required {
            return Ok(None);
        }
        let message =
            format!("the preference requires the architecture {required}, but the machine has {provided}");
        Ok(Some(StatusCause::not_found(self.location.instance_field("architecture"), message)))
    }

    fn too_small(
        &self,
        unit: &str,
        required: impl std::fmt::Display,
        provided: impl std::fmt::Display,
    ) -> StatusCause {
        let message = format!(
            "the preference requires {required} {unit}, but the instance type has {provided}; use a larger instance type"
        );
        StatusCause::not_found(self.location.machine_field("instancetype"), message)
    }
}

/// The dimensions in which a machine without an instance type provides its vCPUs.
fn vcpu_dimensions(topology: Topology) -> &'static [&'static str] {
    match topology {
        Topology::Sockets => &["sockets"],
        Topology::Cores => &["cores"],
        Topology::Threads => &["threads"],
        Topology::Spread { across: Across::SocketsCores, .. } => &["sockets", "cores"],
        Topology::Spread { across: Across::CoresThreads, .. } => &["cores", "threads"],
        Topology::Spread { across: Across::SocketsCoresThreads, .. } | Topology::Any => {
            &["sockets", "cores", "threads"]
        }
    }
}
