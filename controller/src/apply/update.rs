//! Members get the wanted revision, and say when it is in effect.
//!
//! Each write is computed from the member as it is at that moment, with every field, and demands that very version of
//! it. Another writer's change in between costs another attempt, never that change.

use std::sync::Arc;
use std::time::Duration;

use kube::api::Patch;
use serde_json::{Value, json};
use vmpool_engine::ledger::Seen;
use vmpool_engine::limits;
use vmpool_engine::model::{Activity, DiskDraft};
use vmpool_engine::plan::{Disruption, UpdateOutcome};
use vmpool_engine::revision::RevisionId;
use vmpool_engine::{Machine, Memory, ObjectId};

use super::basis::Basis;
use super::{Outcome, Step, disk, seen};
use crate::context::{Context, PoolEntry, collection};
use crate::events::{Happening, Reason};
use crate::metrics::WriteKind;
use crate::platform::{Platform, Text};
use crate::write::WriteError;

/// How often a write is tried on a member that others write to all the time, before another pass tries again.
const ATTEMPTS: usize = 3;

/// What is to be written to a member.
pub(super) struct Wanted<'a> {
    pub(super) member: &'a ObjectId,
    /// The revision that says what of the member is the pool's.
    pub(super) base: Option<&'a RevisionId>,
    pub(super) to: &'a RevisionId,
    pub(super) disks: &'a [DiskDraft],
    /// What must be true of the member.
    pub(super) disruption: Disruption,
}

/// What came of writing a revision to a member.
pub(super) struct Update {
    member: ObjectId,
    to: RevisionId,
    /// Its disks; if it failed, those that the machine did not have before.
    disks: Vec<DiskDraft>,
    result: Result<(Seen<Machine>, Vec<Happening>), WriteError>,
}

/// The disks among `disks` that the machine does not refer to yet: only one of these can be why it was refused.
fn added(disks: &[DiskDraft], machine: &Machine) -> Vec<DiskDraft> {
    let refers = |disk: &DiskDraft| machine.disks.iter().any(|device| device.disk == disk.name);
    disks.iter().filter(|disk| !refers(disk)).cloned().collect()
}

/// Writes a revision to a member: first its free disks are promised to it, then one patch changes the machine.
pub(super) async fn update<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    basis: &Basis,
    wanted: &Wanted<'_>,
) -> Outcome {
    let (claimed, stop) = disk::claim(context, pool, basis, wanted.disks, &wanted.member.name).await;
    let outcome = match stop {
        Some(stop) => stop,
        None => write(context, pool, basis, wanted).await,
    };
    outcome.after(claimed)
}

async fn write<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    basis: &Basis,
    wanted: &Wanted<'_>,
) -> Outcome {
    let Wanted { member, base, to, disks, disruption } = *wanted;
    let from = base.and_then(|base| basis.templates.of(base, to));
    let result = patched(context, pool, member, |live, machine| {
        let is_other = |written: &RevisionId| {
            base != Some(written) && (written == to || basis.templates.stored.contains_key(written))
        };
        let changed = machine.written.as_ref().is_some_and(is_other);
        if changed || disruption == Disruption::NotRunning && machine.activity == Activity::Running {
            return Err(Unfit::Changed);
        }
        let wanted = basis.templates.wanted.value();
        let template = (to, &wanted);
        let is_known_elsewhere = machine.revision.is_some() && machine.revision == basis.templates.elsewhere;
        let patch = if is_known_elsewhere {
            P::adopt(live, template, disks)
        } else {
            let from = from.map(Text::value);
            P::update(live, from.as_ref(), template, disks)
        };
        let Some(mut patch) = patch else { return Ok(None) };
        if disruption == Disruption::MetadataOnly && patch.get("spec").is_some() {
            return Err(Unfit::Differs);
        }
        // Where the spec stays as it is, there is nothing to wait for.
        if patch.get("spec").is_none() && machine.evaluated && !machine.restart_pending {
            json_patch::merge(&mut patch, &P::record_revision(to));
        }
        Ok(Some(patch))
    });
    let mut tried = disks.to_vec();
    let result = match result.await {
        Patched::Done { before, after } => {
            let mut happenings = applied(member, to, &before, &after.facts);
            happenings.extend(disk::reused(&context.metrics, disks, member));
            Ok((after, happenings))
        }
        Patched::Nothing(machine) => Ok((machine, Vec::new())),
        Patched::Unfit(Unfit::Changed, machine) => return Outcome::Changed(machine),
        Patched::Unfit(Unfit::Differs, machine) => return Outcome::Differs(machine, to.clone()),
        Patched::Outdated => return Outcome::Outdated,
        Patched::Failed(error, before) => {
            tried = added(disks, &before);
            Err(error)
        }
        Patched::Unread(error) => return Outcome::Failed(failure(member, to, &error), error),
    };
    Outcome::Updated(Update { member: member.clone(), to: to.clone(), disks: tried, result })
}

