//! Metrics of connections and of requests that do not reach the router.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::family_with_series;
use crate::{label_set, label_values, metric_table};

metric_table!(
    /// Connections of a server, and the connections and requests that it refused.
    #[derive(Debug, Clone, Default)]
    pub struct TrafficMetrics {
        /// Connections to the HTTPS port, including those in their handshake.
        connections: Gauge = "vmpool_https_connections" in "connections";
        /// Failed handshakes, and requests that the server answered without their handler.
        refused: Family<RefusedLabels, Counter> = "vmpool_https_refusals_total" in "refusals",
            family_with_series();
    }
);

label_values!(
    /// Why a connection or request got no response from the router.
    pub(super) Refusal {
        /// The TLS handshake failed or exceeded its deadline.
        Handshake => "handshake",
        /// The client has the maximum number of connections.
        TooManyConnections => "too_many_connections",
        /// The maximum number of requests is in flight.
        TooManyRequests => "too_many_requests",
        /// The declared length of the body exceeds the limit.
        BodyTooLarge => "body_too_large",
        /// The body arrived too slowly.
        SlowBody => "slow_body",
        /// A slow client or an idle connection lost its slot to another client.
        Evicted => "evicted",
        /// The handler exceeded the deadline.
        Deadline => "deadline",
        /// The handler panicked, which is a bug.
        Panic => "panic",
    }
);

label_set!(RefusedLabels { reason: Refusal });

impl TrafficMetrics {
    pub(super) fn refused(&self, reason: Refusal) {
        self.refused.get_or_create(&RefusedLabels { reason }).inc();
    }

    /// Counts a connection as open until the result is dropped.
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

/// An open connection.
#[derive(Debug)]
pub(super) struct Connected(Gauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}
