//! Random schedules.

use serde_json::{Value, json};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_runtime::testing::SeededRandom;

use crate::admission_policy::AdmissionPolicyEffect;
use crate::claim_client::ClaimParameters;
use crate::manifest_kubevirt::TypeSource;
use crate::operation::{RemovalOperation, ScheduleOperation};
use crate::operation_autoscaler::{AutoscalerOperation, AutoscalerParameters, FreeParameter};
use crate::operation_health::HealthOperation;
use crate::operation_image::ImageOperation;
use crate::operation_kubevirt::KubeVirtOperation;
use crate::operation_protection::ProtectionOperation;
use crate::operation_recycling::RecyclingOperation;
use crate::operation_standby::StandbyOperation;
use crate::operation_tenant::{Forgery, TenantOperation};
use crate::schedule::Schedule;
use crate::webhook::WebhookState;
use crate::world::{SimulatedFeatures, SimulatedWorldOptions};

/// Of 1000 schedules, this many pause the leader until another one has replaced it, in addition to their
/// other faults.
const LEADER_REPLACED: u64 = 300;
/// Length of that pause in milliseconds. It is longer than a lease plus the time until another replica takes
/// the lease.
const LEADER_PAUSE: (u64, u64) = (19_000, 40_000);

/// Of 1000 schedules, this many have a period in which the watches of machines, disks or both deliver no
/// events.
const WITHOUT_WATCH_EVENTS: u64 = 250;
/// The same for schedules with disk images.
const IMAGES_WITHOUT_WATCH_EVENTS: u64 = 700;

const POLICIES: [&str; 3] = ["NewestFirst", "OldestFirst", "Explicit"];

/// The sort policies of KubeVirt, and the strategies without one.
const KUBEVIRT_POLICIES: [&str; 7] =
    ["Newest", "Oldest", "AscendingOrder", "DescendingOrder", "Random", "Opportunistic", "Unmanaged"];

/// Of 1000 operations on a KubeVirt pool, this many are of those that only KubeVirt has.
const KUBEVIRT_OPERATIONS: u64 = 250;

/// Of 1000 operations, this many are about protection and claims.
const PROTECTION_OPERATIONS: u64 = 250;

/// Of 1000 schedules, this many have policies and clients that take objects away from the pool.
const WITH_TAKEN_OBJECTS: u64 = 200;

/// Of 1000 schedules of KubeVirt, this many have disk images.
const WITH_IMAGES: u64 = 400;
/// Of 1000 operations of such a schedule, this many are about images and wrappers.
const IMAGE_OPERATIONS: u64 = 500;

/// Of 1000 schedules, this many have a period with slow admission webhooks of other owners.
const WITH_SLOW_ADMISSION: u64 = 250;

/// Of 1000 schedules with images, this many have another namespace that uses them.
const WITH_GUESTS: u64 = 500;

/// Of 1000 schedules with images, this many have images that lose labels, or what shows that their data is
/// complete.
const WITH_LOST_EVIDENCE: u64 = 500;

/// Of 1000 schedules with images, this many have imports and clones that fail, and machines of wrappers that
/// lose their disks.
const WITH_FAILED_TRANSFERS: u64 = 500;
/// Of 1000 schedules with images, this many have users who remove the finalizer of an image that is being
/// deleted.
const WITH_REMOVED_FINALIZERS: u64 = 250;
/// Of 1000 schedules with images, this many begin in a cluster without snapshots.
const WITHOUT_SNAPSHOTS: u64 = 150;

/// Of 1000 schedules of KubeVirt, this many delete the preference and create it again.
const WITH_LOST_PREFERENCE: u64 = 400;

/// Of 1000 schedules of KubeVirt, this many have a template that names an instance type instead of cores and
/// memory.
const WITH_INSTANCETYPES: u64 = 350;
/// Share of those in which the template takes its name from a claim, per mille.
const FROM_CLAIM: u64 = 300;

/// Of 1000 schedules, this many have a pool with a limit on provisioning.
const WITH_PROVISIONING_LIMIT: u64 = 300;
/// Of 1000 schedules, this many have a pool with standby machines.
const WITH_STANDBY: u64 = 250;
/// In these, this many of 1000 operations concern standby machines.
const STANDBY_OPERATIONS: u64 = 150;

/// Of 1000 schedules without images, this many have a pool with healing, and lose nodes.
const WITH_LOST_NODES: u64 = 250;
/// Of 1000 schedules, this many recycle machines.
const WITH_RECYCLING: u64 = 250;
/// Of 1000 schedules, this many have a controller whose clock is ahead by more than machines may be old.
const WITH_FAST_CLOCK: u64 = 100;
/// How far it is ahead, in seconds. The end of a protection, which the controller sets by its clock, must not
/// be later than the time in which a world settles.
const FAST_CLOCK: i64 = 620;
/// Length of the pause in milliseconds after which machines are too old.
const LIFETIME: u64 = 601_000;

/// Of 1000 schedules without disk images, this many have a pool whose image gets other content.
const WITH_IMAGE_REFRESH: u64 = 150;
/// Length of the pause in milliseconds after which the content of an image counts.
const SETTLING: u64 = 61_000;

/// Of 1000 schedules, this many have an autoscaler.
const WITH_AUTOSCALER: u64 = 200;

