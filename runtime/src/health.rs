//! `/livez`, `/readyz` and `/metrics`, in the formats of Kubernetes components.

mod endpoints;
mod heartbeat;
mod metrics_access;
mod server;
mod unhealthy;

pub use endpoints::HealthEndpoints;
pub use heartbeat::Heartbeat;
pub use metrics_access::MetricsAccess;
pub use server::{HealthError, HealthServer};
pub use unhealthy::Unhealthy;

#[cfg(test)]
mod tests;
