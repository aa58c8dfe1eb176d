//! The status of a wrapper as it is stored, and the events about it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use vmpool_api::diskimage::virtual_machine::{
    VirtualMachineStatusDisk, VirtualMachineStatusVirtualMachine, VirtualMachineStatusVmDiskImage,
};
use vmpool_api::diskimage::{VirtualMachine, VirtualMachineStatus};

use super::objects::data_volume_name;
use super::types::{RecordedDisk, WrapperImageReason, WrapperMachineReason, WrapperStatus};
use crate::conditions::{ConditionBuilder, TemplateMatchReason, WrapperConditionType, find_condition};
use crate::limits;
use crate::model::ObjectKey;
use crate::plan::PlannedEvent;
use crate::references::ImageMark;

#[cfg(test)]
mod tests;

/// Reason of the event about a disk that was lost with the data of its guest.
pub const DISK_RECREATED: &str = "DiskRecreated";

/// The stored status. The differences of template and image are not read: each pass compares them.
pub fn read_wrapper_status(stored: &VirtualMachineStatus) -> WrapperStatus {
    let reason = |kind: WrapperConditionType| {
        wrapper_condition(stored, kind).map(|condition| condition.reason.as_str())
    };
    let mark = stored.vm_disk_image.as_ref();
    WrapperStatus {
        phase: stored.phase.as_ref().and_then(|phase| phase.parse().ok()),
        message: stored.message.clone().unwrap_or_default(),
        mark: mark.map(|mark| ImageMark {
            image: ObjectKey::new(&mark.namespace, &mark.name),
            uid: mark.uid.clone(),
        }),
        bound: mark.is_some_and(|mark| mark.bound),
        machine: stored.virtual_machine.as_ref().map(|machine| machine.uid.clone()),
        started: stored.machine_started == Some(true),
        disk: stored
            .disk
            .as_ref()
            .map(|disk| RecordedDisk { volume: disk.data_volume_uid.clone(), claim: disk.claim_uid.clone() }),
        kicks: stored.kicks.and_then(|kicks| kicks.try_into().ok()).unwrap_or_default(),
        last_kick: stored.last_kick_time.as_ref().and_then(|time| time.parse().ok()),
        image: reason(WrapperConditionType::ImageReady).and_then(WrapperImageReason::parse),
        virtual_machine: reason(WrapperConditionType::VirtualMachineReady)
            .and_then(WrapperMachineReason::parse),
        differences: None,
        compared: 0,
        ready: wrapper_condition(stored, WrapperConditionType::Ready)
            .is_some_and(|ready| ready.status == "True"),
    }
}

fn wrapper_condition(stored: &VirtualMachineStatus, kind: WrapperConditionType) -> Option<&Condition> {
    find_condition(stored.conditions.as_ref(), kind.as_str())
}

/// Since when the image is ready; `None` if it is not.
pub fn image_ready_since(stored: &VirtualMachineStatus) -> Option<Timestamp> {
    let ready =
        wrapper_condition(stored, WrapperConditionType::ImageReady).filter(|ready| ready.status == "True")?;
    Some(ready.last_transition_time.0)
}

/// Whether the template differs from the image.
pub fn is_mismatch(stored: &VirtualMachineStatus) -> bool {
    wrapper_condition(stored, WrapperConditionType::TemplateMatches)
        .is_some_and(|matches| matches.status == "False")
}