/// Of 1000 schedules, this many have a tenant of another namespace that forges references to the pool.
const WITH_TENANT: u64 = 250;

/// The names of images. There are few, so that operations meet.
const IMAGES: [&str; 2] = ["debian", "fedora"];
const WRAPPERS: [&str; 3] = ["one", "two", "three"];
const MACHINES: [&str; 2] = ["own-a", "own-b"];
/// The names of wrappers and machines in the other namespace.
const GUEST_NAMES: [&str; 3] = ["guest-a", "guest-b", "guest-c"];

/// The ids of the callers. There are fewer than machines, so that callers renew and release, and more than
/// one.
const IDS: [&str; 4] = ["a", "b", "c", "d"];

const RUN_STRATEGIES: [&str; 4] = ["Halted", "Always", "Manual", "RerunOnFailure"];

impl Schedule {
    /// The schedule of a seed.
    pub fn random(platform: TestedPlatform, seed: u64) -> Self {
        let random = SeededRandom::new(seed ^ 0x0dd5);
        let former_leader_resumed = random.per_mille(LEADER_REPLACED);
        let named = random.per_mille(450);
        let autoscales = has_autoscaler(seed);
        let options = SimulatedWorldOptions {
            platform,
            seed,
            controllers: if former_leader_resumed || random.per_mille(200) { 2 } else { 1 },
            // An autoscaler removes machines of Explicit pools by name.
            apiservers: if named { one_or_two(&random) } else { usize::from(autoscales) },
            webhook: random.per_mille(600),
            latency: random.number(1..=60),
            write_faults_per_mille: if random.per_mille(600) { random.number(0..=150) } else { 0 },
            read_faults_per_mille: if random.per_mille(300) { random.number(0..=150) } else { 0 },
            page: if random.per_mille(300) { one_or_two(&random) } else { 0 },
            old: which(&random),
            images: has_images(platform, seed),
            instancetypes: instancetypes(platform, seed),
            provisioning_limit: provisioning_limit(seed),
            standby: initial_standby(seed),
            features: SimulatedFeatures { image_refresh: has_image_refresh(platform, seed), autoscales },
        };
        let mut steps = vec![(random.number(0..=2000), first(&random, platform))];
        if options.images {
            steps.push((pause(&random), create_image(&random)));
            steps.push((pause(&random), create_wrapper(&random)));
        }
        for _ in 0..random.number(1..=14) {
            steps.push((pause(&random), op(&random, &options)));
        }
        if former_leader_resumed {
            replace_leader(&random, &options, &mut steps);
        }
        let unseen = if options.images { IMAGES_WITHOUT_WATCH_EVENTS } else { WITHOUT_WATCH_EVENTS };
        if random.per_mille(unseen) {
            without_watch_events(&random, &options, &mut steps);
        }
        if options.images {
            with_other_namespace(seed, &mut steps);
            with_lost_evidence(seed, &mut steps);
            with_failed_transfers(seed, &mut steps);
            with_removed_finalizers(seed, &mut steps);
        }
        with_detached_objects(platform, seed, &mut steps);
        if platform == TestedPlatform::KubeVirt {
            with_lost_preference(seed, &mut steps);
        }
        with_tenant(&options, &mut steps);
        if options.images {
            without_snapshots(seed, &mut steps);
        }
        if options.instancetypes.is_some() {
            with_instancetypes(seed, &mut steps);
        }
        if options.instancetypes == Some(TypeSource::Claim) {
            with_claim(seed, &mut steps);
        }
        with_recycling(seed, &mut steps);
        with_fast_clock(seed, &mut steps);
        if options.features.image_refresh {
            with_image_refresh(platform, seed, &mut steps);
        }
        if options.features.autoscales {
            with_autoscaler(seed, &mut steps);
        }
        with_slow_admission(seed, &mut steps);
        with_lost_nodes(&options, &mut steps);
        Self { options, steps, ..Self::default() }
    }
}

/// Adds a period with slow admission. Decided apart from the other decisions, so that the other steps stay
/// the same.
fn with_slow_admission(seed: u64, steps: &mut Vec<(u64, ScheduleOperation)>) {
    let random = SeededRandom::new(seed ^ 0x510a);
    if !random.per_mille(WITH_SLOW_ADMISSION) {
        return;
    }
    let from = place(&random, 0, steps);
    let until = place(&random, from, steps);
    steps.insert(until, (random.number(0..=60_000), ScheduleOperation::SlowAdmission(0)));
    let seconds = *random.one(&[10, 20, 30]).unwrap_or(&30);
    steps.insert(from, (0, ScheduleOperation::SlowAdmission(seconds)));
}

fn has_autoscaler(seed: u64) -> bool {
    SeededRandom::new(seed ^ 0xa5ca).per_mille(WITH_AUTOSCALER)
}

/// Adds autoscalers of the pool. Decided apart from the other decisions, so that the other steps stay the
/// same.
fn with_autoscaler(seed: u64, steps: &mut Vec<(u64, ScheduleOperation)>) {
    let random = SeededRandom::new(seed ^ 0xa5cb);
    let first = place(&random, 0, steps);
    let create = AutoscalerOperation::Create(0, autoscaler_parameters(&random));
    steps.insert(first, (pause(&random), ScheduleOperation::Autoscaler(create)));
    for _ in 0..random.number(1..=6) {
        let at = place(&random, first + 1, steps);
        let operation = ScheduleOperation::Autoscaler(autoscaler_op(&random));
        steps.insert(at, (random.number(0..=40_000), operation));
    }
}

