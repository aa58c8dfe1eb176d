//! The moves: those of users, and the steps of the controllers with the real planners.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use vmpool_api::Quantity;
use vmpool_api::diskimage::values::{ImagePhase, Mode};

use super::model::{Guards, ImageExplorationState, ImageObject, InFlightWrite, WrapperObject};
use crate::corrections::Corrections;
use crate::failure::DiskImageReason;
use crate::model::{BackingObjects, DiskImage, DiskImageStatus, FoundObject, ReferenceList, ReferrerKind};
use crate::plan::{self, ImageAction};
use crate::references::{ImageMark, Referrer, ReferrerIndex};
use crate::settings::ImportLimits;
use crate::testing::{complete_backing, image_without_status, test_time};
use crate::wrapper::{self, ImageTemplateFields, Wrapper, WrapperImage};

/// Every state that one move reaches, with the name of the move.
pub(super) fn reachable_states(
    state: &ImageExplorationState,
    guards: Guards,
) -> Vec<(String, ImageExplorationState)> {
    let mut moves = Vec::new();
    let mut add = |name: String, change: &dyn Fn(&mut ImageExplorationState) -> bool| {
        let mut next = state.clone();
        if change(&mut next) {
            moves.push((name, next));
        }
    };
    add("a user deletes the image".to_owned(), &|next| {
        std::mem::take(&mut next.user_deletes_image) && mark_deleted(next)
    });
    add("a user deletes the image in the foreground".to_owned(), &|next| {
        let deleted = std::mem::take(&mut next.user_deletes_image) && mark_deleted(next);
        next.image.iter_mut().for_each(|image| image.foreground |= deleted);
        deleted
    });
    add("the garbage collector deletes what the image owns".to_owned(), &|next| {
        let owns = !guards.data_is_not_owned;
        let image = next.image.as_mut().filter(|image| image.foreground && image.data && owns);
        image.map(|image| image.data = false).is_some()
    });
    add("the garbage collector ends the deletion in the foreground".to_owned(), &|next| {
        let image = next.image.as_mut().filter(|image| image.foreground);
        image.map(|image| (image.foreground, image.version) = (false, image.version + 1)).is_some()
    });
    add("a user deletes the wrapper".to_owned(), &|next| {
        std::mem::take(&mut next.user_deletes_wrapper) && next.wrapper.take().is_some()
    });
    add("a user creates a machine".to_owned(), &|next| {
        // Admission reads the image, and refuses one that is being deleted.
        let admitted =
            next.image.as_ref().filter(|image| !image.deleting && image.data).map(|image| image.uid);
        next.machine = admitted;
        std::mem::take(&mut next.user_creates_machine) && admitted.is_some()
    });
    add("a user deletes the machine".to_owned(), &|next| next.machine.take().is_some());
    add("the time to live ends".to_owned(), &|next| next.ttl && !std::mem::replace(&mut next.expired, true));
    for at in 0..state.images.len() {
        // The caches of one leader show the kinds at different times. Those of a second one change together.
        let apart = at == 0;
        add(format!("image leader {at} sees the image"), &|next| {
            let image = refresh_cached_value(&mut next.images[at].image, &next.image);
            (!apart && see_references(next, at)) || image
        });
        add(format!("image leader {at} sees the references"), &|next| apart && see_references(next, at));
        add(format!("image leader {at} plans or lists"), &|next| pass_of_image(next, at, guards));
        add(format!("image leader {at} writes"), &|next| {
            let write = take_first(&mut next.images[at].writes);
            write.is_some_and(|write| apply_write(next, &write, guards))
        });
        add(format!("image leader {at} exits"), &|next| {
            let controller = &mut next.images[at];
            let works = controller.lists || !controller.writes.is_empty();
            controller.lists = false;
            controller.writes.clear();
            works && spend_from_budget(&mut next.exits)
        });
    }
    for at in 0..state.wrappers.len() {
        add(format!("wrapper leader {at} sees the wrapper"), &|next| {
            refresh_cached_value(&mut next.wrappers[at].wrapper, &next.wrapper)
        });
        add(format!("wrapper leader {at} plans"), &|next| pass_of_wrapper(next, at, guards));
        add(format!("wrapper leader {at} writes"), &|next| {
            let write = take_first(&mut next.wrappers[at].writes);
            write.is_some_and(|write| apply_write(next, &write, guards))
        });
        add(format!("wrapper leader {at} exits"), &|next| {
            let works = !next.wrappers[at].writes.is_empty();
            next.wrappers[at].writes.clear();
            works && spend_from_budget(&mut next.exits)
        });
    }
    moves
}

fn refresh_cached_value<T: Clone + PartialEq>(cached: &mut T, stored: &T) -> bool {
    let differs = cached != stored;
    cached.clone_from(stored);
    differs
}

