//! The key of a state: equal keys mean that the states have the same future.
//!
//! All data that the future depends on is printed. Names, versions and times are then replaced by their
//! canonical form ([`super::canonical`]). The memory of the controller is printed with `Debug`, so that new
//! fields are included.

use std::collections::BTreeSet;
use std::fmt::{Debug, Write as _};
use std::sync::Arc;

use super::super::api::{Api, ModelTable, RequestBasis};
use super::super::watch_cache::WatchCache;
use super::canonical;
use super::moves::ExploredState;
use crate::PoolAction;
use crate::ledger::{Ledger, LedgerCache as _, LedgerFacts, VersionedFacts};
use crate::model::StoredTime;

/// A hash of the state that is large enough to avoid collisions.
pub(super) fn state_key(state: &ExploredState) -> u128 {
    hash_text(&canonical_state(state))
}

/// FNV-1a.
fn hash_text(text: &str) -> u128 {
    text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

/// The state as text.
pub(super) fn canonical_state(state: &ExploredState) -> String {
    let api = &state.world.api;
    let mut out = String::with_capacity(8192);
    // These come first, because retained disks are numbered in the order of their first occurrence.
    write_unordered_list(&mut out, "disks", objects_by_age(&api.disks));
    write_unordered_list(&mut out, "machines", objects_by_age(&api.machines));
    write_pool_state(&mut out, state);
    write_controller_state(&mut out, state);
    write_requests_in_flight(&mut out, state);
    write_invariant_state(&mut out, api);
    canonical::canonicalize_text(&out, api)
}

fn write_debug_line(out: &mut String, name: &str, what: &dyn Debug) {
    writeln!(out, "{name} {what:?}").expect("a string takes all");
}

/// A list without a significant order.
fn write_unordered_list<T: Debug>(out: &mut String, name: &str, items: impl IntoIterator<Item = T>) {
    let items: Vec<String> = items.into_iter().map(|item| format!("{item:?}")).collect();
    writeln!(out, "{name} {{{}}}", items.join(", ")).expect("a string takes all");
}

fn objects_by_age<T: LedgerFacts + Debug>(table: &ModelTable<T>) -> Vec<&Arc<T>> {
    let mut objects: Vec<&VersionedFacts<T>> = table.objects.values().collect();
    objects.sort_by_key(|seen| uid_version(seen.facts.id().uid.as_str()));
    objects.into_iter().map(|seen| &seen.facts).collect()
}

fn uid_version(uid: &str) -> u64 {
    uid.rsplit('#').next().and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn write_pool_state(out: &mut String, state: &ExploredState) {
    let pool = &state.world.api.pool;
    write_debug_line(
        out,
        "pool",
        &(pool.desired, pool.scale_down_policy, &pool.revision.id, pool.revision.stored, pool.deleting),
    );
    if state.world.api.has_instances() {
        write_debug_line(out, "finalizer", &pool.finalizer);
        write_debug_line(out, "storage", &state.world.api.storage.owners);
    }
    write_debug_line(out, "standby", &pool.standby);
    write_debug_line(out, "images", &pool.disk_contents);
    write_debug_line(out, "block", &pool.name_block);
    write_debug_line(out, "record", &pool.record);
    write_debug_line(out, "revisions", &(&state.world.api.revisions.stored, &state.world.api.revisions.lost));
    write_debug_line(out, "budgets", &(state.edits, state.faults));
}

fn write_controller_state(out: &mut String, state: &ExploredState) {
    let (api, shell) = (&state.world.api, &state.world.controller);
    write_debug_line(out, "same generation", &(shell.memory.generation == api.pool.generation));
    write_debug_line(out, "memory", &shell.memory);
    write_cache_state(out, "machine cache", &shell.machines, &api.machines, &shell.memory.machines);
    write_cache_state(out, "disk cache", &shell.disks, &api.disks, &shell.memory.disks);
    write_debug_line(out, "pending", &shell.pending);
    if !shell.pending.is_empty() {
        write_debug_line(out, "rests on", &relevant_basis(api, shell.basis));
        for action in &shell.pending {
            if let PoolAction::Delete { machine, .. } = action {
                let live = api.machines.objects.get(&machine.name).map(|seen| seen.version);
                let planned = shell.machine_versions.get(&machine.name).copied();
                write_debug_line(out, "outdated machine", &(live != planned));
                write_debug_line(out, "known", &shell.known.get(&machine.name));
            }
            if let Some(version) = shell.versions.get(action.object()) {
                let live = api.disks.objects.get(action.object()).map(|seen| seen.version);
                write_debug_line(out, "outdated", &(action.object(), live != Some(*version)));
            }
        }
        // Disks that are allocated by requests in flight.
        for (name, version) in &shell.versions {
            let live = api.disks.objects.get(name).map(|seen| seen.version);
            if live != Some(*version) {
                write_debug_line(out, "outdated", name);
            }
        }
    }
    write_unordered_list(
        out,
        "attempts",
        shell.first_basis.iter().map(|(name, rests)| (name, relevant_basis(api, *rests))),
    );
}

/// The outdated objects of a cache, and the deletions that it remembers.
fn write_cache_state<T: LedgerFacts + Debug>(
    out: &mut String,
    name: &str,
    view: &WatchCache<T>,
    table: &ModelTable<T>,
    ledger: &Ledger<T>,
) {
    let names: BTreeSet<&Arc<str>> = view.objects.keys().chain(table.objects.keys()).collect();
    let differs = names.into_iter().filter_map(|name| {
        let (shown, live) = (view.get(name), table.objects.get(name));
        let version = shown.as_ref().map(|seen| seen.version);
        (version != live.map(|seen| seen.version)).then_some((name, shown))
    });
    write_unordered_list(out, name, differs);
    write_debug_line(out, "unseen", &&table.log[view.position..]);
    let written = format!("{ledger:?}");
    write_unordered_list(
        out,
        "seen deleted",
        view.deleted.iter().filter(|uid| written.contains(uid.as_str())),
    );
}

/// The parts of a basis that the invariants use.
fn relevant_basis(api: &Api, basis: RequestBasis) -> impl Debug + use<> {
    let since = &api.history[basis.pool..];
    let most = since.iter().map(super::super::api::PoolHistoryEntry::desired).max();
    let standby = since.iter().map(super::super::api::PoolHistoryEntry::standby);
    let standby = (standby.clone().max(), standby.take(1).next(), basis.activating);
    let images: BTreeSet<_> = since.iter().map(|wanted| wanted.images().clone()).collect();
    let blocks: Vec<String> = since.iter().map(|wanted| format!("{:?}", wanted.name_block())).collect();
    let blocks: BTreeSet<String> = blocks.into_iter().collect();
    let after = |positions: &[usize]| positions.iter().filter(|at| **at >= basis.seen).count();
    let removals: Vec<_> = (api.removals.accepted.iter())
        .filter(|(uid, _)| api.machines.objects.values().any(|seen| seen.facts.id.uid == **uid))
        .map(|(uid, since)| (uid.clone(), *since <= basis.pool))
        .collect();
    let first = since.first().map(|wanted| (wanted.desired(), wanted.scale_down_policy()));
    let counts = (
        after(&api.former_leader_creates) + api.returned_since(basis),
        after(&api.others_removals),
        since.len() == 1,
    );
    let reserved_later: Vec<_> = (api.removals.reserved_at.iter())
        .filter(|(request, at)| **at > basis.planned && api.pool.record.requests().contains(*request))
        .map(|(request, _)| request.clone())
        .collect();
    (basis.current, counts, first, (most, standby, images), blocks, removals, reserved_later)
}

fn write_requests_in_flight(out: &mut String, state: &ExploredState) {
    let (world, api) = (&state.world, &state.world.api);
    write_unordered_list(
        out,
        "in flight",
        world.in_flight.iter().map(|request| {
            let object = request.action.object();
            let live = api.machines.objects.get(object).map(|seen| seen.version);
            let live = live.or_else(|| api.disks.objects.get(object).map(|seen| seen.version));
            let outdated = request.version.is_some() && request.version != live;
            (&request.action, relevant_basis(api, request.basis), outdated, request.sent, api.existed(object))
        }),
    );
    write_debug_line(out, "callers", &world.removal_clients);
}

/// The state besides objects, as far as it is about existing objects.
fn write_invariant_state(out: &mut String, api: &Api) {
    let mentioned = out.clone();
    let matters = |uid: &str| mentioned.contains(uid);
    write_unordered_list(out, "accepted", api.removals.accepted.keys().filter(|uid| matters(uid.as_str())));
    write_unordered_list(
        out,
        "reserved",
        api.removals.reserved.iter().filter(|(request, _)| matters(request)),
    );
    write_unordered_list(
        out,
        "verified",
        api.removals.verified.iter().filter(|(request, _)| matters(request)),
    );
    write_unordered_list(out, "starts", api.requested_starts().filter(|uid| matters(uid.as_str())));
    write_unordered_list(out, "late", api.revisions.late.iter().filter(|uid| matters(uid.as_str())));
    write_unordered_list(
        out,
        "strays",
        api.former_leader_machines.iter().filter(|uid| matters(uid.as_str())),
    );
    let retained = &api.retained;
    // The rest is about retained disks.
    if !api.retains_disks() {
        return;
    }
    write_debug_line(out, "mounts", &retained.mounts);
    write_debug_line(out, "kept", &(retained.most_machines, retained.excused, retained.refuses_growth));
    write_unordered_list(out, "used", retained.last_used.iter().filter(|(uid, _)| matters(uid.as_str())));
    let marked = |disk: &str| match api.disks.objects.get(disk)?.facts.annotations.collecting_since? {
        StoredTime::At(at) => Some(at),
        StoredTime::Unreadable => None,
    };
    write_unordered_list(
        out,
        "references",
        retained.references.iter().filter(|((uid, disk), _)| matters(uid.as_str()) && matters(disk)).map(
            |((uid, disk), since)| {
                let before = marked(disk).is_some_and(|mark| jiff::Timestamp::UNIX_EPOCH + *since <= mark);
                (uid, disk, before)
            },
        ),
    );
    write_debug_line(
        out,
        "wanted once",
        &api.history.iter().map(super::super::api::PoolHistoryEntry::desired).max(),
    );
}
