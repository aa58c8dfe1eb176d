//! Pools: the spec, and the state that annotations and status store.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::activity::{ActivityEntry, Writers};
use crate::condition::{ConditionReason, StatusCondition};
use crate::draining;
use crate::failure::{FailureReason, PoolFailure, summarize_messages};
use crate::healing::setting::{HealingPolicy, START_TIMEOUT};
use crate::ids::ObjectId;
use crate::image_refresh::{DiskContents, ImageRefresh};
use crate::model::disk::{Disk, DiskState};
use crate::model::exclusion::Exclusion;
use crate::model::machine::{Machine, Selectable};
use crate::progress;
use crate::protection;
use crate::recycling::RecyclePolicy;
use crate::revisions::{Fingerprint, RevisionCopies, RevisionId, TemplateParts, UsedCopy};
use crate::scale_down::policy::ScaleDownPolicy;
use crate::scale_down::removal::{RemovalRecord, RemovedMachines};
use crate::scale_up::names::{NameBlock, ordinal_name, ordinal_of};
use crate::scale_up::provisioning_limit::ProvisioningLimit;
use crate::selector::{LabelMap, Selector};
use crate::standby::{StandbyCounts, StandbySettings};

/// How the machines of a pool are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `<pool>-<five characters>`, from [`crate::scale_up::names`]. The pool never reuses a name.
    Random,
    /// `<pool>-<ordinal>`, with the smallest ordinal that no object of the namespace has.
    Ordinal,
}

/// Which machines of a pool a scale-down or a rollout considers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFilter {
    /// On the labels that the instances of a machine get.
    pub labels: Selector,
    /// On the node selector that the instances of a machine get.
    pub nodes: Selector,
}

impl MachineFilter {
    /// Whether the machine is considered.
    pub fn includes(&self, machine: &Machine) -> bool {
        let Selectable { instance_labels, node_selector, .. } = &*machine.selectable;
        let fits = |selector: &Selector, labels: &Option<LabelMap>| {
            selector.0.is_empty() || labels.as_ref().is_some_and(|labels| selector.matches(labels))
        };
        fits(&self.labels, instance_labels) && fits(&self.nodes, node_selector)
    }
}

/// What happens if the labels of a machine that the pool owns change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Membership {
    /// The controller restores the managed labels.
    #[default]
    ManagedLabels,
    /// The controller releases a machine whose labels do not match this selector.
    Selector(Selector),
}

/// The finalizer of the controller on the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finalizer {
    /// The platform has none, on pools and on machines.
    #[default]
    Unused,
    /// The pool lacks it.
    Missing,
    /// The pool has it.
    Present,
}

/// Which component restarts machines to which an update was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Restarts {
    /// The platform, after the write, or after a user approved it.
    #[default]
    ByPlatform,
    /// The controller, within the disruption budget.
    ByController,
    /// None: an update takes effect when a user restarts the machine.
    ByUser,
}

/// What the controller publishes in the status of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatusContent {
    /// All conditions. Only live machines count as ready.
    #[default]
    Complete,
    /// Only the conditions about failures, unreadable settings and a pause. Terminating machines that still
    /// run count as ready.
    FailureAndPause,
}

/// When the controller replaces machines that do not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutohealingPolicy {
    /// Number of failed starts in a row, at least 1.
    pub failed_starts: u32,
    /// How long the platform must report a failure.
    pub after: Duration,
}

/// How long a disk lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// As long as its machine, which owns it.
    Ephemeral,
    /// Until garbage collection: the pool owns it and allocates it to another machine.
    Retained,
}

/// A template of storage that the platform creates for each machine. The name of the storage is that of the
/// template with the ordinal of the machine, so pools with a common name would share storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageTemplate {
    /// Name of the template, unique within the pool.
    pub name: Arc<str>,
    /// The volume of the template of the pool that refers to the storage; `None` if none does.
    pub volume: Option<Arc<str>>,
}

impl StorageTemplate {
    /// Name of the storage of this machine of the pool; `None` if its name contains no ordinal.
    pub(crate) fn storage_of(&self, pool: &str, machine: &str) -> Option<Arc<str>> {
        Some(ordinal_name(&self.name, ordinal_of(pool, machine)?).into())
    }
}