fn autoscaler_op(random: &SeededRandom) -> AutoscalerOperation {
    // Most operations concern the first autoscaler.
    let which = usize::from(random.per_mille(250));
    match random.number(0..=9) {
        0..=4 => AutoscalerOperation::Change(which, autoscaler_parameters(random)),
        5..=6 => AutoscalerOperation::Create(which, autoscaler_parameters(random)),
        7..=8 => AutoscalerOperation::Pause(which, random.per_mille(500)),
        _ => AutoscalerOperation::Delete(which),
    }
}

fn autoscaler_parameters(random: &SeededRandom) -> AutoscalerParameters {
    let number = |most| u32::try_from(random.number(0..=most)).unwrap_or_default();
    let min = number(2);
    AutoscalerParameters {
        free: if random.per_mille(300) {
            FreeParameter::Percent(50 + number(100))
        } else {
            FreeParameter::Machines(number(3))
        },
        min,
        max: min + number(5),
        delay: number(30),
    }
}

/// Turns healing on, and loses nodes. Decided apart from the other decisions, so that the other steps stay
/// the same. An image may take longer to import than healing waits.
fn with_lost_nodes(options: &SimulatedWorldOptions, steps: &mut Vec<(u64, ScheduleOperation)>) {
    let random = SeededRandom::new(options.seed ^ 0x4ea1);
    if options.images || !random.per_mille(WITH_LOST_NODES) {
        return;
    }
    steps.insert(1, (pause(&random), ScheduleOperation::Health(HealthOperation::SetHealing(true))));
    for _ in 0..random.number(2..=6) {
        let at = place(&random, 2, steps);
        steps.insert(at, (random.number(0..=30_000), lost_node_op(&random)));
    }
}

fn lost_node_op(random: &SeededRandom) -> ScheduleOperation {
    ScheduleOperation::Health(match random.number(0..=9) {
        0..=5 => HealthOperation::LoseNode(which(random)),
        6..=7 => HealthOperation::ReturnNodes,
        8 => HealthOperation::SetHealing(random.per_mille(700)),
        _ => return ScheduleOperation::DeleteMachine(which(random)),
    })
}

/// Adds admission policies and clients that take machines and disks away from the pool. Decided apart from
/// the other decisions, so that the other steps stay the same.
fn with_detached_objects(platform: TestedPlatform, seed: u64, steps: &mut Vec<(u64, ScheduleOperation)>) {
    let random = SeededRandom::new(seed ^ 0x7a6e);
    if !random.per_mille(WITH_TAKEN_OBJECTS) {
        return;
    }
    let policies: &[AdmissionPolicyEffect] = match platform {
        TestedPlatform::Dvp => &[AdmissionPolicyEffect::StripsOwners, AdmissionPolicyEffect::StripsDisks],
        TestedPlatform::KubeVirt => {
            &[AdmissionPolicyEffect::StripsOwners, AdmissionPolicyEffect::ReplacesLabels]
        }
    };
    for _ in 0..random.number(1..=5) {
        let at = place(&random, 0, steps);
        let operation = match random.number(0..=9) {
            0..=5 => ScheduleOperation::SetPolicy(random.one(policies).copied().unwrap_or_default()),
            6..=7 => ScheduleOperation::SetPolicy(AdmissionPolicyEffect::None),
            _ => ScheduleOperation::TakeMachines,
        };
        steps.insert(at, (random.number(0..=40_000), operation));
    }
}

/// Adds steps in another namespace, which a grant permits to use the images, or not. Decided apart from the
/// other decisions, so that the other steps stay the same.
fn with_other_namespace(seed: u64, steps: &mut Vec<(u64, ScheduleOperation)>) {
    let random = SeededRandom::new(seed ^ 0x90e5);
    if !random.per_mille(WITH_GUESTS) {
        return;
    }
    for _ in 0..random.number(3..=9) {
        let at = place(&random, 1, steps);
        steps.insert(at, (pause(&random), ScheduleOperation::Image(other_namespace_op(&random))));
    }
}

/// Adds steps in which users request the replacement of machines, and limit their age and their claims.
/// Decided apart from the other decisions, so that the other steps stay the same.
fn with_recycling(seed: u64, steps: &mut Vec<(u64, ScheduleOperation)>) {
    let random = SeededRandom::new(seed ^ 0x2ec7);
    if !random.per_mille(WITH_RECYCLING) {
        return;
    }
    for _ in 0..random.number(2..=8) {
        let at = place(&random, 1, steps);
        let operation = recycling_op(&random);
        let ages = operation == RecyclingOperation::LimitLifetime && random.per_mille(500);
        let pause = if ages { LIFETIME } else { pause(&random) };
        steps.insert(at, (pause, ScheduleOperation::Recycling(operation)));
    }
}

