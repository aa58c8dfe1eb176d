//! One pass of a wrapper: the image first, then the machine.
//!
//! **No machine is created before the image is ready and the wrapper is bound to it.** Binding takes two
//! steps, so that a wrapper never begins to use an image that is being deleted, and neither controller waits
//! for the other one:
//!
//! ```text
//!   wrapper                                        image
//!   1. reads the image: not being deleted
//!   2. writes its mark: the UID of the image       1. the API server sets the deletion timestamp
//!   3. reads the image again                       2. the controller lists all wrappers
//!      not being deleted ──> bound                    a mark ──> the deletion waits
//!      being deleted ──────> removes the mark         none ────> the data is removed
//! ```
//!
//! Each side writes before it reads. So at least one of them sees the other one.

mod fields;
mod guest;
pub mod objects;
pub mod status;
#[cfg(test)]
mod tests;
mod types;

use std::time::Duration;

use jiff::Timestamp;
use vmpool_api::diskimage::values::{ImagePhase, WrapperPhase};
use vmpool_decision::{Needs, Step};

pub use self::types::{
    DiskNameOwner, ImageTemplateFields, RecordedDisk, Wrapper, WrapperAction, WrapperDisk, WrapperImage,
    WrapperImageReason, WrapperMachine, WrapperMachineReason, WrapperPassInput, WrapperPlan, WrapperRead,
    WrapperStatus,
};
use crate::model::{FoundObject, ObjectKey};
use crate::references::ImageMark;

/// A kick waits this long after the clone stopped, and after the former kick.
const STUCK_AFTER: Duration = Duration::from_mins(5);
const BETWEEN_KICKS: Duration = Duration::from_mins(10);
const MAX_KICKS: u32 = 3;
const RECHECK: Duration = Duration::from_mins(1);

/// Plans a pass.
///
/// # Errors
/// The caches are not enough.
pub fn plan_wrapper(world: &WrapperPassInput<'_>) -> Step<WrapperPlan, WrapperRead> {
    let status = world.wrapper.status.clone();
    let mut plan = WrapperPlan { actions: Vec::new(), status, again: None };
    if world.wrapper.deleting {
        // The mark stays: a wrapper that is being deleted refers to the image until it is gone.
        return Ok(plan);
    }
    plan.status.phase = plan.status.phase.or(Some(WrapperPhase::Provisioning));
    plan.status.message = String::new();
    // A leader whose clock ran ahead wrote it.
    plan.status.last_kick = plan.status.last_kick.map(|last| last.min(world.now));
    let image = observe_image(world, &mut plan)?;
    let failed = match observe_machine(world, &mut plan, image) {
        Ok(()) => false,
        Err(Stopped::ForUser) => true,
        Err(Stopped::Unread(needs)) => return Err(needs),
    };
    settle_phase(world, &mut plan, failed);
    Ok(plan)
}