/// The status to store. A status that did not change is equal to the stored one.
pub fn render_wrapper_status(
    wrapper: &VirtualMachine,
    planned: &WrapperStatus,
    now: Timestamp,
) -> VirtualMachineStatus {
    let planned = &WrapperStatus { message: limits::shorten_message(&planned.message), ..planned.clone() };
    let stored = wrapper.status.as_ref();
    let name = wrapper.metadata.name.clone().unwrap_or_default();
    let machine = planned.machine.clone();
    VirtualMachineStatus {
        phase: planned.phase.map(|phase| phase.to_string()),
        message: Some(planned.message.clone()).filter(|message| !message.is_empty()),
        observed_generation: wrapper.metadata.generation,
        conditions: Some(render_wrapper_conditions(wrapper, stored, planned, now))
            .filter(|all| !all.is_empty()),
        vm_disk_image: planned.mark.as_ref().map(|mark| VirtualMachineStatusVmDiskImage {
            namespace: mark.image.namespace.clone(),
            name: mark.image.name.clone(),
            uid: mark.uid.clone(),
            bound: planned.bound,
        }),
        data_volume_name: machine.as_ref().map(|_| data_volume_name(wrapper)),
        machine_started: machine.as_ref().map(|_| planned.started),
        disk: planned.disk.as_ref().map(|disk| VirtualMachineStatusDisk {
            data_volume_uid: disk.volume.clone(),
            claim_uid: disk.claim.clone(),
        }),
        virtual_machine: machine.map(|uid| VirtualMachineStatusVirtualMachine { name, uid }),
        kicks: (planned.kicks > 0).then(|| planned.kicks.try_into().unwrap_or(i32::MAX)),
        last_kick_time: planned.last_kick.map(|time| time.to_string()),
    }
}

fn render_wrapper_conditions(
    wrapper: &VirtualMachine,
    stored: Option<&VirtualMachineStatus>,
    planned: &WrapperStatus,
    now: Timestamp,
) -> Vec<Condition> {
    let stored = stored.and_then(|stored| stored.conditions.as_ref());
    let all = ConditionBuilder { stored, generation: wrapper.metadata.generation, now };
    let condition = |kind: WrapperConditionType, holds: bool, reason: &str, message: String| {
        all.condition(kind.as_str(), holds, reason, message)
    };
    let mut conditions = Vec::new();
    let image_is_ready = planned.image == Some(WrapperImageReason::ImageReady);
    let machine_is_ready = planned.virtual_machine == Some(WrapperMachineReason::MachineReady);
    let cause = match (planned.image, planned.virtual_machine) {
        (Some(image), _) if !image_is_ready => Some(image.as_str()),
        (_, machine) => machine.map(WrapperMachineReason::as_str),
    };
    if let Some(cause) = cause {
        conditions.push(condition(
            WrapperConditionType::Ready,
            planned.ready,
            cause,
            planned.message.clone(),
        ));
    }
    if let Some(image) = planned.image {
        let message = if image_is_ready { String::new() } else { planned.message.clone() };
        conditions.push(condition(WrapperConditionType::ImageReady, image_is_ready, image.as_str(), message));
    }
    if let Some(machine) = planned.virtual_machine {
        let message = match (machine_is_ready, image_is_ready) {
            (true, _) => String::new(),
            (false, true) => planned.message.clone(),
            (false, false) => machine.describe().to_owned(),
        };
        conditions.push(condition(
            WrapperConditionType::VirtualMachineReady,
            machine_is_ready,
            machine.as_str(),
            message,
        ));
    }
    let template_condition = |holds: bool, reason: TemplateMatchReason, message: String| {
        condition(WrapperConditionType::TemplateMatches, holds, reason.as_str(), message)
    };
    match &planned.differences {
        _ if wrapper.spec.vm_disk_image_template.is_none() => {
            conditions.push(template_condition(true, TemplateMatchReason::NoTemplate, String::new()));
        }
        Some(fields) if fields.is_empty() => {
            conditions.push(template_condition(true, TemplateMatchReason::Matches, String::new()));
        }
        Some(fields) => {
            // The generation makes the message, and thereby the event, that of one version of the image.
            let text = format!(
                "vmDiskImageTemplate and generation {} of the image differ in {}; the image is used as it is",
                planned.compared,
                fields.join(", ")
            );
            conditions.push(template_condition(false, TemplateMatchReason::TemplateMismatch, text));
        }
        None => {}
    }
    conditions
}

