//! The status for users.

use std::fmt::Write as _;

use jiff::Timestamp;
use vmpool_engine::condition::ConditionReason;
use vmpool_engine::protection::timestamp_text;

use super::view::{
    ActivityStatus, DiskOverview, DrainStatus, MachineOverview, PoolOverview, ProtectionStatus,
    PublishedCounters, RecyclingStatus,
};
use crate::age::format_age;
use crate::observation::describe_earlier_phase;
use crate::pool::phase_tone;
use crate::shown::ShownCondition;
use crate::table::{Cell, Tone, render_table};
use crate::visible::{escape_except_lines, escape_to_one_line};

/// The largest number of lines of machines and disks, unless all are wanted.
const MACHINE_LINES: usize = 20;

/// The largest number of machines that are not ready and have a line of their own above the conditions.
const UNREADY_LINES: usize = 10;

/// The largest number of lines of free disks, unless all are wanted.
const FREE_DISK_LINES: usize = 10;

/// How much of a long status the text contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextExtent {
    /// What fits on a screen, with the number of machines that are left out.
    Screen,
    /// All of it.
    Complete,
}

/// The status as text: what needs attention first, the long list of machines after the conditions.
pub(super) fn render_pool_overview(status: &PoolOverview, extent: TextExtent, now: Timestamp) -> String {
    let mut text = render_pool_header(status);
    let outdated = describe_outdated_status(status, now).into_iter().map(|why| Tone::Bad.paint(&why));
    let problems = || problem_conditions(status);
    append_section(&mut text, "Causes", outdated.chain(problems().into_iter().map(describe_condition)));
    append_section(&mut text, "Waiting for", status.blocked.iter().map(|why| Tone::Notice.paint(why)));
    append_section(&mut text, "Not ready", unready_lines(status, extent, now).into_iter());
    let others = status.conditions.iter().filter(|condition| !problems().contains(condition));
    append_section(&mut text, "Conditions", others.map(describe_condition));
    if !status.machines.is_empty() {
        text.push('\n');
        text.push_str(&render_machine_table(status, extent, now));
    }
    if !status.free_disks.is_empty() {
        text.push('\n');
        text.push_str(&render_free_disks(&status.free_disks, extent, now));
    }
    let events = status.events.iter().map(|event| {
        let since = event.time.map(|time| format_age(time, now)).unwrap_or_default();
        let tone = if event.warning { Tone::Bad } else { Tone::Plain };
        format!(
            "{} {} {}",
            Tone::Faint.paint(&since),
            tone.paint(&event.reason),
            escape_except_lines(&event.message)
        )
    });
    append_section(&mut text, "Events", events);
    let activity = status.activity.iter().map(|entry| describe_activity(entry, now));
    append_section(&mut text, "Activity", activity);
    append_section(&mut text, "Not shown", status.unreadable.iter().map(|why| Tone::Bad.paint(why)));
    text
}

/// Why the status may not be true; `None` if it is about the current spec and a controller works.
fn describe_outdated_status(status: &PoolOverview, now: Timestamp) -> Option<String> {
    match (&status.unobserved, &status.leader) {
        (Some(unobserved), leader) => Some(unobserved.describe(leader.as_ref(), now)),
        (None, Some(leader)) => Some(format!(
            "{}: state and conditions are those of that time; `kubectl vmpool doctor` checks whether a controller works",
            leader.describe(now)
        )),
        (None, None) => None,
    }
}

/// The conditions that report a problem, each message once.
fn problem_conditions(status: &PoolOverview) -> Vec<&ShownCondition> {
    let mut problems: Vec<&ShownCondition> = Vec::new();
    for condition in status.conditions.iter().filter(|condition| condition_tone(condition) == Tone::Bad) {
        if !problems.iter().any(|known| known.message == condition.message) {
            problems.push(condition);
        }
    }
    problems
}

