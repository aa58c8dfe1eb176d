//! Sizes that the class of the machines allows.

use serde_json::Value;
use vmpool_api::Quantity;
use vmpool_engine::admission::{
    AdmissionDecision, LookupOutcome, RuleResult, Warning, refuse_value, shorten_text,
};

use super::facts::{CapabilityState, ClassName};
use super::machine::AcceptedTemplate;
use super::rule::Rule;
use super::sizing::{
    AUTO, CorePolicy, DefaultFraction, Fraction, MachineClass, MemoryPolicy, SizingPolicy,
    parse_core_fraction,
};
use super::view::{MACHINE, json_at_path};

/// Number of fractions below 100% that a class must allow, so that an autoscaler can choose.
const CHOICES: usize = 2;

/// The sizes, and whether `Auto` can work.
pub(super) fn check_machine_class(
    template: &AcceptedTemplate<'_>,
    in_place_resize: CapabilityState,
    class: Option<&LookupOutcome<MachineClass>>,
    warnings: &mut Vec<Warning>,
) -> Result<(), Box<AdmissionDecision>> {
    let auto = template.spec.cpu.core_fraction.as_deref() == Some(AUTO);
    if auto && in_place_resize == CapabilityState::No {
        let reason = "this cluster does not change the size of running machines";
        refuse_auto(template, reason, "use a percentage such as 25%, or have in-place resize switched on")?;
    }
    let field = format!("{MACHINE}.virtualMachineClassName");
    let wanted = template.class();
    match class {
        Some(LookupOutcome::There(MachineClass { name, policies: Err(error) })) => {
            let detail = format!(
                "the sizing policies of class {name:?} are not understood, so sizes are not checked: {error}"
            );
            warnings.push(Warning::new(Rule::ClassUnknown, field, detail));
        }
        Some(LookupOutcome::There(MachineClass { name, policies: Ok(policies) })) => {
            check_sizes(template, in_place_resize, name, policies)?;
        }
        Some(LookupOutcome::Failed(reason)) => {
            let what = match wanted {
                ClassName::Named(name) => format!("class {name:?}"),
                ClassName::Default => "the default class".to_owned(),
            };
            let text = format!("reading {what}, which {field} means: {reason}");
            return Err(Box::new(AdmissionDecision::Undecided(text)));
        }
        Some(LookupOutcome::Absent) | None => {
            let detail = match wanted {
                ClassName::Named(name) => {
                    format!("there is no class {:?}; machines wait until it exists", shorten_text(&name, 63))
                }
                ClassName::Default => {
                    "no class is named and the cluster has no default class; name one".to_owned()
                }
            };
            warnings.push(Warning::new(Rule::ClassUnknown, field, detail));
        }
    }
    Ok(())
}

fn refuse_auto(template: &AcceptedTemplate<'_>, reason: impl std::fmt::Display, way_out: &str) -> RuleResult {
    let value = json_at_path(template.value, &["cpu", "coreFraction"]);
    refuse_value(Rule::AutoFraction, format!("{MACHINE}.cpu.coreFraction"), value, reason, way_out)
}

fn check_sizes(
    template: &AcceptedTemplate<'_>,
    in_place_resize: CapabilityState,
    class: &str,
    policies: &[SizingPolicy],
) -> RuleResult {
    // A class without policies allows every size.
    if policies.is_empty() {
        return Ok(());
    }
    let cores = template.spec.cpu.cores;
    let field = format!("{MACHINE}.cpu.cores");
    let value = json_at_path(template.value, &["cpu", "cores"]);
    let covers = |policy: &&SizingPolicy| (policy.cores.min..=policy.cores.max).contains(&cores);
    let Some(policy) = policies.iter().find(covers) else {
        let ranges: Vec<_> = policies
            .iter()
            .map(|SizingPolicy { cores, .. }| format!("{} to {}", cores.min, cores.max))
            .collect();
        let ranges = shorten_text(&ranges.join(", "), 200);
        let reason = format_args!("class {class:?} has no sizing policy for so many cores");
        return refuse_value(
            Rule::Sizing,
            field,
            value,
            reason,
            format_args!("use {ranges}, or another class"),
        );
    };
    let CorePolicy { min, max, step } = policy.cores;
    if let Some(step) =
        step.filter(|step| *step > 0 && (i64::from(cores) - i64::from(min)) % i64::from(*step) != 0)
    {
        let reason = format_args!("class {class:?} allows {min} to {max} cores in steps of {step}");
        return refuse_value(
            Rule::Sizing,
            field,
            value,
            reason,
            format_args!("use {min} and a multiple of {step} more"),
        );
    }
    if let Some(memory) = &policy.memory {
        memory.check(template, class)?;
    }
    let is_auto_by_default = template.spec.cpu.core_fraction.is_none()
        && policy.default_core_fraction == Some(DefaultFraction::Auto);
    if is_auto_by_default && in_place_resize == CapabilityState::No {
        let reason = format_args!(
            "class {class:?} gives machines {AUTO} without it, and this cluster does not change the size of running \
             machines"
        );
        return refuse_auto(template, reason, "set a percentage such as 25%, or use another class");
    }
    check_class_core_fraction(template, class, policy)
}