/// Tells which revision a member got, and which disks it lost by that.
fn applied(member: &ObjectId, to: &RevisionId, before: &Machine, after: &Machine) -> Vec<Happening> {
    let note = format!("wrote revision {to} of the template to machine {member}");
    let mut happenings =
        vec![Happening { reason: Reason::TemplateApplied, name: member.name.to_string(), note }];
    let lost = before.disks.iter().filter(|device| {
        device.template.is_some() && !after.disks.iter().any(|left| left.disk == device.disk)
    });
    happenings.extend(lost.map(|device| disk::detached(&device.disk, member, "the template changed")));
    happenings
}

impl Update {
    /// Tells the memory.
    pub(super) fn learn(self, memory: &mut Memory, uptime: Duration) -> Step {
        let Self { member, to, disks, result } = self;
        let answer = match &result {
            Ok(_) => Some(UpdateOutcome::Accepted),
            Err(WriteError::Lost(_)) => Some(UpdateOutcome::Unconfirmed),
            Err(error) if is_verdict(error) => Some(UpdateOutcome::Refused),
            Err(_) => None,
        };
        if let Some(answer) = answer {
            memory.rollout_attempts.record(&member.uid, &to, answer, uptime);
        }
        match result {
            Ok((machine, happenings)) => {
                tracing::info!(
                    machine = &*member.name,
                    revision = to.as_str(),
                    "wrote a revision to a machine"
                );
                memory.machines.written(machine, uptime);
                memory.accept_disks(disks.iter().map(|disk| &disk.name));
                Step { happenings, ..Step::done(None) }
            }
            Err(error) => {
                disk::note_refusal(memory, &disks, &error, uptime);
                Step::failed(failure(&member, &to, &error), error)
            }
        }
    }
}

fn failure(member: &ObjectId, to: &RevisionId, error: &WriteError) -> Happening {
    let note = format!("writing revision {to} of the template to machine {member}: {error}");
    Happening { reason: Reason::FailedTemplateUpdate, name: member.name.to_string(), note }
}

/// Whether the machine's new content was judged. A server that is too busy says nothing about that.
fn is_verdict(error: &WriteError) -> bool {
    matches!(error, WriteError::Refused { status, .. } if status.code != 429)
}

/// Says on a member that the revision which was written last is in effect.
pub(super) async fn record_revision<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    member: &ObjectId,
    to: &RevisionId,
) -> Outcome {
    let result = patched(context, pool, member, |_, machine| {
        let is_in_effect =
            machine.written.as_ref() == Some(to) && machine.evaluated && !machine.restart_pending;
        match (is_in_effect, machine.revision.as_ref() == Some(to)) {
            (_, true) => Ok(None),
            (true, false) => Ok(Some(P::record_revision(to))),
            (false, false) => Err(Unfit::Changed),
        }
    });
    match result.await {
        Patched::Done { after, .. } => Outcome::Machine(after, Vec::new()),
        Patched::Nothing(machine) => Outcome::Machine(machine, Vec::new()),
        Patched::Unfit(_, machine) => Outcome::Changed(machine),
        Patched::Outdated => Outcome::Outdated,
        Patched::Failed(error, _) | Patched::Unread(error) => {
            let note = format!("marking that revision {to} is in effect in machine {member}: {error}");
            let happening = Happening { reason: Reason::FailedRepair, name: member.name.to_string(), note };
            Outcome::Failed(happening, error)
        }
    }
}

