//! Conditions that scenarios wait for: named predicates over a pool and its objects.

use std::fmt;
use std::sync::Arc;

use vmpool_api::annotations;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::recorder::RecordedState;

/// A pool and its namespace at one moment.
#[derive(Clone, Copy)]
pub struct PoolView<'a> {
    /// All objects of the namespace.
    pub state: &'a RecordedState,
    /// The pool's UID.
    pub uid: &'a str,
}

impl<'a> PoolView<'a> {
    /// The pool, if it exists.
    pub fn pool(self) -> Option<&'a JsonObject> {
        self.state.get(TestedKind::Pool, self.uid)
    }

    /// The active machines of the pool, including terminating ones, ordered by name.
    pub fn machines(self) -> Vec<&'a JsonObject> {
        let mut machines = self.state.machines_of_pool(self.uid);
        machines.retain(|machine| !machine.is_standby());
        machines
    }

    /// The standby machines of the pool that are not terminating, ordered by name.
    pub fn standby_machines(self) -> Vec<&'a JsonObject> {
        let mut machines = self.state.machines_of_pool(self.uid);
        machines.retain(|machine| machine.is_standby() && !machine.is_terminating());
        machines
    }

    /// The active machines of the pool that are not terminating.
    pub fn live(self) -> impl Iterator<Item = &'a JsonObject> {
        self.machines().into_iter().filter(|machine| !machine.is_terminating())
    }

    /// The disks of the pool and its machines.
    pub fn disks(self) -> Vec<&'a JsonObject> {
        let mut disks: Vec<_> = self.state.owned_by(TestedKind::Disk, self.uid).collect();
        for machine in self.state.machines_of_pool(self.uid) {
            disks.extend(self.state.owned_by(TestedKind::Disk, machine.uid()));
        }
        disks
    }

    /// Events for the pool.
    pub fn events(self) -> impl Iterator<Item = &'a JsonObject> {
        let uid = self.uid;
        self.state.all(TestedKind::Event).filter(move |event| event.text("/involvedObject/uid") == uid)
    }
}

