//! The metrics of instance types and preferences. The gauge is read from the leader at each scrape.

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use vmpool_platforms::instancetype::copies;
use vmpool_platforms::instancetype::type_protection::InstanceTypeKind;
use vmpool_platforms::{LookupFailure, LookupReason};
use vmpool_runtime::metrics::{Values, Word, family_with_series};
use vmpool_runtime::{label_set, metric_table, words};

use super::followed::Followed;
use super::pool_series::label;

/// The most objects that have a series of their own.
const MOST: usize = 100;

/// The kind of an instance type or a preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TypeKind(pub(crate) InstanceTypeKind);

impl EncodeLabelValue for TypeKind {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        fmt::Write::write_str(encoder, self.0.as_str())
    }
}

impl Word for TypeKind {
    fn values() -> Values {
        Values::Open("the kind of the instance type or the preference")
    }

    fn known_values() -> Vec<Self> {
        InstanceTypeKind::ALL.into_iter().map(Self).collect()
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

/// The kind of an instance type or a preference that a machine or a pool cannot use, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FailedKind(Option<InstanceTypeKind>);

impl EncodeLabelValue for FailedKind {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        fmt::Write::write_str(encoder, self.0.map_or("unknown", |kind| kind.as_str()))
    }
}

impl Word for FailedKind {
    fn values() -> Values {
        Values::Open(
            "the kind of the instance type or the preference, or `unknown` if a machine or a template names a kind that does \
             not exist, or only a volume",
        )
    }

    fn known_values() -> Vec<Self> {
        InstanceTypeKind::ALL.into_iter().map(Some).chain([None]).map(Self).collect()
    }
}

words!(
    /// Why a machine or a pool cannot get its copies.
    pub(crate) FailedLookup {
        /// The instance type, the preference or its copy does not exist, the name cannot be inferred, or the
        /// reference is not valid.
        NotFound => "not_found",
        /// The machine sets what its instance type sets, or does not meet the requirements of its preference.
        Conflict => "conflict",
        /// The copy belongs to another object.
        Mismatch => "mismatch",
        /// The object or its copy cannot be decoded.
        Decode => "decode",
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
        /// The pool or the machine uses the new copy.
        Upgraded => "upgraded",
        /// A write failed. The controller tries again.
        Failed => "failed",
    }
);

label_set!(KindLabels { kind: TypeKind });
label_set!(LookupLabels { kind: FailedKind, reason: FailedLookup });
label_set!(UpgradeLabels { from_version: FormerVersion, result: UpgradeResult });
label_set!(TypeLabels { kind: TypeKind, namespace: TypeNamespace, name: TypeName });

/// Kind, namespace and name of an object that is being deleted, and that machines or pools need.
pub(crate) type BlockedType = (InstanceTypeKind, String, String);

metric_table!(
    /// The metrics of instance types and preferences.
    #[derive(Debug)]
    pub(crate) struct TypeMetrics {
        /// Copies of instance types and preferences that the controller made, for revisions of pools and for
        /// single machines.
        copies: Family<KindLabels, Counter> = "vmpool_instancetype_stashes_created_total" in "copies",
            family_with_series();
        /// Passes in which a pool or a single machine could not get its copies.
        failures: Family<LookupLabels, Counter> = "vmpool_instancetype_lookup_failures_total" in "passes",
            family_with_series();
        /// Copies of pools and of single machines that the controller replaced by copies with the current
        /// version.
        upgrades: Family<UpgradeLabels, Counter> = "vmpool_instancetype_stash_upgrades_total" in "copies",
            family_with_series();
        /// Instance types and preferences that are being deleted, and that machines or pools without a copy
        /// need. The first 100 have a series.
        blocked: Family<TypeLabels, Gauge> = "vmpool_instancetype_deletion_blocked" in "objects";
    } with { shown: Followed<Vec<BlockedType>> }
);

impl TypeMetrics {
    /// Reads the objects from `source` from now on.
    pub(crate) fn follow(&self, source: impl Fn() -> Option<Vec<BlockedType>> + Send + Sync + 'static) {
        self.shown.follow(source);
    }

    /// Counts a copy that was created.
    pub(crate) fn copied(&self, copy: &Value) {
        if let Some(kind) = copies::copied_type_kind(copy) {
            self.copies.get_or_create(&KindLabels { kind: TypeKind(kind) }).inc();
        }
    }

    /// Counts a pass in which a machine or a pool could not get its copies.
    pub(crate) fn failed(&self, LookupFailure { reason, kind }: LookupFailure) {
        let reason = match reason {
            LookupReason::NotFound => FailedLookup::NotFound,
            LookupReason::Conflict => FailedLookup::Conflict,
            LookupReason::Mismatch => FailedLookup::Mismatch,
            LookupReason::Decode => FailedLookup::Decode,
        };
        let kind = FailedKind(kind.and_then(InstanceTypeKind::of_object));
        self.failures.get_or_create(&LookupLabels { kind, reason }).inc();
    }

    /// Counts the upgrade of a copy from a former version.
    pub(crate) fn upgraded(&self, from: &str, is_complete: bool) {
        let Some(&from_version) = FormerVersion::ALL.iter().find(|version| version.as_str() == from) else {
            return;
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
    use vmpool_platforms::instancetype::copies::StoredVersion;

    use vmpool_runtime::metrics::MetricsRegistry;

    use super::*;

    #[test]
    fn a_failure_is_counted_with_its_kind() {
        let mut registry = MetricsRegistry::new();
        let metrics = TypeMetrics::new(&mut registry);
        for (reason, kind) in [
            (LookupReason::NotFound, Some("VirtualMachineClusterInstancetype")),
            (LookupReason::NotFound, None),
            (LookupReason::Conflict, Some("VirtualMachineInstancetype")),
            (LookupReason::Mismatch, Some("VirtualMachinePreference")),
            (LookupReason::Decode, Some("VirtualMachineClusterPreference")),
        ] {
            metrics.failed(LookupFailure { reason, kind });
        }
        let page = vmpool_runtime::metrics::MetricsPage::new(registry, "1").encode(|| {});
        for (kind, reason, value) in [
            ("VirtualMachineClusterInstancetype", "not_found", 1),
            ("unknown", "not_found", 1),
            ("VirtualMachineInstancetype", "conflict", 1),
            ("VirtualMachinePreference", "mismatch", 1),
            ("VirtualMachineClusterPreference", "decode", 1),
            // Series without events.
            ("VirtualMachinePreference", "conflict", 0),
            ("unknown", "decode", 0),
        ] {
            let labels = format!(r#"kind="{kind}",reason="{reason}""#);
            let line = format!("vmpool_instancetype_lookup_failures_total{{{labels}}} {value}");
            assert!(page.contains(&line), "{line} is not on the page:\n{page}");
        }
    }

    #[test]
    fn each_former_version_is_counted() {
        let mut registry = MetricsRegistry::new();
        let metrics = TypeMetrics::new(&mut registry);
        let versions = [
            StoredVersion::V1beta1,
            StoredVersion::V1alpha2,
            StoredVersion::V1alpha1,
            StoredVersion::SpecRevision,
        ];
        for version in versions {
            metrics.upgraded(version.as_str(), true);
        }
        let page = vmpool_runtime::metrics::MetricsPage::new(registry, "1").encode(|| {});
        for version in versions.map(StoredVersion::as_str) {
            let labels = format!(r#"from_version="{version}",result="upgraded""#);
            let line = format!("vmpool_instancetype_stash_upgrades_total{{{labels}}} 1");
            assert!(page.contains(&line), "{line} is not on the page:\n{page}");
        }
    }
}