/// Moves the clock of a controller ahead, and limits the age of machines. Decided apart from the other
/// decisions, so that the other steps stay the same.
fn with_fast_clock(seed: u64, steps: &mut Vec<(u64, ScheduleOperation)>) {
    let random = SeededRandom::new(seed ^ 0xfa57);
    if !random.per_mille(WITH_FAST_CLOCK) {
        return;
    }
    let limit = ScheduleOperation::Recycling(RecyclingOperation::LimitLifetime);
    steps.insert(1, (pause(&random), limit));
    let at = place(&random, 1, steps);
    steps.insert(at, (pause(&random), ScheduleOperation::StepWallClock(which(&random), FAST_CLOCK)));
}

fn has_image_refresh(platform: TestedPlatform, seed: u64) -> bool {
    !has_images(platform, seed) && SeededRandom::new(seed ^ 0x13a6).per_mille(WITH_IMAGE_REFRESH)
}

/// Adds changes of the image that the pool follows. Decided apart from the other decisions, so that the other
/// steps stay the same.
fn with_image_refresh(platform: TestedPlatform, seed: u64, steps: &mut Vec<(u64, ScheduleOperation)>) {
    let random = SeededRandom::new(seed ^ 0x13a7);
    let first = match platform {
        TestedPlatform::Dvp => place(&random, 1, steps),
        TestedPlatform::KubeVirt => {
            // Images of retained disks are not followed.
            if let Some((_, ScheduleOperation::CreatePool(_, _, disks))) = steps.first_mut() {
                for (_, reclaim) in disks {
                    *reclaim = Value::Null;
                }
            }
            // The step also changes the source of the disks. What machines that exist were created from does
            // not count then.
            1
        }
    };
    steps.insert(first, (0, ScheduleOperation::Recycling(RecyclingOperation::FollowImage)));
    for _ in 0..random.number(1..=4) {
        let at = place(&random, first + 1, steps);
        let pause = if random.per_mille(600) { SETTLING } else { pause(&random) };
        steps.insert(at, (pause, ScheduleOperation::Recycling(RecyclingOperation::ReplaceImage)));
    }
}

fn recycling_op(random: &SeededRandom) -> RecyclingOperation {
    match random.number(0..=15) {
        0..=7 => RecyclingOperation::Request(which(random)),
        8..=9 => RecyclingOperation::Withdraw(which(random)),
        10..=11 => RecyclingOperation::LimitLifetime,
        12..=14 => RecyclingOperation::LimitClaims(if random.per_mille(500) { 1 } else { 2 }),
        _ => RecyclingOperation::RemoveLimits,
    }
}

/// Adds steps of a tenant of another namespace. Decided apart from the other decisions, so that the other
/// steps stay the same.
fn with_tenant(options: &SimulatedWorldOptions, steps: &mut Vec<(u64, ScheduleOperation)>) {
    let random = SeededRandom::new(options.seed ^ 0x7e4a);
    if !random.per_mille(WITH_TENANT) {
        return;
    }
    // The objects that templates with instance types name are only in the namespace of the other pool.
    if options.instancetypes.is_none() && random.per_mille(600) {
        let create = TenantOperation::CreatePool(random.number(0..=3).cast_signed());
        steps.insert(1, (pause(&random), ScheduleOperation::Tenant(create)));
    }
    for _ in 0..random.number(3..=8) {
        let at = place(&random, 1, steps);
        steps.insert(at, (pause(&random), ScheduleOperation::Tenant(tenant_op(&random))));
    }
}

fn tenant_op(random: &SeededRandom) -> TenantOperation {
    let which = || which(random);
    let all = Forgery::ALL.len() as u64;
    let forgery = Forgery::ALL[usize::try_from(random.number(0..=all - 1)).unwrap_or_default()];
    match random.number(0..=11) {
        0..=3 => TenantOperation::ForgeMachines(one_or_two(random), forgery),
        4..=5 => TenantOperation::ForgeDisks(one_or_two(random), forgery),
        6 => TenantOperation::ForgeRevision(forgery),
        7 => TenantOperation::ForgeInstance(which()),
        8 => TenantOperation::TakeOver(which(), forgery),
        9 => TenantOperation::Relabel(which()),
        10 => TenantOperation::DeleteMachine(which()),
        _ => match random.number(0..=1) {
            0 => TenantOperation::DeleteDisk(which()),
            _ => TenantOperation::Scale(random.number(0..=3).cast_signed()),
        },
    }
}

/// Adds steps in which images lose what shows that their data is complete, and cannot take another snapshot.
/// Decided apart from the other decisions, so that the other steps stay the same.
fn with_lost_evidence(seed: u64, steps: &mut Vec<(u64, ScheduleOperation)>) {
    let random = SeededRandom::new(seed ^ 0x1057);
    if !random.per_mille(WITH_LOST_EVIDENCE) {
        return;
    }
    let which = || which(&random);
    for _ in 0..random.number(2..=7) {
        let at = place(&random, 1, steps);
        let op = match random.number(0..=9) {
            0..=2 => ImageOperation::SnapshotQuota(random.per_mille(700)),
            3 => ImageOperation::KeepClaim(which()),
            4..=5 => ImageOperation::LoseData(1, which()),
            6 => ImageOperation::LoseData(which(), which()),
            7..=8 => ImageOperation::LoseLabels(0, which()),
            _ => ImageOperation::LoseLabels(which(), which()),
        };
        steps.insert(at, (random.number(0..=5000), ScheduleOperation::Image(op)));
    }
}