/// Why a member is left as it is.
enum Unfit {
    /// It is not what was planned for.
    Changed,
    /// More would change than was meant to.
    Differs,
}

/// What came of patching a member.
enum Patched {
    Done {
        before: Arc<Machine>,
        after: Seen<Machine>,
    },
    /// It is as it shall be.
    Nothing(Seen<Machine>),
    /// It must be left as it is.
    Unfit(Unfit, Seen<Machine>),
    /// It is gone, or changes too often.
    Outdated,
    /// It could not be read, so nothing was sent.
    Unread(WriteError),
    /// It was sent to the machine as it was before, and failed.
    Failed(WriteError, Arc<Machine>),
}

/// Sends the merge patch that `compute` makes of a member as it is now.
async fn patched<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    member: &ObjectId,
    compute: impl Fn(&Value, &Machine) -> Result<Option<Value>, Unfit>,
) -> Patched {
    let namespace = &*pool.facts.namespace;
    for _ in 0..ATTEMPTS {
        let live = match context.get_text::<P::Machine>(namespace, &member.name).await {
            Ok(Some(live)) => live,
            Ok(None) => return Patched::Outdated,
            Err(error) => return Patched::Unread(WriteError::Lost(error.to_string())),
        };
        let (machine, patch) = match prepare(pool, member, live.bytes(), &compute) {
            Ok(prepared) => prepared,
            Err(patched) => return patched,
        };
        drop(live);
        let (path, patch) = (collection::<P::Machine>(namespace), Patch::Merge(patch));
        let kind = WriteKind::UpdateMachine;
        match context.writer.patch::<P::Machine, _>(kind, path, &member.name, None, patch).await {
            Ok(after) => {
                let before = machine.facts.clone();
                return Patched::Done { before, after: seen(&after, P::read_machine) };
            }
            Err(error) if error.is_conflict() => {}
            Err(error) if error.is_gone() => return Patched::Outdated,
            Err(error) => return Patched::Failed(error, machine.facts),
        }
    }
    Patched::Outdated
}

/// The member as it is in `live`, and the patch for it. The tree of the member ends here, before anything is sent: that
/// of a large one takes much memory, and many patches are under way at a time.
fn prepare<P: Platform>(
    pool: &PoolEntry<P>,
    member: &ObjectId,
    live: &[u8],
    compute: impl Fn(&Value, &Machine) -> Result<Option<Value>, Unfit>,
) -> Result<(Seen<Machine>, Value), Patched> {
    let unreadable = |error: serde_json::Error| Patched::Unread(WriteError::Lost(error.to_string()));
    let machine: P::Machine = serde_json::from_slice(live).map_err(unreadable)?;
    let machine = seen(&machine, P::read_machine);
    let is_member = machine.facts.owner.as_ref() == Some(&pool.facts.id.uid);
    if machine.facts.id != *member {
        return Err(Patched::Outdated);
    }
    if machine.facts.terminating || !is_member {
        return Err(Patched::Unfit(Unfit::Changed, machine));
    }
    if live.len() > limits::MACHINE {
        let size = live.len();
        let error =
            format!("the machine takes {size} bytes of JSON, more than the limit of {}", limits::MACHINE);
        return Err(Patched::Unread(WriteError::Invalid(error.into())));
    }
    let live: Value = serde_json::from_slice(live).map_err(unreadable)?;
    let mut patch = match compute(&live, &machine.facts) {
        Ok(Some(patch)) => patch,
        Ok(None) => return Err(Patched::Nothing(machine)),
        Err(unfit) => return Err(Patched::Unfit(unfit, machine)),
    };
    patch["metadata"]["uid"] = json!(member.uid.as_str());
    patch["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    Ok((machine, patch))
}
