//! All states of small worlds: whatever can happen, in every order.
//!
//! A search visits every state that a small world can come to by single moves ([`moves`]): the leader's requests one
//! by one, the watches event by event, the platform machine by machine, users at any moment, a fault or two. States are
//! the same if they differ only in what nobody can tell apart ([`key`]): which names of the pool's own were used up
//! before, which versions were counted, how long ago what is old enough has happened. In each state the invariants are
//! checked, as every committed write is, and from each the world must come to rest once nothing fails any more.
//!
//! There is no clock. A moment takes next to nothing, and "time passes" makes everything that is under way old enough
//! for whatever waits for it.

mod canonical;
mod config;
mod convergence;
mod key;
mod moves;

#[expect(clippy::disallowed_types, reason = "states are looked up, never walked")]
use std::collections::{HashMap, HashSet};
use std::fmt;

use super::api::Broken;
use config::{Config, Ends, Users};
use moves::{Move, State};

/// What a search has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    states: usize,
    transitions: usize,
    /// Moves on the longest of the shortest ways to a state.
    depth: usize,
    /// States in which nothing is left to do.
    settled: usize,
    /// Whether there was nothing left to visit.
    complete: bool,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, transitions, depth, settled, complete } = self;
        let all = if *complete { "all" } else { "the first" };
        write!(f, "{all} {states} states, {transitions} transitions, {depth} deep, {settled} at rest")
    }
}

/// How a state was reached: from which one, and by what.
type Origin = (u32, Move);

/// A search that goes on.
struct Search {
    #[expect(clippy::disallowed_types, reason = "looked up, never walked")]
    visited: HashMap<u128, u32>,
    origins: Vec<Option<Origin>>,
    /// States from which the world is known to come to rest.
    #[expect(clippy::disallowed_types, reason = "looked up, never walked")]
    restful: HashSet<u128>,
    settled: usize,
    transitions: usize,
}

/// Visits the states of a world, nearest first, and no more than `limit` of them.
///
/// # Errors
/// A broken invariant, with the shortest story that leads to it.
fn explore(small: &Config, limit: usize) -> Result<Count, String> {
    let first = State::new(small);
    let mut search = Search {
        visited: [(key::of(&first), 0)].into(),
        origins: vec![None],
        restful: std::iter::empty().collect(),
        settled: 0,
        transitions: 0,
    };
    let mut level = vec![(first, 0)];
    let mut depth = 0;
    while !level.is_empty() && search.visited.len() < limit {
        let mut next = Vec::new();
        for (state, id) in level {
            search
                .expand(&state, id, &mut next)
                .map_err(|(broken, last)| search.story(small, id, last, &broken))?;
        }
        level = next;
        depth += usize::from(!level.is_empty());
    }
    Ok(Count {
        states: search.visited.len(),
        transitions: search.transitions,
        depth,
        settled: search.settled,
        complete: level.is_empty(),
    })
}

impl Search {
    /// Checks a state and makes every move from it. The error says which move broke something, if one did.
    fn expand(
        &mut self,
        state: &State,
        id: u32,
        next: &mut Vec<(State, u32)>,
    ) -> Result<(), (Broken, Option<Move>)> {
        let rest = convergence::comes_to_rest(state, &mut self.restful).map_err(|broken| (broken, None))?;
        self.settled += usize::from(rest);
        for step in moves::enabled(state) {
            let after = state.after(step).map_err(|broken| (broken, Some(step)))?;
            self.transitions += 1;
            let fresh = u32::try_from(self.origins.len()).expect("fewer than four billion");
            if let std::collections::hash_map::Entry::Vacant(entry) = self.visited.entry(key::of(&after)) {
                entry.insert(fresh);
                self.origins.push(Some((id, step)));
                next.push((after, fresh));
            }
        }
        Ok(())
    }

    /// Tells the way to a state once more, and what is wrong there.
    fn story(&self, small: &Config, mut id: u32, last: Option<Move>, broken: &str) -> String {
        let mut steps: Vec<Move> = last.into_iter().collect();
        while let Some((from, step)) = self.origins[id as usize] {
            steps.push(step);
            id = from;
        }
        let mut state = State::new(small);
        state.world.silent = false;
        for step in steps.into_iter().rev() {
            state.world.tell(format_args!("[{step:?}]"));
            if let Err(broken) = state.make(step) {
                return format!("{small:?}: {broken}\n{}", state.world.transcript);
            }
        }
        let told = convergence::comes_to_rest_aloud(state);
        format!("{small:?}: {broken}\n{told}")
    }
}

mod tests;