/// Adds steps in which a user deletes an image and removes its finalizer. Decided apart from the other
/// decisions, so that the other steps stay the same.
fn with_removed_finalizers(seed: u64, steps: &mut Vec<(u64, ScheduleOperation)>) {
    let random = SeededRandom::new(seed ^ 0xf19a);
    if !random.per_mille(WITH_REMOVED_FINALIZERS) {
        return;
    }
    for _ in 0..random.number(1..=3) {
        let at = place(&random, 1, steps);
        let pause = || random.number(0..=5000);
        let both = [ImageOperation::Delete(which(&random)), ImageOperation::RemoveFinalizer(which(&random))];
        steps.splice(at..at, both.map(|operation| (pause(), ScheduleOperation::Image(operation))));
    }
}

/// Adds steps in which transfers fail and disks of wrappers are lost. Decided apart from the other decisions,
/// so that the other steps stay the same.
fn with_failed_transfers(seed: u64, steps: &mut Vec<(u64, ScheduleOperation)>) {
    let random = SeededRandom::new(seed ^ 0xfa11);
    if !random.per_mille(WITH_FAILED_TRANSFERS) {
        return;
    }
    let which = || which(&random);
    for _ in 0..random.number(2..=7) {
        let at = place(&random, 1, steps);
        let op = match random.number(0..=9) {
            0..=3 => ImageOperation::FailImport(which()),
            4..=6 => ImageOperation::FailClone(which()),
            _ => ImageOperation::LoseDisk(random.per_mille(400), which()),
        };
        steps.insert(at, (random.number(0..=3000), ScheduleOperation::Image(op)));
    }
}

/// Lets the cluster begin without snapshots, and sometimes get them later. Decided apart from the other
/// decisions, so that the other steps stay the same.
fn without_snapshots(seed: u64, steps: &mut Vec<(u64, ScheduleOperation)>) {
    let random = SeededRandom::new(seed ^ 0x05a9);
    if !random.per_mille(WITHOUT_SNAPSHOTS) {
        return;
    }
    if random.per_mille(600) {
        let at = place(&random, 1, steps);
        steps.insert(at, (pause(&random), ScheduleOperation::Image(ImageOperation::ServeSnapshots(true))));
    }
    steps.insert(0, (0, ScheduleOperation::Image(ImageOperation::ServeSnapshots(false))));
}

/// Adds steps in which the preference that the template names is deleted and created again, between changes
/// of the pool and of its copies. Decided apart from the other decisions, so that the other steps stay the
/// same.
fn with_lost_preference(seed: u64, steps: &mut Vec<(u64, ScheduleOperation)>) {
    let random = SeededRandom::new(seed ^ 0x70b5);
    if !random.per_mille(WITH_LOST_PREFERENCE) {
        return;
    }
    steps.insert(1, (pause(&random), ScheduleOperation::KubeVirt(KubeVirtOperation::SetPreference(true))));
    for _ in 0..random.number(3..=8) {
        let at = place(&random, 2, steps);
        steps.insert(at, (pause(&random), lost_preference_op(&random)));
    }
}

fn lost_preference_op(random: &SeededRandom) -> ScheduleOperation {
    let number = || random.number(1..=3).cast_signed();
    ScheduleOperation::KubeVirt(match random.number(0..=19) {
        0..=5 => KubeVirtOperation::DeletePreference,
        6..=10 => KubeVirtOperation::CreatePreference(number()),
        11..=12 => KubeVirtOperation::EditPreference(number()),
        13..=14 => KubeVirtOperation::Refresh(number()),
        15 => KubeVirtOperation::DeleteCopy(which(random)),
        16 => return ScheduleOperation::RemoveOwner(which(random)),
        17 => return ScheduleOperation::SetCores(random.number(1..=4).cast_signed()),
        _ => return ScheduleOperation::Scale(random.number(0..=5).cast_signed()),
    })
}

/// The limit on provisioning of the pool; 0 for none. Decided apart from the other decisions, so that the
/// schedules without a limit stay the same.
fn provisioning_limit(seed: u64) -> usize {
    let random = SeededRandom::new(seed ^ 0x9417);
    if random.per_mille(WITH_PROVISIONING_LIMIT) { one_or_two(&random) } else { 0 }
}

/// The standby machines of the pool at first; 0 for none. Decided apart from the other decisions, so that the
/// schedules without standby machines stay the same.
fn initial_standby(seed: u64) -> usize {
    let random = SeededRandom::new(seed ^ 0x57a9);
    if random.per_mille(WITH_STANDBY) { one_or_two(&random) } else { 0 }
}

fn standby_op(random: &SeededRandom) -> ScheduleOperation {
    ScheduleOperation::Standby(match random.number(0..=3) {
        0 => StandbyOperation::Start(which(random)),
        _ => StandbyOperation::SetReplicas(which(random) % 3, random.per_mille(600)),
    })
}

/// Decided apart from the other decisions, so that the schedules without instance types stay the same.
fn instancetypes(platform: TestedPlatform, seed: u64) -> Option<TypeSource> {
    let random = SeededRandom::new(seed ^ 0x71e5);
    let has_type = platform == TestedPlatform::KubeVirt && random.per_mille(WITH_INSTANCETYPES);
    let from = if random.per_mille(FROM_CLAIM) { TypeSource::Claim } else { TypeSource::Name };
    has_type.then_some(from)
}

