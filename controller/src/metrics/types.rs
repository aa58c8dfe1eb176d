//! The metrics of instance types and preferences. The gauge is read from the leader at each scrape.

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::fmt;
use std::sync::Arc;
use vmpool_platforms::kubevirt::protection::Kind;
use vmpool_runtime::label_set;
use vmpool_runtime::metrics::{Registry, Values, Word};

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

label_set!(KindLabels { kind: TypeKind });
label_set!(TypeLabels { kind: TypeKind, namespace: TypeNamespace, name: TypeName });

/// Kind, namespace and name of an object that is being deleted, and that machines or pools need.
pub(crate) type BlockedType = (Kind, String, String);

/// The metrics of instance types and preferences.
#[derive(Debug)]
pub(crate) struct TypeMetrics {
    shown: Followed<Vec<BlockedType>>,
    copies: Family<KindLabels, Counter>,
    blocked: Family<TypeLabels, Gauge>,
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