/// A predicate with a text for failures.
#[derive(Clone)]
pub struct PoolPredicate {
    text: String,
    holds: Arc<dyn Fn(PoolView<'_>) -> bool + Send + Sync>,
}

impl PoolPredicate {
    /// A custom condition. `text` completes "expected ...".
    pub fn new(
        text: impl Into<String>,
        holds: impl Fn(PoolView<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { text: text.into(), holds: Arc::new(holds) }
    }

    /// Whether the condition holds.
    pub fn holds(&self, view: PoolView<'_>) -> bool {
        (self.holds)(view)
    }

    /// Both conditions at the same moment.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let text = format!("{self} and {other}");
        Self::new(text, move |view| self.holds(view) && other.holds(view))
    }
}

impl fmt::Display for PoolPredicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The negation of a condition.
pub fn negate_condition(condition: PoolPredicate) -> PoolPredicate {
    PoolPredicate::new(format!("not {condition}"), move |view| !condition.holds(view))
}

/// The pool exists.
pub fn pool_exists() -> PoolPredicate {
    PoolPredicate::new("the pool", |view| view.pool().is_some())
}

/// `status.readyReplicas` and `status.replicas` are both `count` for the current generation, so no machine is
/// starting, surplus or terminating. The machines must agree, because a status can be older than the
/// machines: where one was just replaced, the status still counts the former one, and a status of a KubeVirt
/// pool names no generation.
pub fn ready_replicas(count: i64) -> PoolPredicate {
    PoolPredicate::new(format!("exactly {count} replicas, all ready"), move |view| {
        let machines = view.machines();
        view.pool().is_some_and(|pool| {
            let counts_current_spec = pool.is_kubevirt()
                || pool.number("/status/observedGeneration") == pool.number("/metadata/generation");
            counts_current_spec
                && i64::try_from(machines.len()) == Ok(count)
                && machines.iter().all(|machine| machine.is_running())
                && pool.number("/status/readyReplicas") == Some(count)
                && pool.number("/status/replicas") == Some(count)
        })
    })
}

/// This number of machines is not terminating, all of them run, and `status.readyReplicas` says so. Others
/// may be terminating.
pub fn live_ready_replicas(count: i64) -> PoolPredicate {
    PoolPredicate::new(format!("{count} replicas that stay, all ready"), move |view| {
        let ready = view.pool().and_then(|pool| pool.number("/status/readyReplicas"));
        i64::try_from(view.live().count()) == Ok(count)
            && view.live().all(JsonObject::is_running)
            && ready == Some(count)
    })
}

/// `spec.replicas` has this value.
pub fn desired_replicas(replicas: i64) -> PoolPredicate {
    PoolPredicate::new(format!("spec.replicas of {replicas}"), move |view| {
        view.pool().is_some_and(|pool| pool.number("/spec/replicas") == Some(replicas))
    })
}

/// A number in the pool's status, such as `replicas`, has this value.
pub fn status_number(field: &str, value: i64) -> PoolPredicate {
    let pointer = format!("/status/{field}");
    PoolPredicate::new(format!("status.{field} of {value}"), move |view| {
        view.pool().is_some_and(|pool| pool.number(&pointer) == Some(value))
    })
}

/// The pool's condition of this type has this status (`True`, `False`) and reason.
pub fn pool_condition(condition_type: &str, status: &str, reason: &str) -> PoolPredicate {
    let (condition_type, status, reason) = (condition_type.to_owned(), status.to_owned(), reason.to_owned());
    PoolPredicate::new(format!("condition {condition_type}={status}/{reason}"), move |view| {
        let found = view.pool().and_then(|pool| pool.condition(&condition_type));
        found.is_some_and(|found| found["status"] == status.as_str() && found["reason"] == reason.as_str())
    })
}

/// The pool is ready and waits for nothing, and its last creates, deletes and updates succeeded.
pub fn pool_is_ready() -> PoolPredicate {
    PoolPredicate::new("a pool that is ready", |view| {
        let status = |condition_type: &str| Some(view.pool()?.condition(condition_type)?["status"].clone());
        let has =
            |condition_type: &str, expected: &str| status(condition_type).is_some_and(|is| is == expected);
        has("Ready", "True")
            && has("Reconciling", "False")
            && has("Stalled", "False")
            && status("ReplicaFailure").is_none()
    })
}

/// The pool has no condition of this type.
pub fn no_condition(condition_type: &str) -> PoolPredicate {
    let condition_type = condition_type.to_owned();
    PoolPredicate::new(format!("no condition {condition_type}"), move |view| {
        view.pool().is_some_and(|pool| pool.condition(&condition_type).is_none())
    })
}

/// The pool has this number of machines, including terminating ones.
pub fn machine_count(count: usize) -> PoolPredicate {
    PoolPredicate::new(format!("{count} machines"), move |view| view.machines().len() == count)
}

/// The pool has this number of machines that are not terminating.
pub fn live_machine_count(count: usize) -> PoolPredicate {
    PoolPredicate::new(format!("{count} machines that are not terminating"), move |view| {
        view.live().count() == count
    })
}

/// The pool has this number of standby machines that are not terminating. All of them are stopped, and their
/// label says so.
pub fn stopped_standby_machines(count: usize) -> PoolPredicate {
    PoolPredicate::new(format!("{count} stopped standby machines"), move |view| {
        let machines = view.standby_machines();
        let is_stopped = |machine: &&JsonObject| {
            machine.label(annotations::STANDBY) == Some("stopped") && !machine.is_running()
        };
        machines.len() == count && machines.iter().all(is_stopped)
    })
}

/// This number of the pool's machines is terminating.
pub fn terminating_machine_count(count: usize) -> PoolPredicate {
    PoolPredicate::new(format!("{count} terminating machines"), move |view| {
        view.machines().iter().filter(|machine| machine.is_terminating()).count() == count
    })
}

/// This number of the pool's machines is in a phase, without terminating ones.
pub fn in_phase(phase: &str, count: usize) -> PoolPredicate {
    let phase = phase.to_owned();
    PoolPredicate::new(format!("{count} machines in phase {phase}"), move |view| {
        view.live().filter(|machine| machine.phase() == phase).count() == count
    })
}

/// The pool and its machines have this number of disks.
pub fn disk_count(count: usize) -> PoolPredicate {
    PoolPredicate::new(format!("{count} disks"), move |view| view.disks().len() == count)
}

/// There is an event with this reason for the pool.
pub fn pool_event(reason: &str) -> PoolPredicate {
    let reason = reason.to_owned();
    PoolPredicate::new(format!("an event {reason}"), move |view| {
        view.events().any(|event| event.text("/reason") == reason)
    })
}

/// A machine with this UID exists, terminating or not.
pub fn has_machine(machine: &JsonObject) -> PoolPredicate {
    let (uid, name) = (machine.uid().to_owned(), machine.name().to_owned());
    PoolPredicate::new(format!("machine {name}"), move |view| {
        view.state.get(TestedKind::Machine, &uid).is_some()
    })
}

/// The guest of the machine with this UID does not run, and the machine exists.
pub fn guest_is_stopped(machine: &JsonObject) -> PoolPredicate {
    let (uid, name) = (machine.uid().to_owned(), machine.name().to_owned());
    PoolPredicate::new(format!("a stopped machine {name}"), move |view| {
        view.state.get(TestedKind::Machine, &uid).is_some_and(|machine| !machine.is_running())
    })
}

/// All machines that are not terminating have this value of a label.
pub fn machines_labeled(key: &str, value: Option<&'static str>) -> PoolPredicate {
    let key = key.to_owned();
    PoolPredicate::new(format!("machines with label {key} of {value:?}"), move |view| {
        view.live().all(|machine| machine.label(&key) == value)
    })
}

/// All machines that are not terminating have this memory in their spec.
pub fn machines_with_memory(size: &'static str) -> PoolPredicate {
    PoolPredicate::new(format!("machines with {size} of memory"), move |view| {
        view.live().all(|machine| machine.memory() == size)
    })
}

/// The machine with this UID is in a phase.
pub fn machine_phase(machine: &JsonObject, phase: &str) -> PoolPredicate {
    let (uid, name, phase) = (machine.uid().to_owned(), machine.name().to_owned(), phase.to_owned());
    PoolPredicate::new(format!("machine {name} in phase {phase}"), move |view| {
        view.state.get(TestedKind::Machine, &uid).is_some_and(|machine| machine.phase() == phase)
    })
}
