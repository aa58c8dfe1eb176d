//! What a server counts about its connections.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::Registry;
use crate::{label_set, words};

/// Connections of a server, and what it refused before or instead of its router.
#[derive(Debug, Clone, Default)]
pub struct TrafficMetrics {
    connections: Gauge,
    refused: Family<RefusedLabels, Counter>,
}

words!(
    /// Why a request or a connection got no answer of the router.
    pub(super) Refusal {
        /// The TLS handshake failed, or took too long.
        Handshake => "handshake",
        /// The client has as many connections as one may have.
        TooManyConnections => "too_many_connections",
        /// So many requests are under way that this one was not begun.
        TooManyRequests => "too_many_requests",
        /// The request said that its body is longer than allowed.
        BodyTooLarge => "body_too_large",
        /// There was no answer in time.
        Deadline => "deadline",
        /// The program is wrong: the handler panicked.
        Panic => "panic",
    }
);

label_set!(RefusedLabels { reason: Refusal });

impl TrafficMetrics {
    /// Registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let refused = Family::default();
        for &reason in Refusal::ALL {
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