/// Whether the machine is the same and has another disk. KubeVirt may make the DataVolume again, or CDI the
/// claim.
fn lost_its_disk(stored: &VirtualMachineStatus, rendered: &VirtualMachineStatus) -> bool {
    let uid =
        |status: &VirtualMachineStatus| status.virtual_machine.as_ref().map(|machine| machine.uid.clone());
    let disks = stored.disk.as_ref().zip(rendered.disk.as_ref());
    uid(stored) == uid(rendered)
        && disks.is_some_and(|(before, now)| {
            let claims = before.claim_uid.as_ref().zip(now.claim_uid.as_ref());
            before.data_volume_uid != now.data_volume_uid || claims.is_some_and(|(before, now)| before != now)
        })
}

/// The events about a changed status, and no event about a repeated one.
pub fn wrapper_events(
    stored: Option<&VirtualMachineStatus>,
    rendered: &VirtualMachineStatus,
) -> Vec<PlannedEvent> {
    let mut events = Vec::new();
    let reason = |status: Option<&VirtualMachineStatus>, kind: WrapperConditionType| {
        status.and_then(|status| wrapper_condition(status, kind)).map(|condition| condition.reason.clone())
    };
    let bound = |status: Option<&VirtualMachineStatus>| {
        status.and_then(|status| status.vm_disk_image.clone()).filter(|mark| mark.bound)
    };
    if let Some(mark) = bound(Some(rendered)).filter(|mark| bound(stored).as_ref() != Some(mark)) {
        let message = format!("the wrapper uses the image {}/{}", mark.namespace, mark.name);
        events.push(PlannedEvent { warning: false, reason: "ImageBound", message });
    }
    for (kind, warnings) in [
        (
            WrapperConditionType::ImageReady,
            &[
                WrapperImageReason::ImageNotFound.as_str(),
                WrapperImageReason::ImageTerminating.as_str(),
                WrapperImageReason::RefNotPermitted.as_str(),
                WrapperImageReason::CreateNotPermitted.as_str(),
            ][..],
        ),
        (WrapperConditionType::VirtualMachineReady, &[WrapperMachineReason::NameConflict.as_str()][..]),
    ] {
        let now = reason(Some(rendered), kind).filter(|now| reason(stored, kind).as_ref() != Some(now));
        let warning = warnings.iter().copied().find(|warning| now.as_deref() == Some(*warning));
        if let Some((reason, found)) = warning.zip(wrapper_condition(rendered, kind)) {
            events.push(PlannedEvent { warning: true, reason, message: found.message.clone() });
        }
    }
    if stored.is_some_and(|stored| lost_its_disk(stored, rendered)) {
        let text = "the disk of the machine was lost and made again from the image: all data that the guest wrote is gone";
        events.push(PlannedEvent { warning: true, reason: DISK_RECREATED, message: text.to_owned() });
    }
    let mismatch = wrapper_condition(rendered, WrapperConditionType::TemplateMatches)
        .filter(|now| now.status == "False");
    let before = stored.and_then(|stored| wrapper_condition(stored, WrapperConditionType::TemplateMatches));
    let same_image = stored.and_then(|stored| stored.vm_disk_image.as_ref()).map(|mark| &mark.uid)
        == rendered.vm_disk_image.as_ref().map(|mark| &mark.uid);
    let is_known = |now: &Condition| {
        let same = |before: &Condition| {
            (&before.reason, &before.message, before.observed_generation)
                == (&now.reason, &now.message, now.observed_generation)
        };
        same_image && before.is_some_and(same)
    };
    if let Some(mismatch) = mismatch.filter(|now| !is_known(now)) {
        events.push(PlannedEvent {
            warning: true,
            reason: TemplateMatchReason::TemplateMismatch.as_str(),
            message: mismatch.message.clone(),
        });
    }
    events
}
