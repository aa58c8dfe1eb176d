//! Admission of instance types, of preferences, and of the machines that name them. In a cluster with KubeVirt's own webhooks,
//! these do it.
//!
//! The rules are those of [`vmpool_instancetype`]. This module finds out which objects they need, and the program reads
//! them one after the other, because each can lead to the next.

use std::collections::BTreeMap;

use kube::Resource as _;
use serde_json::Value;
use vmpool_engine::admission::Subject;
use vmpool_instancetype::expand;
use vmpool_instancetype::fields::Location;
use vmpool_instancetype::fill::fill;
use vmpool_instancetype::machine::{self, Named};
use vmpool_instancetype::model::{Family, Kind, Matcher, Object, Types};
use vmpool_instancetype::start::Settings;
use vmpool_instancetype::validation;

use super::copies::{Machine, Pool};
use super::pins::{self, FAMILIES, Open, Problem, Resolved, Scope};
use super::protection::Protected;
use crate::{Found, Reference};

pub use vmpool_instancetype::fields::{Cause, CauseReason};
pub use vmpool_instancetype::validation::Report;

/// The path of the webhook for the four kinds.
pub const OBJECT_PATH: &str = "/validate-instancetype-kubevirt-io-v1beta1";
/// The path of the webhook that protects objects of the four kinds.
pub const PROTECT_PATH: &str = "/mutate-instancetype-kubevirt-io-v1beta1";
/// The path of the webhook that validates machines.
pub const MACHINE_PATH: &str = "/validate-kubevirt-io-v1-virtualmachine";
/// The path of the webhook that completes machines.
pub const COMPLETE_PATH: &str = "/mutate-kubevirt-io-v1-virtualmachine";

/// The path of the webhook that compares the template of a pool with its instance type and its preference.
pub const POOL_PATH: &str = "/validate-pool-kubevirt-io-v1beta1-virtualmachinepool-instancetypes";

/// The kind of pools.
pub const POOL_KIND: &str = super::keys::POOL_KIND;
/// The group of pools.
pub const POOL_GROUP: &str = vmpool_api::kubevirt::POOL_GROUP;
/// The kind of machines.
pub const MACHINE_KIND: &str = super::keys::MACHINE_KIND;
/// The group of machines.
pub const MACHINE_GROUP: &str = vmpool_api::kubevirt::GROUP;
/// The group of the four kinds.
pub const GROUP: &str = vmpool_api::instancetype::GROUP;

/// The fields that the rules use, of all objects that are read.
pub const FIELDS: &[&str] = &["apiVersion", "kind", "metadata", "spec", "data"];

/// An object that a rule needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Which object.
    pub reference: Reference,
    /// What it is, for metrics.
    pub subject: Subject,
    /// Whether the answer shows facts of the object that the requesting user may have no permission to read. All users may
    /// read the kinds of the cluster.
    pub reveals: bool,
}

/// Why an object was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The client has not authenticated itself as an API server, and the answer would reveal facts.
    NotPermitted,
    /// The object is in another namespace. The webhook does not read it, because the answer would show whether it exists. The
    /// controller reads it, if the account of the machine may clone it.
    Foreign,
    /// The read failed.
    Error(String),
}

/// What was read for a request.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    found: Found,
    failed: BTreeMap<Reference, Failure>,
}

impl Reads {
    /// Adds the result of a read; `Ok(None)` if the object does not exist.
    pub fn add(&mut self, reference: Reference, result: Result<Option<Value>, Failure>) {
        match result {
            Ok(object) => drop(self.found.insert(reference, object)),
            Err(failure) => drop(self.failed.insert(reference, failure)),
        }
    }
}

/// The next step of a review.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Read this object.
    Needs(Need),
    /// The review has ended.
    Done(Decision),
}

/// The result of a review.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The request is allowed.
    Allowed {
        /// The completed machine; `None` if it does not change.
        machine: Option<Value>,
        /// What the user should know.
        warnings: Vec<String>,
    },
    /// The request is invalid.
    Refused {
        /// What is wrong.
        causes: Vec<Cause>,
        /// What the user should know, too.
        warnings: Vec<String>,
    },
    /// The name of an instance type or a preference could not be inferred.
    NotInferred(Vec<Cause>),
    /// A read failed without which the request cannot be answered.
    Undecided(String),
}

impl Decision {
    fn of(report: Report) -> Self {
        let Report { causes, warnings } = report;
        if causes.is_empty() {
            Self::Allowed { machine: None, warnings }
        } else {
            Self::Refused { causes, warnings }
        }
    }
}

/// Reviews a create or an update of one of the four kinds.
///
/// # Errors
/// The document is not of these kinds.
pub fn object(old: Option<&Value>, new: &Value) -> Result<Decision, String> {
    let read = |object: &Value| Object::read(object.clone());
    let new = read(new).map_err(|error| error.to_string())?;
    // An object that was stored by another version may be unreadable. All of the new one is then validated.
    let old = old.and_then(|old| read(old).ok());
    Ok(Decision::of(validation::object(&new, old.as_ref())))
}

/// A list of machines or pools that may use an edited object when their copies are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// Machines.
    Machines,
    /// Pools.
    Pools,
}

