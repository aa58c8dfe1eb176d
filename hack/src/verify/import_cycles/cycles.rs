//! Cycles in a graph of imports.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use super::graph::Imports;

/// The groups of files that import each other, directly or indirectly, each with the imports within the
/// group.
pub(super) fn cyclic_components(imports: &Imports) -> Vec<Imports> {
    let reachable: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> =
        imports.keys().map(|file| (file, reachable(imports, file))).collect();
    let mut grouped = BTreeSet::new();
    let mut components = Vec::new();
    for file in imports.keys() {
        if grouped.contains(file) || !reachable[file].contains(file) {
            continue;
        }
        let group: BTreeSet<&PathBuf> =
            reachable[file].iter().copied().filter(|other| reachable[other].contains(file)).collect();
        grouped.extend(group.iter().copied());
        let inside = |file: &PathBuf| {
            imports[file]
                .iter()
                .filter(|(other, _)| group.contains(other))
                .map(|(other, path)| (other.clone(), path.clone()))
        };
        components.push(group.iter().map(|&file| (file.clone(), inside(file).collect())).collect());
    }
    components
}

/// The files that a file imports, directly or indirectly.
fn reachable<'a>(imports: &'a Imports, file: &PathBuf) -> BTreeSet<&'a PathBuf> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&PathBuf> = imports[file].keys().collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(imports[next].keys());
        }
    }
    found
}

/// The files of a shortest cycle in a group, in the order of the imports.
pub(super) fn shortest_cycle(component: &Imports) -> Vec<PathBuf> {
    let cycles = component.keys().filter_map(|file| shortest_from(component, file));
    cycles.min_by_key(Vec::len).unwrap_or_default()
}

fn shortest_from(component: &Imports, start: &PathBuf) -> Option<Vec<PathBuf>> {
    let mut previous: BTreeMap<&PathBuf, &PathBuf> = BTreeMap::new();
    let mut open: VecDeque<&PathBuf> = [start].into();
    while let Some(file) = open.pop_front() {
        for next in component[file].keys() {
            if next == start {
                let back = std::iter::successors(Some(file), |file| previous.get(*file).copied());
                let mut cycle: Vec<PathBuf> = back.cloned().collect();
                cycle.reverse();
                return Some(cycle);
            }
            if let std::collections::btree_map::Entry::Vacant(entry) = previous.entry(next) {
                entry.insert(file);
                open.push_back(next);
            }
        }
    }
    None
}
