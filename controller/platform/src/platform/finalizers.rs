//! Finalizers of the controller on pools and machines.

use serde_json::Value;

/// Adds and removes the finalizer of the controller. All patches are JSON patches that fail if the object has
/// changed, and none changes another finalizer.
pub trait Finalizers<Pool, Machine>: Send + Sync + 'static {
    /// Adds it to a pool; `None` if the pool has it.
    fn add_to_pool(pool: &Pool) -> Option<Value>;

    /// Removes it from a pool; `None` if the pool lacks it.
    fn remove_from_pool(pool: &Pool) -> Option<Value>;

    /// Whether the deletion of a pool keeps the objects that the pool owns: the garbage collector removes the
    /// pool from their owners.
    fn keeps_dependents(pool: &Pool) -> bool;

    /// Adds it to a machine; `None` if the machine has it.
    fn add(machine: &Machine) -> Option<Value>;

    /// Removes it from a machine; `None` if the machine lacks it.
    fn remove(machine: &Machine) -> Option<Value>;

    /// Removes the finalizer by which the garbage collector deletes the dependents of a machine first; `None`
    /// if the machine has another one as well, or lacks it.
    fn end_deletion(machine: &Machine) -> Option<Value>;
}

/// For platforms without a finalizer of the controller.
#[derive(Clone, Copy, Debug)]
pub struct NoFinalizers;

impl<Pool, Machine> Finalizers<Pool, Machine> for NoFinalizers {
    fn add_to_pool(_: &Pool) -> Option<Value> {
        None
    }
    fn remove_from_pool(_: &Pool) -> Option<Value> {
        None
    }
    fn keeps_dependents(_: &Pool) -> bool {
        false
    }
    fn add(_: &Machine) -> Option<Value> {
        None
    }
    fn remove(_: &Machine) -> Option<Value> {
        None
    }
    fn end_deletion(_: &Machine) -> Option<Value> {
        None
    }
}
