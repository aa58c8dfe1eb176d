//! The explored configurations.
//!
//! `VMPOOL_EXPLORE=1000000` explores larger ones, up to that number of states for each. This needs an
//! optimized build:
//! `VMPOOL_EXPLORE=1000000 cargo test --profile optimized -p vmpool-engine --lib exploration -- --nocapture`.

use rstest::rstest;

use super::super::instances::TemplateDifference;
use super::{ExplorationConfig, ExplorationResult, ExploredUserActions, FreeDiskDeletion, explore_states};
use crate::model::{Naming, ScaleDownPolicy};
use crate::standby::WarmUp;

const NONE: ExploredUserActions = ExploredUserActions {
    scale: false,
    name: false,
    delete: false,
    revise: false,
    detach: false,
    protect: false,
    hook: false,
    fail: false,
    recycle: false,
    image: false,
    standby: false,
    end: false,
};

const SCALE: ExploredUserActions = ExploredUserActions { scale: true, ..NONE };

/// Users that remove machines, with and without targeted removals.
const REMOVE: ExploredUserActions = ExploredUserActions { scale: true, name: true, delete: true, ..NONE };

const REVISE: ExploredUserActions = ExploredUserActions { scale: true, revise: true, ..NONE };

/// Users that protect machines, change the number of replicas and change the template.
const PROTECT: ExploredUserActions = ExploredUserActions { protect: true, ..REVISE };

/// Owners of hooks, and users that change the number of replicas.
const HOOK: ExploredUserActions = ExploredUserActions { scale: true, hook: true, ..NONE };

/// Machines that fail in a pool with healing, and users that change the number of replicas.
const FAIL: ExploredUserActions = ExploredUserActions { scale: true, fail: true, ..NONE };
/// Users that request the replacement of machines, and change the number of replicas.
const RECYCLE: ExploredUserActions = ExploredUserActions { scale: true, recycle: true, ..NONE };

/// Users that change the content of images, and the number of replicas.
const IMAGE: ExploredUserActions = ExploredUserActions { scale: true, image: true, ..NONE };

/// Users that change the number of standby machines, start them, and change the number of replicas.
const STANDBY: ExploredUserActions = ExploredUserActions { scale: true, standby: true, ..NONE };

/// Users that detach machines and give them back.
const DETACH: ExploredUserActions = ExploredUserActions { scale: true, detach: true, ..NONE };

const END: ExploredUserActions = ExploredUserActions { scale: true, end: true, ..NONE };

/// A pool of at most one machine, one scale-up or scale-down, one exit of the leader or lost response, and
/// watches that can be one event behind at any time.
const SMALLEST: ExplorationConfig = ExplorationConfig {
    called: "",
    naming: Naming::Random,
    scale_down_policy: ScaleDownPolicy::NewestFirst,
    start: 0,
    machines: 1,
    keeps: None,
    standby: None,
    instances: None,
    users: SCALE,
    edits: Some(1),
    faults: 1,
    behind: 1,
};

const EXPLICIT: ExplorationConfig =
    ExplorationConfig { scale_down_policy: ScaleDownPolicy::Explicit, ..SMALLEST };

const ORDINAL: ExplorationConfig = ExplorationConfig {
    naming: Naming::Ordinal,
    scale_down_policy: ScaleDownPolicy::LowestOrdinalFirst,
    users: REMOVE,
    ..SMALLEST
};

/// As a pool of KubeVirt: machines with instances, finalizers and preserved storage.
const INSTANCES: ExplorationConfig = ExplorationConfig {
    scale_down_policy: ScaleDownPolicy::HighestOrdinalFirst,
    users: SCALE,
    instances: Some(TemplateDifference::Instances),
    ..ORDINAL
};

/// As `INSTANCES`, and a different template needs other storage.
const STORAGE: ExplorationConfig =
    ExplorationConfig { instances: Some(TemplateDifference::Storage), users: REVISE, ..INSTANCES };

const TWO: ExplorationConfig =
    ExplorationConfig { start: 1, machines: 2, edits: Some(2), behind: 0, ..SMALLEST };

const THREE: ExplorationConfig =
    ExplorationConfig { start: 2, machines: 3, edits: Some(1), behind: 0, ..SMALLEST };

/// Number of states to visit in each of the larger configurations; `None` if they are skipped.
#[expect(clippy::disallowed_methods, reason = "how far a test goes decides nothing in the engine")]
fn wanted() -> Option<usize> {
    std::env::var("VMPOOL_EXPLORE").ok()?.parse().ok()
}

fn explored(small: &ExplorationConfig, limit: usize) -> ExplorationResult {
    let count = explore_states(small, limit).unwrap_or_else(|story| panic!("{story}"));
    println!("{}: {count}", small.called);
    count
}

/// More states than any of the small configurations has.
const FEW: usize = 20_000;

