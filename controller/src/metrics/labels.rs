//! The label sets, each made of words of closed sets.

use std::hash::Hash;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use vmpool_runtime::metrics::{Label, Labels, Word};

use super::words::{
    Code, Deletion, Failed, LedgerResource, MemberState, PassResult, PoolState, RemovalState, Resource,
    SettledOutcome, Stage, Tenure, Verb, WakeOutcome, WatchResource, WriteKind, WriteOutcome,
};

/// A label set made of words.
macro_rules! label_set {
    ($name:ident { $($label:ident: $word:ty),+ }) => {
        #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub(super) struct $name { $(pub(super) $label: $word),+ }

        impl Labels for $name {
            fn labels() -> Vec<Label> {
                vec![$(Label { name: stringify!($label), values: <$word as Word>::values() }),+]
            }
        }
    };
}

label_set!(RequestLabels { verb: Verb, resource: Resource, code: Code });
label_set!(DurationLabels { verb: Verb, resource: Resource });
label_set!(WriteLabels { kind: WriteKind, outcome: WriteOutcome });
label_set!(FailureLabels { reason: Failed });
label_set!(PassLabels { result: PassResult });
label_set!(StageLabels { stage: Stage });
label_set!(WakeLabels { outcome: WakeOutcome });
label_set!(PoolLabels { state: PoolState });
label_set!(MemberLabels { state: MemberState });
label_set!(DeletionLabels { reason: Deletion });
label_set!(RemovalLabels { state: RemovalState });
label_set!(SettledLabels { outcome: SettledOutcome });
label_set!(LedgerLabels { resource: LedgerResource });
label_set!(WatchLabels { resource: WatchResource });
label_set!(TenureLabels { event: Tenure });

/// A family that has these series from the beginning.
pub(super) fn each<S, M>(labels: impl IntoIterator<Item = S>) -> Family<S, M>
where
    S: Clone + Eq + Hash,
    M: Default + Clone,
    fn() -> M: MetricConstructor<M>,
{
    let family = Family::default();
    for labels in labels {
        drop(family.get_or_create(&labels));
    }
    family
}
