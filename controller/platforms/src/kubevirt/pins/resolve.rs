//! Resolving the matchers of a machine template.

use serde_json::{Map, Value, json};
use vmpool_api::kubevirt::{POOL_API_VERSION, clone_account, labels::POOL_UID};
use vmpool_engine::ObjectId;
use vmpool_instancetype::apply::ApplyError;
use vmpool_instancetype::expand::{self, ExpandError};
use vmpool_instancetype::fields::{Cause, CauseReason, Location};
use vmpool_instancetype::inference::{self, Inferred, Lookup, Source, Step};
use vmpool_instancetype::model::{Family, GROUP, Kind, Matcher, Object, Types, VERSION};
use vmpool_instancetype::start::{Binding, Settings};
use vmpool_instancetype::stash::{self, Acceptance, Owner, Stash, Wanted};
use vmpool_instancetype::status_ref::{self, StatusRef};
use vmpool_instancetype::{Malformed, validation};

use super::super::keys::POOL_KIND;
use super::policy::Policy;
use super::stored::{EXPANDED, FAMILIES, apply, current};
use crate::{Configuration, DefaultInterface, Foreign, Found, LookupReason, Reference};

/// The reason if a ControllerRevision is not a copy of the object that a machine names.
pub(in super::super) const REVISION_MISMATCH: &str = "RevisionMismatch";

/// The reason if no name can be inferred from a volume.
pub(in super::super) const INFERENCE_FAILED: &str = "InferenceFailed";

/// The reason if a machine sets what its instance type sets.
pub(in super::super) const INSTANCETYPE_CONFLICT: &str = "InstancetypeConflict";
/// The reason if a machine does not meet the requirements of its preference.
pub(in super::super) const REQUIREMENTS_NOT_MET: &str = "RequirementsNotMet";

/// Why resolving did not end.
pub(in super::super) enum Open {
    Needs(Reference),
    Unresolved(Problem),
}

/// Why the matchers of a machine cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The reason, one of those that the pins of a pool have.
    pub reason: &'static str,
    /// What is wrong, and what to do.
    pub message: String,
    /// The fields, for a response.
    pub causes: Vec<Cause>,
    /// The matcher that cannot be resolved.
    pub family: Family,
    /// The reason, for metrics.
    pub lookup: LookupReason,
}

impl Problem {
    fn new(family: Family, reason: &'static str, message: String, causes: Vec<Cause>) -> Self {
        Self { reason, message, causes, family, lookup: lookup_reason(reason) }
    }

    fn of(family: Family, reason: &'static str, cause: Cause) -> Self {
        Self::new(family, reason, cause.to_string(), vec![cause])
    }
}

fn problem(family: Family, reason: &'static str, cause: Cause) -> Open {
    Open::Unresolved(Problem::of(family, reason, cause))
}

/// The problem of an object or a copy that cannot be read.
fn unreadable(family: Family, reason: &'static str, cause: Cause) -> Open {
    Open::Unresolved(Problem { lookup: LookupReason::Decode, ..Problem::of(family, reason, cause) })
}

/// The reason for metrics. Objects and copies that cannot be read have one of their own.
pub(in super::super) fn lookup_reason(reason: &str) -> LookupReason {
    match reason {
        REVISION_MISMATCH => LookupReason::Mismatch,
        INSTANCETYPE_CONFLICT | REQUIREMENTS_NOT_MET => LookupReason::Conflict,
        _ => LookupReason::NotFound,
    }
}

/// The kind that a machine names; `None` if it does not exist, or the machine names only a volume.
pub(in super::super) fn named_kind(machine: &Value, family: Family) -> Option<&'static str> {
    let matcher = Matcher::of_machine(machine, family).ok().flatten()?;
    if matcher.name.is_empty() { None } else { matcher.kind(family).ok().map(Kind::as_str) }
}

fn not_found(family: Family) -> &'static str {
    match family {
        Family::Instancetype => "InstancetypeNotFound",
        Family::Preference => "PreferenceNotFound",
    }
}

/// A matcher that was resolved.
struct Part {
    family: Family,
    /// The beginning of the pin: what inference changed.
    pin: Value,
    /// The matcher and its object; `None` if inference removed the matcher.
    object: Option<(Matcher, Object)>,
    /// Whether the object is from a ControllerRevision that the machine names.
    is_copy: bool,
}

/// A machine whose matchers were resolved.
pub(in super::super) struct Resolved {
    /// The machine, with what was inferred.
    pub(in super::super) machine: Value,
    /// The objects that its matchers name.
    pub(in super::super) types: Types,
    parts: Vec<Part>,
}

