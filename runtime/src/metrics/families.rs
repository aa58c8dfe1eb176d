//! Families of metrics: one metric for each set of labels.

use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;

use super::describe::MetricLabels;

/// A family that contains every known series from the start, so that the first event of a series shows as an
/// increase.
pub fn family_with_series<S: MetricLabels, M: Default + Clone>() -> Family<S, M>
where
    fn() -> M: MetricConstructor<M>,
{
    add_known_series(Family::default())
}

/// A family of histograms without series.
pub fn histogram_family<S: MetricLabels>(new_histogram: fn() -> Histogram) -> Family<S, Histogram> {
    Family::new_with_constructor(new_histogram)
}

/// Adds every known series to a family.
pub fn add_known_series<S: MetricLabels, M: Clone, C: MetricConstructor<M>>(
    family: Family<S, M, C>,
) -> Family<S, M, C> {
    for labels in S::known_sets() {
        drop(family.get_or_create(&labels));
    }
    family
}