/// Adds steps in which the claim names another instance type or none, and in which the template takes the
/// name from it.
fn with_claim(seed: u64, steps: &mut Vec<(u64, ScheduleOperation)>) {
    let random = SeededRandom::new(seed ^ 0xc1a1);
    for _ in 0..random.number(2..=6) {
        let at = place(&random, 1, steps);
        let number = random.number(0..=3);
        let operation = match random.number(0..=5) {
            0..=2 => KubeVirtOperation::NameInClaim(usize::try_from(number).ok()),
            3 => KubeVirtOperation::NameInClaim(None),
            4 => KubeVirtOperation::Refresh(number.cast_signed()),
            _ => {
                steps.insert(at, (pause(&random), ScheduleOperation::SetCores(2)));
                continue;
            }
        };
        steps.insert(at, (pause(&random), ScheduleOperation::KubeVirt(operation)));
    }
}

/// Adds steps in which instance types are edited, deleted and created again, and in which the template names
/// another one.
fn with_instancetypes(seed: u64, steps: &mut Vec<(u64, ScheduleOperation)>) {
    let random = SeededRandom::new(seed ^ 0x512e);
    for _ in 0..random.number(4..=12) {
        let at = place(&random, 1, steps);
        steps.insert(at, (pause(&random), instancetype_op(&random)));
    }
}

fn instancetype_op(random: &SeededRandom) -> ScheduleOperation {
    let which = || usize::try_from(random.number(0..=2)).unwrap_or_default();
    let number = || random.number(1..=4).cast_signed();
    ScheduleOperation::KubeVirt(match random.number(0..=29) {
        0..=6 => KubeVirtOperation::EditInstancetype(which(), number()),
        7..=11 => KubeVirtOperation::DeleteInstancetype(which()),
        12..=15 => KubeVirtOperation::CreateInstancetype(which(), number()),
        16..=19 => KubeVirtOperation::Refresh(number()),
        20 => KubeVirtOperation::DeleteCopy(which()),
        21 => KubeVirtOperation::SetConflict(true),
        22..=23 => KubeVirtOperation::SetConflict(false),
        24..=27 => return ScheduleOperation::SetCores(number()),
        _ => return ScheduleOperation::Scale(random.number(0..=5).cast_signed()),
    })
}

fn other_namespace_op(random: &SeededRandom) -> ImageOperation {
    let guest = || random.one(&GUEST_NAMES).copied().unwrap_or(GUEST_NAMES[0]);
    match random.number(0..=9) {
        0..=3 => ImageOperation::Grant(random.per_mille(650)),
        4..=6 => ImageOperation::CreateGuestWrapper(guest(), image(random)),
        7 => ImageOperation::CreateGuestMachine(guest(), image(random)),
        _ => ImageOperation::DeleteGuest(random.per_mille(300), which(random)),
    }
}

/// Pauses the leader at a random step until another one has replaced it, then resumes it.
fn replace_leader(
    random: &SeededRandom,
    options: &SimulatedWorldOptions,
    steps: &mut Vec<(u64, ScheduleOperation)>,
) {
    let all = u64::try_from(steps.len()).unwrap_or_default();
    let at = usize::try_from(random.number(1..=all)).unwrap_or(1);
    let leader_pause = random.number(LEADER_PAUSE.0..=LEADER_PAUSE.1);
    let before = random.number(0..=leader_pause);
    let meanwhile = [
        (random.number(0..=400), ScheduleOperation::PauseLeader),
        (before, op(random, options)),
        (leader_pause - before, ScheduleOperation::Resume),
    ];
    steps.splice(at..at, meanwhile);
}

/// From a random step on, watches deliver no events until a random later step.
fn without_watch_events(
    random: &SeededRandom,
    options: &SimulatedWorldOptions,
    steps: &mut Vec<(u64, ScheduleOperation)>,
) {
    let last = u64::try_from(steps.len()).unwrap_or_default();
    let from = random.number(0..=last);
    let until = random.number(from..=last);
    let place = |step: u64| usize::try_from(step).unwrap_or_default();
    steps.insert(place(until), (random.number(0..=20_000), ScheduleOperation::ReleaseWatches));
    for resource in 1..=2 {
        if random.per_mille(700) {
            steps.insert(place(from), (0, ScheduleOperation::HoldWatch(resource)));
        }
    }
    if options.images {
        references_without_events(random, place(from), place(until), steps);
    }
}

/// The watches of pools, wrappers and DataVolumes deliver no events either, and sometimes those of images.
/// Meanwhile an object begins to refer to an image, and the image is deleted.
fn references_without_events(
    random: &SeededRandom,
    from: usize,
    until: usize,
    steps: &mut Vec<(u64, ScheduleOperation)>,
) {
    let image = image(random);
    let uses = match random.number(0..=2) {
        0 => ImageOperation::UseInPool(Some(image)),
        1 => ImageOperation::CreateWrapper(WRAPPERS[0], image, true),
        _ => ImageOperation::CreateMachine(MACHINES[0], image),
    };
    let pause = || random.number(0..=8000);
    let meanwhile = [(pause(), uses), (pause(), ImageOperation::Delete(which(random)))];
    let meanwhile = meanwhile.map(|(pause, operation)| (pause, ScheduleOperation::Image(operation)));
    let at = usize::midpoint(from, until);
    steps.splice(at..at, meanwhile);
    for (resource, per_mille) in [(0, 700), (4, 200), (5, 700), (6, 700)] {
        if random.per_mille(per_mille) {
            steps.insert(from, (0, ScheduleOperation::HoldWatch(resource)));
        }
    }
}

