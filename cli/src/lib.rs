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
//! From the lowest: `connection`, `dry_run`, `jsonpath`, `parameter`, `age`, `visible`, `screen`, `table`,
//! `exit`, `explain`; `format`, `client_config`; `cluster`; `resources`; `pool`, `leader`, `shown`; `phase`;
//! `observation`; `current_revision`, `candidates`, `installation`, `subresource`; `arguments`; `output`; the
//! commands; `run`.

mod age;
mod arguments;
mod candidates;
mod client_config;
mod cluster;
mod commands;
mod connection;
mod current_revision;
mod dry_run;
mod exit;
mod explain;
mod format;
mod installation;
mod jsonpath;
mod leader;
mod observation;
mod output;
mod parameter;
mod phase;
mod pool;
mod resources;
mod run;
mod screen;
mod shown;
mod subresource;
mod table;
#[cfg(test)]
mod testing;
mod visible;

pub use run::main;
