//! A model of the world around one pool, for stories of many passes.
//!
//! Real are the planner, the ledger, the paces and the names. Modelled, in a single thread and in an order that a list
//! of steps determines, are the API server ([`api`]), watches that lag ([`watch_cache`]), the shell that executes plans
//! ([`controller`], [`request`]), and everybody else who touches the same objects ([`world`], [`other_writers`]), those who remove
//! machines by name among them ([`removal_client`]), and the platform that mounts disks and strangers who attach them
//! ([`platform`], [`disk_steps`]). Every write is checked when it is committed ([`api::Api::create`] and its siblings,
//! [`retained_disks`]), and whatever happened, the world must settle.
//!
//! What the model leaves out: watches of one resource that disagree about the order of events (Kubernetes promises
//! one order), and concurrent requests of one leader (they are sent one after the other; answers get lost instead).

mod api;
mod controller;
mod convergence;
mod disk_steps;
mod exploration;
mod other_writers;
mod platform;
mod removal_client;
mod request;
mod retained_disks;
mod revisions;
mod step;
mod targeted_removals;
mod watch_cache;
mod world;

mod tests;