#[rstest]
#[case(ExplorationConfig { called: "one machine comes", ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine goes", start: 1, ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine goes, its disk is kept", start: 1, keeps: Some(FreeDiskDeletion::AtOnce), behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine gets another template", start: 1, users: REVISE, behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine is protected", start: 1, users: PROTECT, edits: Some(2), faults: 0, behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine has a hook", start: 1, users: HOOK, edits: Some(3), faults: 0, behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine has a hook, with a fault", start: 1, users: HOOK, edits: Some(2), behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine fails", start: 1, users: FAIL, faults: 0, behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine fails twice", start: 1, users: ExploredUserActions { scale: false, ..FAIL }, edits: Some(2), faults: 0, behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine is replaced on request", start: 1, users: RECYCLE, edits: Some(2), faults: 0, behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine with a hook is replaced", start: 1, users: ExploredUserActions { hook: true, recycle: true, ..NONE }, edits: Some(3), faults: 0, behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine is replaced for its image", start: 1, users: IMAGE, behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine is replaced for its image, late", start: 1, users: IMAGE, edits: Some(2), faults: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine with a hook is replaced for its image", start: 1, users: ExploredUserActions { hook: true, image: true, ..NONE }, edits: Some(3), faults: 0, behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine is replaced for its image or for another template", start: 1, users: ExploredUserActions { image: true, ..REVISE }, edits: Some(2), faults: 0, behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one standby machine is activated", standby: Some(WarmUp::None), behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one standby machine is activated, late", standby: Some(WarmUp::None), faults: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one standby machine warms up", standby: Some(WarmUp::FirstReady), users: STANDBY, faults: 0, behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one standby machine with an ordinal is activated", standby: Some(WarmUp::None), users: SCALE, behind: 0, ..ORDINAL })]
#[case(ExplorationConfig { called: "one standby machine gets another template", start: 1, standby: Some(WarmUp::None), users: REVISE, faults: 0, behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine is removed by name", start: 1, users: REMOVE, behind: 0, ..EXPLICIT })]
#[case(ExplorationConfig { called: "one pool is deleted", start: 1, keeps: Some(FreeDiskDeletion::Never), users: END, behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine with an instance comes", ..INSTANCES })]
#[case(ExplorationConfig { called: "one machine with preserved storage goes and comes", start: 1, edits: Some(2), faults: 0, behind: 0, ..INSTANCES })]
#[case(ExplorationConfig { called: "one instance restarts for another template", start: 1, users: REVISE, behind: 0, ..INSTANCES })]
#[case(ExplorationConfig { called: "one machine gets other storage", start: 1, behind: 0, ..STORAGE })]
#[case(ExplorationConfig { called: "one machine is detached or returned", start: 1, users: DETACH, edits: Some(2), faults: 0, behind: 0, ..INSTANCES })]
#[case(ExplorationConfig { called: "one pool with finalizers is deleted", start: 1, users: END, behind: 0, ..INSTANCES })]
fn all_states_of_a_small_configuration_keep_the_invariants_and_converge(#[case] small: ExplorationConfig) {
    let count = explored(&small, FEW);
    assert!(count.complete, "{} is not so small: {count}", small.called);
    assert!(count.settled > 1, "{} never comes to rest by itself: {count}", small.called);
}