/// Where a machine stands.
#[derive(Clone, Copy)]
pub(in super::super) struct Scope<'a> {
    pub(in super::super) namespace: &'a str,
    pub(in super::super) location: Location,
}

/// Resolves the matchers of a machine: infers them, and finds the objects that they name.
pub(in super::super) fn objects(machine: &Value, scope: Scope<'_>, found: &Found) -> Result<Resolved, Open> {
    let mut resolved = Resolved { machine: machine.clone(), types: Types::default(), parts: Vec::new() };
    for family in FAMILIES {
        resolved.add(family, scope, found)?;
    }
    Ok(resolved)
}

impl Resolved {
    /// Resolves a matcher.
    fn add(&mut self, family: Family, scope: Scope<'_>, found: &Found) -> Result<(), Open> {
        let Some(pin) = inferred(&mut self.machine, scope, family, found)? else { return Ok(()) };
        let matcher = Matcher::of_machine(&self.machine, family)
            .map_err(|error| problem(family, not_found(family), error.into()))?;
        let mut part = Part { family, pin, object: None, is_copy: false };
        if let Some(matcher) = matcher {
            let (object, is_copy) = object(&self.machine, &matcher, scope, family, found)?;
            part.is_copy = is_copy;
            self.types.insert(object.clone()).map_err(|error| {
                problem(family, not_found(family), cause(scope, family, "name", error.to_string()))
            })?;
            part.object = Some((matcher, object));
        }
        self.parts.push(part);
        Ok(())
    }

    /// Uses the object of which a pin contains a copy.
    fn keep(
        &mut self,
        (family, pin): (Family, &Value),
        matcher: Matcher,
        object: Object,
    ) -> Result<(), Open> {
        let applied = json!({ "matcher": matcher.to_json(), "removesMemory": pin["removesMemory"] });
        apply(&mut self.machine["spec"], &json!({ (family.field()): applied }));
        self.types.insert(object.clone()).map_err(|error| {
            problem(
                family,
                not_found(family),
                Cause {
                    reason: CauseReason::FieldValueNotFound,
                    message: error.to_string(),
                    field: Location::Pool.matcher_field(family, "name"),
                },
            )
        })?;
        self.parts.push(Part { family, pin: pin.clone(), object: Some((matcher, object)), is_copy: false });
        Ok(())
    }
}

/// The object that a matcher of a machine names, and whether it is from a ControllerRevision that the machine refers to.
pub(in super::super) fn object(
    machine: &Value,
    matcher: &Matcher,
    scope: Scope<'_>,
    family: Family,
    found: &Found,
) -> Result<(Object, bool), Open> {
    let status = StatusRef::of_machine(machine, family)
        .map_err(|error| problem(family, not_found(family), error.into()))?;
    if let Some(reference) = status_ref::reference(matcher, status.as_ref())
        && let Some(copy) = named(machine, (matcher, &reference), scope, family, found)?
    {
        return Ok((copy, true));
    }
    Ok((live(matcher, scope, family, found)?, false))
}

/// The problem that keeps a machine from being expanded.
pub(in super::super) fn refused(error: &ExpandError, location: Location) -> Problem {
    let (reason, family) = match error {
        ExpandError::Requirements(_) => (REQUIREMENTS_NOT_MET, Family::Preference),
        ExpandError::Apply(ApplyError::Topology(_) | ApplyError::Conflicts(_) | ApplyError::Malformed(_))
        | ExpandError::InvalidMatcher(_)
        | ExpandError::NotInferred { .. }
        | ExpandError::UnknownKind(_)
        | ExpandError::NotFound { .. }
        | ExpandError::NotNamed { .. } => (INSTANCETYPE_CONFLICT, Family::Instancetype),
    };
    Problem::new(family, reason, error.to_string(), error.causes(location))
}

/// A machine template to resolve.
pub(super) struct Template<'a> {
    pub(super) content: &'a Value,
    pub(super) policy: Policy,
    /// What KubeVirt adds to machines.
    pub(super) configuration: &'a Configuration,
    /// The pins that it has already; null if it has none.
    pub(super) pins: &'a Value,
}