/// The machines of the pool that are neither ready nor being deleted.
fn unready_lines(status: &PoolOverview, extent: TextExtent, now: Timestamp) -> Vec<String> {
    let unready: Vec<&MachineOverview> =
        status.machines.iter().filter(|machine| is_unready(machine)).collect();
    let shown = match extent {
        TextExtent::Screen => unready.len().min(UNREADY_LINES),
        TextExtent::Complete => unready.len(),
    };
    let mut lines: Vec<String> = unready[..shown].iter().map(|machine| unready_line(machine, now)).collect();
    if shown < unready.len() {
        lines.push(format!("and {} more; --all shows them", unready.len() - shown));
    }
    lines
}

fn is_unready(machine: &MachineOverview) -> bool {
    !machine.ready && !machine.terminating && !machine.released && machine.standby.is_none()
}

fn unready_line(machine: &MachineOverview, now: Timestamp) -> String {
    let state = if machine.state.is_empty() { "no state" } else { &*machine.state };
    let age = machine.created.map(|created| format!(", created {} ago", format_age(created, now)));
    let text = format!("machine {}: {state}{}", machine.name, age.unwrap_or_default());
    match &machine.problem {
        Some(problem) => Tone::Bad.paint(&format!("{text}: {problem}")),
        None => Tone::Notice.paint(&text),
    }
}

fn append_section(text: &mut String, heading: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return;
    }
    let _ = writeln!(text, "\n{}", Tone::Heading.paint(heading));
    for line in lines {
        text.push_str("  ");
        text.push_str(&line.replace('\n', "\n  "));
        text.push('\n');
    }
}

fn render_pool_header(status: &PoolOverview) -> String {
    let PoolOverview { pool, namespace, platform, state, desired, replicas, ready, updated, .. } = status;
    let title = Tone::Heading.paint(&format!("Pool {pool}"));
    let mut text = format!("{title} in namespace {} ({platform})", escape_to_one_line(namespace));
    let (state, tone) = match (&status.unobserved, &status.leader) {
        (Some(_), _) => (describe_earlier_phase(state), Tone::Notice),
        (None, Some(_)) => (state.clone(), Tone::Notice),
        (None, None) => (state.clone(), phase_tone(state)),
    };
    if !state.is_empty() {
        text.push_str(": ");
        text.push_str(&tone.paint(&state));
    }
    let count = format!("{desired} desired, {replicas} exist, {ready} ready, {updated} up to date");
    let _ = write!(text, "\n  Machines  {count}");
    if status.restart_pending > 0 {
        let _ = write!(text, ", {} need a restart", status.restart_pending);
    }
    if status.draining > 0 {
        let _ = write!(text, ", {} draining", status.draining);
    }
    if status.standby > 0 {
        let _ = write!(text, ", {} of {} standby machines ready", status.ready_standby, status.standby);
    }
    if status.image_outdated > 0 {
        let _ = write!(text, ", {} from an earlier image", status.image_outdated);
    }
    text.push('\n');
    if let Some(PublishedCounters { replicas, ready }) = status.published {
        let _ = writeln!(
            text,
            "  Published {replicas} exist, {ready} ready, in the last status of the controller"
        );
    }
    if !status.revision.is_empty() {
        let _ = writeln!(text, "  Revision  {}", escape_to_one_line(&status.revision));
    }
    if status.paused {
        let _ = writeln!(text, "  {}", Tone::Notice.paint(ConditionReason::Paused.as_str()));
    }
    text
}

/// The machines, those that are not ready first, with their disks.
fn render_machine_table(status: &PoolOverview, extent: TextExtent, now: Timestamp) -> String {
    let mut machines: Vec<&MachineOverview> = status.machines.iter().collect();
    // The order of the names stays.
    machines.sort_by_key(|machine| !is_unready(machine));
    let shown = match extent {
        TextExtent::Screen => fitting_machines(&machines),
        TextExtent::Complete => machines.len(),
    };
    let mut rows = Vec::new();
    for machine in &machines[..shown] {
        rows.push(machine_row(machine, now));
        for (place, disk) in machine.disks.iter().enumerate() {
            let branch = if place + 1 == machine.disks.len() { "└─" } else { "├─" };
            rows.push(disk_row(branch, disk, now));
        }
    }
    let mut text = render_table(&["MACHINE", "STATE", "REVISION", "AGE", "NODE", "ADDRESS", "NOTE"], &rows);
    if shown < machines.len() {
        let hidden = machines.len() - shown;
        let _ = writeln!(text, "and {hidden} more of {} machines; --all shows them", machines.len());
    }
    text
}

