//! Rules about the number of machines and about lowering it.

use super::facts::Settings;
use super::finding::{Checked, Warning, refuse};
use super::rule::Rule;
use super::view::{Pool, field};

pub(super) fn check(
    settings: &Settings,
    user: &str,
    old: Pool<'_>,
    new: Pool<'_>,
    warnings: &mut Vec<Warning>,
) -> Checked {
    let (before, after) = (old.replicas(), new.replicas());
    if after < before && new.explicit() && settings.removal_handler.as_deref() != Some(user) {
        let replicas = field(new.spec(), "replicas");
        let lost = if replicas.is_null() { ", and leaving it out means 0" } else { "" };
        return refuse(
            Rule::ExplicitCount,
            "spec.replicas",
            replicas,
            format_args!(
                "it was {before}{lost}; under scaleDownPolicy Explicit only targeted removals delete machines"
            ),
            format_args!(
                "keep {before}, or remove machines by name with a POST to virtualmachinepools/{}/scaledownwith, \
                 which lowers it",
                new.name()
            ),
        );
    }
    if before > 0 && after <= 0 {
        let detail = format!(
            "goes from {before} to 0, so every machine of the pool is removed. An apply that leaves replicas out does that; \
             to let an autoscaler set the count, see the documentation"
        );
        warnings.push(Warning::new(Rule::EmptiedPool, "spec.replicas", detail));
    }
    if let Some(current) =
        old.current_replicas().filter(|current| old.explicit() && !new.explicit() && *current > after)
    {
        let detail = format!(
            "the pool has {current} machines and replicas is {after}: without Explicit the controller deletes the \
             surplus now. \
             Raise replicas to {current} first to keep them"
        );
        warnings.push(Warning::new(Rule::LeavingExplicit, "spec.scaleDownPolicy", detail));
    }
    Ok(())
}
