//! The necessary changes of a Secret, as a pure function of its content.

use jiff::Timestamp;

use super::material::Material;

/// The maximum number of authorities in a bundle. More than two occur only if other clients change the
/// Secret.
const MAX_AUTHORITIES: usize = 8;

/// The inputs of a plan apart from the Secret.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) now: Timestamp,
    /// Whether every object has contained the bundle for long enough.
    pub(super) spread: bool,
    /// The required names of the certificate.
    pub(super) names: &'a [String],
}

/// Why a serving certificate is issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IssueReason {
    /// Clients would not accept the existing certificate, or there is none.
    Unusable,
    /// Less than a third of its validity is left.
    Due,
    /// A name is missing.
    Names,
    /// A new authority is in use.
    Authority,
}

/// The changes to write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CertificatePlan {
    /// Whether to issue a new authority, which becomes the first in the bundle.
    pub(super) authority: bool,
    /// Why to issue a serving certificate of the newest authority; `None` for no new certificate.
    pub(super) serving: Option<IssueReason>,
    /// The authorities that stay in the bundle, as indexes.
    pub(super) retained: Vec<usize>,
    /// Whether a serving certificate of the newest authority waits until the objects contain the bundle.
    pub(super) is_waiting: bool,
}

impl CertificatePlan {
    /// Whether certificates are issued.
    pub(super) fn issues(&self) -> bool {
        self.authority || self.serving.is_some()
    }
}

/// Plans the changes. After they are applied, the plan for the Secret is empty.
pub(super) fn plan_certificates(material: &Material, inputs: Inputs<'_>) -> CertificatePlan {
    let Inputs { now, spread, names } = inputs;
    let authority = material.authority().is_none_or(|signer| !signer.is_valid(now) || signer.is_due(now));
    let usable = material.serving.as_ref().filter(|serving| serving.is_valid(now));
    let usable = usable.zip(material.issuer).filter(|(_, issuer)| material.bundle[*issuer].is_valid(now));
    let signer = material.signer.as_ref().map(|(index, _)| *index);
    let (serving, is_waiting) = match usable {
        None => (Some(IssueReason::Unusable), false),
        Some(_) if authority => (None, true),
        Some((_, issuer)) if Some(issuer) != signer => (spread.then_some(IssueReason::Authority), !spread),
        Some((serving, _)) if serving.is_due(now) => (Some(IssueReason::Due), false),
        Some((serving, _)) if is_name_missing(&serving.names, names) => (Some(IssueReason::Names), false),
        Some(_) => (None, false),
    };
    CertificatePlan { authority, serving, retained: retained_authorities(material, now), is_waiting }
}

/// Whether a required name is missing. Additional names are accepted until the next certificate. Otherwise
/// replicas of two versions with different names would replace the certificate alternately during an upgrade.
fn is_name_missing(present: &[String], wanted: &[String]) -> bool {
    wanted.iter().any(|name| !present.contains(name))
}

fn retained_authorities(material: &Material, now: Timestamp) -> Vec<usize> {
    let signer = material.signer.as_ref().map(|(index, _)| *index);
    let is_in_use = |index: usize| Some(index) == signer || Some(index) == material.issuer;
    let mut retained: Vec<usize> =
        (0..material.bundle.len()).filter(|&index| material.bundle[index].not_after > now).collect();
    while retained.len() > MAX_AUTHORITIES {
        // New authorities come first, so the last one is the oldest.
        let Some(at) = retained.iter().rposition(|&index| !is_in_use(index)) else { break };
        retained.remove(at);
    }
    retained
}
