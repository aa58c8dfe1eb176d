//! I1 and I5: which machines may be removed. Also I6: no machine is removed in the place of a target.

use jiff::{SignedDuration, Timestamp};

use super::timeline::{READABLE_FOR, Timeline, Wish, taken_in};
use super::{Grounds, Violation};
use crate::object::Kind;
use crate::recorder::{Change, History, State};

/// Machines that were removed although they were not targets and the pool had no surplus (I1), or is Explicit (I5).
pub fn violations(history: &History, grounds: &Grounds) -> Vec<Violation> {
    let mut timeline = Timeline::default();
    let mut found = Vec::new();
    let mut taken = Taken::default();
    history.replay(|before, change| {
        timeline.observe(change);
        taken.observe(before, change, grounds);
        if change.kind != Kind::Machine || !(change.removed || change.object.is_terminating()) {
            return;
        }
        let Some(former) = before.get(Kind::Machine, change.object.uid()) else { return };
        let pool = former.owner_uid();
        if former.is_terminating() || pool.is_empty() || grounds.is_named(former.uid()) {
            return;
        }
        let wishes = timeline.readable(pool, taken_in(change.at, change.object.text("/metadata/deletionTimestamp")));
        // The garbage collector deletes the machines of a terminating pool. A pool that was never recorded is not
        // checked.
        if wishes.is_empty() || wishes.iter().any(|wish| wish.going) {
            return;
        }
        if wishes.iter().all(|wish| wish.explicit) {
            let what = format!(
                "machine {} was removed from the Explicit pool at revision {} without a request",
                former.name(),
                change.revision
            );
            found.push(Violation { invariant: "I5", what });
            return;
        }
        let members = || before.owned_by(Kind::Machine, pool).filter(|member| !member.is_terminating());
        // Machines that others removed at this moment still existed when the controller decided.
        let taken = taken.lately(pool, change.at);
        let live = members().count() + taken;
        // A target is removed for the decrement that was made for it; no other machine may use that decrement.
        let surplus = |wish: &Wish| {
            let staying = members().filter(|member| !wish.record.accepted.contains(member.uid()));
            staying.count() + taken > wish.desired
        };
        if wishes.iter().any(|wish| surplus(wish)) {
            return;
        }
        let desired = wishes.iter().map(|wish| wish.desired).min().unwrap_or_default();
        let (name, revision) = (former.name(), change.revision);
        found.push(if live > desired {
            let what = format!("machine {name} was removed at revision {revision} in the place of a target");
            Violation { invariant: "I6", what }
        } else {
            let what = format!(
                "machine {name} was removed at revision {revision} without a surplus: {live} machines were not \
                 terminating, and {desired} were desired"
            );
            Violation { invariant: "I1", what }
        });
    });
    found
}

/// Machines that others removed from the pool: deleted and released ones.
#[derive(Default)]
struct Taken(Vec<(String, Timestamp)>);

impl Taken {
    fn observe(&mut self, before: &State, change: &Change, grounds: &Grounds) {
        if change.kind != Kind::Machine {
            return;
        }
        let Some(former) = before.get(Kind::Machine, change.object.uid()) else { return };
        let pool = former.owner_uid();
        if former.is_terminating() || pool.is_empty() {
            return;
        }
        let leaves = change.removed || change.object.is_terminating();
        let named = leaves && grounds.named.contains(former.uid());
        if named || !leaves && change.object.owner_uid() != pool {
            self.0.push((pool.to_owned(), change.at));
        }
    }

    /// How many machines of a pool still existed when the controller decided about a write that happens now.
    fn lately(&self, pool: &str, now: Timestamp) -> usize {
        let limit = SignedDuration::try_from(READABLE_FOR).unwrap_or(SignedDuration::MAX);
        self.0.iter().filter(|(of, at)| of == pool && now.duration_since(*at) <= limit).count()
    }
}
