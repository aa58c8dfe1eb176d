//! I2: how many members there may be.

use super::timeline::Timeline;
use super::{Grounds, Violation};
use crate::object::Kind;
use crate::recorder::History;

/// Members that joined although there were as many as any reader of the pool could want.
///
/// A pool that was scaled down has too many members for a while, so only joining is judged.
pub fn violations(history: &History, grounds: &Grounds) -> Vec<Violation> {
    let mut timeline = Timeline::default();
    let mut found = Vec::new();
    history.replay(|before, change| {
        timeline.observe(change);
        if change.kind != Kind::Machine || change.removed {
            return;
        }
        let pool = change.object.owner_uid();
        let belonged =
            before.get(Kind::Machine, change.object.uid()).is_some_and(|former| former.owner_uid() == pool);
        if pool.is_empty() || belonged {
            return;
        }
        let wishes = timeline.readable(pool, change.at);
        let Some(desired) = wishes.iter().map(|wish| wish.desired).max() else { return };
        let allowed = desired + grounds.in_flight.get(pool).copied().unwrap_or_default();
        let members = before.owned_by(Kind::Machine, pool).count() + 1;
        if members > allowed {
            let what = format!(
                "machine {} joined at revision {} as number {members}, and no reader could want more than {allowed}",
                change.object.name(),
                change.revision
            );
            found.push(Violation { invariant: "I2", what });
        }
    });
    found
}
