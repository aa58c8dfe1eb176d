//! Revisions: ControllerRevisions with the whole spec of their pool, named by the generation of the pool.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use vmpool_engine::model::ObjectId;

use super::keys::{LABEL_VALUE, pool_owner_reference};

/// The possible names of the revision of a generation, in the order in which the controller tries them.
///
/// The first is upstream's, `<pool>-<generation>`. An object of an earlier pool with the same name, or of
/// another workload, may have this name; the second contains a hash of the pool's UID instead. The others
/// contain further hashes: settings of KubeVirt and changed definitions can give a generation another
/// content. All fit into a label value: if the first is too long, it contains a hash of the pool's name. The
/// names do not end.
pub fn revision_names(pool: &ObjectId, generation: i64) -> impl Iterator<Item = String> + use<> {
    let plain = format!("{}-{generation}", pool.name);
    let plain = if plain.len() <= LABEL_VALUE {
        plain
    } else {
        hashed_revision_name(&pool.name, &pool.name, generation)
    };
    let (name, uid) = (pool.name.clone(), pool.uid.clone());
    let of_pool = hashed_revision_name(&name, uid.as_str(), generation);
    let others =
        (2_u64..).map(move |number| hashed_revision_name(&name, &format!("{uid}/{number}"), generation));
    [plain, of_pool].into_iter().chain(others)
}

/// `<beginning of the pool's name>-<hash>-<generation>`
fn hashed_revision_name(pool: &str, of: &str, generation: i64) -> String {
    let digest = Sha256::digest(of.as_bytes());
    let hash = digest.iter().take(4).fold(0_u32, |hash, byte| hash << 8 | u32::from(*byte));
    let tail = format!("-{hash:08x}-{generation}");
    let end = pool.floor_char_boundary(LABEL_VALUE.saturating_sub(tail.len()));
    // A dot or hyphen before the hash would make an invalid object name.
    let head = pool[..end].trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
    format!("{head}{tail}")
}

/// The name of the pool that the revision with this name is of; `None` if no pool has it. `machines` is the
/// beginning of the name of a machine with the revision, which is usually the name of the pool.
pub fn pool_name_of_revision<'a>(revision: &'a str, machines: &'a str) -> Option<&'a str> {
    let (head, _) = revision.rsplit_once('-').filter(|(_, generation)| generation.parse::<u64>().is_ok())?;
    if head == machines {
        return Some(head);
    }
    let hashed = head.rsplit_once('-').filter(|(_, hash)| {
        hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    });
    match hashed {
        // The name of the pool can be shortened in that of the revision.
        Some((pool, _)) if machines.starts_with(pool) => Some(machines),
        Some((pool, _)) => Some(pool),
        None => Some(head),
    }
}

/// The ControllerRevision with this name. `spec` is the whole spec of the pool at `generation`.
pub fn revision_object(namespace: &str, pool: &ObjectId, name: &str, generation: i64, spec: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "ownerReferences": [pool_owner_reference(&pool.name, pool.uid.as_str())],
        },
        "data": spec,
        "revision": generation,
    })
}

#[cfg(test)]
mod tests;
