//! Which machines have disks from other content than the sources of the pool lead to.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::clock::SETTLING_TIME;
use super::content::{ContentComparison, DiskContent, DiskSourceRecord, format_disk_sources};
use super::setting::ImageRefresh;
use crate::model::Machine;
use crate::plan::observed::ObservedPool;

/// Whether a disk of the machine was created from other content than its source has led to for a minute.
pub(crate) fn is_outdated_by_image(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    !observed.pool.disk_contents.is_empty() && find_outdated_templates(observed, machine).next().is_some()
}

/// Whether a machine that drains because of its image may still have to be replaced: the source has other
/// content, which counts in less than a minute, or this leader has not followed the sources for long enough
/// to know. Otherwise a change of leaders would end the drain, and a minute later another one would begin.
pub(crate) fn may_become_outdated(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    observed.pool.image_refresh == ImageRefresh::Recreate
        && (find_time_until_known(observed).is_some()
            || find_other_content(observed, machine).next().is_some())
}

/// The time until this leader has followed the sources of a pool that replaces machines for them long enough;
/// `None` if it has.
pub(crate) fn find_time_until_known(observed: &ObservedPool<'_>) -> Option<Duration> {
    let left = (SETTLING_TIME * 2).saturating_sub(observed.memory.led_for(observed.uptime));
    (observed.pool.image_refresh == ImageRefresh::Recreate && !left.is_zero()).then_some(left)
}

/// The live machines that are outdated by image.
pub(crate) fn find_image_outdated<'a>(observed: &ObservedPool<'a>) -> impl Iterator<Item = &'a Arc<Machine>> {
    let contents = &observed.pool.disk_contents;
    // Almost all machines have this record.
    let newest = format_disk_sources(contents);
    let has_newest =
        move |machine: &Machine| newest.is_some() && machine.disk_sources.as_deref() == newest.as_deref();
    observed
        .pool_machines()
        .filter(|_| !contents.is_empty())
        .filter(move |machine| !machine.terminating && !has_newest(machine))
        .filter(move |machine| is_outdated_by_image(observed, machine))
}

/// The number of live machines that are outdated by image.
pub fn count_image_outdated(observed: &ObservedPool<'_>) -> usize {
    find_image_outdated(observed).count()
}

/// The sources of these machines that have other content.
pub(crate) fn find_outdated_sources(
    observed: &ObservedPool<'_>,
    machines: &[&Arc<Machine>],
) -> BTreeSet<Arc<str>> {
    let contents = &observed.pool.disk_contents;
    let templates = machines.iter().flat_map(|machine| find_outdated_templates(observed, machine));
    templates.filter_map(|template| Some(contents.get(template)?.source.clone())).collect()
}

/// The disk templates whose source has led to other content than that of the machine for a minute.
fn find_outdated_templates<'a>(
    observed: &'a ObservedPool<'_>,
    machine: &'a Machine,
) -> impl Iterator<Item = &'a str> {
    let (memory, uptime) = (observed.memory, observed.uptime);
    find_other_content(observed, machine).filter(move |template| memory.contents.is_settled(template, uptime))
}

/// The disk templates whose source leads to other content than that of the machine.
fn find_other_content<'a>(
    observed: &'a ObservedPool<'_>,
    machine: &'a Machine,
) -> impl Iterator<Item = &'a str> {
    let record = machine.disk_sources.as_deref().map(DiskSourceRecord::parse).unwrap_or_default();
    let contents = observed.pool.disk_contents.iter();
    contents
        .filter(move |(template, content)| match record.compare(template, content) {
            Some(ContentComparison::Same | ContentComparison::OtherSource) => false,
            Some(ContentComparison::OtherContent) => true,
            None => is_younger_content(observed, machine, content),
        })
        .map(|(template, _)| &**template)
}

/// Whether the content is younger than a machine without a record of it. What a machine of another revision
/// was created from is not known: its template may have named another source.
fn is_younger_content(observed: &ObservedPool<'_>, machine: &Machine, content: &DiskContent) -> bool {
    let is_current = machine.written.as_ref().is_some_and(|revision| observed.pool.is_current(revision));
    is_current && content.created > machine.created
}
