//! Fields of the template that have other values in machines.

use super::counts::MachineCounts;
use super::text::{join_message_parts, list_some_names, machine_count_text};
use crate::plan::observed::ObservedPool;

/// Maximum number of fields in the message.
const LISTED: usize = 5;

/// The fields and the machines, and what to do; `None` if the template is in effect as it is.
pub(super) fn describe_overridden(observed: &ObservedPool<'_>, counts: &MachineCounts) -> Option<String> {
    let overridden = &observed.memory.overridden;
    if counts.overridden == 0 {
        return None;
    }
    if let Some(published) = overridden.published() {
        return Some(published.to_owned());
    }
    let live = observed.pool_machines().filter(|machine| !machine.terminating);
    let concerned = live.filter(|machine| overridden.includes(&machine.id.uid));
    let concerned: Vec<&str> = concerned.map(|machine| &*machine.id.name).collect();
    let fields = overridden.fields();
    let listed: Vec<&str> = fields.iter().take(LISTED).map(|field| &***field).collect();
    let listed = listed.join(", ");
    let more = fields.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(" and {more} more fields") } else { String::new() };
    Some(join_message_parts([
        format!(
            "{} ({}) did not keep the values of the template in {listed}{more}: an admission policy or the platform \
             changed them when the controller wrote them",
            machine_count_text(concerned.len()),
            list_some_names(concerned),
        ),
        "correct the policy and then the template, or set these values in the template".to_owned(),
    ]))
}
