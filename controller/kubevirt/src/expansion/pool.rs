//! Pools.

use serde_json::{Value, json};
use vmpool_api::OwnerIdentity;
use vmpool_api::kubevirt::annotations::NAME_GENERATION;
use vmpool_engine::ObjectId;
use vmpool_instancetype::expand::expand_machine;
use vmpool_instancetype::fields::MachineLocation;
use vmpool_instancetype::metadata::DocumentMetadata;
use vmpool_instancetype::model::InstanceTypeAndPreference;
use vmpool_instancetype::pins::{self, MatcherScope, PinnedTemplate, ResolvedMachine};
use vmpool_instancetype::start::InstanceSettings;
use vmpool_platform::{FetchedObjects, is_owner, revision_at};

use super::super::annotated_names::add_annotated_names;
use super::super::machine::{self, RevisionTemplate};
use super::super::objects::KubeVirtPoolObject;
use super::super::read::read_pool_settings;
use super::super::{revision, template};
use super::defaults::StartDefaults;
use super::form::{self, ExpansionForm};
use super::message;
use super::outcome::Expansion;

/// The field of the spec of a pool that contains the template of its machines.
const TEMPLATE: &str = "virtualMachineTemplate";

/// How many names of the current revision are read, if the pool does not name it. Later ones are exceptional.
const READ_NAMES: usize = 4;

/// Which template of a stored pool is expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevisionToExpand {
    /// The template in the request, in this form. The pool need not be stored.
    Supplied(ExpansionForm),
    /// The current one, with the copies of its revision if it has any.
    Current,
    /// That of the stored revision with this name.
    Named(String),
}

impl RevisionToExpand {
    /// The form of the result. Stored pools have the form that their machines get.
    fn form(&self) -> ExpansionForm {
        match self {
            Self::Supplied(form) => *form,
            Self::Current | Self::Named(_) => ExpansionForm::Complete,
        }
    }
}

/// Expands the template of a pool. With `index`, the result is the VirtualMachine with this ordinal, as the
/// controller would create it. General defaults are KubeVirt's and not filled in, except for an interface
/// that the preference changes, and except for [`ExpansionForm::KubeVirt`].
///
/// `defaults` are read only if they are needed: [`Expansion::NeedsDefaults`].
pub fn expand_pool(
    pool: &Value,
    namespace: &str,
    which: &RevisionToExpand,
    index: Option<u64>,
    found: &FetchedObjects,
    defaults: Option<&StartDefaults>,
) -> Expansion {
    let id = DocumentMetadata::of(pool).object_id();
    let (name, content) = match select_revision_content(pool, &id, namespace, which, found) {
        Ok(content) => content,
        Err(expansion) => return expansion,
    };
    let expansion = match pins::pinned_template(&content) {
        Some(PinnedTemplate::Written(template)) => Expansion::Done(template),
        Some(PinnedTemplate::Named(template, types)) => write_out_template(&template, &types, defaults),
        None => expand_live_template(&content[TEMPLATE], namespace, which.form(), found, defaults),
    };
    let template = match expansion {
        Expansion::Done(template) => template,
        other => return other,
    };
    let Some(ordinal) = index else {
        let mut pool = pool.clone();
        pool["spec"][TEMPLATE] = template;
        return Expansion::Done(pool);
    };
    let names = read_pool_settings(&content).names;
    let template = RevisionTemplate { content: &template, names, pins: &Value::Null };
    Expansion::Done(machine::machine_object(namespace, &id, template, ordinal, &name))
}

/// The name of the revision and its content: the spec of the pool, with copies if the revision has any.
fn select_revision_content(
    pool: &Value,
    id: &ObjectId,
    namespace: &str,
    which: &RevisionToExpand,
    found: &FetchedObjects,
) -> Result<(String, Value), Expansion> {
    let generation = pool["metadata"]["generation"].as_i64().unwrap_or_default();
    let free = |taken: &[String]| {
        revision::revision_names(id, generation).find(|name| !taken.contains(name)).unwrap_or_default()
    };
    match which {
        RevisionToExpand::Supplied(_) => Ok((free(&[]), annotated_spec(pool))),
        RevisionToExpand::Named(name) => {
            let content =
                stored_revision_content(name, id, namespace, found)?.ok_or(Expansion::NoRevision)?;
            Ok((name.clone(), content))
        }
        RevisionToExpand::Current => {
            let shown = pool["status"]["currentRevision"].as_str().unwrap_or_default().to_owned();
            // The controller creates no further machine from a revision that lacks copies.
            let mut without_copies = Vec::new();
            for name in
                std::iter::once(shown).chain(revision::revision_names(id, generation).take(READ_NAMES))
            {
                match stored_revision_content(&name, id, namespace, found)? {
                    Some(content) if !is_same_template(&content, &pool["spec"]) => {}
                    Some(content) if pins::lacks_copies(&content) => without_copies.push(name),
                    Some(content) => return Ok((name, content)),
                    None => {}
                }
            }
            Ok((free(&without_copies), annotated_spec(pool)))
        }
    }
}

