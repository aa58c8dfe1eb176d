//! Stored revisions: their identity and their objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use vmpool_engine::ObjectId;
use vmpool_engine::revisions::{RevisionId, TemplateParts};

use super::ReferencedObject;

/// How a platform identifies and stores the revisions of a pool, which are ControllerRevisions.
pub trait RevisionObjects<Pool>: Send + Sync + 'static {
    /// A label that all stored revisions have; `None` if there is no such label, and the controller watches
    /// the metadata of all ControllerRevisions.
    const LABEL: Option<&'static str> = None;

    /// The identity of a stored revision; `None` if the object is no revision of a pool.
    fn id(metadata: &ObjectMeta) -> Option<&str>;

    /// The label selector of the revisions of a pool; `None` if only their owner identifies them.
    fn selector(pool: &Pool) -> Option<String>;

    /// The possible identities of the revision for this generation of a pool, in the order in which the
    /// controller tries them; `None` if the content determines the identity. They do not end.
    fn names(pool: &ObjectId, generation: i64) -> Option<impl Iterator<Item = RevisionId>>;

    /// The possible names of the object of a revision, in the order in which the controller tries them.
    /// Another pool can have a revision with such a name.
    fn object_names(pool: &ObjectId, id: &RevisionId) -> Vec<String>;

    /// The object of a new revision. `number` is its number in the history, and `template` its content.
    fn object(pool: &Pool, name: &str, id: &RevisionId, number: i64, template: &Value) -> Value;

    /// The parts of a template that decide what a change of it takes.
    fn parts(template: &Value) -> Option<TemplateParts>;
}

/// Where a ControllerRevision of a namespace is.
pub fn revision_at(namespace: &str, name: &str) -> ReferencedObject {
    ReferencedObject {
        kind: "ControllerRevision",
        collection: format!("/apis/apps/v1/namespaces/{namespace}/controllerrevisions"),
        name: name.to_owned(),
        cross_namespace: None,
    }
}
