//! Which revision of a pool is current. `status` and the dashboard decide by it which machines are current.
//!
//! `status` reads the stored revisions. The dashboard follows none, so it uses what the controller
//! has published. Where that is not enough, the answer is unknown instead of another one.

use vmpool_engine::revisions::RevisionId;
use vmpool_engine::{Machine, ParsedPool, Pool};
use vmpool_platforms::{Platform, RevisionObjects as _};

use crate::observation::UnobservedSpec;

/// The current revision of a pool, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownCurrentRevision {
    id: RevisionId,
    others: OtherRevisions,
}

/// What is known about other revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OtherRevisions {
    /// These have the same template, and all others are outdated.
    SameTemplate(Vec<RevisionId>),
    /// The stored revisions were not read, and several can have the same template.
    Unread,
}

impl KnownCurrentRevision {
    /// That of a pool whose stored revisions were read.
    pub(crate) fn of_pool(pool: &Pool) -> Self {
        let same_template = pool.revision.same_template.clone();
        Self { id: pool.revision.id.clone(), others: OtherRevisions::SameTemplate(same_template) }
    }

    /// The one in the status of a pool; `None` if the status has none, or is not about the current spec.
    pub(crate) fn of_status<P: Platform>(
        pool: &ParsedPool,
        unobserved: Option<&UnobservedSpec>,
    ) -> Option<Self> {
        let id = published_revision(pool).filter(|_| unobserved.is_none())?.clone();
        let others = match P::Revisions::names(&pool.id, pool.generation) {
            Some(_) => OtherRevisions::Unread,
            // The template determines the id.
            None => OtherRevisions::SameTemplate(Vec::new()),
        };
        Some(Self { id, others })
    }

    /// Whether a machine has the current template; `None` if this is unknown.
    pub(crate) fn is_of(&self, machine: &Machine) -> Option<bool> {
        let Some(revision) = machine.effective_revision() else { return Some(false) };
        if *revision == self.id {
            return Some(true);
        }
        match &self.others {
            OtherRevisions::SameTemplate(others) => Some(others.contains(revision)),
            OtherRevisions::Unread => None,
        }
    }
}

/// The current revision in the status of a pool. KubeVirt's own definition of pools does not keep it.
pub(crate) fn published_revision(pool: &ParsedPool) -> Option<&RevisionId> {
    let published = &pool.published;
    let complete = published.summary.as_ref().map(|summary| &summary.revision);
    let revision = complete.or(published.desired_revision.as_ref().map(|(revision, _)| revision));
    revision.filter(|revision| !revision.to_string().is_empty())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};
    use vmpool_platforms::{ClientPlatform, Dvp, KubeVirt};

    use super::*;
    use crate::pool::decode_pool;

    fn stored(status: &Value) -> Value {
        json!({
            "metadata": { "name": "web", "namespace": "a", "uid": "u", "generation": 4 },
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": { "app": "web" } },
                "virtualMachineTemplate": { "metadata": { "labels": { "app": "web" } }, "spec": {} },
            },
            "status": status,
        })
    }

    fn known<P: ClientPlatform>(status: &Value) -> Option<KnownCurrentRevision> {
        let stored = stored(status);
        let (_, pool) = decode_pool::<P>(&stored).unwrap();
        let unobserved = UnobservedSpec::read(&stored, &pool);
        KnownCurrentRevision::of_status::<P>(&pool, unobserved.as_ref())
    }

    #[rstest]
    #[case::observed(json!({ "observedGeneration": 4, "desiredTemplateHash": "new" }), Some("new"))]
    #[case::not_observed(json!({ "observedGeneration": 3, "desiredTemplateHash": "new" }), None)]
    #[case::no_status(json!({}), None)]
    fn only_a_status_about_the_current_spec_has_the_current_revision(
        #[case] status: Value,
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(known::<Dvp>(&status).map(|known| known.id), expected.map(RevisionId::from));
    }

    /// KubeVirt names revisions by generations, so that two can have the same template.
    #[test]
    fn without_the_stored_revisions_only_ids_of_templates_tell_outdated_machines() {
        let status = json!({
            "observedGeneration": 4, "labelSelector": "app=web", "currentRevision": "web-4",
            "desiredTemplateHash": "web-4",
        });
        let others = |known: Option<KnownCurrentRevision>| known.map(|known| known.others);
        assert_eq!(others(known::<Dvp>(&status)), Some(OtherRevisions::SameTemplate(Vec::new())));
        assert_eq!(others(known::<KubeVirt>(&status)), Some(OtherRevisions::Unread));
    }
}
