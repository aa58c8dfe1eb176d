//! The description of a metric for its reference page, derived from the type of the metric.

use std::fmt;
use std::hash::Hash;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{self, Counter};
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::{self, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// The value only increases. It starts at zero when the process starts.
    Counter,
    /// The value increases and decreases.
    Gauge,
    /// The metric counts observations by their size.
    Histogram,
    /// The value is always 1. The labels contain the information.
    Info,
}

impl MetricKind {
    /// The suffix of the name of a metric of this kind.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::Histogram => "",
        }
    }
}

impl fmt::Display for MetricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        })
    }
}

/// The description of one metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The full name.
    pub name: &'static str,
    /// The kind.
    pub kind: MetricKind,
    /// What the metric counts or measures, such as `seconds` or `pools`.
    pub unit: &'static str,
    /// The labels.
    pub labels: Vec<Label>,
    /// The meaning: a sentence without its period.
    pub help: &'static str,
}

/// A label and its possible values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The name.
    pub name: &'static str,
    /// The possible values.
    pub values: Values,
}

/// The possible values of a label. Their number is bounded in either case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Only these values. Each has a sentence with its meaning.
    Fixed(Vec<(&'static str, &'static str)>),
    /// The values that this text describes, in Markdown.
    Open(&'static str),
}

/// The type of the values of a label.
pub trait LabelValue: Clone + 'static {
    /// The possible values.
    fn values() -> Values;

    /// The values that are known before the first event. A label without any has an open set of values.
    fn known_values() -> Vec<Self> {
        Vec::new()
    }
}

/// A set of labels with a bounded number of values.
pub trait MetricLabels: EncodeLabelSet + Clone + fmt::Debug + Eq + Hash + Send + Sync + 'static {
    /// The labels, in their order.
    fn labels() -> Vec<Label>;

    /// The sets of [known values](LabelValue::known_values).
    fn known_sets() -> Vec<Self> {
        Vec::new()
    }
}

/// A metric with a description.
pub trait Describe: EncodeMetric + Clone + fmt::Debug + Send + Sync + 'static {
    /// The kind.
    const KIND: MetricKind;
    /// The labels, in their order.
    fn labels() -> Vec<Label> {
        Vec::new()
    }
}

impl<N, A> Describe for Counter<N, A>
where
    N: fmt::Debug + Send + Sync + 'static,
    A: counter::Atomic<N> + fmt::Debug + Send + Sync + 'static,
    Self: EncodeMetric,
{
    const KIND: MetricKind = MetricKind::Counter;
}

impl<N, A> Describe for Gauge<N, A>
where
    N: fmt::Debug + Send + Sync + 'static,
    A: gauge::Atomic<N> + fmt::Debug + Send + Sync + 'static,
    Self: EncodeMetric,
{
    const KIND: MetricKind = MetricKind::Gauge;
}

impl Describe for Histogram {
    const KIND: MetricKind = MetricKind::Histogram;
}

impl<S: MetricLabels, M: Describe, C> Describe for Family<S, M, C>
where
    C: MetricConstructor<M> + Clone + Send + Sync + 'static,
    Self: EncodeMetric + fmt::Debug,
{
    const KIND: MetricKind = M::KIND;
    fn labels() -> Vec<Label> {
        S::labels()
    }
}

/// An [`Info`] metric that can be cloned, as [`Describe`] requires.
#[derive(Clone, Debug)]
pub struct InfoMetric<S>(S);

impl<S: MetricLabels> InfoMetric<S> {
    /// An info metric with these labels.
    pub fn new(labels: S) -> Self {
        Self(labels)
    }
}

impl<S: MetricLabels> EncodeMetric for InfoMetric<S> {
    fn encode(&self, encoder: prometheus_client::encoding::MetricEncoder<'_>) -> fmt::Result {
        Info::new(self.0.clone()).encode(encoder)
    }
    fn metric_type(&self) -> prometheus_client::metrics::MetricType {
        prometheus_client::metrics::MetricType::Info
    }
}

impl<S: MetricLabels> Describe for InfoMetric<S> {
    const KIND: MetricKind = MetricKind::Info;
    fn labels() -> Vec<Label> {
        S::labels()
    }
}
