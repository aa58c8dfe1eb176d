//! Exhaustive exploration of all states of small configurations.
//!
//! The search visits every state that is reachable by single moves ([`moves`]): requests of the leader,
//! events of watches, steps of the platform, actions of users at any time, and one or two faults. Two states
//! are equal if they differ only in data without an effect ([`key`]): used-up names, absolute versions, and
//! the age of events that are old enough. The search checks the invariants in each state and at every
//! committed write. Every state must converge without further faults.
//!
//! There is no clock. A move takes almost no time, and the move "time passes" exceeds every timeout.

mod canonical;
mod config;
mod convergence;
mod key;
mod moves;

#[expect(clippy::disallowed_types, reason = "states are looked up, never walked")]
use std::collections::HashMap;
use std::fmt;

use super::api::BrokenInvariant;
use config::{ExplorationConfig, ExploredUserActions, FreeDiskDeletion};
use convergence::ConvergingStates;
use moves::{ExploredState, Move};

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ExplorationResult {
    states: usize,
    transitions: usize,
    /// Length of the longest shortest path to a state, in moves.
    depth: usize,
    /// Number of converged states.
    settled: usize,
    /// Whether all states were visited.
    complete: bool,
}

impl fmt::Display for ExplorationResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, transitions, depth, settled, complete } = self;
        let all = if *complete { "all" } else { "the first" };
        write!(f, "{all} {states} states, {transitions} transitions, {depth} deep, {settled} at rest")
    }
}

/// How a state was reached: the previous state and the move.
type Origin = (u32, Move);

/// A search in progress.
struct Search {
    #[expect(clippy::disallowed_types, reason = "looked up, never walked")]
    visited: HashMap<u128, u32>,
    origins: Vec<Option<Origin>>,
    converging: ConvergingStates,
    settled: usize,
    transitions: usize,
}

/// Visits the states of a configuration in breadth-first order, and at most `limit` of them.
///
/// # Errors
/// A broken invariant, with the shortest sequence of moves that leads to it.
fn explore_states(small: &ExplorationConfig, limit: usize) -> Result<ExplorationResult, String> {
    let first = ExploredState::new(small);
    let mut search = Search {
        visited: [(key::state_key(&first), 0)].into(),
        origins: vec![None],
        converging: ConvergingStates::default(),
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
                .map_err(|(broken, last)| search.describe_path(small, id, last, &broken))?;
        }
        level = next;
        depth += usize::from(!level.is_empty());
    }
    Ok(ExplorationResult {
        states: search.visited.len(),
        transitions: search.transitions,
        depth,
        settled: search.settled,
        complete: level.is_empty(),
    })
}

impl Search {
    /// Checks a state and makes every move from it. The error contains the move that broke an invariant.
    fn expand(
        &mut self,
        state: &ExploredState,
        id: u32,
        next: &mut Vec<(ExploredState, u32)>,
    ) -> Result<(), (BrokenInvariant, Option<Move>)> {
        let rest =
            convergence::comes_to_rest(state, &mut self.converging).map_err(|broken| (broken, None))?;
        self.settled += usize::from(rest);
        for step in moves::possible_moves(state) {
            let after = state.after(step).map_err(|broken| (broken, Some(step)))?;
            self.transitions += 1;
            let fresh = u32::try_from(self.origins.len()).expect("fewer than four billion");
            if let std::collections::hash_map::Entry::Vacant(entry) =
                self.visited.entry(key::state_key(&after))
            {
                entry.insert(fresh);
                self.origins.push(Some((id, step)));
                next.push((after, fresh));
            }
        }
        Ok(())
    }

    /// The transcript of the path to a state, with the broken invariant.
    fn describe_path(
        &self,
        small: &ExplorationConfig,
        mut id: u32,
        last: Option<Move>,
        broken: &str,
    ) -> String {
        let mut steps: Vec<Move> = last.into_iter().collect();
        while let Some((from, step)) = self.origins[id as usize] {
            steps.push(step);
            id = from;
        }
        let mut state = ExploredState::new(small);
        state.world.silent = false;
        for step in steps.into_iter().rev() {
            state.world.tell(format_args!("[{step:?}]"));
            if let Err(broken) = state.make(step) {
                return format!("{small:?}: {broken}\n{}", state.world.transcript);
            }
        }
        let transcript = convergence::convergence_transcript(state);
        format!("{small:?}: {broken}\n{transcript}")
    }
}

mod tests;
