//! Names of copies.

use sha2::{Digest, Sha256};

use crate::model::ObjectIdentity;

/// The longest name of an object.
const LONGEST: usize = 253;

/// The length of a UID as Kubernetes makes them.
const UID: usize = 36;

/// Which state of an object a copy holds. It is the end of the copy's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedObjectState {
    /// The UID of the object.
    pub uid: String,
    /// The generation of the object.
    pub generation: i64,
}

impl CopiedObjectState {
    /// Whether the object still is in this state, so that a lost copy can be made again from it.
    pub fn is_state_of(&self, object: &ObjectIdentity) -> bool {
        object.uid.as_ref() == Some(&self.uid) && object.generation == Some(self.generation)
    }
}

/// The name of a copy: `OWNER-OBJECT-VERSION-UID-GENERATION`.
///
/// If that is longer than 253 characters, the part `OWNER-OBJECT` is cut and ends with the first 10
/// hexadecimal digits of the SHA-256 of the whole name. So even a shortened name ends with UID and
/// generation.
pub fn compose_copy_name(owner: &str, object: &str, version: &str, recorded: &CopiedObjectState) -> String {
    let CopiedObjectState { uid, generation } = recorded;
    join_name_parts(&format!("{owner}-{object}"), &format!("{version}-{uid}-{generation}"))
}

/// `front-tail`, with `front` shortened if necessary.
pub(super) fn join_name_parts(front: &str, tail: &str) -> String {
    let whole = format!("{front}-{tail}");
    if whole.len() <= LONGEST {
        return whole;
    }
    let digest = Sha256::digest(whole.as_bytes());
    let first = u64::from_be_bytes(std::array::from_fn(|at| digest[at]));
    // 8 bytes are 16 digits, of which 10 remain.
    let hash = format!("{:010x}", first >> 24);
    let room = LONGEST.saturating_sub(hash.len() + tail.len() + 2);
    // A part of a name between dots must not begin with a hyphen.
    let front = front[..front.floor_char_boundary(room)].trim_end_matches(['-', '.']);
    format!("{front}-{hash}-{tail}")
}

/// The state of the object that a copy's name ends with. `None` if the name has another form.
pub fn parse_copy_name(name: &str) -> Option<CopiedObjectState> {
    let (rest, generation) = name.rsplit_once('-')?;
    let start = rest.len().checked_sub(UID)?;
    if !rest.is_char_boundary(start) || !rest[..start].ends_with('-') {
        return None;
    }
    let uid = &rest[start..];
    let is_uid = uid.char_indices().all(|(at, character)| match at {
        8 | 13 | 18 | 23 => character == '-',
        _ => character.is_ascii_hexdigit(),
    });
    let digits = !generation.is_empty() && generation.bytes().all(|byte| byte.is_ascii_digit());
    let generation = generation.parse().ok().filter(|_| digits)?;
    is_uid.then(|| CopiedObjectState { uid: uid.to_owned(), generation })
}
