//! I1 and I5: who may leave. Also I6: nobody leaves in the place of one that was named.

use super::timeline::{Timeline, Wish};
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
        if former.is_terminating() || pool.is_empty() || grounds.is_named(former.uid()) {
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
        let members = || before.owned_by(Kind::Machine, pool).filter(|member| !member.is_terminating());
        let live = members().count();
        // Who is removed by name leaves for the decrement that was made for it, and nobody else does.
        let surplus = |wish: &Wish| {
            members().filter(|member| !wish.record.accepted.contains(member.uid())).count() > wish.desired
        };
        if wishes.iter().any(|wish| surplus(wish)) {
            return;
        }
        let desired = wishes.iter().map(|wish| wish.desired).min().unwrap_or_default();
        let (name, revision) = (former.name(), change.revision);
        found.push(if live > desired {
            let what = format!("machine {name} left at revision {revision} in the place of one that was named");
            Violation { invariant: "I6", what }
        } else {
            let what = format!(
                "machine {name} left at revision {revision}, when {live} live members were no more than the {desired} \
                 desired"
            );
            Violation { invariant: "I1", what }
        });
    });
    found
}
