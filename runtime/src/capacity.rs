//! Limits for the number of connections and requests, in total and for each client.
//!
//! A client is identified by its IP address. If slots are short, the server takes one from the client that
//! owes it bytes for the longest time: a slow client loses its slot before a fast one. Clients that connect
//! and send nothing, or announce a body and do not send it, therefore cannot hold up the API server.
//!
//! ```text
//! activity ────> connections: who loses a connection, and what is kept for clients that have proven themselves
//!    └─────────> requests:    who loses a request
//! ```

mod activity;
mod connections;
mod requests;

pub(crate) use activity::{ActiveRequest, ConnectionActivity};
pub(crate) use connections::{ConnectionSlot, ConnectionSlots, Eviction};
pub(crate) use requests::{RequestSlot, RequestSlots};

#[cfg(test)]
mod tests;
