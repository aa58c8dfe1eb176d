//! What a Secret needs, as a pure function of what it holds.

use jiff::Timestamp;

use super::material::Material;

/// The most authorities that a bundle keeps: only meddling makes more than two.
const AUTHORITIES: usize = 8;

/// What a plan is made from, beside the Secret.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facing<'a> {
    pub(super) now: Timestamp,
    /// Whether every configuration has had the Secret's bundle for long enough.
    pub(super) spread: bool,
    /// The names that the certificate should be for.
    pub(super) names: &'a [String],
}

/// Why a serving certificate is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// There is none that clients would accept.
    Unusable,
    /// Less than a third of it is left.
    Due,
    /// It lacks a name.
    Names,
    /// A new authority has taken over.
    Authority,
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Plan {
    /// A new authority is made, and put first into the bundle.
    pub(super) authority: bool,
    /// A serving certificate is made, signed by the newest authority.
    pub(super) serving: Option<Reason>,
    /// The authorities of the bundle that stay, by their places.
    pub(super) stay: Vec<usize>,
    /// The serving certificate should be of the newest authority, but its bundle must spread first.
    pub(super) waits: bool,
}

impl Plan {
    /// Whether something is made.
    pub(super) fn makes(&self) -> bool {
        self.authority || self.serving.is_some()
    }
}

/// Plans. A Secret as the plan's result leaves it needs nothing more.
pub(super) fn plan(material: &Material, facing: Facing<'_>) -> Plan {
    let Facing { now, spread, names } = facing;
    let authority = material.authority().is_none_or(|signer| !signer.holds(now) || signer.is_due(now));
    let usable = material.serving.as_ref().filter(|serving| serving.holds(now));
    let usable = usable.zip(material.issuer).filter(|(_, issuer)| material.bundle[*issuer].holds(now));
    let signer = material.signer.as_ref().map(|(index, _)| *index);
    let (serving, waits) = match usable {
        None => (Some(Reason::Unusable), false),
        Some(_) if authority => (None, true),
        Some((_, issuer)) if Some(issuer) != signer => (spread.then_some(Reason::Authority), !spread),
        Some((serving, _)) if serving.is_due(now) => (Some(Reason::Due), false),
        Some((serving, _)) if lacks(&serving.names, names) => (Some(Reason::Names), false),
        Some(_) => (None, false),
    };
    Plan { authority, serving, stay: staying(material, now), waits }
}

/// A name too many does no harm; it goes with the next certificate. While a new version with other names is rolled out,
/// replicas would otherwise undo each other's work.
fn lacks(present: &[String], wanted: &[String]) -> bool {
    wanted.iter().any(|name| !present.contains(name))
}

fn staying(material: &Material, now: Timestamp) -> Vec<usize> {
    let signer = material.signer.as_ref().map(|(index, _)| *index);
    let matters = |index: usize| Some(index) == signer || Some(index) == material.issuer;
    let mut stay: Vec<usize> =
        (0..material.bundle.len()).filter(|&index| material.bundle[index].ends > now).collect();
    while stay.len() > AUTHORITIES {
        // New ones are put first, so the last is the oldest.
        let Some(at) = stay.iter().rposition(|&index| !matters(index)) else { break };
        stay.remove(at);
    }
    stay
}
