//! Objects outside the pool that a template refers to, and the copies of them that the controller pins.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use vmpool_decision::{Reads, Step};
use vmpool_engine::model::{MachineReferences, PinReport, UnusableTemplate, UsedCopy};
use vmpool_engine::{ObjectId, Uid};

use super::{ApiObject, Configuration, ReferencedObject};

/// The objects that were read; `None` for those that do not exist.
pub type FetchedObjects = Reads<ReferencedObject, Option<Value>>;

/// Why what a machine or a template refers to cannot be used, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupFailure {
    /// The reason.
    pub reason: LookupReason,
    /// The kind of the object; `None` if the reference names a kind that does not exist, or no object but a
    /// volume.
    pub kind: Option<&'static str>,
}

/// The reason of a [`LookupFailure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupReason {
    /// An object does not exist, or the reference is not valid.
    NotFound,
    /// The objects do not fit the machine, or each other.
    Conflict,
    /// The copy belongs to another object.
    Mismatch,
    /// The object or its copy cannot be read.
    Decode,
}

/// The result of resolving the references of a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolution {
    /// The template with copies of all objects that it refers to.
    Resolved(Value),
    /// The template cannot be used now. It has copies of some of the objects.
    Partial(Value, UnusableTemplate, LookupFailure),
    /// The template cannot be used now.
    Unresolved(UnusableTemplate, LookupFailure),
}

/// An object that a template refers to, or any object of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UncopiedObject {
    /// The kind.
    pub kind: &'static str,
    /// The namespace; empty for an object without one.
    pub namespace: String,
    /// The name; `None` if it is not known before the template is resolved.
    pub name: Option<String>,
}

/// How an existing object compares with a pin of the same name.
#[derive(Clone, Debug, PartialEq)]
pub enum CopyComparison {
    /// It is the pin.
    Same,
    /// It has the content of the pin, and lacks the pool as an owner, or labels. This JSON patch adds both,
    /// and fails if the object has changed.
    Incomplete(Value),
    /// It is a pin of the pool with another content, or has the content of the pin in a former version of the
    /// API. Neither can be changed in place. This object replaces it, with the same owners.
    Replace {
        /// The object.
        object: Value,
        /// The former version, if that is why.
        former_version: Option<&'static str>,
    },
    /// It has another content, and is no pin of the pool.
    Other,
}

/// A kind of objects that templates refer to and that the controller watches.
pub trait CopySource: ApiObject {
    /// Whether objects of this kind are in namespaces.
    const IS_NAMESPACED: bool;

    /// What identifies it, and what is copied.
    fn content(&self) -> Value;
}

/// Visits the kinds of a platform.
pub trait CopySourceVisitor {
    /// Visits one kind.
    fn visit<K: CopySource>(&mut self);
}

/// An object that was copied, as it was then.
#[derive(Clone, Debug, PartialEq)]
pub struct CopiedObject {
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for an object without one.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What identifies it, and what was copied.
    pub content: Value,
}