/// How many of these machines fit into [`MACHINE_LINES`] with their disks. It is at least one.
fn fitting_machines(machines: &[&MachineOverview]) -> usize {
    let mut lines = 0;
    let fitting = machines.iter().take_while(|machine| {
        lines += 1 + machine.disks.len();
        lines <= MACHINE_LINES
    });
    fitting.count().max(1)
}

fn machine_row(machine: &MachineOverview, now: Timestamp) -> Vec<Cell> {
    let state = match machine {
        MachineOverview { terminating: true, .. } => Cell::toned("Terminating", Tone::Notice),
        MachineOverview { ready: true, state, .. } => Cell::toned(state.clone(), Tone::Good),
        MachineOverview { problem: Some(_), state, .. } => Cell::toned(state.clone(), Tone::Bad),
        MachineOverview { state, .. } => Cell::toned(state.clone(), Tone::Notice),
    };
    let revision = match &machine.revision {
        Some(_) if machine.current => Cell::toned("current", Tone::Good),
        Some(revision) => Cell::toned(revision.clone(), Tone::Notice),
        None => Cell::toned("none", Tone::Notice),
    };
    let mut notes = Vec::new();
    if machine.released {
        notes.push("released from the pool".to_owned());
    }
    notes.extend(machine.standby.map(|phase| format!("standby machine, {phase}")));
    if machine.restart_pending {
        notes.push("needs a restart".to_owned());
    }
    notes.extend(machine.problem.clone());
    notes.extend(machine.drain.as_ref().map(describe_drain));
    notes.extend(machine.recycling.as_ref().and_then(describe_request));
    notes.extend(machine.protection.as_ref().map(|protection| describe_protection(protection, now)));
    vec![
        machine.name.clone().into(),
        state,
        revision,
        machine.created.map(|created| format_age(created, now)).unwrap_or_default().into(),
        machine.node.clone().unwrap_or_default().into(),
        machine.addresses.join(",").into(),
        Cell::toned(notes.join("; "), Tone::Notice),
    ]
}

/// The drain of a machine in one sentence.
fn describe_drain(drain: &DrainStatus) -> String {
    let mut text = format!("drains before {}", drain.step);
    if !drain.hooks.is_empty() {
        let _ = write!(text, ", waits for {}", drain.hooks.join(", "));
    }
    if let Some(deadline) = drain.deadline {
        let _ = write!(text, ", until {}", timestamp_text(deadline));
    }
    text
}

/// The request to replace a machine in one sentence; `None` without one.
fn describe_request(recycling: &RecyclingStatus) -> Option<String> {
    recycling.requested.map(|at| format!("its replacement was requested at {}", timestamp_text(at)))
}

/// The protection of a machine in one sentence.
fn describe_protection(protection: &ProtectionStatus, now: Timestamp) -> String {
    let ProtectionStatus { until, by, reason, claimed, id } = protection;
    let mut text = if *claimed { "claimed" } else { "protected" }.to_owned();
    if let Some(id) = id {
        let _ = write!(text, " as {id}");
    }
    match until {
        Some(until) => {
            let _ = write!(text, " until {until} ({})", format_age(now, *until));
        }
        None => text.push_str(", and the end cannot be read"),
    }
    if let Some(by) = by {
        let _ = write!(text, " by {by}");
    }
    if let Some(reason) = reason {
        let _ = write!(text, ": {reason}");
    }
    text
}