/// The pins of a machine template. If some of its matchers can be resolved and others cannot, the result contains the problem, and
/// the pins of the former.
pub(super) fn pins(
    pool: &ObjectId,
    namespace: &str,
    &Template { content: template, policy, configuration, pins: kept }: &Template<'_>,
    found: &Found,
) -> Result<(Value, Option<Problem>), Open> {
    let scope = Scope { namespace, location: Location::Pool };
    // The template of a pool has no status.
    let machine = json!({ "metadata": template["metadata"], "spec": template["spec"] });
    let mut resolved = Resolved { machine, types: Types::default(), parts: Vec::new() };
    let mut problem = None;
    for family in FAMILIES {
        let added = match self::kept(&kept[family.field()], family) {
            Some((matcher, object)) => resolved.keep((family, &kept[family.field()]), matcher, object),
            None => resolved.add(family, scope, found),
        };
        match added {
            Err(Open::Unresolved(found)) if problem.is_none() => problem = Some(found),
            Err(Open::Unresolved(_)) | Ok(()) => {}
            Err(needs) => return Err(needs),
        }
    }
    let Resolved { machine, types, parts } = resolved;
    let mut pins = Map::new();
    let mut is_new = false;
    for Part { family, mut pin, object, is_copy } in parts {
        if kept[family.field()].is_object() {
            pins.insert(family.field().to_owned(), kept[family.field()].clone());
            continue;
        }
        match object {
            // The template names the copy itself.
            Some((matcher, _)) if is_copy => pin["matcher"] = matcher.to_json(),
            Some((matcher, object)) => {
                let mut revision = match pinned(pool, scope, &object, family) {
                    Ok(revision) => revision,
                    Err(Open::Unresolved(found)) => {
                        problem.get_or_insert(found);
                        continue;
                    }
                    Err(needs) => return Err(needs),
                };
                is_new = true;
                if policy == Policy::Expand {
                    pin["data"] = revision["data"].take();
                } else {
                    let name = revision["metadata"]["name"].as_str().unwrap_or_default();
                    pin["matcher"] = matcher.pinned(name).to_json();
                    pin["revision"] = revision;
                }
            }
            None => {}
        }
        pins.insert(family.field().to_owned(), pin);
    }
    if let Some(problem) = problem {
        return if is_new { Ok((pins.into(), Some(problem))) } else { Err(Open::Unresolved(problem)) };
    }
    let refused = |error: ExpandError| Open::Unresolved(refused(&error, Location::Pool));
    if let Some(machine) = with_architecture(&machine, &types, configuration) {
        expand::check(&machine, &types, &Settings::default(), Location::Pool).map_err(refused)?;
    }
    let checked = match policy {
        Policy::Expand => {
            let interface = binding(configuration.interface).filter(|_| prefers_interface(&types));
            let settings = Settings { interface, defaults: None };
            expand::expand(&machine, &types, &settings, Location::Pool).map(Some)
        }
        Policy::Pin | Policy::PerMember => {
            expand::check(&machine, &types, &Settings::default(), Location::Pool).map(|_| None)
        }
    };
    let expanded = checked.map_err(refused)?;
    pins.extend(expanded.map(|mut machine| (EXPANDED.to_owned(), machine["spec"].take())));
    Ok((pins.into(), None))
}

/// A machine with the architecture that KubeVirt gives to it before it checks the requirement of the preference; `None` if there is
/// no such requirement, or the architecture follows from the machine and the preference.
fn with_architecture(machine: &Value, types: &Types, configuration: &Configuration) -> Option<Value> {
    let preference = types.preference_spec()?;
    let chosen = machine.pointer("/spec/template/spec/architecture").and_then(Value::as_str);
    let is_open = preference.architecture.is_none() && chosen.is_none_or(str::is_empty);
    let architecture = configuration.architecture.as_deref().filter(|_| is_open)?;
    preference.requirements.architecture.as_ref()?;
    let mut machine = machine.clone();
    machine
        .pointer_mut("/spec/template/spec")?
        .as_object_mut()?
        .insert("architecture".to_owned(), architecture.into());
    Some(machine)
}

/// The object of which a pin contains a copy, and the matcher that names it.
fn kept(pin: &Value, family: Family) -> Option<(Matcher, Object)> {
    let revision = if pin["data"].is_object() { pin } else { &pin["revision"] };
    let object = Object::read(current(revision)["data"].take()).ok()?;
    let matcher = json!({ "name": object.identity.name, "kind": object.kind.as_str() });
    let machine = json!({ "spec": { (family.field()): matcher } });
    Some((Matcher::of_machine(&machine, family).ok()??, object))
}

/// Whether the preference changes the default interface. KubeVirt adds it when a machine starts, and a machine in which the
/// preference is written out names no preference then.
pub(in super::super) fn prefers_interface(types: &Types) -> bool {
    let devices = types.preference_spec().and_then(|preference| preference.devices.as_ref());
    devices.and_then(|devices| devices.interface_model.as_deref()).is_some_and(|model| !model.is_empty())
}

