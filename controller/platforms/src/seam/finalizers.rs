//! Finalizers of the controller on pools and machines.

use serde_json::Value;

use super::Platform;

/// Adds and removes the finalizer of the controller. All patches are JSON patches that fail if the object has changed, and
/// none changes another finalizer.
pub trait Finalizers<P: Platform>: Send + Sync + 'static {
    /// Adds it to a pool; `None` if the pool has it.
    fn add_to_pool(pool: &P::Pool) -> Option<Value>;

    /// Removes it from a pool; `None` if the pool lacks it.
    fn remove_from_pool(pool: &P::Pool) -> Option<Value>;

    /// Adds it to a machine; `None` if the machine has it.
    fn add(machine: &P::Machine) -> Option<Value>;

    /// Removes it from a machine; `None` if the machine lacks it.
    fn remove(machine: &P::Machine) -> Option<Value>;
}

/// For platforms without a finalizer of the controller.
#[derive(Clone, Copy, Debug)]
pub struct NoFinalizers;

impl<P: Platform> Finalizers<P> for NoFinalizers {
    fn add_to_pool(_: &P::Pool) -> Option<Value> {
        None
    }
    fn remove_from_pool(_: &P::Pool) -> Option<Value> {
        None
    }
    fn add(_: &P::Machine) -> Option<Value> {
        None
    }
    fn remove(_: &P::Machine) -> Option<Value> {
        None
    }
}