fn disk_row(branch: &str, disk: &DiskOverview, now: Timestamp) -> Vec<Cell> {
    let tone = match &*disk.state {
        // The second is that of a complete volume.
        "Ready" | "Succeeded" => Tone::Faint,
        "Failed" | "Lost" | "Missing" => Tone::Bad,
        _ => Tone::Notice,
    };
    let size = disk.size.map(format_bytes).unwrap_or_default();
    let template = disk.template.as_ref().map(|template| format!("disk {template}")).unwrap_or_default();
    let note = [template, size, disk.problem.clone().unwrap_or_default()];
    vec![
        Cell::toned(format!("{branch} {}", disk.name), Tone::Faint),
        Cell::toned(disk.state.clone(), tone),
        "".into(),
        Cell::toned(disk.created.map(|created| format_age(created, now)).unwrap_or_default(), Tone::Faint),
        "".into(),
        "".into(),
        Cell::toned(
            note.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(", "),
            Tone::Faint,
        ),
    ]
}

/// The free disks, in the order of their names.
fn render_free_disks(disks: &[DiskOverview], extent: TextExtent, now: Timestamp) -> String {
    let shown = match extent {
        TextExtent::Screen => disks.len().min(FREE_DISK_LINES),
        TextExtent::Complete => disks.len(),
    };
    let row = |disk: &DiskOverview| {
        vec![
            disk.name.clone().into(),
            disk.state.clone().into(),
            disk.template.clone().unwrap_or_default().into(),
            disk.size.map(format_bytes).unwrap_or_default().into(),
            disk.free_since.map(|since| format_age(since, now)).unwrap_or_default().into(),
        ]
    };
    let rows: Vec<Vec<Cell>> = disks[..shown].iter().map(row).collect();
    let mut text = render_table(&["FREE DISK", "STATE", "TEMPLATE", "SIZE", "FREE FOR"], &rows);
    if shown < disks.len() {
        let _ = writeln!(
            text,
            "and {} more of {} free disks; --all shows them",
            disks.len() - shown,
            disks.len()
        );
    }
    text
}

/// A size with the largest unit of which it is at least one.
fn format_bytes(size: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let unit = UNITS.iter().find(|(_, shift)| size >> shift > 0);
    match unit {
        Some((unit, shift)) if size.trailing_zeros() >= *shift => format!("{}{unit}", size >> shift),
        Some((unit, shift)) => {
            let tenths = (u128::from(size) * 10) >> shift;
            format!("{}.{}{unit}", tenths / 10, tenths % 10)
        }
        None => format!("{size}"),
    }
}

/// A change of the pool in one line.
fn describe_activity(entry: &ActivityStatus, now: Timestamp) -> String {
    let ActivityStatus { time, reason, actor, from, to } = entry;
    let mut text = format!("{} {}", Tone::Faint.paint(&format_age(*time, now)), escape_to_one_line(reason));
    match (from, to) {
        (Some(from), Some(to)) => {
            let _ = write!(text, " {} -> {}", escape_to_one_line(from), escape_to_one_line(to));
        }
        (None, Some(to)) => {
            let _ = write!(text, " {}", escape_to_one_line(to));
        }
        _ => {}
    }
    if let Some(actor) = actor {
        let _ = write!(text, " by {}", escape_to_one_line(actor));
    }
    text
}

/// The tone of a condition: `Bad` if it reports a problem.
fn condition_tone(condition: &ShownCondition) -> Tone {
    match (&*condition.kind, &*condition.status) {
        ("Available" | "Synced" | "Ready", "True") => Tone::Good,
        ("Available" | "Synced" | "Ready", _) => Tone::Notice,
        ("TemplateResolved" | "ImagesReady", "False") => Tone::Bad,
        (kind, "True") if kind.contains("Failure") || matches!(kind, "Stalled" | "InvalidSettings") => {
            Tone::Bad
        }
        (_, "True") => Tone::Notice,
        _ => Tone::Faint,
    }
}

fn describe_condition(condition: &ShownCondition) -> String {
    let ShownCondition { kind, status, reason, message } = condition;
    let name = condition_tone(condition).paint(&format!("{kind}={status}"));
    format!("{name} {}: {}", escape_to_one_line(reason), escape_except_lines(message))
}

#[cfg(test)]
mod tests;
