//! The metrics of instance types and preferences. The gauge is read from the leader at each scrape.

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::fmt;
use std::sync::Arc;
use vmpool_platforms::kubevirt::copies::{LookupFailure, StoredVersion};
use vmpool_platforms::kubevirt::protection::Kind;
use vmpool_runtime::metrics::{Registry, Values, Word};
use vmpool_runtime::{label_set, words};

use super::followed::Followed;
use super::labels::each;
use super::pool_series::label;

/// The most objects that have a series of their own.
const MOST: usize = 100;

/// The kind of an instance type or a preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TypeKind(pub(crate) Kind);

impl EncodeLabelValue for TypeKind {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        fmt::Write::write_str(encoder, self.0.as_str())
    }
}

impl Word for TypeKind {
    fn values() -> Values {
        Values::Open("the kind of the instance type or the preference")
    }
}

label!(
    /// The namespace of an instance type or a preference.
    TypeNamespace, "the namespace of the object, empty for kinds of the cluster"
);
label!(
    /// The name of an instance type or a preference.
    TypeName, "the name of the object"
);

/// The kind of an instance type or a preference that a machine cannot use, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FailedKind(Option<Kind>);

impl EncodeLabelValue for FailedKind {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        fmt::Write::write_str(encoder, self.0.map_or("unknown", |kind| kind.as_str()))
    }
}

impl Word for FailedKind {
    fn values() -> Values {
        Values::Open(
            "the kind of the instance type or the preference, or `unknown` if the machine names a kind that does not exist, \
             or only a volume",
        )
    }
}

words!(
    /// Why a machine cannot get its copies.
    pub(crate) CopyFailure {
        /// The instance type or its copy does not exist, or cannot be read.
        FindInstancetype => "FailedFindInstancetype",
        /// The preference or its copy does not exist, or cannot be read.
        FindPreference => "FailedFindPreference",
        /// The copy belongs to another object, or cannot be decoded.
        Mismatch => "RevisionMismatch",
        /// The machine sets what its instance type sets.
        Conflict => "InstancetypeConflict",
        /// The machine does not meet the requirements of its preference.
        Requirements => "RequirementsNotMet",
    }
);

words!(
    /// How an old copy is stored.
    pub(crate) FormerVersion {
        /// With the current version, and without its label.
        V1beta1 => "v1beta1",
        /// With version `v1alpha2`.
        V1alpha2 => "v1alpha2",
        /// With version `v1alpha1`.
        V1alpha1 => "v1alpha1",
        /// With version `v1alpha1`, as the encoded spec alone.
        SpecRevision => "v1alpha1-spec",
    }
);

words!(
    /// The result of an upgrade of a copy.
    pub(crate) UpgradeResult {
        /// The status of the machine names the new copy.
        Upgraded => "upgraded",
        /// A write failed. The controller tries again.
        Failed => "failed",
    }
);

label_set!(KindLabels { kind: TypeKind });
impl CopyFailure {
    /// The kinds of the objects that can have it.
    fn kinds(self) -> impl Iterator<Item = Option<Kind>> {
        let of = match self {
            Self::FindInstancetype | Self::Conflict => Some(Kind::Instancetype.family()),
            Self::FindPreference | Self::Requirements => Some(Kind::Preference.family()),
            Self::Mismatch => None,
        };
        let kinds = Kind::ALL.into_iter().filter(move |kind| of.is_none_or(|of| kind.family() == of));
        kinds.map(Some).chain([None])
    }
}

label_set!(CopyFailureLabels { kind: FailedKind, reason: CopyFailure });
label_set!(UpgradeLabels { from_version: FormerVersion, result: UpgradeResult });
label_set!(TypeLabels { kind: TypeKind, namespace: TypeNamespace, name: TypeName });

/// Kind, namespace and name of an object that is being deleted, and that machines or pools need.
pub(crate) type BlockedType = (Kind, String, String);

/// The metrics of instance types and preferences.
#[derive(Debug)]
pub(crate) struct TypeMetrics {
    shown: Followed<Vec<BlockedType>>,
    copies: Family<KindLabels, Counter>,
    blocked: Family<TypeLabels, Gauge>,
    failures: Family<CopyFailureLabels, Counter>,
    upgrades: Family<UpgradeLabels, Counter>,
}

