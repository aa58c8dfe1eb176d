//! Resolving the matchers of a machine template.

use serde_json::{Map, Value, json};
use vmpool_api::kubevirt::{POOL_API_VERSION, labels::POOL_UID};
use vmpool_engine::ObjectId;
use vmpool_instancetype::apply::ApplyError;
use vmpool_instancetype::expand::{self, ExpandError};
use vmpool_instancetype::fields::Location;
use vmpool_instancetype::inference::{self, Inferred, Lookup, Source, Step};
use vmpool_instancetype::model::{Family, GROUP, Instancetype, Matcher, Object, Preference, Types, VERSION};
use vmpool_instancetype::start::Settings;
use vmpool_instancetype::stash::{self, Acceptance, Owner, Stash, Wanted};
use vmpool_instancetype::validation;

use super::super::keys::POOL_KIND;
use crate::{Found, Reference};

/// The matchers of a machine.
pub(super) const FAMILIES: [Family; 2] = [Family::Instancetype, Family::Preference];

/// Why resolving did not end with pins.
pub(super) enum Open {
    Needs(Reference),
    Unresolved(&'static str, String),
}

fn not_found(family: Family) -> &'static str {
    match family {
        Family::Instancetype => "InstancetypeNotFound",
        Family::Preference => "PreferenceNotFound",
    }
}

/// The pins of a machine template.
pub(super) fn pins(pool: &ObjectId, namespace: &str, template: &Value, found: &Found) -> Result<Value, Open> {
    let mut machine = template.clone();
    let mut pins = Map::new();
    let mut types = Types::default();
    for family in FAMILIES {
        let Some(mut pin) = inferred(&mut machine, namespace, family, found)? else { continue };
        let matcher = Matcher::of_machine(&machine, family)
            .map_err(|error| Open::Unresolved(not_found(family), error.to_string()))?;
        if let Some(matcher) = matcher {
            let (object, revision) = if matcher.revision_name.is_empty() {
                let object = live(&matcher, namespace, family, found)?;
                let revision = pinned(pool, namespace, &object, family)?;
                (object, Some(revision))
            } else {
                (named(&matcher, namespace, family, found)?, None)
            };
            match revision {
                Some(revision) => {
                    let name = revision["metadata"]["name"].as_str().unwrap_or_default();
                    pin["matcher"] = matcher.pinned(name).to_json();
                    pin["revision"] = revision;
                }
                // The template names the copy itself.
                None => pin["matcher"] = matcher.to_json(),
            }
            let unreadable = |error| Open::Unresolved(not_found(family), format!("{error}"));
            match family {
                Family::Instancetype => {
                    types.instancetype = Some(Instancetype::new(object).map_err(unreadable)?);
                }
                Family::Preference => types.preference = Some(Preference::new(object).map_err(unreadable)?),
            }
        }
        pins.insert(family.field().to_owned(), pin);
    }
    match expand::check(&machine, &types, &Settings::default(), Location::Pool) {
        Ok(_) => Ok(pins.into()),
        Err(error) => {
            let reason = match &error {
                ExpandError::Requirements(_) => "RequirementsNotMet",
                ExpandError::Apply(
                    ApplyError::Topology(_) | ApplyError::Conflicts(_) | ApplyError::Malformed(_),
                )
                | ExpandError::InvalidMatcher(_)
                | ExpandError::NotInferred { .. }
                | ExpandError::UnknownKind(_)
                | ExpandError::NotFound { .. }
                | ExpandError::NotNamed { .. } => "InstancetypeConflict",
            };
            Err(Open::Unresolved(reason, error.to_string()))
        }
    }
}

/// Validates a matcher, and replaces it by what its volume names. The result is the beginning of the pin; `None` if the
/// template has no such matcher.
fn inferred(
    machine: &mut Value,
    namespace: &str,
    family: Family,
    found: &Found,
) -> Result<Option<Value>, Open> {
    let failed = |reason: &'static str| move |error: String| Open::Unresolved(reason, error);
    let matcher =
        Matcher::of_machine(machine, family).map_err(|error| failed(not_found(family))(error.to_string()))?;
    let Some(matcher) = matcher else { return Ok(None) };
    let causes = validation::matcher(family, &matcher, None, Location::Pool);
    if let Some(cause) = causes.first() {
        return Err(Open::Unresolved(not_found(family), cause.to_string()));
    }
    let step = inference::infer(machine, namespace, family)
        .map_err(|error| failed("InferenceFailed")(error.to_string()))?;
    let Some(mut step) = step else { return Ok(Some(json!({}))) };
    let inferred = loop {
        match step {
            Step::Done(result) => {
                break result.map_err(|error| failed("InferenceFailed")(error.to_string()))?;
            }
            Step::Lookup(inference) => {
                let object = read(&place(inference.lookup()), found)?;
                step = inference.found(object);
            }
        }
    };
    let memory = |machine: &Value| machine.pointer("/spec/template/spec/domain/memory").is_some();
    let had_memory = memory(machine);
    inference::write(machine, family, &inferred)
        .map_err(|error| failed("InferenceFailed")(error.to_string()))?;
    if let Inferred::Removed(_) = inferred {
        return Ok(Some(json!({ "matcher": null })));
    }
    let removed = had_memory && !memory(machine);
    Ok(Some(if removed { json!({ "removesMemory": true }) } else { json!({}) }))
}