/// Binds the wrapper. Returns the image if a machine may be created from it.
fn observe_image<'a>(
    world: &WrapperPassInput<'a>,
    plan: &mut WrapperPlan,
) -> Step<Option<&'a WrapperImage>, WrapperRead> {
    if !world.may_refer {
        // The same whether the image exists or not.
        plan.status.differences = None;
        set_image(plan, WrapperImageReason::RefNotPermitted, not_permitted(&world.wrapper.image));
        return Ok(None);
    }
    let marked = plan.status.mark.as_ref().map(|mark| mark.uid.as_str());
    let known = world.image.is_some_and(|image| marked == Some(image.uid.as_str()));
    // Such an image does not become usable anymore, and its deletion waits for this wrapper. Without a
    // machine, the wrapper needs no data of it, and waits for a successor.
    let is_lost = |image: &WrapperImage| image.deleting && !image.usable && world.machine.is_missing();
    let bound = known && plan.status.bound && !world.image.is_some_and(is_lost);
    // A cache that has no image binds nothing. Everything else needs what the API server has now.
    let settled = world.image.is_none() && marked.is_none();
    if !bound && !settled && !world.image_is_live {
        return Err(Needs(vec![WrapperRead::Image]));
    }
    let Some(image) = world.image else {
        clear_mark(plan);
        plan.status.differences = None;
        create_image(world, plan);
        return Ok(None);
    };
    let template = world.wrapper.template.as_ref();
    plan.status.differences =
        template.map(|template| ImageTemplateFields::differences(template, &image.source));
    plan.status.compared = image.generation;
    if !bound {
        if image.deleting {
            clear_mark(plan);
            set_image(plan, WrapperImageReason::ImageTerminating, terminating_image_message(world.wrapper));
            return Ok(None);
        }
        // Only a read after the mark was stored shows that the image stays. Without its finalizer, a deletion
        // would not wait.
        plan.status.bound = known && image.protected;
        plan.status.mark = Some(ImageMark { image: world.wrapper.image.clone(), uid: image.uid.clone() });
        if !known {
            plan.again = Some(Duration::from_secs(1));
        }
    }
    let name = &world.wrapper.image;
    match (image.usable, image.phase) {
        (true, _) => set_image(plan, WrapperImageReason::ImageReady, String::new()),
        // Its data does not come anymore.
        (false, _) if image.deleting => {
            set_image(plan, WrapperImageReason::ImageTerminating, terminating_image_message(world.wrapper));
        }
        (false, Some(ImagePhase::Failed)) => {
            let text =
                format!("the image {name} failed{}", image_message_suffix(world.wrapper, &image.message));
            set_image(plan, WrapperImageReason::ImageFailed, text);
        }
        (false, _) => {
            let text = format!(
                "the image {name} is not ready{}",
                image_message_suffix(world.wrapper, &image.message)
            );
            set_image(plan, WrapperImageReason::ImageSyncing, text);
        }
    }
    Ok(Some(image).filter(|image| image.usable && plan.status.bound))
}

/// What a message about an image adds. A message from another namespace can name objects of it, and of the
/// namespaces of other references, which the users of the wrapper may not read.
fn image_message_suffix(wrapper: &Wrapper, message: &str) -> String {
    if wrapper.image.namespace == wrapper.key.namespace {
        format!(": {message}")
    } else {
        "; the status of the image has the reason".to_owned()
    }
}

fn terminating_image_message(wrapper: &Wrapper) -> String {
    let next = if wrapper.creates_image() {
        "when it is gone, the controller creates it again from the template"
    } else {
        "when it is gone, create it again, or create a wrapper of another image"
    };
    format!("the image {} is being deleted; {next}", wrapper.image)
}

fn create_image(world: &WrapperPassInput<'_>, plan: &mut WrapperPlan) {
    let name = &world.wrapper.image;
    if !world.wrapper.creates_image() {
        let text = format!(
            "the image {name} does not exist; create it, or set the mode CreateIfNotExist and a template"
        );
        return set_image(plan, WrapperImageReason::ImageNotFound, text);
    }
    match world.may_create {
        Ok(()) => {
            plan.actions.push(WrapperAction::CreateImage);
            plan.again = Some(RECHECK);
            set_image(
                plan,
                WrapperImageReason::ImageCreated,
                format!("the image {name} did not exist, and is created"),
            );
        }
        Err(refused) => set_image(plan, WrapperImageReason::CreateNotPermitted, refused.to_string()),
    }
}

fn not_permitted(image: &ObjectKey) -> String {
    format!(
        "no VMDiskImageGrant in the namespace {} permits to use the image {} from here",
        image.namespace, image.name
    )
}

fn clear_mark(plan: &mut WrapperPlan) {
    plan.status.mark = None;
    plan.status.bound = false;
}

fn set_image(plan: &mut WrapperPlan, reason: WrapperImageReason, message: String) {
    plan.status.image = Some(reason);
    plan.status.message = message;
}

fn set_machine(plan: &mut WrapperPlan, reason: WrapperMachineReason, message: String) {
    plan.status.virtual_machine = Some(reason);
    if plan.status.message.is_empty() {
        plan.status.message = message;
    }
}

/// Why the plan of a machine ends.
enum Stopped {
    /// A user must do something, which the message of the status describes.
    ForUser,
    Unread(Needs<WrapperRead>),
}