fn see_references(state: &mut ImageExplorationState, at_index: usize) -> bool {
    let controller = &mut state.images[at_index];
    let wrapper = refresh_cached_value(&mut controller.wrapper, &state.wrapper);
    refresh_cached_value(&mut controller.machine, &state.machine.is_some()) || wrapper
}

fn take_first(writes: &mut Vec<InFlightWrite>) -> Option<InFlightWrite> {
    (!writes.is_empty()).then(|| writes.remove(0))
}

fn spend_from_budget(budget: &mut u8) -> bool {
    let left = *budget > 0;
    *budget = budget.saturating_sub(1);
    left
}

fn mark_deleted(state: &mut ImageExplorationState) -> bool {
    let Some(image) = state.image.as_mut().filter(|image| !image.deleting) else { return false };
    image.deleting = true;
    image.version += 1;
    true
}

/// What the API server does with a write. A write whose precondition fails changes nothing.
fn apply_write(state: &mut ImageExplorationState, write: &InFlightWrite, guards: Guards) -> bool {
    let image_is = |state: &ImageExplorationState, wanted: u8| {
        state.image.as_ref().is_some_and(|image| image.uid == wanted)
    };
    match *write {
        InFlightWrite::DeleteData { uid } if image_is(state, uid) => {
            state.image.iter_mut().for_each(|image| image.data = false);
        }
        // The last finalizer of an image that is being deleted. In the foreground, the other one goes at
        // once, because the image owns nothing.
        InFlightWrite::Unprotect { uid } if image_is(state, uid) => state.image = None,
        InFlightWrite::Expire { uid, version } => {
            if state.image.as_ref().is_some_and(|image| (image.uid, image.version) == (uid, version)) {
                mark_deleted(state);
                if !guards.expiry_counts_again {
                    state.image.iter_mut().for_each(|image| image.data = false);
                }
            }
        }
        InFlightWrite::Mark { version, mark, bound } => {
            let stored = state.wrapper.as_mut();
            if let Some(wrapper) =
                stored.filter(|stored| !guards.wrapper_version || stored.version == version)
            {
                // Without the guard nothing reads the version, and it would grow without end.
                let version = wrapper.version + u8::from(guards.wrapper_version);
                *wrapper = WrapperObject { version, mark, bound };
            }
        }
        InFlightWrite::CreateImage if state.image.is_none() && spend_from_budget(&mut state.spare_images) => {
            state.image =
                Some(ImageObject { uid: 2, version: 0, deleting: false, foreground: false, data: true });
        }
        InFlightWrite::DeleteData { .. } | InFlightWrite::Unprotect { .. } | InFlightWrite::CreateImage => {}
    }
    true
}

fn uid_from_number(number: u8) -> String {
    number.to_string()
}

fn number_from_uid(uid: &str) -> u8 {
    uid.parse().unwrap()
}

/// The references that a cache or a list shows.
fn references_in_view(
    target: &DiskImage,
    wrapper: Option<&WrapperObject>,
    machine: bool,
    live: bool,
) -> ReferenceList {
    let referrer = |kind, name: &str, mark: Option<u8>| Referrer {
        created: None,
        kind,
        key: crate::model::ObjectKey::new("images", name),
        uid: name.to_owned(),
        images: BTreeSet::from([target.key.clone()]),
        data_sources: BTreeSet::new(),
        mark: mark.map(|mark| ImageMark { image: target.key.clone(), uid: uid_from_number(mark) }),
        owner: None,
        finished: false,
        service_account: None,
    };
    let wrapper = wrapper.map(|wrapper| referrer(ReferrerKind::Wrapper, "wrapper", wrapper.mark));
    let machine = machine.then(|| referrer(ReferrerKind::Machine, "machine", None));
    let index = ReferrerIndex::new(wrapper.into_iter().chain(machine));
    ReferenceList { live, ..index.count(target, &[], &BTreeMap::new()).references }
}

/// One request or plan of a leader of images.
fn pass_of_image(state: &mut ImageExplorationState, at_index: usize, guards: Guards) -> bool {
    let controller = state.images[at_index].clone();
    let Some(cached) = controller.image.as_ref().filter(|_| controller.writes.is_empty()) else {
        return false;
    };
    let facts = image_from_object(cached, state.ttl);
    let live = controller.lists;
    let counted = if live && guards.lists {
        references_in_view(&facts, state.wrapper.as_ref(), state.machine.is_some(), true)
    } else {
        references_in_view(&facts, controller.wrapper.as_ref(), controller.machine, live)
    };
    let settings = ImportLimits::default();
    // With a live read of the objects, the plan sees what the API server has.
    let stored = state.image.as_ref().filter(|image| image.uid == cached.uid);
    let data = cached.data && stored.is_some_and(|image| image.data);
    let backing = if data { complete_backing() } else { BackingObjects::empty() };
    let planned = plan::plan_image(&plan::ImagePassInput {
        now: if state.expired { test_time(100_000) } else { test_time(200) },
        settings: &settings,
        image: &facts,
        backing: &backing,
        backing_is_live: true,
        references: &counted,
        queue_decision: plan::QueueDecision::NotAsked,
        corrections: &Corrections::default(),
        uptime: Duration::ZERO,
    });
    let writes = writes_from_actions(&planned.actions, cached);
    let controller = &mut state.images[at_index];
    let before = (controller.lists, controller.writes.clone());
    controller.lists = planned.reads.references;
    controller.writes = writes;
    before != (controller.lists, controller.writes.clone())
}