/// One disk template of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolDiskTemplate {
    /// Name of the template, unique within the pool.
    pub name: Arc<str>,
    /// What happens to its disks when their machine is deleted.
    pub lifetime: Lifetime,
    /// Number of its free disks that garbage collection keeps regardless of their age.
    pub keep_free: usize,
    /// Age at which garbage collection deletes a free disk beyond [`PoolDiskTemplate::keep_free`]. With
    /// `None` it deletes none.
    pub ttl: Option<Duration>,
    /// Minimum size of its disks, in bytes. With `None` the controller does not expand them.
    pub size: Option<u64>,
    /// Fingerprint of the source of its disks; `None` if the platform has none.
    pub source: Option<Fingerprint>,
    /// Whether machines of the pool's current revision have a device for it. Garbage collection keeps the
    /// disks of a template without a device.
    pub used: bool,
}

impl PoolDiskTemplate {
    /// A template of the current revision with a device, no free disks to keep, no time to live and no
    /// minimum size.
    pub fn new(name: &str, lifetime: Lifetime) -> Self {
        Self { name: name.into(), lifetime, keep_free: 0, ttl: None, size: None, source: None, used: true }
    }
}

/// How the controller applies a changed template to existing machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutPolicy {
    /// Whether the rollout is paused: the controller updates no further machine.
    pub paused: bool,
    /// The disruption budget: how many machines may be unavailable at the same time because of the rollout.
    pub budget: DisruptionBudget,
    /// Number of revisions to keep besides the current one and those that machines refer to.
    pub history: usize,
    /// Whether existing machines stay as they are: the controller updates none.
    pub disabled: bool,
    /// Which component restarts updated machines.
    pub restarts: Restarts,
    /// Whether the platform applies [`LiveParts`](crate::revisions::LiveParts) to running instances, so that
    /// the controller restarts none for a change of these.
    pub live_updates: bool,
    /// The order in which the controller restarts machines; `None` for the order of their age.
    pub order: Option<ScaleDownPolicy>,
    /// The machines that are updated. The others stay as they are.
    pub selection: MachineFilter,
}

impl Default for RolloutPolicy {
    fn default() -> Self {
        Self {
            paused: false,
            budget: DisruptionBudget::default(),
            history: 10,
            disabled: false,
            restarts: Restarts::default(),
            live_updates: false,
            order: None,
            selection: MachineFilter::default(),
        }
    }
}

/// A number of machines, or a share of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisruptionBudget {
    /// A number of machines, at least one.
    Machines(usize),
    /// A percentage of the desired machines, rounded down, but at least one machine.
    Percent(u8),
}

impl Default for DisruptionBudget {
    /// A quarter.
    fn default() -> Self {
        Self::Percent(25)
    }
}

impl DisruptionBudget {
    /// How many of `desired` machines it allows: at least one.
    pub fn of(self, desired: usize) -> usize {
        match self {
            Self::Machines(machines) => machines,
            Self::Percent(percent) => desired.saturating_mul(usize::from(percent)) / 100,
        }
        .max(1)
    }
}

/// What it takes to bring the instance of a machine to the revision of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstanceTransition {
    /// Nothing: it has that revision.
    None,
    /// The revision is recorded on the instance, because the template of the instance is the same.
    Record,
    /// The platform applies the change to the instance, or the instance needs a restart if the platform does
    /// not.
    LiveUpdate,
    /// A restart.
    Restart,
    /// The machine is deleted and created again, because its storage differs.
    Recreation,
    /// It cannot be determined yet, because the revision of the machine is not stored.
    Unknown,
}

/// When the storage of a machine that leaves is preserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preservation {
    /// Never.
    Never,
    /// Unless the controller deletes the machine because the storage in the template changed.
    UnlessChanged,
    /// Also in that case.
    Always,
}

impl Preservation {
    /// Whether storage is also preserved if the controller deletes a machine because the storage in the
    /// template changed.
    pub fn includes_changed_storage(self) -> bool {
        self == Self::Always
    }
}

