//! Machines above the desired number, which an Explicit pool keeps.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::Uid;
use crate::model::Machine;
use crate::plan::observed::ObservedPool;
use crate::status::text::machine_count_text;

/// How many of the `live` machines are no targets of accepted removals.
pub(crate) fn count_staying_machines(observed: &ObservedPool<'_>, live: usize) -> usize {
    let named: BTreeSet<&Uid> = observed.pool.record.accepted().map(|target| &target.uid).collect();
    let leaving = |machine: &&Arc<Machine>| !machine.terminating && named.contains(&machine.id.uid);
    live - observed.pool_machines().filter(leaving).count()
}

/// What to do about the surplus of an Explicit pool. A targeted removal lowers `replicas`, but not below 0.
pub(crate) fn explicit_surplus(staying: usize, desired: usize) -> String {
    let surplus = staying - desired;
    let (exceed, all) = if staying == 1 { ("exceeds", "it") } else { ("exceed", "all") };
    let again = if desired == 0 {
        String::new()
    } else {
        format!(", which lowers replicas, and then set replicas to {desired} again")
    };
    format!(
        "{} {exceed} replicas: {desired}, and with scaleDownPolicy Explicit the controller deletes only the targets of \
         targeted removals: remove {} by name{again}; or set replicas to {staying} to keep {all}",
        machine_count_text(staying),
        machine_count_text(surplus)
    )
}
