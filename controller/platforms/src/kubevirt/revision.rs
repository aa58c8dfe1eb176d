//! Revisions: ControllerRevisions with the whole spec of their pool, named by the generation of the pool.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use vmpool_engine::model::ObjectId;

use super::keys::{LABEL_VALUE, owner};
use super::machine::Template;
use super::objects::RevisionObject;
use super::pins;
use super::read::{NameGeneration, settings};
use crate::controller_reference;

/// The possible names of the revision of a generation, in the order in which the controller tries them.
///
/// The first is upstream's, `<pool>-<generation>`. An object of an earlier pool with the same name, or of another
/// workload, may have this name; the second contains a hash of the pool's UID instead. Both fit into a label value: if
/// the first is too long, it contains a hash of the pool's name.
pub fn names(pool: &ObjectId, generation: i64) -> [String; 2] {
    let plain = format!("{}-{generation}", pool.name);
    let plain = if plain.len() <= LABEL_VALUE { plain } else { hashed(&pool.name, &pool.name, generation) };
    [plain, hashed(&pool.name, pool.uid.as_str(), generation)]
}

/// `<beginning of the pool's name>-<hash>-<generation>`
fn hashed(pool: &str, of: &str, generation: i64) -> String {
    let digest = Sha256::digest(of.as_bytes());
    let hash = digest.iter().take(4).fold(0_u32, |hash, byte| hash << 8 | u32::from(*byte));
    let tail = format!("-{hash:08x}-{generation}");
    let mut end = pool.len().min(LABEL_VALUE.saturating_sub(tail.len()));
    while !pool.is_char_boundary(end) {
        end -= 1;
    }
    // A dot or hyphen before the hash would make an invalid object name.
    let head = pool[..end].trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
    format!("{head}{tail}")
}

/// Whether a label value is the name of a revision of this pool, for machines without an owner.
pub fn is_name_of(name: &str, pool: &ObjectId) -> bool {
    let generation = name.rsplit_once('-').and_then(|(_, digits)| digits.parse().ok());
    generation.is_some_and(|generation| names(pool, generation).iter().any(|known| known == name))
}

/// The ControllerRevision with this name. `spec` is the whole spec of the pool at `generation`.
pub fn revision(namespace: &str, pool: &ObjectId, name: &str, generation: i64, spec: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "ownerReferences": [owner(&pool.name, pool.uid.as_str())],
        },
        "data": spec,
        "revision": generation,
    })
}

/// Whether the pool controls a stored revision. The name alone proves nothing.
pub fn belongs_to(revision: &RevisionObject, pool: &ObjectId) -> bool {
    controller_reference(&revision.metadata).is_some_and(|owner| owner.uid == pool.uid.as_str())
}

/// The template in a stored revision.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTemplate {
    /// `virtualMachineTemplate`; null if the data cannot be read.
    pub content: Value,
    /// Which names get the ordinal.
    pub names: NameGeneration,
    /// The pins; null if the revision has none.
    pub pins: Value,
}

impl StoredTemplate {
    /// The template for the functions that compare and write.
    pub fn template(&self) -> Template<'_> {
        Template { content: &self.content, names: self.names, pins: &self.pins }
    }
}

/// The template in the data of a revision, of any release of KubeVirt. `None` if the data has no template.
pub fn stored_template(revision: &RevisionObject) -> Option<StoredTemplate> {
    let mut data = revision.data.value();
    let names = settings(&data).names;
    let content = data.as_object_mut()?.remove("virtualMachineTemplate").filter(Value::is_object)?;
    let pins = data[pins::FIELD].take();
    Some(StoredTemplate { content, names, pins })
}

#[cfg(test)]
mod tests;
