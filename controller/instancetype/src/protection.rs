//! Whether a machine or a pool still needs an object that is being deleted.
//!
//! An object has a finalizer. It is removed when no machine and no pool blocks the deletion, that is, when each that refers
//! to the object has a stash to use instead. A blocker therefore lasts as long as one pass over the machine, which makes the stash
//! from the object that is being deleted.

use serde_json::Value;

use crate::conflict::conflicts;
use crate::expand::template;
use crate::fields::Location;
use crate::model::{Family, InstancetypeSpec, Matcher, Object, PreferenceSpec};
use crate::tree::Malformed;
use crate::validation::{LONGEST_NAME, bypasses_admission};

#[cfg(test)]
mod tests;

/// A machine or a pool, as far as it may refer to an object.
#[derive(Debug, Clone, Copy)]
pub struct User<'a> {
    /// The VirtualMachine or VirtualMachinePool.
    pub object: &'a Value,
    /// Where the machine is in it.
    pub location: Location,
    /// Its namespace.
    pub namespace: &'a str,
    /// Whether it has the stash that it uses instead of the object. For a pool: of its current template. The stash may be of an
    /// earlier object of the same name, which the machine then continues to use.
    pub is_stashed: bool,
}

/// Whether a machine or a pool blocks the deletion of an object.
///
/// # Errors
/// A field has the wrong type. Such a machine cannot be stashed, but may be corrected; treat it as a blocker.
pub fn blocks(user: &User<'_>, object: &Object) -> Result<bool, Malformed> {
    if awaits_stash(user, object)? {
        return Ok(!conflicts_for_good(machine(user), user, object)?);
    }
    infers(user, object)
}

/// Whether a machine or a pool has a matcher that names only a volume, and whose name, once it is inferred, can be that of the
/// object.
///
/// # Errors
/// A field has the wrong type.
pub fn infers(user: &User<'_>, object: &Object) -> Result<bool, Malformed> {
    if !is_open(user) {
        return Ok(false);
    }
    let matcher = matcher(user, object)?;
    Ok(is_in_reach(user, object)
        && matcher.is_some_and(|matcher| {
            matcher.name.is_empty()
                && matcher.revision_name.is_empty()
                && !matcher.infer_from_volume.is_empty()
        }))
}

/// Whether a machine or a pool will use the object as it is when the stash is made. It may be in conflict with the object now.
///
/// # Errors
/// A field has the wrong type.
pub fn awaits_stash(user: &User<'_>, object: &Object) -> Result<bool, Malformed> {
    Ok(is_open(user) && refers(user, object)?)
}

/// Whether a machine or a pool can still use the object.
fn is_open(user: &User<'_>) -> bool {
    !(user.is_stashed || bypasses_admission(user.object))
}

fn machine<'a>(user: &User<'a>) -> &'a Value {
    match user.location {
        Location::Pool => user.object.pointer("/spec/virtualMachineTemplate").unwrap_or(&Value::Null),
        Location::VirtualMachine | Location::Instance => user.object,
    }
}

/// The matcher of the family of the object.
fn matcher(user: &User<'_>, object: &Object) -> Result<Option<Matcher>, Malformed> {
    Matcher::of_machine(machine(user), object.kind.family()).map_err(|error| user.location.in_machine(error))
}

/// Whether a matcher in the namespace of the user can name the object.
fn is_in_reach(user: &User<'_>, object: &Object) -> bool {
    object.kind.is_cluster() || object.identity.namespace.as_deref() == Some(user.namespace)
}

/// Whether the machine uses the live object.
fn refers(user: &User<'_>, object: &Object) -> Result<bool, Malformed> {
    let Some(matcher) = matcher(user, object)? else { return Ok(false) };
    Ok(is_in_reach(user, object)
        && matcher.revision_name.is_empty()
        && matcher.name == object.identity.name
        && matcher.kind(object.kind.family()) == Ok(object.kind))
}

/// Whether the machine conflicts with the object, or the object cannot be stashed, so that the machine never gets a stash of it.
fn conflicts_for_good(machine: &Value, user: &User<'_>, object: &Object) -> Result<bool, Malformed> {
    if object.identity.name.len() > LONGEST_NAME {
        return Ok(true);
    }
    if object.kind.family() == Family::Preference {
        // One that cannot be read can never be stashed.
        return Ok(PreferenceSpec::read(object.spec()).is_err());
    }
    // An instance type that cannot be read can never be stashed.
    let Ok(instancetype) = InstancetypeSpec::read(object.spec()) else { return Ok(true) };
    let template = template(machine).map_err(|error| user.location.in_machine(error))?;
    Ok(conflicts(&instancetype, &template, user.location)?.is_some())
}
