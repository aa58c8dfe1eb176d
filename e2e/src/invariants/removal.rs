//! I1 and I5: who may leave.

use super::timeline::Timeline;
use super::{Grounds, Violation};
use crate::object::Kind;
use crate::recorder::History;

/// Members that left although nobody named them and the pool had no surplus (I1), or only names count (I5).
pub fn violations(history: &History, grounds: &Grounds) -> Vec<Violation> {
    let mut timeline = Timeline::default();
    let mut found = Vec::new();
    history.replay(|before, change| {
        timeline.observe(change);
        if change.kind != Kind::Machine || !(change.removed || change.object.is_terminating()) {
            return;
        }
        let Some(former) = before.get(Kind::Machine, change.object.uid()) else { return };
        let pool = former.owner_uid();
        if former.is_terminating() || pool.is_empty() || grounds.named.contains(former.uid()) {
            return;
        }
        let wishes = timeline.readable(pool, change.at);
        // The garbage collector takes the members of a pool that goes; a pool we never saw is nobody's.
        if wishes.is_empty() || wishes.iter().any(|wish| wish.going) {
            return;
        }
        if wishes.iter().all(|wish| wish.explicit) {
            let what = format!(
                "machine {} left the Explicit pool at revision {}, and nobody had named it",
                former.name(),
                change.revision
            );
            found.push(Violation { invariant: "I5", what });
            return;
        }
        let live = before.owned_by(Kind::Machine, pool).filter(|member| !member.is_terminating()).count();
        let desired = wishes.iter().map(|wish| wish.desired).min().unwrap_or_default();
        if live <= desired {
            let what = format!(
                "machine {} left at revision {}, when {live} live members were no more than the {desired} desired",
                former.name(),
                change.revision
            );
            found.push(Violation { invariant: "I1", what });
        }
    });
    found
}
