//! Simulations of many passes over one pool.
//!
//! The simulations run the real planner, ledger, backoff and names. They model the API server ([`api`]),
//! watches with delays ([`watch_cache`]), the controller that applies plans ([`controller`], [`request`]),
//! other clients of the same objects ([`world`], [`other_writers`]), admission policies
//! ([`admission_policy`]), clients of targeted removals ([`removal_client`]), and the platform that mounts
//! disks ([`platform`], [`disk_steps`]) or has instances, finalizers and preserved storage ([`instances`]).
//! [`hooks`] has the owners of hooks, and checks that machines drain. [`recycling`] checks the replacement of
//! machines, [`provisioning`] the limit on machines that have not been ready yet, and [`healing`] the
//! replacement of machines that are not ready. [`standby`] has standby machines. The model runs in one
//! thread, in an order that a list of steps determines. It checks the invariants at every committed write
//! ([`api::Api::create`] and similar functions, [`retained_disks`]). After every sequence of steps the state
//! must converge.
//!
//! The model does not contain watches of one resource that disagree about the order of events, because
//! Kubernetes guarantees one order. It does not contain concurrent requests of one leader: they are sent in
//! sequence, and responses are lost instead.

mod admission_policy;
mod api;
mod controller;
mod convergence;
mod disk_steps;
mod exploration;
mod healing;
mod hooks;
mod images;
mod instances;
mod other_writers;
mod platform;
mod provisioning;
mod recycling;
mod removal_client;
mod request;
mod retained_disks;
mod revisions;
mod standby;
mod step;
mod targeted_removals;
mod watch_cache;
mod world;

mod tests;