fn first(random: &SeededRandom, platform: TestedPlatform) -> ScheduleOperation {
    let mut disks = vec![("root", Value::Null)];
    if random.per_mille(500) {
        disks.push(("cache", retained(random)));
    }
    ScheduleOperation::CreatePool(random.number(0..=5).cast_signed(), policy(random, platform), disks)
}

fn policy(random: &SeededRandom, platform: TestedPlatform) -> &'static str {
    let policies: &[&'static str] = match platform {
        TestedPlatform::Dvp => &POLICIES,
        TestedPlatform::KubeVirt => &KUBEVIRT_POLICIES,
    };
    random.one(policies).copied().unwrap_or(policies[0])
}

fn retained(random: &SeededRandom) -> Value {
    let ttl = *random.one(&["1s", "20s", "10m"]).unwrap_or(&"10m");
    json!({ "onScaleDown": "Retain", "keep": random.number(0..=2), "ttl": ttl })
}

fn pause(random: &SeededRandom) -> u64 {
    if random.per_mille(300) { random.number(0..=40) } else { random.number(0..=6000) }
}

/// A place for another step, after this number of steps at least.
fn place(random: &SeededRandom, first: usize, steps: &[(u64, ScheduleOperation)]) -> usize {
    let number = |place: usize| u64::try_from(place).unwrap_or_default();
    usize::try_from(random.number(number(first)..=number(steps.len()))).unwrap_or(first)
}

fn which(random: &SeededRandom) -> usize {
    usize::try_from(random.number(0..=9)).unwrap_or_default()
}

fn one_or_two(random: &SeededRandom) -> usize {
    if random.per_mille(500) { 1 } else { 2 }
}

fn op(random: &SeededRandom, options: &SimulatedWorldOptions) -> ScheduleOperation {
    if options.images && random.per_mille(IMAGE_OPERATIONS) {
        return image_op(random);
    }
    if options.platform == TestedPlatform::KubeVirt && random.per_mille(KUBEVIRT_OPERATIONS) {
        return ScheduleOperation::KubeVirt(kubevirt_op(random));
    }
    if options.standby > 0 && random.per_mille(STANDBY_OPERATIONS) {
        return standby_op(random);
    }
    if random.per_mille(PROTECTION_OPERATIONS) {
        let protection = protection_op(random, options);
        return ScheduleOperation::Protection(protection);
    }
    let which = || which(random);
    let scale = |most| ScheduleOperation::Scale(random.number(0..=most).cast_signed());
    match random.number(0..=149) {
        0..=29 => scale(6),
        30..=37 => ScheduleOperation::DeleteMachine(which()),
        38..=40 => ScheduleOperation::DeleteDisk(which()),
        41..=46 => ScheduleOperation::SetCores(random.number(1..=4).cast_signed()),
        47..=49 => ScheduleOperation::SetScaleDownPolicy(policy(random, options.platform)),
        50..=51 => ScheduleOperation::AddDiskTemplate("extra", Value::Null),
        52..=53 => ScheduleOperation::RemoveDiskTemplate("cache"),
        54..=56 => ScheduleOperation::RemoveLabels(which()),
        57..=59 => ScheduleOperation::RemoveOwner(which()),
        60..=61 => ScheduleOperation::DeletePool(
            random.one(&["Background", "Foreground", "Orphan"]).copied().unwrap_or("Background"),
        ),
        62 => first(random, options.platform),
        63..=67 => ScheduleOperation::KillController(which()),
        68..=71 if options.controllers > 1 => ScheduleOperation::PauseController(which()),
        72..=73 => ScheduleOperation::DisconnectController(which()),
        74..=78 => ScheduleOperation::Resume,
        79..=80 => ScheduleOperation::StepWallClock(which(), random.number(0..=60).cast_signed() - 30),
        81..=86 => ScheduleOperation::DelayWatch(which(), which()),
        87..=90 => ScheduleOperation::HoldWatch(which()),
        91..=94 => ScheduleOperation::ReleaseWatches,
        95..=96 => ScheduleOperation::CoalesceEvents(which()),
        97..=98 => ScheduleOperation::RepeatEvent(which()),
        99..=101 => ScheduleOperation::EndWatch(which(), random.per_mille(500)),
        102..=103 => ScheduleOperation::CompactHistory,
        104 => ScheduleOperation::SendBookmarks,
        105..=130 if options.apiservers > 0 => removal(random),
        131..=134 if options.apiservers > 0 => ScheduleOperation::KillApiserver(which()),
        135..=136 if options.apiservers > 0 => ScheduleOperation::PauseApiserver(which()),
        137..=141 if options.webhook => webhook(random),
        _ => scale(3),
    }
}

