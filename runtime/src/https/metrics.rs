//! What a server counts about its connections.

use std::fmt::{self, Write as _};

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::{Label, Labels, Registry, Values};

/// Connections of a server, and what it refused before or instead of its router.
#[derive(Debug, Clone, Default)]
pub struct TrafficMetrics {
    connections: Gauge,
    refused: Family<RefusedLabels, Counter>,
}

/// Why a request or a connection got no answer of the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Refusal {
    /// The handshake failed or took too long.
    Handshake,
    /// The body is too long by its own word.
    BodyTooLarge,
    /// The handler was too slow.
    Deadline,
    /// The handler panicked.
    Panic,
}

impl Refusal {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Handshake, "handshake", "The TLS handshake failed, or took too long."),
        (Self::BodyTooLarge, "body_too_large", "The request said that its body is longer than allowed."),
        (Self::Deadline, "deadline", "There was no answer in time."),
        (Self::Panic, "panic", "The program is wrong: the handler panicked."),
    ];

    fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(refusal, _, _)| *refusal == self).map_or("other", |(_, word, _)| word)
    }
}

impl EncodeLabelValue for Refusal {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusedLabels {
    reason: Refusal,
}

impl Labels for RefusedLabels {
    fn labels() -> Vec<Label> {
        let words = Refusal::ALL.iter().map(|(_, word, meaning)| (*word, *meaning));
        vec![Label { name: "reason", values: Values::Words(words.collect()) }]
    }
}

impl TrafficMetrics {
    /// Registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let refused = Family::default();
        for (reason, _, _) in Refusal::ALL {
            // A series that is there from the start can be alerted on from its first count.
            drop(refused.get_or_create(&RefusedLabels { reason }));
        }
        Self {
            connections: registry.register(
                "vmpool_https_connections",
                "connections",
                "Connections to the HTTPS port, those in their handshake included",
                Gauge::default(),
            ),
            refused: registry.register(
                "vmpool_https_refusals_total",
                "refusals",
                "Handshakes that failed, and requests that were answered before or instead of their handler",
                refused,
            ),
        }
    }

    pub(super) fn refused(&self, reason: Refusal) {
        self.refused.get_or_create(&RefusedLabels { reason }).inc();
    }

    /// Counts a connection until the result is dropped.
    pub(super) fn connected(&self) -> Connected {
        self.connections.inc();
        Connected(self.connections.clone())
    }

    #[cfg(test)]
    pub(super) fn count(&self, reason: Refusal) -> u64 {
        self.refused.get_or_create(&RefusedLabels { reason }).get()
    }

    #[cfg(test)]
    pub(super) fn open(&self) -> i64 {
        self.connections.get()
    }
}

/// A connection that exists.
#[derive(Debug)]
pub(super) struct Connected(Gauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}