fn observe_machine(
    world: &WrapperPassInput<'_>,
    plan: &mut WrapperPlan,
    image: Option<&WrapperImage>,
) -> Result<(), Stopped> {
    let name = &world.wrapper.key;
    match world.machine {
        FoundObject::Foreign => {
            let text =
                format!("a machine {name} exists and does not belong to this wrapper; delete or rename it");
            plan.again = Some(RECHECK);
            set_machine(plan, WrapperMachineReason::NameConflict, text);
            Err(Stopped::ForUser)
        }
        FoundObject::Missing => {
            reset_machine_status(plan);
            set_machine(
                plan,
                WrapperMachineReason::NotCreated,
                WrapperMachineReason::NotCreated.describe().to_owned(),
            );
            image.map_or(Ok(()), |image| create_machine(world, plan, image))
        }
        FoundObject::Ours(machine) => {
            if plan.status.machine.as_ref() != Some(&machine.uid) {
                reset_machine_status(plan);
                plan.status.machine = Some(machine.uid.clone());
            }
            plan.status.started |= machine.started;
            record_disk(world, plan);
            if !machine.current && !machine.deleting && world.wrapper.unusable.is_none() {
                plan.actions.push(WrapperAction::UpdateMachine { uid: machine.uid.clone() });
            }
            let populated = world.disk.is_some_and(|disk| disk.populated && !disk.deleting);
            let reason = match (machine.ready, populated, machine.off) {
                (true, ..) | (false, true, true) => WrapperMachineReason::MachineReady,
                (false, false, _) => WrapperMachineReason::DiskNotReady,
                (false, true, false) => WrapperMachineReason::MachineNotReady,
            };
            set_machine(plan, reason, reason.describe().to_owned());
            if let Some(unusable) = world.wrapper.unusable.as_ref().filter(|_| !machine.current) {
                plan.status.message = format!("{unusable}; the machine keeps its former template");
            }
            kick_stuck_disk(world, plan, image)
        }
    }
}

/// Another machine has never started. Kicks are those of the wrapper: otherwise a client that deletes and
/// creates machines that do not become ready would cause one clone after another.
fn reset_machine_status(plan: &mut WrapperPlan) {
    plan.status.machine = None;
    plan.status.started = false;
    plan.status.disk = None;
}

/// Notes the disk with data of the guest. It is in the status, so that also another leader finds out that it
/// was lost. Before the machine starts, nothing is noted: the status is written for the start anyway, and
/// then contains both.
fn record_disk(world: &WrapperPassInput<'_>, plan: &mut WrapperPlan) {
    let Some(disk) = world.disk.filter(|disk| !disk.deleting && plan.status.started) else { return };
    let known = plan.status.disk.take().filter(|known| known.volume == disk.uid);
    let claim = disk.claim.clone().or_else(|| known.and_then(|known| known.claim));
    plan.status.disk = Some(RecordedDisk { volume: disk.uid.clone(), claim });
}

fn create_machine(
    world: &WrapperPassInput<'_>,
    plan: &mut WrapperPlan,
    image: &WrapperImage,
) -> Result<(), Stopped> {
    if let Some(unusable) = &world.wrapper.unusable {
        plan.status.message.clone_from(unusable);
        return Err(Stopped::ForUser);
    }
    let size = world.wrapper.disk_size.as_ref();
    let too_small =
        size.filter(|size| size.compare(&image.source.disk_size).is_ok_and(std::cmp::Ordering::is_lt));
    if let Some(size) = too_small {
        let (size, needed) = (size.as_str(), image.source.disk_size.as_str());
        let text = format!(
            "resources.diskSize is {size}, and the image needs at least {needed}; create a wrapper with a larger disk"
        );
        return stop_with_message(plan, text);
    }
    let disk = match world.disk_name {
        DiskNameOwner::Free if world.disk_name_is_live => {
            plan.actions.push(WrapperAction::CreateMachine);
            return Ok(());
        }
        DiskNameOwner::Free => {
            return Err(Stopped::Unread(Needs(vec![WrapperRead::DiskName])));
        }
        DiskNameOwner::Former => {
            "the disk of the former machine is not deleted yet".clone_into(&mut plan.status.message);
            plan.again = Some(RECHECK);
            return Ok(());
        }
        DiskNameOwner::Taken(kind) => format!("a {kind} with the name of the disk exists"),
        DiskNameOwner::Wrapper(other) => {
            format!("the machine of the wrapper {other} has a disk with the same name")
        }
    };
    plan.again = Some(RECHECK);
    let text = format!(
        "{disk}, and the machine would use it; delete it, or create a wrapper with another name or diskName"
    );
    set_machine(plan, WrapperMachineReason::NameConflict, String::new());
    plan.status.message = text;
    Err(Stopped::ForUser)
}