/// Copies of the objects that templates refer to.
///
/// The controller makes them once for each revision, before it stores the revision, so that all machines of a
/// revision use the same content even if the objects change. A template contains its copies after
/// [`TemplateCopies::resolve`] or [`TemplateCopies::inherit_copies`], and so does the stored revision.
pub trait TemplateCopies<Pool, Machine>: Send + Sync + 'static {
    /// The label selector of all pins; `None` if there are none.
    const LABELS: Option<&'static str>;

    /// Whether a template refers to objects that the controller pins. If not, the controller calls no other
    /// function.
    fn has_references(template: &Value) -> bool;

    /// Changes a template so that the controller writes the objects into the machines instead of pinning
    /// them. Returns whether that changed anything.
    fn write_out(template: &mut Value) -> bool;

    /// Resolves the references of a template, except those of which it has copies already.
    ///
    /// # Errors
    /// Objects were not read.
    fn resolve(
        pool: &Pool,
        template: &Value,
        configuration: &Configuration,
        found: &FetchedObjects,
    ) -> Step<Resolution, ReferencedObject>;

    /// The template with the copies that `stored`, the content of a stored revision with the same template,
    /// contains; `None` if that contains none.
    fn inherit_copies(template: &Value, stored: &Value) -> Option<Value>;

    /// Whether a template refers to an object of which it contains no copy. The template of a stored revision
    /// does if another controller has stored it, or if it is [partial](Resolution::Partial).
    fn lacks_copies(template: &Value) -> bool;

    /// The objects that a template refers to and of which it contains no copies.
    fn uncopied_objects(template: &Value, namespace: &str) -> Vec<UncopiedObject>;

    /// The objects that store the copies in a template. Machines refer to them.
    fn copy_objects(template: &Value) -> Vec<Value>;

    /// Compares an existing object with a pin of the same name.
    fn compare_copy(pool: &ObjectId, pin: &Value, live: &Value) -> CopyComparison;

    /// What machines that are created from this template refer to; `None` if the template contains no copies.
    fn references(template: &Value) -> Option<MachineReferences>;

    /// The copies that machines from this template use, for the status of the pool.
    fn used_copies(template: &Value) -> Vec<UsedCopy>;

    /// Visits the kinds of objects that are copied.
    fn each_source(visitor: &mut impl CopySourceVisitor);

    /// The objects of which the template contains copies that the controller made.
    fn copied_objects(template: &Value) -> Vec<CopiedObject>;

    /// How a copy differs from the original; `None` if it does not. An original that is gone is `None`.
    fn compare_with_original(copy: &CopiedObject, original: Option<&Value>) -> Option<PinReport>;

    /// Whether an object is a pin of the pool with this UID, also if the pool does not own it any more.
    fn is_copy_of_pool(metadata: &ObjectMeta, pool: &Uid) -> bool;

    /// Whether the labels of an object say that it contains a pin in the current version of the API.
    fn is_current_version(metadata: &ObjectMeta) -> bool;

    /// The pin with these machines as further owners: they use it, and the pool has released them.
    fn with_machine_owners(pin: &Value, machines: &[ObjectId]) -> Value;

    /// The names of the pins that a machine refers to.
    fn copies_used_by(machine: &Machine) -> &[Arc<str>];

    /// The JSON patch that makes a machine, which the pool releases, a further owner of a pin, so that the
    /// pin stays when the pool is deleted; `None` if the object is no pin or has this owner. It fails if the
    /// object has changed.
    fn add_machine_owner(live: &Value, machine: &ObjectId) -> Option<Value>;

    /// The JSON patch that makes the machines which use a pin its owners instead of the pool, so that another
    /// controller does not delete it with the revisions of the pool; `None` if no pool owns it, or no machine
    /// uses it. It fails if the object has changed.
    fn transfer_to_machines(pin: &ObjectMeta, machines: &[ObjectId]) -> Option<Value>;

    /// The JSON patch that makes the machines which need a pin without their pool further owners of it;
    /// `None` if all of them are. It fails if the object has changed.
    fn add_machine_owners(pin: &ObjectMeta, machines: &[ObjectId]) -> Option<Value>;
}

/// For platforms whose templates refer to no such objects.
#[derive(Clone, Copy, Debug)]
pub struct NoTemplateCopies;

impl<Pool, Machine> TemplateCopies<Pool, Machine> for NoTemplateCopies {
    const LABELS: Option<&'static str> = None;

    fn has_references(_: &Value) -> bool {
        false
    }
    fn write_out(_: &mut Value) -> bool {
        false
    }
    fn resolve(
        _: &Pool,
        template: &Value,
        _: &Configuration,
        _: &FetchedObjects,
    ) -> Step<Resolution, ReferencedObject> {
        Ok(Resolution::Resolved(template.clone()))
    }
    fn inherit_copies(_: &Value, _: &Value) -> Option<Value> {
        None
    }
    fn lacks_copies(_: &Value) -> bool {
        false
    }
    fn uncopied_objects(_: &Value, _: &str) -> Vec<UncopiedObject> {
        Vec::new()
    }
    fn copy_objects(_: &Value) -> Vec<Value> {
        Vec::new()
    }
    fn compare_copy(_: &ObjectId, _: &Value, _: &Value) -> CopyComparison {
        CopyComparison::Other
    }
    fn references(_: &Value) -> Option<MachineReferences> {
        None
    }
    fn used_copies(_: &Value) -> Vec<UsedCopy> {
        Vec::new()
    }
    fn each_source(_: &mut impl CopySourceVisitor) {}
    fn copied_objects(_: &Value) -> Vec<CopiedObject> {
        Vec::new()
    }
    fn compare_with_original(_: &CopiedObject, _: Option<&Value>) -> Option<PinReport> {
        None
    }
    fn is_copy_of_pool(_: &ObjectMeta, _: &Uid) -> bool {
        false
    }
    fn is_current_version(_: &ObjectMeta) -> bool {
        true
    }
    fn with_machine_owners(pin: &Value, _: &[ObjectId]) -> Value {
        pin.clone()
    }
    fn copies_used_by(_: &Machine) -> &[Arc<str>] {
        &[]
    }
    fn add_machine_owner(_: &Value, _: &ObjectId) -> Option<Value> {
        None
    }
    fn transfer_to_machines(_: &ObjectMeta, _: &[ObjectId]) -> Option<Value> {
        None
    }
    fn add_machine_owners(_: &ObjectMeta, _: &[ObjectId]) -> Option<Value> {
        None
    }
}