/// The spec of the pool, with the settings for names in its annotation.
fn annotated_spec(pool: &Value) -> Value {
    let mut spec = pool["spec"].clone();
    let annotation = DocumentMetadata::of(pool).annotation(NAME_GENERATION).map(str::to_owned);
    add_annotated_names(&mut spec, annotation.as_ref());
    spec
}

/// The content of a stored revision of the pool.
fn stored_revision_content(
    name: &str,
    pool: &ObjectId,
    namespace: &str,
    found: &FetchedObjects,
) -> Result<Option<Value>, Expansion> {
    let object = pins::find_read_object(&revision_at(namespace, name), found)?;
    Ok(object.and_then(|object| owned_revision_content(object, pool)).cloned())
}

/// The content of a revision, if this pool is its controller.
fn owned_revision_content<'o>(object: &'o Value, pool: &ObjectId) -> Option<&'o Value> {
    let mut owners =
        DocumentMetadata::of(object).owner_references().iter().filter(|owner| owner["controller"] == true);
    let is_ours = owners.any(|owner| is_owner::<KubeVirtPoolObject>(OwnerIdentity::of_json(owner), pool))
        && object["data"][TEMPLATE].is_object();
    is_ours.then_some(&object["data"])
}

/// Whether two specs of a pool have the same template.
fn is_same_template(one: &Value, other: &Value) -> bool {
    template::canonical_template(&one[TEMPLATE]) == template::canonical_template(&other[TEMPLATE])
}

/// Whether a stored revision of the pool has the template that the pool has.
pub fn has_template_of(pool: &Value, revision: &Value) -> bool {
    let id = DocumentMetadata::of(pool).object_id();
    owned_revision_content(revision, &id).is_some_and(|content| is_same_template(content, &pool["spec"]))
}

/// Expands a template with the objects as they are now.
fn expand_live_template(
    template: &Value,
    namespace: &str,
    form: ExpansionForm,
    found: &FetchedObjects,
    defaults: Option<&StartDefaults>,
) -> Expansion {
    let scope = MatcherScope { namespace, location: MachineLocation::Pool };
    let machine = json!({ "metadata": template["metadata"], "spec": template["spec"] });
    if !form::has_matchers(&machine) {
        return Expansion::Done(form.encode(template.clone()));
    }
    let ResolvedMachine { machine: resolved, types, .. } = match pins::resolve_machine(&machine, scope, found)
    {
        Ok(resolved) => resolved,
        Err(open) => return message::refuse_as_kubevirt(open.into(), &machine),
    };
    let mut template = template.clone();
    template["spec"] = resolved["spec"].clone();
    match (form, defaults) {
        (ExpansionForm::Complete, _) => write_out_template(&template, &types, defaults),
        (ExpansionForm::KubeVirt, None) => Expansion::NeedsDefaults,
        (ExpansionForm::KubeVirt, Some(StartDefaults(settings))) => {
            match form.expand(&template, &types, settings, scope.location) {
                Ok(expanded) => Expansion::Done(expanded),
                Err(error) => Expansion::Refused(message::expansion_problem(&error, scope.location)),
            }
        }
    }
}

/// Writes objects into a template that names them.
fn write_out_template(
    template: &Value,
    types: &InstanceTypeAndPreference,
    defaults: Option<&StartDefaults>,
) -> Expansion {
    let interface = match defaults {
        Some(StartDefaults(settings)) => settings.interface.filter(|_| pins::prefers_interface(types)),
        None if pins::prefers_interface(types) => return Expansion::NeedsDefaults,
        None => None,
    };
    match expand_machine(
        template,
        types,
        &InstanceSettings { interface, defaults: None },
        MachineLocation::Pool,
    ) {
        Ok(expanded) => Expansion::Done(expanded),
        Err(error) => Expansion::Refused(message::expansion_problem(&error, MachineLocation::Pool)),
    }
}