/// The binding of the default interface; `None` if vmpool does not know it.
pub(in super::super) fn binding(interface: DefaultInterface) -> Option<Binding> {
    match interface {
        DefaultInterface::Bridge => Some(Binding::Bridge),
        DefaultInterface::Masquerade => Some(Binding::Masquerade),
        DefaultInterface::Other => None,
    }
}

fn cause(scope: Scope<'_>, family: Family, field: &str, message: String) -> Cause {
    let field = scope.location.matcher_field(family, field);
    Cause { reason: CauseReason::FieldValueNotFound, message, field }
}

/// Validates a matcher, and replaces it by what its volume names. If the machine has a copy of what it inferred from the volume,
/// the copy decides: later labels of the volume are those of another machine. The result is the beginning of the pin; `None` if
/// the machine has no such matcher.
pub(in super::super) fn inferred(
    machine: &mut Value,
    scope: Scope<'_>,
    family: Family,
    found: &Found,
) -> Result<Option<Value>, Open> {
    let matcher = Matcher::of_machine(machine, family)
        .map_err(|error| problem(family, not_found(family), error.into()))?;
    let Some(matcher) = matcher else { return Ok(None) };
    let causes = validation::matcher(family, &matcher, None, scope.location);
    if let Some(first) = causes.first() {
        let message = first.to_string();
        return Err(Open::Unresolved(Problem::new(family, not_found(family), message, causes)));
    }
    let failed =
        |error: String| problem(family, INFERENCE_FAILED, cause(scope, family, "inferFromVolume", error));
    let recorded = recorded(machine, family, &matcher).map_err(|error| failed(error.to_string()))?;
    let step = match recorded {
        Some(inferred) => Some(Step::Done(Ok(inferred))),
        None => {
            inference::infer(machine, scope.namespace, family).map_err(|error| failed(error.to_string()))?
        }
    };
    let Some(mut step) = step else { return Ok(Some(json!({}))) };
    let account = clone_account(&machine["spec"]["template"]["spec"]).to_owned();
    let inferred = loop {
        match step {
            Step::Done(result) => break result.map_err(|error| failed(error.to_string()))?,
            Step::Lookup(inference) => {
                let object = read(&place(inference.lookup(), scope, &account), found)?;
                step = inference.found(object);
            }
        }
    };
    let memory = |machine: &Value| machine.pointer("/spec/template/spec/domain/memory").is_some();
    let had_memory = memory(machine);
    inference::write(machine, family, &inferred).map_err(|error| failed(error.to_string()))?;
    if let Inferred::Removed(_) = inferred {
        return Ok(Some(json!({ "matcher": null })));
    }
    let removed = had_memory && !memory(machine);
    Ok(Some(if removed { json!({ "removesMemory": true }) } else { json!({}) }))
}

/// What the status of a machine with a copy says of its volume.
fn recorded(machine: &Value, family: Family, matcher: &Matcher) -> Result<Option<Inferred>, Malformed> {
    let volume = &matcher.infer_from_volume;
    let is_of_volume = |status: &StatusRef| {
        !volume.is_empty() && !status.revision.is_empty() && status.matcher.infer_from_volume == *volume
    };
    let status = StatusRef::of_machine(machine, family)?.filter(is_of_volume);
    Ok(status.map(|StatusRef { matcher: Matcher { name, kind, .. }, .. }| Inferred::Named { name, kind }))
}

/// The object that was read.
pub(in super::super) fn read<'a>(reference: &Reference, found: &'a Found) -> Result<Option<&'a Value>, Open> {
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

fn place(lookup: &Lookup, scope: Scope<'_>, account: &str) -> Reference {
    let Lookup { source, namespace, name } = lookup;
    let (root, resource) = match source {
        Source::Claim => ("/api/v1", "persistentvolumeclaims"),
        Source::DataVolume => ("/apis/cdi.kubevirt.io/v1beta1", "datavolumes"),
        Source::DataSource => ("/apis/cdi.kubevirt.io/v1beta1", "datasources"),
        Source::Snapshot => ("/apis/snapshot.storage.k8s.io/v1", "volumesnapshots"),
    };
    // A namespace that cannot exist has no objects.
    let name = if is_segment(namespace) { name.clone() } else { String::new() };
    let collection = format!("{root}/namespaces/{namespace}/{resource}");
    let foreign = (namespace != scope.namespace).then(|| {
        Box::new(Foreign {
            account: (scope.namespace.to_owned(), account.to_owned()),
            group: root.split('/').nth(2).filter(|_| root.starts_with("/apis/")).unwrap_or_default(),
            resource,
            namespace: namespace.clone(),
        })
    });
    Reference { kind: source.as_str(), collection, name, foreign }
}

