//! The label sets. Each label has a fixed set of values.

use vmpool_kit::write::WriteOutcome;
use vmpool_runtime::label_set;

use super::label_values::{
    ApiResponseCode, ClaimOutcome, Collection, Deletion, DiskUse, FailureReasonLabel, LeadershipChange,
    LedgerResource, MachineState, PassResult, PassStep, PoolState, RemovalState, Resource, SettledOutcome,
    Verb, WakeOutcome, WatchResource, WriteKind,
};

label_set!(pub(super) RequestLabels { verb: Verb, resource: Resource, code: ApiResponseCode });
label_set!(pub(super) DurationLabels { verb: Verb, resource: Resource });
label_set!(pub(super) WriteLabels { kind: WriteKind, outcome: WriteOutcome });
label_set!(pub(super) FailureLabels { reason: FailureReasonLabel });
label_set!(pub(super) PassLabels { result: PassResult });
label_set!(pub(super) StageLabels { stage: PassStep });
label_set!(pub(super) WakeLabels { outcome: WakeOutcome });
label_set!(pub(super) PoolLabels { state: PoolState });
label_set!(pub(super) MachineLabels { state: MachineState });
label_set!(pub(super) DeletionLabels { reason: Deletion });
label_set!(pub(super) RemovalLabels { state: RemovalState });
label_set!(pub(super) SettledLabels { outcome: SettledOutcome });
label_set!(pub(super) DiskLabels { state: DiskUse });
label_set!(pub(super) ClaimLabels { outcome: ClaimOutcome });
label_set!(pub(super) CollectionLabels { reason: Collection });
label_set!(pub(super) LedgerLabels { resource: LedgerResource });
label_set!(pub(super) WatchLabels { resource: WatchResource });
label_set!(pub(super) LeadershipLabels { event: LeadershipChange });

/// A count as the value of a gauge.
pub(super) fn gauge_value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