/// The most machines, and the most pools, that are read for one edit.
pub const EXAMINED_USERS: usize = 1000;
/// The number of them in one response.
pub const USERS_IN_A_PAGE: usize = 250;

impl Users {
    /// Both lists.
    pub const ALL: [Self; 2] = [Self::Machines, Self::Pools];

    /// The fields that are read.
    pub const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Machines => &[
                "metadata.continue",
                "items.*.metadata.name",
                "items.*.metadata.namespace",
                "items.*.metadata.deletionTimestamp",
                "items.*.spec.instancetype",
                "items.*.spec.preference",
                "items.*.status.instancetypeRef",
                "items.*.status.preferenceRef",
            ],
            Self::Pools => &[
                "metadata.continue",
                "items.*.metadata.name",
                "items.*.metadata.namespace",
                "items.*.metadata.deletionTimestamp",
                "items.*.metadata.annotations.vmpool.dev/instancetype-policy",
                "items.*.spec.instancetypePolicy",
                "items.*.spec.virtualMachineTemplate.spec.instancetype",
                "items.*.spec.virtualMachineTemplate.spec.preference",
                "items.*.status.conditions",
                "items.*.status.labelSelector",
            ],
        }
    }

    /// The path of a page, for an object of this kind and namespace. `after` is the token of the page before.
    pub fn page(self, kind: Kind, namespace: &str, after: &str) -> String {
        let namespace = (!kind.is_cluster()).then_some(namespace);
        let path = match self {
            Self::Machines => Machine::url_path(&(), namespace),
            Self::Pools => Pool::url_path(&(), namespace),
        };
        let after = if after.is_empty() { String::new() } else { format!("&continue={after}") };
        format!("{path}?limit={USERS_IN_A_PAGE}{after}")
    }

    /// Those in a page that will use the object as it is when their copies are made.
    pub fn awaiting(self, object: &Protected, page: &Value) -> Vec<String> {
        let items = page["items"].as_array().into_iter().flatten();
        let is_awaiting = |user: &&Value| match self {
            Self::Machines => object.awaited_by_machine(user),
            Self::Pools => object.awaited_by_pool(user),
        };
        let noun = match self {
            Self::Machines => "machine",
            Self::Pools => "pool",
        };
        items
            .filter(is_awaiting)
            .map(|user| format!("{noun} {}", user["metadata"]["name"].as_str().unwrap_or_default()))
            .collect()
    }

    /// What it is, for metrics.
    pub const fn subject(self) -> Subject {
        match self {
            Self::Machines => Subject::Machine,
            Self::Pools => Subject::Pool,
        }
    }
}

/// The object of this namespace whose spec an update changes, and its kind; `None` if there is nothing to warn about.
pub fn edited(namespace: &str, old: Option<&Value>, new: &Value) -> Option<(Kind, Protected)> {
    let old = old?;
    if old["spec"] == new["spec"] || validation::bypasses_admission(new) {
        return None;
    }
    let mut old = old.clone();
    old["metadata"]["namespace"] = namespace.into();
    Some((Kind::of_object(old["kind"].as_str()?)?, Protected::read(&old)?))
}

/// Reviews a create or an update of a machine.
pub fn validate(namespace: &str, old: Option<&Value>, new: &Value, reads: &Reads) -> Step {
    let scope = Scope { namespace, location: Location::VirtualMachine };
    let mut named = Named::default();
    if machine::needs_validation(new, old) {
        for family in FAMILIES {
            match find(new, family, scope, reads) {
                Ok(None) => {}
                Ok(Some(object)) => add(&mut named, family, object),
                Err(Unfound::Needs(need)) => return Step::Needs(need),
                Err(Unfound::Unusable(why)) => named.unusable.push((family, why)),
            }
        }
    }
    Step::Done(Decision::of(machine::validate(new, old, &named, &Settings::default(), scope.location)))
}

