//! I8: every state converges without faults and actions of users.

#[expect(clippy::disallowed_types, reason = "states are looked up, never walked")]
use std::collections::HashMap;

use super::super::api::{BrokenInvariant, check_invariant};
use super::key;
use super::moves::{ExploredState, LONG_TIME, Move, converging_moves};
use crate::Plan;
use crate::model::Uid;

/// Maximum number of moves until convergence.
const PATIENCE: usize = 400;

/// States that are known to converge, and whether they have.
#[derive(Default)]
pub(super) struct ConvergingStates {
    #[expect(clippy::disallowed_types, reason = "looked up, never walked")]
    known: HashMap<u128, bool>,
}

/// Lets all components work until nothing changes. Returns whether the state had already converged.
pub(super) fn comes_to_rest(
    state: &ExploredState,
    states: &mut ConvergingStates,
) -> Result<bool, BrokenInvariant> {
    let mut state = state.clone();
    let mut way = Vec::new();
    for _ in 0..PATIENCE {
        let here = key::state_key(&state);
        let known = states.known.get(&here).copied();
        if known.is_none() && next_convergence_move(&mut state)?.is_some() {
            way.push(here);
            continue;
        }
        let has_converged = *states.known.entry(here).or_insert(true);
        let is_first = way.is_empty();
        states.known.extend(way.into_iter().map(|before| (before, false)));
        return Ok(is_first && has_converged);
    }
    Err("I8: the world does not come to rest".into())
}

/// The same for an initial state.
pub(super) fn bring_to_rest(state: &mut ExploredState) {
    while next_convergence_move(state)
        .expect("nothing is wrong with a world in which nothing fails")
        .is_some()
    {}
}

/// The same with a transcript.
pub(super) fn convergence_transcript(mut state: ExploredState) -> String {
    state.world.tell(format_args!("from here on nothing fails"));
    for _ in 0..PATIENCE {
        match next_convergence_move(&mut state) {
            Ok(Some(step)) => state.world.tell(format_args!("[{step:?}]")),
            Ok(None) => break,
            Err(broken) => {
                state.world.tell(format_args!("{broken}"));
                break;
            }
        }
    }
    state.world.transcript
}

/// Makes the next move without faults; `None` if the state has converged.
fn next_convergence_move(state: &mut ExploredState) -> Result<Option<Move>, BrokenInvariant> {
    if let Some(&step) = converging_moves(state).first() {
        state.make(step)?;
        return Ok(Some(step));
    }
    let (mut after, before) = (state.clone(), key::state_key(state));
    let (plan, status) = after.world.controller.pass(&after.world.api);
    if plan == Plan::default() && after.world.pending_write_count() == 0 {
        if after.world.api.pool.deleting {
            check_pool_removed(&after)?;
        } else {
            after.world.is_settled(&status)?;
        }
        check_stays_converged(after)?;
        return Ok(None);
    }
    // After a pass without changes, time passes.
    let step =
        if plan.actions.is_empty() && key::state_key(&after) == before { Move::Time } else { Move::Pass };
    state.make(step)?;
    Ok(Some(step))
}

fn check_stays_converged(mut state: ExploredState) -> Result<(), BrokenInvariant> {
    for _ in 0..2 {
        state.world.api.now += LONG_TIME;
        let plan = state.pass();
        check_invariant(plan == Plan::default(), || format!("I8: not at rest for good: {plan:?}"))?;
    }
    Ok(())
}

/// I9: no object of a deleted pool is left.
fn check_pool_removed(state: &ExploredState) -> Result<(), BrokenInvariant> {
    let api = &state.world.api;
    let machine = api.pool_machines().next();
    check_invariant(machine.is_none(), || format!("I9: {} is left of the pool", machine.expect("found").id))?;
    let of_pool = |uid: &Uid| *uid == api.pool.id.uid || api.is_pool_machine(uid);
    let disks = api.disks.objects.values().map(|seen| &seen.facts);
    let left = disks.clone().find(|disk| disk.owner.as_ref().is_some_and(|owner| of_pool(&owner.id.uid)));
    check_invariant(left.is_none(), || format!("I9: {} is left of the pool", left.expect("found").id))
}
