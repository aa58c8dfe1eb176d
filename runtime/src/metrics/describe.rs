//! What a reader needs to know about a metric, taken from its type.

use std::fmt;
use std::hash::Hash;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{self, Counter};
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::{self, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, and starts at zero with the process.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It counts observations by their size.
    Histogram,
    /// It is always 1: what it tells is in its labels.
    Info,
}

impl Kind {
    /// The end of the name of such a metric.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::Histogram => "",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        })
    }
}

/// One metric, for the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its whole name.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// What it counts or measures, such as `seconds` or `pools`.
    pub unit: &'static str,
    /// Its labels.
    pub labels: Vec<Label>,
    /// What it means: a sentence without its full stop.
    pub help: &'static str,
}

/// A label, with the values that it can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub values: Values,
}

/// The values that a label can have. They are bounded in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// These words, each with a sentence that says what it means.
    Words(Vec<(&'static str, &'static str)>),
    /// What this says, in Markdown.
    Open(&'static str),
}

/// The type of a label.
pub trait Word: Copy + 'static {
    /// The values that it can have.
    fn values() -> Values;
}

/// A set of labels whose values are bounded.
pub trait Labels: EncodeLabelSet + Clone + fmt::Debug + Eq + Hash + Send + Sync + 'static {
    /// The labels, in their order.
    fn labels() -> Vec<Label>;
}

/// A metric that can say what it is.
pub trait Describe: EncodeMetric + Clone + fmt::Debug + Send + Sync + 'static {
    /// How it behaves.
    const KIND: Kind;
    /// Its labels, in their order.
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
    const KIND: Kind = Kind::Counter;
}

impl<N, A> Describe for Gauge<N, A>
where
    N: fmt::Debug + Send + Sync + 'static,
    A: gauge::Atomic<N> + fmt::Debug + Send + Sync + 'static,
    Self: EncodeMetric,
{
    const KIND: Kind = Kind::Gauge;
}

impl Describe for Histogram {
    const KIND: Kind = Kind::Histogram;
}

impl<S: Labels, M: Describe, C> Describe for Family<S, M, C>
where
    C: MetricConstructor<M> + Clone + Send + Sync + 'static,
    Self: EncodeMetric + fmt::Debug,
{
    const KIND: Kind = M::KIND;
    fn labels() -> Vec<Label> {
        S::labels()
    }
}

/// An [`Info`] that can be kept beside its registration, as the other metrics can.
#[derive(Clone, Debug)]
pub struct About<S>(S);

impl<S: Labels> About<S> {
    /// Tells `labels`.
    pub fn new(labels: S) -> Self {
        Self(labels)
    }
}

impl<S: Labels> EncodeMetric for About<S> {
    fn encode(&self, encoder: prometheus_client::encoding::MetricEncoder<'_>) -> fmt::Result {
        Info::new(self.0.clone()).encode(encoder)
    }
    fn metric_type(&self) -> prometheus_client::metrics::MetricType {
        prometheus_client::metrics::MetricType::Info
    }
}

impl<S: Labels> Describe for About<S> {
    const KIND: Kind = Kind::Info;
    fn labels() -> Vec<Label> {
        S::labels()
    }
}