fn stop_with_message(plan: &mut WrapperPlan, message: String) -> Result<(), Stopped> {
    plan.status.message = message;
    plan.status.virtual_machine = Some(WrapperMachineReason::DiskNotReady);
    Err(Stopped::ForUser)
}

/// Deletes a disk whose clone does not begin although the data is there. A disk of a machine that has ever
/// started contains data of its guest, and is never deleted.
fn kick_stuck_disk(
    world: &WrapperPassInput<'_>,
    plan: &mut WrapperPlan,
    image: Option<&WrapperImage>,
) -> Result<(), Stopped> {
    let Some(disk) = world.disk.filter(|disk| !disk.deleting) else { return Ok(()) };
    if image.is_none() || plan.status.started {
        return Ok(());
    }
    let since = |moment: Timestamp| Duration::try_from(world.now.duration_since(moment)).unwrap_or_default();
    let stuck_for = disk.stuck_since.map(since);
    if !disk.failed && stuck_for.is_none() {
        return Ok(());
    }
    let ripe =
        if disk.failed { Duration::ZERO } else { STUCK_AFTER.saturating_sub(stuck_for.unwrap_or_default()) };
    let rest = plan.status.last_kick.map_or(Duration::ZERO, |last| BETWEEN_KICKS.saturating_sub(since(last)));
    let wait = ripe.max(rest);
    if wait > Duration::ZERO {
        plan.again = Some(wait);
        return Ok(());
    }
    if plan.status.kicks >= MAX_KICKS {
        let text = format!(
            "the controller has deleted {MAX_KICKS} disks of this wrapper, and the clone of the next one does not begin either; correct the cause, then delete the DataVolume of the machine"
        );
        return stop_with_message(plan, text);
    }
    plan.actions.push(WrapperAction::Kick { uid: disk.uid.clone() });
    plan.status.kicks += 1;
    plan.status.last_kick = Some(world.now);
    plan.again = Some(BETWEEN_KICKS);
    Ok(())
}

/// The plan after the API server refused a write. The controller tries again.
pub fn report_failed_write(
    plan: &mut WrapperPlan,
    action: &WrapperAction,
    before: &WrapperStatus,
    message: &str,
) {
    plan.status.phase = before.phase.or(plan.status.phase);
    match action {
        WrapperAction::CreateImage => {
            set_image(
                plan,
                WrapperImageReason::ImageNotFound,
                format!("the image cannot be created: {message}"),
            );
        }
        WrapperAction::CreateMachine => {
            plan.status.message = format!("the machine cannot be created: {message}");
        }
        WrapperAction::UpdateMachine { .. } => {
            plan.status.message = format!("the template cannot be written to the machine: {message}");
        }
        WrapperAction::Kick { .. } => {
            plan.status.message = format!("the disk of the machine cannot be deleted: {message}");
        }
    }
}

/// A wrapper that was ready once stays in that phase: conditions describe what its machine lacks.
fn settle_phase(world: &WrapperPassInput<'_>, plan: &mut WrapperPlan, failed: bool) {
    let image = plan.status.image;
    let machine = plan.status.virtual_machine;
    plan.status.ready =
        image == Some(WrapperImageReason::ImageReady) && machine == Some(WrapperMachineReason::MachineReady);
    let was_ready = world.wrapper.status.phase == Some(WrapperPhase::Ready);
    let provisioned = was_ready && world.machine.ours().is_some();
    let image_failed =
        matches!(image, Some(WrapperImageReason::ImageFailed | WrapperImageReason::ImageNotFound))
            && !provisioned;
    plan.status.phase = Some(if plan.status.ready {
        WrapperPhase::Ready
    } else if failed || image_failed || machine == Some(WrapperMachineReason::NameConflict) {
        WrapperPhase::Failed
    } else if was_ready {
        WrapperPhase::Ready
    } else {
        WrapperPhase::Provisioning
    });
}