fn check_class_core_fraction(
    template: &AcceptedTemplate<'_>,
    class: &str,
    policy: &SizingPolicy,
) -> RuleResult {
    let Some(allowed) = &policy.core_fractions else { return Ok(()) };
    let list: Vec<_> = allowed.iter().map(|fraction| format!("{}%", fraction.0)).collect();
    let list = shorten_text(&list.join(", "), 200);
    let Some(wanted) = template.spec.cpu.core_fraction.as_deref() else {
        // The platform fills it in from the class when the machine is created.
        let default = policy.default_core_fraction.unwrap_or(DefaultFraction::Fixed(Fraction(100)));
        let DefaultFraction::Fixed(default) = default else {
            return choice_of_auto(template, class, allowed, &list);
        };
        if allowed.contains(&default) {
            return Ok(());
        }
        let reason =
            format_args!("class {class:?} gives machines {}% without it, and does not allow that", default.0);
        let field = format!("{MACHINE}.cpu.coreFraction");
        return refuse_value(
            Rule::Sizing,
            field,
            &Value::Null,
            reason,
            format_args!("use {list}, or another class"),
        );
    };
    if wanted == AUTO {
        return choice_of_auto(template, class, allowed, &list);
    }
    if allowed.iter().any(|fraction| parse_core_fraction(wanted) == Some(fraction.0)) {
        return Ok(());
    }
    refuse_value(
        Rule::Sizing,
        format!("{MACHINE}.cpu.coreFraction"),
        &Value::from(wanted),
        format_args!("class {class:?} does not allow it for {} cores", template.spec.cpu.cores),
        format_args!("use {list}, or leave it out"),
    )
}

/// Whether the allowed fractions leave the platform a choice.
fn choice_of_auto(
    template: &AcceptedTemplate<'_>,
    class: &str,
    allowed: &[Fraction],
    list: &str,
) -> RuleResult {
    let choices = allowed.iter().filter(|fraction| fraction.0 < 100).count();
    if choices >= CHOICES {
        return Ok(());
    }
    let reason = format_args!("class {class:?} allows {list}, which leaves no choice for {AUTO}");
    refuse_auto(template, reason, "use one of these, or a class with at least two fractions below 100%")
}

impl MemoryPolicy {
    fn check(&self, template: &AcceptedTemplate<'_>, class: &str) -> RuleResult {
        // Rule C10 checks the amount. A class with unreadable amounts does not limit sizes.
        let Ok(size) = template.spec.memory.size.bytes().map(u128::from) else { return Ok(()) };
        let bytes = |quantity: &Option<Quantity>| quantity.as_ref()?.bytes().ok().map(u128::from);
        let text =
            |quantity: &Option<Quantity>| quantity.as_ref().map(ToString::to_string).unwrap_or_default();
        let refused = |reason: String, way_out: String| {
            refuse_value(
                Rule::Sizing,
                format!("{MACHINE}.memory.size"),
                json_at_path(template.value, &["memory", "size"]),
                format_args!("class {class:?} {reason}"),
                way_out,
            )
        };
        if bytes(&self.min).is_some_and(|min| size < min) {
            return refused("wants more memory".to_owned(), format!("use at least {}", text(&self.min)));
        }
        if bytes(&self.max).is_some_and(|max| size > max) {
            return refused("allows less memory".to_owned(), format!("use at most {}", text(&self.max)));
        }
        let first = bytes(&self.min).unwrap_or(0);
        if bytes(&self.step).is_some_and(|step| step > 0 && (size - first.min(size)) % step != 0) {
            let from = self.min.as_ref().map_or_else(|| "0".to_owned(), ToString::to_string);
            let step = text(&self.step);
            return refused(
                format!("allows memory in steps of {step} from {from}"),
                format!("use {from} and a multiple of {step} more"),
            );
        }
        let Some(per_core) = &self.per_core else { return Ok(()) };
        let cores = template.spec.cpu.cores;
        let all = u128::from(cores.unsigned_abs());
        if bytes(&per_core.min).is_some_and(|min| size < min * all) {
            let min = text(&per_core.min);
            return refused(
                format!("wants at least {min} of memory for each core"),
                format!("use more memory, or fewer than {cores} cores"),
            );
        }
        if bytes(&per_core.max).is_some_and(|max| size > max * all) {
            let max = text(&per_core.max);
            return refused(
                format!("allows at most {max} of memory for each core"),
                format!("use less memory, or more than {cores} cores"),
            );
        }
        Ok(())
    }
}
