//! The kubectl plugin of vmpool. It has no rights of its own: every request uses those of the user's
//! kubeconfig.
//!
//! ```text
//!  arguments ──> cluster: client, namespace ──> pool: which platform? ──> command::<Platform> ──> text, JSON or YAML
//! ```
//!
//! What a pool would do is computed by the controller's own code ([`vmpool_controller::preview_pool`]), and
//! what differs between platforms is behind [`vmpool_platforms::ClientPlatform`].
//!
//! # Layers
//!
//! From the lowest: `connection`, `age`, `visible`, `table`, `exit`, `explain`; `cluster`; `pool`,
//! `leader`; `observation`, `candidates`, `installation`, `subresource`; `arguments`; `output`; the commands; `run`.

mod age;
mod arguments;
mod candidates;
mod cluster;
mod commands;
mod connection;
mod exit;
mod explain;
mod installation;
mod leader;
mod observation;
mod output;
mod pool;
mod run;
mod subresource;
mod table;
mod visible;

pub use run::main;