fn image_from_object(cached: &ImageObject, ttl: bool) -> DiskImage {
    DiskImage {
        uid: uid_from_number(cached.uid),
        resource_version: uid_from_number(cached.version),
        deleting: cached.deleting,
        ttl: ttl.then_some(Duration::from_hours(1)),
        status: DiskImageStatus {
            phase: Some(ImagePhase::Ready),
            reason: Some(DiskImageReason::Synced),
            ready_at: Some(test_time(20)),
            unreferenced_since: Some(test_time(20)),
            ..DiskImageStatus::default()
        },
        ..image_without_status()
    }
}

fn writes_from_actions(actions: &[ImageAction], cached: &ImageObject) -> Vec<InFlightWrite> {
    let write = |action: &ImageAction| match action {
        ImageAction::DeleteSnapshot { .. }
        | ImageAction::DeleteDataSource { .. }
        | ImageAction::DeleteDataVolume { .. } => Some(InFlightWrite::DeleteData { uid: cached.uid }),
        ImageAction::Unprotect => Some(InFlightWrite::Unprotect { uid: cached.uid }),
        ImageAction::Expire { uid, resource_version } => Some(InFlightWrite::Expire {
            uid: number_from_uid(uid),
            version: number_from_uid(resource_version),
        }),
        ImageAction::Protect
        | ImageAction::CreateDataVolume
        | ImageAction::Disown { .. }
        | ImageAction::Label { .. }
        | ImageAction::MarkPrepopulated { .. }
        | ImageAction::CreateSnapshot
        | ImageAction::ApplyDataSource { .. } => None,
    };
    let mut writes: Vec<InFlightWrite> = actions.iter().filter_map(write).collect();
    // The three objects with the data are one here.
    writes.dedup();
    writes
}

/// One pass of a leader of wrappers, up to its write.
fn pass_of_wrapper(state: &mut ImageExplorationState, at_index: usize, guards: Guards) -> bool {
    let controller = &state.wrappers[at_index];
    let Some(cached) = controller.wrapper.clone().filter(|_| controller.writes.is_empty()) else {
        return false;
    };
    let seen = state.image.as_ref().map(|image| WrapperImage {
        uid: uid_from_number(image.uid),
        deleting: image.deleting,
        protected: true,
        phase: Some(ImagePhase::Ready),
        usable: image.data,
        message: String::new(),
        generation: 1,
        source: blank_template_fields(),
    });
    let facts = Wrapper {
        key: crate::model::ObjectKey::new("images", "wrapper"),
        uid: "wrapper".to_owned(),
        deleting: false,
        image: image_without_status().key,
        template: Some(blank_template_fields()),
        mode: Mode::CreateIfNotExist,
        disk_size: None,
        unusable: None,
        status: wrapper::WrapperStatus {
            mark: cached
                .mark
                .map(|mark| ImageMark { image: image_without_status().key, uid: uid_from_number(mark) }),
            bound: cached.bound,
            ..wrapper::WrapperStatus::default()
        },
    };
    let planned = wrapper::plan_wrapper(&wrapper::WrapperPassInput {
        now: test_time(200),
        wrapper: &facts,
        image: seen.as_ref(),
        image_is_live: true,
        may_refer: true,
        may_create: &Ok(()),
        machine: &FoundObject::Missing,
        disk: None,
        disk_name: &wrapper::DiskNameOwner::Free,
        disk_name_is_live: true,
    })
    .expect("all facts are live");
    let mark = planned.status.mark.map(|mark| number_from_uid(&mark.uid));
    let bound = planned.status.bound || (!guards.second_read && mark.is_some());
    let mut writes = Vec::new();
    if (mark, bound) != (cached.mark, cached.bound) {
        writes.push(InFlightWrite::Mark { version: cached.version, mark, bound });
    }
    if planned.actions.contains(&wrapper::WrapperAction::CreateImage) && state.spare_images > 0 {
        writes.push(InFlightWrite::CreateImage);
    }
    let works = !writes.is_empty();
    state.wrappers[at_index].writes = writes;
    works
}

fn blank_template_fields() -> ImageTemplateFields {
    ImageTemplateFields {
        source_type: "blank".to_owned(),
        disk_size: Quantity::new("1Gi"),
        ..ImageTemplateFields::default()
    }
}