/// Why the template of a pool cannot be used now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableTemplate {
    /// The reason in the condition.
    pub reason: ConditionReason,
    /// A sentence with the object that is missing or does not fit, and what to do.
    pub message: String,
}

/// The revision that a pool requests, as its spec or an annotation contains it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedRevision {
    /// The stored revision that replaces the template in the spec.
    pub pinned: Option<RevisionId>,
    /// Whether the requested revision cannot be read.
    pub is_unreadable: bool,
}

/// The current revision of a pool, as the stored revisions determine it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentRevision {
    /// Its identity.
    pub id: RevisionId,
    /// Whether it is stored, so that its identity is fixed.
    pub stored: bool,
    /// Whether it is a stored revision that replaces the template in the spec.
    pub pinned: bool,
    /// Whether the requested revision cannot be read or is not stored. If so, the controller updates no
    /// machine and creates new machines from this revision, which is the last stored one.
    pub held: bool,
    /// Other stored revisions with the same template. A machine with one of them is not outdated.
    pub same_template: Vec<RevisionId>,
    /// Stored revisions of other templates that a later stored revision has, too. None is kept for a
    /// rollback.
    pub superseded: Vec<RevisionId>,
    /// What is known of the copies of objects that the templates of the pool refer to.
    pub copies: RevisionCopies,
    /// The parts of the templates of the stored revisions, and of this one, as far as they are known.
    pub template_parts: BTreeMap<RevisionId, TemplateParts>,
}

impl CurrentRevision {
    /// The revision of the template in the spec, without other stored revisions.
    pub fn of_template(id: RevisionId, stored: bool) -> Self {
        Self {
            id,
            stored,
            pinned: false,
            held: false,
            same_template: Vec::new(),
            superseded: Vec::new(),
            copies: RevisionCopies::default(),
            template_parts: BTreeMap::new(),
        }
    }

    /// Whether a machine with this revision has the current template.
    pub fn is_current(&self, revision: &RevisionId) -> bool {
        *revision == self.id || self.same_template.contains(revision)
    }
}

/// A pool as its object contains it. Its current revision is not known: that depends on the stored revisions.
pub type ParsedPool = Pool<RequestedRevision>;

/// A pool with a revision: the requested one, or, in a resolved pool, the current one. It is read as its
/// spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool<R = CurrentRevision> {
    /// What its object contains.
    pub spec: PoolSpec,
    /// The revision.
    pub revision: R,
}

impl<R> Deref for Pool<R> {
    type Target = PoolSpec;

    fn deref(&self) -> &PoolSpec {
        &self.spec
    }
}

impl<R> DerefMut for Pool<R> {
    fn deref_mut(&mut self) -> &mut PoolSpec {
        &mut self.spec
    }
}

