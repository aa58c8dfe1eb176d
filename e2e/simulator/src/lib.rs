//! The platform simulator: it plays the controllers and the hypervisor of a virtualization platform through
//! the Kubernetes API, so that controllers of virtual machines can be tested without a hypervisor.
//!
//! * The program `vmpool-simulator` runs beside any API server that has the platform's CRDs.
//!   `docs/simulator.md` describes it and its [`knobs`], with which tests inject failures of the platform.
//! * [`world`] (the Deckhouse Virtualization Platform) and [`mod@kubevirt`] (KubeVirt with CDI) are its
//!   models. They are pure: a program passes observations and the time to them, and performs the writes that
//!   they return.
//! * [`shell`] connects the models to an API server.
//!
//! ```
//! use jiff::Timestamp;
//! use vmpool_simulator::duration::Delay;
//! use vmpool_simulator::world::{DvpModel, DvpModelEvent, SimulatorSettings};
//!
//! let mut world = DvpModel::new(SimulatorSettings {
//!     start_delay: Delay::NONE,
//!     stop_delay: Delay::NONE,
//!     provisioning_delay: Delay::NONE,
//!     evaluation_delay: Delay::NONE,
//!     hot_plug_delay: Delay::NONE,
//!     nodes: vec!["node-1".to_owned()],
//!     pods: false,
//!     seed: 7,
//! });
//! // The model only observes until all objects were listed. Then it returns writes that are due.
//! world.observe(DvpModelEvent::Synced, Timestamp::UNIX_EPOCH);
//! assert!(world.step(Timestamp::UNIX_EPOCH).is_empty());
//! assert_eq!(world.next_due(), None);
//! ```

pub mod cli;
pub mod duration;
pub mod knobs;
pub mod kubevirt;
pub mod objects;
pub mod quantity;
pub mod shared;
pub mod shell;
pub mod world;
