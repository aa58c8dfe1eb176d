//! A model of the world around one pool, for stories of many passes.
//!
//! Real are the planner, the ledger, the paces and the names. Modelled, in a single thread and in an order that a list
//! of steps determines, are the API server ([`api`]), watches that lag ([`view`]), the shell that executes plans
//! ([`shell`], [`request`]), and everybody else who touches the same objects ([`world`], [`hands`]), those who remove
//! machines by name among them ([`caller`]), and the platform that mounts disks and strangers who attach them
//! ([`platform`], [`disks`]). Every write is checked when it is committed ([`api::Api::create`] and its siblings,
//! [`kept`]), and whatever happened, the world must settle.
//!
//! What the model leaves out: watches of one resource that disagree about the order of events (Kubernetes promises
//! one order), and concurrent requests of one leader (they are sent one after the other; answers get lost instead).

mod api;
mod caller;
mod disks;
mod exploration;
mod hands;
mod kept;
mod named;
mod platform;
mod request;
mod revisions;
mod settle;
mod shell;
mod step;
mod view;
mod world;

mod tests;
