//! `/livez`, `/readyz` and `/metrics`, in the formats of Kubernetes components.

mod endpoints;
mod heartbeat;
mod server;

pub use endpoints::Health;
pub use heartbeat::Heartbeat;
pub use server::{HealthError, Server};

#[cfg(test)]
mod tests;
