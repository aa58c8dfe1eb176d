//! Which machines have the current template in effect. Claims prefer them.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
use serde_json::value::RawValue;
use vmpool_engine::revisions::RevisionId;
use vmpool_engine::{Machine, ParsedPool, Uid};
use vmpool_platforms::removal::{StoredInstance, StoredMachine};

use crate::cluster::{CallError, ClusterClient};
use crate::removal::PoolName;

/// The maximum number of revisions that are read to find those with the current template. A pool whose guests
/// have more of them is in the middle of several updates, and the newest ones matter.
const REVISIONS: usize = 8;

/// The machines with the current template in effect.
#[derive(Debug)]
pub(super) enum UpToDateMachines {
    /// All, or it is not known which.
    All,
    /// Those with this revision.
    Revision(RevisionId),
    /// These.
    Machines(HashSet<Uid>),
}

impl UpToDateMachines {
    /// Whether the machine is one of them.
    pub(super) fn has(&self, machine: &Machine) -> bool {
        match self {
            Self::All => true,
            Self::Revision(current) => machine.revision.as_ref() == Some(current),
            Self::Machines(current) => current.contains(&machine.id.uid),
        }
    }

    /// Finds them. `object` is the stored object of `pool`. It sends requests only if the status of the pool
    /// does not show that all machines have it. If one fails, machines are claimed in the order of their age:
    /// a claim does not fail because of a preference.
    pub(super) async fn of(
        cluster: &ClusterClient,
        name: &PoolName,
        pool: &ParsedPool,
        object: &RawValue,
        machines: &[StoredMachine],
    ) -> Self {
        let Some(selector) = name.stored.instance_selector() else {
            let desired = pool.published.desired_revision.as_ref();
            return desired.map_or(Self::All, |(revision, _)| Self::Revision(revision.clone()));
        };
        if is_template_in_effect(pool) {
            return Self::All;
        }
        let of_pool: HashSet<&Uid> = machines.iter().map(|stored| &stored.machine.id.uid).collect();
        let found = async {
            let instances = list_machine_instances(cluster, name, selector, &of_pool).await?;
            with_template(cluster, name, object, instances).await
        };
        found.await.map_or_else(
            |error: CallError| {
                tracing::warn!(
                    pool = format!("{}/{}", name.namespace, name.name), %error,
                    "claims prefer the oldest machines: which ones have the current template is unknown"
                );
                Self::All
            },
            Self::Machines,
        )
    }
}

/// Whether the status says that the current template is in effect in all machines.
fn is_template_in_effect(pool: &ParsedPool) -> bool {
    pool.published.summary.as_ref().is_some_and(|summary| {
        summary.observed_generation == pool.generation
            && summary.restart_pending == 0
            && summary.updated >= summary.replicas
    })
}

/// The instances of these machines.
async fn list_machine_instances(
    cluster: &ClusterClient,
    name: &PoolName,
    selector: &str,
    machines: &HashSet<&Uid>,
) -> Result<Vec<StoredInstance>, CallError> {
    let Some(resource) = &name.stored.instances else { return Ok(Vec::new()) };
    let (mut all, mut next) = (Vec::new(), None::<String>);
    loop {
        let page = cluster.instances(resource, &name.namespace, selector, next.as_deref()).await?;
        let page = name.stored.read_instances(&page).map_err(CallError::unreadable)?;
        all.extend(page.items.into_iter().filter(|instance| machines.contains(&instance.machine)));
        next = page.next;
        if next.is_none() {
            return Ok(all);
        }
    }
}

/// The machines of the instances whose revision has the template of the pool. Several revisions can have it,
/// because each change of the spec makes one.
async fn with_template(
    cluster: &ClusterClient,
    name: &PoolName,
    pool: &RawValue,
    instances: Vec<StoredInstance>,
) -> Result<HashSet<Uid>, CallError> {
    let pool: Value = serde_json::from_str(pool.get()).map_err(CallError::unreadable)?;
    let mut by_revision: BTreeMap<RevisionId, Vec<Uid>> = BTreeMap::new();
    for StoredInstance { machine, revision } in instances {
        by_revision.entry(revision).or_default().push(machine);
    }
    let mut revisions: Vec<(RevisionId, Vec<Uid>)> = by_revision.into_iter().collect();
    revisions.sort_by_key(|(revision, _)| std::cmp::Reverse(revision_generation(revision)));
    let mut current = HashSet::new();
    for (revision, machines) in revisions.into_iter().take(REVISIONS) {
        let stored = cluster.referenced(&name.stored.revision(&name.namespace, &revision)).await?;
        if stored.is_some_and(|stored| name.stored.has_template_of(&pool, &stored)) {
            current.extend(machines);
        }
    }
    Ok(current)
}

/// The generation of the pool at the end of the name of a revision.
fn revision_generation(revision: &RevisionId) -> Option<u64> {
    revision.as_str().rsplit_once('-').and_then(|(_, generation)| generation.parse().ok())
}