/// What the object of a pool contains, without its revision: its spec, and the state that its annotations and
/// its status store.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSpec {
    /// Name and UID.
    pub id: ObjectId,
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.generation`, which counts changes of the spec.
    pub generation: i64,
    /// Whether the API server has accepted its deletion.
    pub deleting: bool,
    /// Desired number of machines: `spec.replicas`.
    pub desired: usize,
    /// Whether the pool is paused: the controller creates, deletes and updates no machine.
    pub paused: bool,
    /// Which machines a scale-down deletes first.
    pub scale_down_policy: ScaleDownPolicy,
    /// Which machines a scale-down may delete.
    pub scale_down_selection: MachineFilter,
    /// When the storage of a machine that leaves is preserved for the next machine with its name.
    pub preservation: Preservation,
    /// What happens if the labels of a machine change.
    pub membership: Membership,
    /// The finalizer of the controller on the pool.
    pub finalizer: Finalizer,
    /// When the controller replaces machines that do not start; `None` for never.
    pub autohealing: Option<AutohealingPolicy>,
    /// When the controller replaces machines that are not ready; `None` for never.
    pub healing: Option<HealingPolicy>,
    /// The longest time for which a machine can be protected.
    pub max_protection: Duration,
    /// After how long without progress the pool is stalled.
    pub progress_deadline: Duration,
    /// What the controller does if a source of the disks leads to other content.
    pub image_refresh: ImageRefresh,
    /// What the sources of the disks lead to now; empty if the controller does not follow them.
    pub disk_contents: DiskContents,
    /// How many machines may provision at the same time; `None` for any number.
    pub max_provisioning: Option<ProvisioningLimit>,
    /// Its standby machines; `None` if the setting cannot be read, so that the controller leaves them.
    pub standby: Option<StandbySettings>,
    /// The storage classes that the templates of disks name, each once; an empty name for templates without
    /// one, and for a pool without templates.
    pub storage_classes: Arc<[Arc<str>]>,
    /// For how long a machine with hooks may drain; zero if machines do not drain.
    pub drain_timeout: Duration,
    /// When the controller replaces machines.
    pub recycle: RecyclePolicy,
    /// How the controller names machines.
    pub naming: Naming,
    /// How the controller applies the revision to existing machines.
    pub rollout: RolloutPolicy,
    /// The disk templates. The list is empty if the platform stores disks inside the machine object.
    pub disks: Vec<PoolDiskTemplate>,
    /// The templates of the storage that the platform creates for each machine.
    pub storage_templates: Vec<StorageTemplate>,
    /// The storage that new machines use instead of that of a template, because a user moved a volume of an
    /// earlier machine to it. By ordinal, in the words of the platform.
    pub storage_moves: BTreeMap<u64, Arc<str>>,
    /// The current name block; `None` before the first one.
    pub name_block: Option<NameBlock>,
    /// The removal record. If it cannot be read, it is empty and [`PoolSpec::validation_errors`] contains the
    /// error.
    pub record: RemovalRecord,
    /// The machines that targeted removals deleted, on a platform whose names return.
    pub removed: RemovedMachines,
    /// The clients that last wrote fields of the pool.
    pub writers: Writers,
    /// The last published status.
    pub published: PublishedStatus,
    /// What the status contains.
    pub status_content: StatusContent,
    /// Messages about fields that cannot be read and that the controller needs to create machines.
    pub validation_errors: Vec<String>,
    /// Messages about settings that cannot be read. The controller uses the safe value of each, and continues
    /// to reconcile the pool.
    pub invalid_settings: Vec<String>,
    /// Why machines cannot be created from the current template, or updated to it.
    pub unresolved: Option<UnusableTemplate>,
    /// What annotations of the pool add to its template. A change of it is a change of the template.
    pub template_variant: Option<Arc<str>>,
    /// Why the disk images that the template names cannot be cloned now.
    pub images: Option<UnusableTemplate>,
}

impl PoolSpec {
    /// A valid pool without machines, disk templates, stored state and special settings.
    pub fn new(id: ObjectId, namespace: &str) -> Self {
        Self {
            id,
            namespace: namespace.into(),
            generation: 1,
            deleting: false,
            desired: 0,
            paused: false,
            scale_down_policy: ScaleDownPolicy::NewestFirst,
            scale_down_selection: MachineFilter::default(),
            preservation: Preservation::Never,
            membership: Membership::default(),
            finalizer: Finalizer::default(),
            autohealing: None,
            healing: None,
            max_protection: protection::DEFAULT_MAXIMUM,
            progress_deadline: progress::DEFAULT_DEADLINE,
            image_refresh: ImageRefresh::default(),
            disk_contents: DiskContents::new(),
            max_provisioning: None,
            standby: Some(StandbySettings::NONE),
            storage_classes: Arc::default(),
            drain_timeout: draining::DEFAULT_TIMEOUT,
            recycle: RecyclePolicy::default(),
            naming: Naming::Random,
            rollout: RolloutPolicy::default(),
            disks: Vec::new(),
            storage_templates: Vec::new(),
            storage_moves: BTreeMap::new(),
            name_block: None,
            record: RemovalRecord::default(),
            removed: RemovedMachines::default(),
            writers: Writers::default(),
            published: PublishedStatus::default(),
            status_content: StatusContent::default(),
            validation_errors: Vec::new(),
            invalid_settings: Vec::new(),
            unresolved: None,
            template_variant: None,
            images: None,
        }
    }

    /// How long a machine may take from its start until it is ready for the first time.
    pub fn start_timeout(&self) -> Duration {
        self.healing.map_or(START_TIMEOUT, |healing| healing.start_timeout)
    }

    /// The validation errors that prevent the controller from creating machines of this pool, as one failure.
    pub(crate) fn invalid_spec(&self) -> Option<PoolFailure> {
        if self.validation_errors.is_empty() {
            return None;
        }
        let message = format!(
            "no machine is created, updated or removed: {}",
            summarize_messages(&self.validation_errors)
        );
        Some(PoolFailure { reason: FailureReason::FailedCreate, message })
    }

    /// Whether the machine belongs to the pool: the pool owns it, and the controller does not release it
    /// because of its labels. Labels that are too large to be kept count as selected.
    pub fn includes(&self, machine: &Machine) -> bool {
        machine.belongs_to(&self.id)
            && match &self.membership {
                Membership::ManagedLabels => true,
                Membership::Selector(selector) => {
                    machine.selectable.labels.as_ref().is_none_or(|labels| selector.matches(labels))
                }
            }
    }

    /// Whether the machine was claimed less often than the pool allows.
    pub(crate) fn has_claims_left(&self, machine: &Machine) -> bool {
        self.recycle.max_claims.is_none_or(|most| machine.claims() < most)
    }

    /// Whether a claim may take the machine of the pool at this time, apart from targeted removals.
    pub fn may_claim(&self, machine: &Machine, now: Timestamp) -> bool {
        machine.is_claimable(now) && self.has_claims_left(machine)
    }

    /// Number of consecutive machines that other clients may take away, before the controller stops to create
    /// machines. A user may release all machines once.
    pub fn machine_loss_limit(&self) -> usize {
        self.desired.saturating_add(self.standby.map_or(0, |standby| standby.replicas))
    }

    /// The same for disks.
    pub fn disk_loss_limit(&self) -> usize {
        self.machine_loss_limit().saturating_mul(self.disks.len())
    }

    /// Why a machine does not belong to the pool; `None` if it does.
    pub fn exclusion_of(&self, machine: &Machine) -> Option<Exclusion> {
        if self.includes(machine) {
            return None;
        }
        if !machine.belongs_to(&self.id) {
            let found = machine.owner.as_ref().map(|owner| owner.id.to_string());
            return Some(Exclusion::Owner { found });
        }
        let (Membership::Selector(selector), Some(labels)) = (&self.membership, &machine.selectable.labels)
        else {
            return Some(Exclusion::Owner { found: None });
        };
        let failed = selector.0.iter().find(|requirement| !requirement.matches(labels))?;
        let (key, found) = (failed.key.clone(), labels.get(&failed.key).cloned());
        Some(Exclusion::Label { wanted: failed.to_string(), key, found })
    }

    /// Names of the storage that the platform creates for a machine with this name.
    pub fn storage_of(&self, machine: &str) -> Vec<Arc<str>> {
        let storage = |template: &StorageTemplate| template.storage_of(&self.id.name, machine);
        self.storage_templates.iter().filter_map(storage).collect()
    }

    /// Whether the pool preserves the storage of a machine that leaves. The exceptions are machines that the
    /// controller deleted because the next machine with the name needs new storage; their objects record
    /// that.
    pub fn preserves_storage_of(&self, machine: &Machine) -> bool {
        self.preservation != Preservation::Never && !machine.discards_storage
    }

    /// Whether the pool has a disk template of this name.
    pub(crate) fn has_disk_template(&self, name: &str) -> bool {
        self.disks.iter().any(|known| *known.name == *name)
    }

    /// Whether a disk is being provisioned from another source than its disk template names by now, and
    /// contains no data.
    pub fn supersedes(&self, disk: &Disk) -> bool {
        let template = self.disks.iter().find(|template| disk.template.as_ref() == Some(&template.name));
        let sources = template.and_then(|template| template.source).zip(disk.pending_source);
        disk.state == DiskState::Pending && sources.is_some_and(|(wanted, pending)| wanted != pending)
    }
}

impl Pool {
    /// Whether the rollout is paused or held, so that the controller updates no further machine.
    pub fn rollout_stands_still(&self) -> bool {
        self.rollout.paused || self.revision.held
    }

    /// Whether an update to the current revision may make the platform restart the guest of the machine
    /// without an approval.
    pub fn may_restart_for_update(&self, machine: &Machine) -> bool {
        let keeps_guest = || {
            matches!(
                self.transition(machine.written.as_ref(), &self.revision.id),
                InstanceTransition::None | InstanceTransition::Record | InstanceTransition::LiveUpdate
            )
        };
        self.rollout.restarts == Restarts::ByPlatform && machine.restarts_itself && !keeps_guest()
    }

    /// Whether a machine with this revision has the current template.
    pub(crate) fn is_current(&self, revision: &RevisionId) -> bool {
        self.revision.is_current(revision)
    }

    /// What it takes to bring a machine whose instance has revision `from` to revision `to`, if the
    /// controller restarts machines.
    pub(crate) fn transition(&self, from: Option<&RevisionId>, to: &RevisionId) -> InstanceTransition {
        let Some(wanted) = self.revision.template_parts.get(to) else { return InstanceTransition::Unknown };
        match from.map(|from| (from, self.revision.template_parts.get(from))) {
            Some((from, _)) if from == to => InstanceTransition::None,
            // Only the names differ.
            Some((from, None)) if self.is_current(from) && self.is_current(to) => InstanceTransition::Record,
            // What the instance was started from cannot be compared any more.
            None | Some((_, None)) => InstanceTransition::Restart,
            Some((_, Some(current))) if current.storage != wanted.storage => InstanceTransition::Recreation,
            Some((_, Some(current))) if current.instance != wanted.instance => InstanceTransition::Restart,
            Some((_, Some(current))) if current.live != wanted.live => InstanceTransition::LiveUpdate,
            Some(_) => InstanceTransition::Record,
        }
    }
}

/// The status that the pool object shows now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PublishedStatus {
    /// All conditions, including those of other controllers.
    pub conditions: Vec<StatusCondition>,
    /// The counters and identities; `None` while the status is incomplete.
    pub summary: Option<StatusSummary>,
    /// The desired template hash in the status, and the generation that the status observed. It can be
    /// present without a summary, because another controller may omit counters.
    pub desired_revision: Option<(RevisionId, i64)>,
    /// The activity log. A difference in it alone causes no write.
    pub activity: Vec<ActivityEntry>,
}

impl PublishedStatus {
    /// Whether two statuses are equal, apart from the activity log.
    pub fn shows_the_same(&self, other: &Self) -> bool {
        let Self { conditions, summary, desired_revision, activity: _ } = self;
        (conditions, summary, desired_revision)
            == (&other.conditions, &other.summary, &other.desired_revision)
    }
}

/// The counters and identities of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSummary {
    /// The generation that the pass used.
    pub observed_generation: i64,
    /// Machines that exist, including terminating and stopped ones, because they still use resources.
    pub replicas: usize,
    /// Live machines that run; depending on [`StatusContent`], terminating ones, too.
    pub ready: usize,
    /// Live machines that run.
    pub available: usize,
    /// Live machines in which the current revision is in effect.
    pub updated: usize,
    /// Live machines with the current revision that need a restart.
    pub restart_pending: usize,
    /// Live machines that drain.
    pub draining: usize,
    /// Live machines with disks from other content than the sources of the pool lead to.
    pub image_outdated: usize,
    /// The machine number from which a new leader goes on; `None` if the platform names machines by ordinals,
    /// or if the definition of pools does not keep it.
    pub next_number: Option<u64>,
    /// How many machines the controller has replaced because they did not start, since the pool was created.
    pub healed: u64,
    /// Identity of the current revision.
    pub revision: RevisionId,
    /// The copies that machines of the current revision use.
    pub used_copies: Arc<[UsedCopy]>,
    /// Standby machines. No other counter contains them.
    pub standby: StandbyCounts,
}

#[cfg(test)]
mod tests;