/// Where a ControllerRevision of a namespace is.
pub(crate) fn revision_at(namespace: &str, name: &str) -> Reference {
    Reference {
        kind: "ControllerRevision",
        collection: format!("/apis/apps/v1/namespaces/{namespace}/controllerrevisions"),
        name: name.to_owned(),
        foreign: None,
    }
}

/// The live object that a matcher names.
pub(in super::super) fn live(
    matcher: &Matcher,
    scope: Scope<'_>,
    family: Family,
    found: &Found,
) -> Result<Object, Open> {
    let failed = |field: &str, message: String| {
        problem(family, not_found(family), cause(scope, family, field, message))
    };
    let kind = matcher.kind(family).map_err(|error| failed("kind", error.to_string()))?;
    let path = if kind.is_cluster() { String::new() } else { format!("/namespaces/{}", scope.namespace) };
    let collection = format!("/apis/{GROUP}/{VERSION}{path}/{}", kind.plural());
    let reference = Reference { kind: kind.as_str(), collection, name: matcher.name.clone(), foreign: None };
    let object = read(&reference, found)?.ok_or_else(|| {
        let name = &matcher.name;
        failed("name", format!("{kind} {name:?} does not exist; create it, or name another one"))
    })?;
    Object::read(object.clone()).map_err(|error| {
        unreadable(family, not_found(family), cause(scope, family, "name", error.to_string()))
    })
}

/// The object in the ControllerRevision that a machine names. `None` if its status names one of another object, because the
/// matcher has changed.
fn named(
    machine: &Value,
    (matcher, reference): (&Matcher, &status_ref::Reference),
    scope: Scope<'_>,
    family: Family,
    found: &Found,
) -> Result<Option<Object>, Open> {
    let because = |message: String| cause(scope, family, "revisionName", message);
    let failed = |message: String| problem(family, REVISION_MISMATCH, because(message));
    let undecoded = |message: String| unreadable(family, REVISION_MISMATCH, because(message));
    let kind = matcher.kind(family).map_err(|error| failed(error.to_string()))?;
    let revision = &reference.revision;
    let Some(stored) = read(&revision_at(scope.namespace, revision), found)? else {
        let message =
            format!("ControllerRevision {revision:?} does not exist; correct or remove revisionName");
        return Err(problem(family, not_found(family), cause(scope, family, "revisionName", message)));
    };
    let stash = Stash::read(stored).map_err(|error| undecoded(error.to_string()))?;
    let decoded = stash::decode(&stash, kind, &matcher.name).map_err(|error| undecoded(error.to_string()))?;
    let by_spec = reference.by_spec;
    let machine_uid = machine["metadata"]["uid"].as_str().unwrap_or_default();
    let machine_name = machine["metadata"]["name"].as_str().unwrap_or_default();
    let by_status =
        status_ref::is_recorded(machine, family, revision).map_err(|error| failed(error.to_string()))?;
    let wanted = Wanted { kind, name: &matcher.name, by_spec, by_status, machine_uid, machine_name };
    match stash::accept(&stash, &decoded, &wanted) {
        Ok(Acceptance::Use | Acceptance::Upgrade) => Ok(Some(decoded.object)),
        Ok(Acceptance::Stale) if !by_spec => Ok(None),
        Ok(Acceptance::Stale) => Err(failed(format!("ControllerRevision {revision:?} is of another object"))),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// The ControllerRevision with the copy of an object.
fn pinned(pool: &ObjectId, scope: Scope<'_>, object: &Object, family: Family) -> Result<Value, Open> {
    let owner = Owner {
        api_version: POOL_API_VERSION.to_owned(),
        kind: POOL_KIND.to_owned(),
        name: pool.name.to_string(),
        uid: pool.uid.as_str().to_owned(),
        controller: true,
    };
    let failed = |message: String| problem(family, not_found(family), cause(scope, family, "name", message));
    let name = &object.identity.name;
    if name.len() > validation::LONGEST_NAME {
        let (kind, most) = (object.kind, validation::LONGEST_NAME);
        return Err(failed(format!(
            "the name of {kind} {name:?} has more than {most} characters, so it cannot be pinned"
        )));
    }
    let mut stash = Stash::of(object, owner, scope.namespace).map_err(|error| failed(error.to_string()))?;
    stash.labels.insert(POOL_UID.to_owned(), pool.uid.as_str().to_owned());
    Ok(stash.to_json())
}