/// Decided apart from the other decisions, so that the schedules without images stay the same.
fn has_images(platform: TestedPlatform, seed: u64) -> bool {
    platform == TestedPlatform::KubeVirt && SeededRandom::new(seed ^ 0x1a6e).per_mille(WITH_IMAGES)
}

fn image(random: &SeededRandom) -> &'static str {
    random.one(&IMAGES).copied().unwrap_or(IMAGES[0])
}

fn time_to_live(random: &SeededRandom) -> Option<&'static str> {
    *random.one(&[None, Some("5s"), Some("60s")]).unwrap_or(&None)
}

fn create_image(random: &SeededRandom) -> ScheduleOperation {
    ScheduleOperation::Image(ImageOperation::Create(image(random), time_to_live(random)))
}

fn create_wrapper(random: &SeededRandom) -> ScheduleOperation {
    let name = random.one(&WRAPPERS).copied().unwrap_or(WRAPPERS[0]);
    ScheduleOperation::Image(ImageOperation::CreateWrapper(name, image(random), random.per_mille(500)))
}

fn image_op(random: &SeededRandom) -> ScheduleOperation {
    let which = || which(random);
    ScheduleOperation::Image(match random.number(0..=39) {
        0..=6 => return create_image(random),
        7..=13 => return create_wrapper(random),
        14..=19 => ImageOperation::Delete(which()),
        20 => ImageOperation::Release(which()),
        21..=23 => ImageOperation::SetTimeToLive(which(), time_to_live(random)),
        24..=27 => ImageOperation::LoseData(which(), which()),
        28..=31 => ImageOperation::DeleteWrapper(which()),
        32..=35 => {
            let name = random.one(&MACHINES).copied().unwrap_or(MACHINES[0]);
            ImageOperation::CreateMachine(name, image(random))
        }
        36..=37 => ImageOperation::UseInPool(Some(image(random))),
        _ => ImageOperation::UseInPool(None),
    })
}

fn kubevirt_op(random: &SeededRandom) -> KubeVirtOperation {
    let which = || which(random);
    match random.number(0..=44) {
        0..=3 => KubeVirtOperation::SetPaused(true),
        4..=8 => KubeVirtOperation::SetPaused(false),
        9..=11 => KubeVirtOperation::SetMaxUnavailable(random.number(1..=3).cast_signed()),
        12..=14 => KubeVirtOperation::SetTier(random.number(1..=3).cast_signed()),
        15..=17 => KubeVirtOperation::SetHealing(random.per_mille(700)),
        18..=20 => KubeVirtOperation::FailStarts(which(), random.number(1..=2)),
        21..=24 => KubeVirtOperation::DeleteInstance(which()),
        25..=27 => KubeVirtOperation::ReturnOwner(which()),
        30..=34 => KubeVirtOperation::SetPreference(random.per_mille(800)),
        35..=38 => KubeVirtOperation::EditPreference(random.number(1..=3).cast_signed()),
        39..=42 => KubeVirtOperation::Refresh(random.number(1..=3).cast_signed()),
        43..=44 => KubeVirtOperation::DeleteCopy(which()),
        _ => KubeVirtOperation::SetRunStrategy(
            which(),
            random.one(&RUN_STRATEGIES).copied().unwrap_or(RUN_STRATEGIES[0]),
        ),
    }
}

fn protection_op(random: &SeededRandom, options: &SimulatedWorldOptions) -> ProtectionOperation {
    let which = || which(random);
    let id = || random.one(&IDS).copied().unwrap_or(IDS[0]);
    let claims = options.apiservers > 0;
    match random.number(0..=27) {
        0..=6 if claims => ProtectionOperation::Claim(
            ClaimParameters { id: id(), seconds: random.number(1..=200), renew: random.per_mille(150) },
            which(),
        ),
        7..=10 if claims => {
            let then = *random.one(&["Keep", "Remove", "Replace"]).unwrap_or(&"Keep");
            ProtectionOperation::Release(id(), then, which())
        }
        11..=12 => ProtectionOperation::Unprotect(which()),
        13 => ProtectionOperation::ProtectUnreadably(which()),
        20..=23 => ProtectionOperation::SetHook(which()),
        24..=25 => ProtectionOperation::ReleaseHook(which()),
        26 => ProtectionOperation::ReleaseHookLate(which()),
        27 => ProtectionOperation::RemoveHook(which()),
        // Some are longer than the pool allows.
        14 => ProtectionOperation::Protect(which(), random.number(300..=100_000).cast_signed()),
        _ => ProtectionOperation::Protect(which(), random.number(0..=120).cast_signed()),
    }
}

fn removal(random: &SeededRandom) -> ScheduleOperation {
    let count = if random.per_mille(600) { 1 } else { random.number(2..=4) };
    ScheduleOperation::RemoveTargets(RemovalOperation {
        targets: (0..count).map(|_| which(random)).collect(),
        first: which(random),
        pinned: random.per_mille(400),
        forced: random.per_mille(200),
        dry_run: random.per_mille(50),
    })
}

fn webhook(random: &SeededRandom) -> ScheduleOperation {
    let all = [
        WebhookState::Works,
        WebhookState::Works,
        WebhookState::Down,
        WebhookState::Hangs,
        WebhookState::Denies,
    ];
    ScheduleOperation::SetWebhook(random.one(&all).copied().unwrap_or_default())
}