/// Completes a machine: infers the names of instance type and preference from volumes, and fills in what the preference
/// prefers and must be known before an instance exists.
pub fn complete(namespace: &str, machine: &Value, reads: &Reads) -> Step {
    let scope = Scope { namespace, location: Location::VirtualMachine };
    if validation::bypasses_admission(machine) {
        return Step::Done(Decision::Allowed { machine: None, warnings: Vec::new() });
    }
    let (mut completed, mut warnings) = (machine.clone(), Vec::new());
    for family in FAMILIES {
        let noun = family.noun();
        match pins::inferred(&mut completed, scope, family, &reads.found) {
            Ok(pin) => {
                let is_removed = pin.is_some_and(|pin| pin.get("matcher").is_some_and(Value::is_null));
                if is_removed {
                    warnings.push(format!(
                        "no {noun} was inferred, and spec.{} was removed, because inferFromVolumeFailurePolicy is Ignore",
                        family.field()
                    ));
                }
            }
            Err(Open::Needs(reference)) => match reads.failed.get(&reference) {
                None => return Step::Needs(need(reference)),
                Some(Failure::NotPermitted) => warnings.push(format!(
                    "the {noun} was not inferred from its volume, because the webhook has no client certificate of \
                     the API server"
                )),
                Some(Failure::Foreign) => warnings.push(format!(
                    "the {noun} was not inferred from its volume yet, because the volume leads to another namespace: the \
                     controller does it if the service account of the machine may clone the volume"
                )),
                Some(Failure::Error(error)) => {
                    let Reference { kind, name, .. } = &reference;
                    return Step::Done(Decision::Undecided(format!(
                        "inferring the {noun}: reading {kind} {name}: {error}"
                    )));
                }
            },
            Err(Open::Unresolved(Problem { reason: pins::INFERENCE_FAILED, causes, .. })) => {
                return Step::Done(Decision::NotInferred(causes));
            }
            // The other webhook refuses a matcher that is not valid.
            Err(Open::Unresolved(_)) => {}
        }
    }
    match find(&completed, Family::Preference, scope, reads) {
        Err(Unfound::Needs(need)) => return Step::Needs(need),
        Ok(Some(object)) => {
            let mut types = Types::default();
            let mut filled = completed.clone();
            // What cannot be read is reported when it is used.
            if types.insert(object).is_ok()
                && let Some(preference) = types.preference_spec()
                && fill(&mut filled, preference, scope.location).is_ok()
            {
                completed = filled;
            }
        }
        Ok(None) | Err(Unfound::Unusable(_)) => {}
    }
    let machine = (completed != *machine).then_some(completed);
    Step::Done(Decision::Allowed { machine, warnings })
}

/// Reviews a create or an update of a pool: whether its template fits the instance type and the preference that it names.
///
/// What cannot be read now is no reason to refuse the pool: it creates no machine before the controller has read it.
pub fn pool(namespace: &str, old: Option<&Value>, new: &Value, reads: &Reads) -> Step {
    let template = |pool: &Value| pool["spec"]["virtualMachineTemplate"].clone();
    let allowed = |warnings| Step::Done(Decision::Allowed { machine: None, warnings });
    let machine = template(new);
    if validation::bypasses_admission(new) || old.is_some_and(|old| template(old) == machine) {
        return allowed(Vec::new());
    }
    let scope = Scope { namespace, location: Location::Pool };
    let Resolved { machine, types, .. } = match pins::resolve_machine(&machine, scope, &reads.found) {
        Ok(resolved) => resolved,
        Err(Open::Needs(reference)) => {
            return match reads.failed.get(&reference) {
                None => Step::Needs(need(reference)),
                Some(Failure::NotPermitted | Failure::Foreign) => allowed(Vec::new()),
                Some(Failure::Error(error)) => {
                    let Reference { kind, name, .. } = &reference;
                    allowed(vec![format!(
                        "the template was not compared with its types: reading {kind} {name}: {error}"
                    )])
                }
            };
        }
        Err(Open::Unresolved(Problem { message, .. })) => {
            return allowed(vec![format!("{message}; until this is corrected, the pool creates no machine")]);
        }
    };
    match expand::check(&machine, &types, &Settings::default(), scope.location) {
        Ok(_) => allowed(Vec::new()),
        Err(error) => {
            Step::Done(Decision::Refused { causes: error.causes(scope.location), warnings: Vec::new() })
        }
    }
}

fn add(named: &mut Named, family: Family, object: Object) {
    if let Err(error) = named.types.insert(object) {
        named.unusable.push((family, error.to_string()));
    }
}

/// Why an object was not found.
enum Unfound {
    Needs(Need),
    Unusable(String),
}

/// The object that a matcher of a machine names; `None` if there is no matcher with a name.
fn find(machine: &Value, family: Family, scope: Scope<'_>, reads: &Reads) -> Result<Option<Object>, Unfound> {
    // A matcher that cannot be read is refused without a look at its object.
    let matcher = Matcher::of_machine(machine, family).ok().flatten();
    let Some(matcher) = matcher.filter(|matcher| !matcher.name.is_empty()) else { return Ok(None) };
    match pins::named_object(machine, &matcher, scope, family, &reads.found) {
        Ok((object, _)) => Ok(Some(object)),
        Err(Open::Unresolved(problem)) => Err(Unfound::Unusable(problem.message)),
        Err(Open::Needs(reference)) => Err(match reads.failed.get(&reference) {
            None => Unfound::Needs(need(reference)),
            Some(Failure::NotPermitted | Failure::Foreign) => {
                let why = "the webhook has no client certificate of the API server";
                Unfound::Unusable(why.to_owned())
            }
            Some(Failure::Error(error)) => {
                let Reference { kind, name, .. } = &reference;
                Unfound::Unusable(format!("reading {kind} {name}: {error}"))
            }
        }),
    }
}

fn need(reference: Reference) -> Need {
    let kind = Kind::of_object(reference.kind);
    let subject = match (kind, reference.kind) {
        (Some(_), _) => Subject::Instancetype,
        (None, "ControllerRevision") => Subject::Revision,
        (None, "VolumeSnapshot") => Subject::Snapshot,
        (None, _) => Subject::Volume,
    };
    Need { reference, subject, reveals: !kind.is_some_and(Kind::is_cluster) }
}

#[cfg(test)]
mod tests;