/// The object that was read.
fn read<'a>(reference: &Reference, found: &'a Found) -> Result<Option<&'a Value>, Open> {
    if !is_segment(&reference.name) {
        return Ok(None);
    }
    match found.get(reference) {
        Some(object) => Ok(object.as_ref()),
        None => Err(Open::Needs(reference.clone())),
    }
}

/// Whether a name can be the name of an object. Others do not exist, and must not become a part of a path.
fn is_segment(name: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=253).contains(&name.len()) && name.bytes().all(is_valid) && !name.starts_with(['.', '-'])
}

fn place(lookup: &Lookup) -> Reference {
    let Lookup { source, namespace, name } = lookup;
    let (group, plural) = match source {
        Source::Claim => ("/api/v1", "persistentvolumeclaims"),
        Source::DataVolume => ("/apis/cdi.kubevirt.io/v1beta1", "datavolumes"),
        Source::DataSource => ("/apis/cdi.kubevirt.io/v1beta1", "datasources"),
        Source::Snapshot => ("/apis/snapshot.storage.k8s.io/v1", "volumesnapshots"),
    };
    // A namespace that cannot exist has no objects.
    let name = if is_segment(namespace) { name.clone() } else { String::new() };
    let collection = format!("{group}/namespaces/{namespace}/{plural}");
    Reference { kind: source.as_str(), collection, name }
}

/// The live object that a matcher names.
fn live(matcher: &Matcher, namespace: &str, family: Family, found: &Found) -> Result<Object, Open> {
    let failed = |message: String| Open::Unresolved(not_found(family), message);
    let kind = matcher.kind(family).map_err(|error| failed(error.to_string()))?;
    let scope = if kind.is_cluster() { String::new() } else { format!("/namespaces/{namespace}") };
    let collection = format!("/apis/{GROUP}/{VERSION}{scope}/{}", kind.plural());
    let reference = Reference { kind: kind.as_str(), collection, name: matcher.name.clone() };
    let object = read(&reference, found)?.ok_or_else(|| {
        let name = &matcher.name;
        failed(format!("{kind} {name:?} does not exist; create it, or name another one in the template"))
    })?;
    Object::read(object.clone()).map_err(|error| failed(error.to_string()))
}

/// The object in the ControllerRevision that a matcher names itself.
fn named(matcher: &Matcher, namespace: &str, family: Family, found: &Found) -> Result<Object, Open> {
    let failed = |message: String| Open::Unresolved("RevisionMismatch", message);
    let kind = matcher.kind(family).map_err(|error| failed(error.to_string()))?;
    let revision = &matcher.revision_name;
    let reference = Reference {
        kind: "ControllerRevision",
        collection: format!("/apis/apps/v1/namespaces/{namespace}/controllerrevisions"),
        name: revision.clone(),
    };
    let Some(stored) = read(&reference, found)? else {
        let message =
            format!("ControllerRevision {revision:?} does not exist; correct or remove revisionName");
        return Err(Open::Unresolved(not_found(family), message));
    };
    let stash = Stash::read(stored).map_err(|error| failed(error.to_string()))?;
    let decoded = stash::decode(&stash, kind, &matcher.name).map_err(|error| failed(error.to_string()))?;
    let wanted = Wanted { kind, name: &matcher.name, by_spec: true, by_status: false, machine_uid: "" };
    match stash::accept(&stash, &decoded, &wanted) {
        Ok(Acceptance::Use | Acceptance::Upgrade) => Ok(decoded.object),
        Ok(Acceptance::Stale) => Err(failed(format!("ControllerRevision {revision:?} is of another object"))),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// The ControllerRevision with the copy of an object.
fn pinned(pool: &ObjectId, namespace: &str, object: &Object, family: Family) -> Result<Value, Open> {
    let owner = Owner {
        api_version: POOL_API_VERSION.to_owned(),
        kind: POOL_KIND.to_owned(),
        name: pool.name.to_string(),
        uid: pool.uid.as_str().to_owned(),
        controller: true,
    };
    let name = &object.identity.name;
    if name.len() > validation::LONGEST_NAME {
        let (kind, most) = (object.kind, validation::LONGEST_NAME);
        let message =
            format!("the name of {kind} {name:?} has more than {most} characters, so it cannot be pinned");
        return Err(Open::Unresolved(not_found(family), message));
    }
    let mut stash = Stash::of(object, owner, namespace)
        .map_err(|error| Open::Unresolved(not_found(family), error.to_string()))?;
    stash.labels.insert(POOL_UID.to_owned(), pool.uid.as_str().to_owned());
    Ok(stash.to_json())
}