#[rstest]
#[case(ExplorationConfig { called: "one machine, three edits", edits: Some(3), ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine, kept disk, two edits", keeps: Some(FreeDiskDeletion::Never), edits: Some(2), ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine, kept disk that ends, two edits", keeps: Some(FreeDiskDeletion::AtOnce), edits: Some(2), ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine, template, two edits", start: 1, users: REVISE, edits: Some(2), ..SMALLEST })]
#[case(ExplorationConfig { called: "one machine, kept disk, pool deleted", keeps: Some(FreeDiskDeletion::Never), users: END, edits: Some(2), ..SMALLEST })]
#[case(ExplorationConfig { called: "two machines", ..TWO })]
#[case(ExplorationConfig { called: "two machines, late", edits: Some(1), behind: 1, ..TWO })]
#[case(ExplorationConfig { called: "two machines, kept disks", keeps: Some(FreeDiskDeletion::AtOnce), edits: Some(1), ..TWO })]
#[case(ExplorationConfig { called: "two machines, template", users: REVISE, ..TWO })]
#[case(ExplorationConfig { called: "two machines, protected", users: PROTECT, ..TWO })]
#[case(ExplorationConfig { called: "two machines, protected, late", start: 2, users: ExploredUserActions { revise: false, ..PROTECT }, behind: 1, ..TWO })]
#[case(ExplorationConfig { called: "two machines, hooks", start: 2, users: HOOK, edits: Some(3), ..TWO })]
#[case(ExplorationConfig { called: "two machines, hooks, template", start: 2, users: ExploredUserActions { revise: true, ..HOOK }, edits: Some(3), ..TWO })]
#[case(ExplorationConfig { called: "two machines, replaced", start: 2, users: RECYCLE, edits: Some(3), ..TWO })]
#[case(ExplorationConfig { called: "two machines, replaced, hooks, template", start: 2, users: ExploredUserActions { revise: true, hook: true, ..RECYCLE }, edits: Some(3), ..TWO })]
#[case(ExplorationConfig { called: "two machines, explicit, replaced, removed", start: 2, users: ExploredUserActions { recycle: true, ..REMOVE }, edits: Some(3), scale_down_policy: ScaleDownPolicy::Explicit, ..TWO })]
#[case(ExplorationConfig { called: "one instance, template, hook", start: 1, users: ExploredUserActions { revise: true, ..HOOK }, edits: Some(3), behind: 0, ..INSTANCES })]
#[case(ExplorationConfig { called: "one machine fails, with a fault", start: 1, users: ExploredUserActions { scale: false, ..FAIL }, behind: 0, ..SMALLEST })]
#[case(ExplorationConfig { called: "two machines, failing", start: 2, users: FAIL, ..TWO })]
#[case(ExplorationConfig { called: "two machines, failing, protected", start: 2, users: ExploredUserActions { protect: true, ..FAIL }, edits: Some(3), faults: 0, ..TWO })]
#[case(ExplorationConfig { called: "two machines, failing, hooks", start: 2, users: ExploredUserActions { fail: true, ..HOOK }, edits: Some(3), faults: 0, ..TWO })]
#[case(ExplorationConfig { called: "two machines, images", start: 2, users: IMAGE, edits: Some(3), ..TWO })]
#[case(ExplorationConfig { called: "two machines, images, template, hooks", start: 2, users: ExploredUserActions { image: true, revise: true, ..HOOK }, edits: Some(3), ..TWO })]
#[case(ExplorationConfig { called: "two machines, images, protected", start: 2, users: ExploredUserActions { image: true, ..PROTECT }, faults: 0, ..TWO })]
#[case(ExplorationConfig { called: "two machines, images, standby", standby: Some(WarmUp::None), users: ExploredUserActions { image: true, ..STANDBY }, ..TWO })]
#[case(ExplorationConfig { called: "two machines, standby", standby: Some(WarmUp::FirstReady), users: STANDBY, edits: Some(3), ..TWO })]
#[case(ExplorationConfig { called: "two machines, standby, late", standby: Some(WarmUp::None), users: STANDBY, behind: 1, ..TWO })]
#[case(ExplorationConfig { called: "two machines, standby, removed", standby: Some(WarmUp::None), users: ExploredUserActions { standby: true, ..REMOVE }, ..TWO })]
#[case(ExplorationConfig { called: "two machines, standby, template, protected", standby: Some(WarmUp::None), users: ExploredUserActions { standby: true, ..PROTECT }, ..TWO })]
#[case(ExplorationConfig { called: "two machines, removed", users: REMOVE, ..TWO })]
#[case(ExplorationConfig { called: "two machines, explicit", users: REMOVE, scale_down_policy: ScaleDownPolicy::Explicit, ..TWO })]
#[case(ExplorationConfig { called: "two machines, by ordinal", start: 1, machines: 2, edits: Some(2), behind: 0, ..ORDINAL })]
#[case(ExplorationConfig { called: "one machine with an instance, late, two edits", edits: Some(2), ..INSTANCES })]
#[case(ExplorationConfig { called: "one instance, template, two edits", start: 1, users: REVISE, edits: Some(2), ..INSTANCES })]
#[case(ExplorationConfig { called: "one machine with an instance, protected, two edits", start: 1, users: PROTECT, edits: Some(2), behind: 0, ..INSTANCES })]
#[case(ExplorationConfig { called: "one machine with an instance, detached or returned, two edits", start: 1, users: DETACH, edits: Some(2), ..INSTANCES })]
#[case(ExplorationConfig { called: "one machine with an instance, removed, two edits", start: 1, users: REMOVE, edits: Some(2), ..INSTANCES })]
#[case(ExplorationConfig { called: "one machine with an instance, pool deleted, two edits", users: END, edits: Some(2), ..INSTANCES })]
#[case(ExplorationConfig { called: "one machine, other storage, two edits", start: 1, edits: Some(2), ..STORAGE })]
#[case(ExplorationConfig { called: "two machines with instances", start: 1, machines: 2, edits: Some(2), behind: 0, ..INSTANCES })]
#[case(ExplorationConfig { called: "two instances, template", start: 2, machines: 2, users: REVISE, behind: 0, ..INSTANCES })]
#[case(ExplorationConfig { called: "two machines with instances, removed", start: 2, machines: 2, users: REMOVE, behind: 0, ..INSTANCES })]
#[case(ExplorationConfig { called: "two machines, other storage", start: 2, machines: 2, behind: 0, ..STORAGE })]
#[case(ExplorationConfig { called: "three machines", ..THREE })]
#[case(ExplorationConfig { called: "three machines, late", behind: 1, ..THREE })]
#[case(ExplorationConfig { called: "three machines, template", users: REVISE, ..THREE })]
#[case(ExplorationConfig { called: "three machines, removed", users: REMOVE, ..THREE })]
#[case(ExplorationConfig { called: "three machines, kept disks", keeps: Some(FreeDiskDeletion::AtOnce), ..THREE })]
fn larger_worlds_too(#[case] small: ExplorationConfig) {
    if let Some(limit) = wanted() {
        explored(&small, limit);
    }
}
