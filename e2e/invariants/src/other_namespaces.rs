//! I14: objects of other namespaces have no effect on a pool, an image, a wrapper or a copy, and the
//! controller leaves them alone.
//!
//! The other checks see the objects of one namespace, so an effect on a pool violates them. This one finds
//! writes to objects that only look like those of a pool of another namespace.

use std::collections::BTreeMap;

use jiff::Timestamp;
use vmpool_test_cluster::control_plane::AuditEntry;

use super::Violation;

/// An object with a reference to an object of another namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForgedObject {
    /// Its namespace.
    pub namespace: String,
    /// The plural name of its resource.
    pub plural: String,
    /// Its name.
    pub name: String,
}

/// Finds writes of the controller to forged objects, which exist since the given times: before that, an
/// object of the forger's own pool may have had the name.
///
/// Two kinds of writes are not checked: the status of a machine, because the controller also makes the copies
/// of instance types for machines without a pool, and creates, because they change no object that exists. The
/// pool of the forger's own namespace may try the name of a forged object.
pub fn check_other_namespaces(
    forged: &BTreeMap<ForgedObject, Timestamp>,
    audit: &[AuditEntry],
    controller_user: &str,
) -> Vec<Violation> {
    let is_write = |entry: &&AuditEntry| !["get", "list", "watch", "create"].contains(&entry.verb.as_str());
    let writes = audit.iter().filter(|entry| entry.user == controller_user && entry.subresource.is_empty());
    let touched = writes.filter(is_write).filter(|entry| {
        let AuditEntry { namespace, resource, name, .. } = entry;
        let (namespace, plural, name) = (namespace.clone(), resource.clone(), name.clone());
        let since = forged.get(&ForgedObject { namespace, plural, name });
        since.is_some_and(|since| entry.at >= *since)
    });
    let what = |entry: &AuditEntry| {
        let AuditEntry { verb, namespace, resource, name, .. } = entry;
        format!(
            "the controller sent {verb} {resource} {namespace}/{name}, which belongs to no pool of its namespace"
        )
    };
    touched.map(|entry| Violation { invariant: "I14", what: what(entry) }).collect()
}
