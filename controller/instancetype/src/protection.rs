//! Whether a machine or a pool still needs an object that is being deleted.
//!
//! An object has a finalizer. It is removed when no machine and no pool blocks the deletion, that is, when
//! each that refers to the object has a copy to use instead. A blocker therefore lasts as long as one pass
//! over the machine, which makes the copy from the object that is being deleted.

use serde_json::Value;

use crate::conflict::find_conflicts;
use crate::expand::machine_instance_template;
use crate::fields::MachineLocation;
use crate::model::{InstanceTypeObject, InstancetypeSpec, PreferenceSpec, TypeFamily, TypeMatcher};
use crate::tree::Malformed;
use crate::validation::{LONGEST_NAME, bypasses_admission};

#[cfg(test)]
mod tests;

/// A machine or a pool, as far as it may refer to an object.
#[derive(Debug, Clone, Copy)]
pub struct InstanceTypeReferrer<'a> {
    /// The VirtualMachine or VirtualMachinePool.
    pub object: &'a Value,
    /// Where the machine is in it.
    pub location: MachineLocation,
    /// Its namespace.
    pub namespace: &'a str,
    /// Whether it has the copy that it uses instead of the object. For a pool: of its current template. The
    /// copy may be of an earlier object of the same name, which the machine then continues to use.
    pub has_copy: bool,
}

/// Whether a machine or a pool blocks the deletion of an object.
///
/// # Errors
/// A field has the wrong type. Such a machine cannot be copied, but may be corrected; treat it as a blocker.
pub fn blocks_deletion(
    user: &InstanceTypeReferrer<'_>,
    object: &InstanceTypeObject,
) -> Result<bool, Malformed> {
    if awaits_copy(user, object)? {
        return Ok(!conflicts_for_good(referrer_machine(user), user, object)?);
    }
    may_infer_object(user, object)
}

/// Whether a machine or a pool has a matcher that names only a volume, and whose name, once it is inferred,
/// can be that of the object.
///
/// # Errors
/// A field has the wrong type.
pub fn may_infer_object(
    user: &InstanceTypeReferrer<'_>,
    object: &InstanceTypeObject,
) -> Result<bool, Malformed> {
    if !is_open(user) {
        return Ok(false);
    }
    let matcher = referrer_matcher(user, object)?;
    Ok(is_in_reach(user, object)
        && matcher.is_some_and(|matcher| {
            matcher.name.is_empty()
                && matcher.revision_name.is_empty()
                && !matcher.infer_from_volume.is_empty()
        }))
}

/// Whether a machine or a pool will use the object as it is when the copy is made. It may be in conflict
/// with the object now.
///
/// # Errors
/// A field has the wrong type.
pub fn awaits_copy(user: &InstanceTypeReferrer<'_>, object: &InstanceTypeObject) -> Result<bool, Malformed> {
    Ok(is_open(user) && uses_live_object(user, object)?)
}

/// Whether a machine or a pool can still use the object.
fn is_open(user: &InstanceTypeReferrer<'_>) -> bool {
    !(user.has_copy || bypasses_admission(user.object))
}

fn referrer_machine<'a>(user: &InstanceTypeReferrer<'a>) -> &'a Value {
    match user.location {
        MachineLocation::Pool => user.object.pointer("/spec/virtualMachineTemplate").unwrap_or(&Value::Null),
        MachineLocation::VirtualMachine | MachineLocation::Instance => user.object,
    }
}

/// The matcher of the family of the object.
fn referrer_matcher(
    user: &InstanceTypeReferrer<'_>,
    object: &InstanceTypeObject,
) -> Result<Option<TypeMatcher>, Malformed> {
    TypeMatcher::of_machine(referrer_machine(user), object.kind.family())
        .map_err(|error| user.location.in_machine(error))
}

/// Whether a matcher in the namespace of the user can name the object.
fn is_in_reach(user: &InstanceTypeReferrer<'_>, object: &InstanceTypeObject) -> bool {
    object.kind.is_cluster() || object.identity.namespace.as_deref() == Some(user.namespace)
}

/// Whether the machine uses the live object.
fn uses_live_object(user: &InstanceTypeReferrer<'_>, object: &InstanceTypeObject) -> Result<bool, Malformed> {
    let Some(matcher) = referrer_matcher(user, object)? else { return Ok(false) };
    Ok(is_in_reach(user, object)
        && matcher.revision_name.is_empty()
        && matcher.name == object.identity.name
        && matcher.kind(object.kind.family()) == Ok(object.kind))
}

/// Whether the machine conflicts with the object, or the object cannot be copied, so that the machine never
/// gets a copy of it.
fn conflicts_for_good(
    machine: &Value,
    user: &InstanceTypeReferrer<'_>,
    object: &InstanceTypeObject,
) -> Result<bool, Malformed> {
    if object.identity.name.len() > LONGEST_NAME {
        return Ok(true);
    }
    if object.kind.family() == TypeFamily::Preference {
        // One that cannot be read can never be copied.
        return Ok(PreferenceSpec::read(object.spec()).is_err());
    }
    // An instance type that cannot be read can never be copied.
    let Ok(instancetype) = InstancetypeSpec::read(object.spec()) else { return Ok(true) };
    let template = machine_instance_template(machine).map_err(|error| user.location.in_machine(error))?;
    Ok(find_conflicts(&instancetype, &template, user.location)?.is_some())
}