impl TypeMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            shown: Followed::default(),
            copies: registry.register(
                "vmpool_instancetype_copies_created_total",
                "copies",
                "Copies of instance types and preferences that the controller made for single machines",
                each(Kind::ALL.map(|kind| KindLabels { kind: TypeKind(kind) })),
            ),
            failures: registry.register(
                "vmpool_instancetype_lookup_failures_total",
                "passes",
                "Passes in which a single machine could not get its copies. Pools report this in condition TemplateResolved",
                each(CopyFailure::ALL.iter().flat_map(|&reason| {
                    reason.kinds().map(move |kind| CopyFailureLabels { kind: FailedKind(kind), reason })
                })),
            ),
            upgrades: registry.register(
                "vmpool_instancetype_copy_upgrades_total",
                "copies",
                "Copies of single machines that the controller replaced by copies with the current version",
                each(FormerVersion::ALL.iter().flat_map(|&from_version| {
                    UpgradeResult::ALL.iter().map(move |&result| UpgradeLabels { from_version, result })
                })),
            ),
            blocked: registry.register(
                "vmpool_instancetype_deletion_blocked",
                "objects",
                "Instance types and preferences that are being deleted, and that machines or pools without a copy need. The first 100 have a series",
                Family::default(),
            ),
        }
    }

    /// Reads the objects from `source` from now on.
    pub(crate) fn follow(&self, source: impl Fn() -> Option<Vec<BlockedType>> + Send + Sync + 'static) {
        self.shown.follow(source);
    }

    /// Counts a copy for a machine.
    pub(crate) fn copied(&self, kind: Kind) {
        self.copies.get_or_create(&KindLabels { kind: TypeKind(kind) }).inc();
    }

    /// Counts a pass in which a machine could not get its copies.
    pub(crate) fn failed(&self, LookupFailure { reason, kind }: LookupFailure) {
        if let Some(&reason) = CopyFailure::ALL.iter().find(|known| known.as_str() == reason) {
            self.failures.get_or_create(&CopyFailureLabels { kind: FailedKind(kind), reason }).inc();
        }
    }

    /// Counts the upgrade of a copy.
    pub(crate) fn upgraded(&self, from: StoredVersion, is_complete: bool) {
        let from_version = match from {
            StoredVersion::V1beta1 => FormerVersion::V1beta1,
            StoredVersion::V1alpha2 => FormerVersion::V1alpha2,
            StoredVersion::V1alpha1 => FormerVersion::V1alpha1,
            StoredVersion::SpecRevision => FormerVersion::SpecRevision,
        };
        let result = if is_complete { UpgradeResult::Upgraded } else { UpgradeResult::Failed };
        self.upgrades.get_or_create(&UpgradeLabels { from_version, result }).inc();
    }

    pub(super) fn refresh(&self) {
        self.blocked.clear();
        let mut shown = self.shown.read().unwrap_or_default();
        shown.sort();
        for (kind, namespace, name) in shown.into_iter().take(MOST) {
            let (namespace, name) = (TypeNamespace(Arc::from(namespace)), TypeName(Arc::from(name)));
            self.blocked.get_or_create(&TypeLabels { kind: TypeKind(kind), namespace, name }).set(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failure_labels_are_the_reasons_of_the_condition() {
        let labels: Vec<&str> = CopyFailure::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(labels, vmpool_platforms::kubevirt::copies::REASONS);
    }

    #[test]
    fn a_failure_is_counted_with_its_kind() {
        let mut registry = Registry::new();
        let metrics = TypeMetrics::new(&mut registry);
        let reason = "FailedFindInstancetype";
        metrics.failed(LookupFailure { reason, kind: Some(Kind::ClusterInstancetype) });
        metrics.failed(LookupFailure { reason, kind: None });
        let page = vmpool_runtime::metrics::Page::new(registry, "1").encode(|| {});
        for (kind, reason, value) in [
            ("VirtualMachineClusterInstancetype", reason, 1),
            ("unknown", reason, 1),
            // Series without events. A reason has only the kinds of the objects that it is about.
            ("VirtualMachineInstancetype", reason, 0),
            ("VirtualMachinePreference", "RequirementsNotMet", 0),
            ("VirtualMachinePreference", "RevisionMismatch", 0),
        ] {
            let labels = format!(r#"kind="{kind}",reason="{reason}""#);
            let line = format!("vmpool_instancetype_lookup_failures_total{{{labels}}} {value}");
            assert!(page.contains(&line), "{line} is not on the page:\n{page}");
        }
        assert!(!page.contains(r#"kind="VirtualMachinePreference",reason="FailedFindInstancetype""#));
    }
}
