mod corpus;
mod dry_run;
mod existing_storage;
mod page;
mod samples;
mod updates;
mod warnings;

use serde_json::{Value, json};
use vmpool_engine::admission::{
    self, AdmissionDecision, AdmissionRead, AdmissionReads, AdmissionVerdict, DryRunResult, LookupOutcome,
    ObjectLookup, PoolRequest, PrivilegedUsers, RuleSeverity, Rules,
};

use super::{KubevirtRules, Rule};
use crate::fixtures;

/// The user of the removal handler, which removes machines by name.
const HANDLER: &str = "system:serviceaccount:vmpool-system:vmpool-apiserver";

/// A pool to which no rule objects.
fn pool() -> Value {
    fixtures::new_pool()
}

/// The pool with another value at a JSON pointer; `null` removes the field.
fn with(mut pool: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/");
    match pool.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}")) {
        Value::Object(map) if value.is_null() => drop(map.remove(&name)),
        Value::Object(map) => drop(map.insert(name, value)),
        Value::Array(list) if name == "-" => list.push(value),
        Value::Array(list) if value.is_null() => drop(list.remove(name.parse().unwrap())),
        Value::Array(list) => list[name.parse::<usize>().unwrap()] = value,
        other => panic!("{parent} is {other}"),
    }
    pool
}

const MACHINE: &str = "/spec/virtualMachineTemplate/spec";

fn machine(below: &str, value: Value) -> Value {
    with(pool(), &format!("{MACHINE}{below}"), value)
}

fn rules() -> KubevirtRules {
    KubevirtRules { users: PrivilegedUsers { removal_handler: Some(HANDLER.to_owned()), controller: None } }
}

/// What the cluster answers to a lookup.
type FoundObjects<'a> = dyn Fn(&ObjectLookup) -> LookupOutcome<Value> + 'a;

/// What a review read: lookups, and the machine of a dry run.
#[derive(Default)]
struct Asked {
    lookups: Vec<ObjectLookup>,
    machine: Option<Value>,
}

/// The verdict with these answers, and what it needed. Without `found`, the client is one for which the
/// webhook reads nothing that reveals facts.
fn review_with(
    user: &str,
    old: Option<&Value>,
    new: &Value,
    found: Option<&FoundObjects<'_>>,
    result: &DryRunResult,
) -> (AdmissionVerdict, Asked) {
    let (mut reads, mut asked) = (AdmissionReads::new(found.is_some()), Asked::default());
    let found = found.unwrap_or(&|_| LookupOutcome::Absent);
    loop {
        let needs = match rules().review(PoolRequest { user, old, new }, &reads) {
            Ok(verdict) => return (verdict, asked),
            Err(needs) => needs,
        };
        for read in needs.0 {
            match read {
                AdmissionRead::Object(lookup) => {
                    assert!(lookup.reveals && !asked.lookups.contains(&lookup), "{lookup:?}");
                    reads.add_object(lookup.clone(), Some(found(&lookup)));
                    asked.lookups.push(lookup);
                }
                AdmissionRead::DryRun(dry_run) => {
                    reads.add_dry_run(result.clone());
                    assert_eq!(asked.machine.replace(dry_run.object), None);
                }
            }
        }
    }
}

/// The verdict if the namespace has these other pools; `None` for a client for which the webhook does not
/// list pools.
fn among(
    user: &str,
    old: Option<&Value>,
    new: &Value,
    others: Option<&LookupOutcome<Value>>,
) -> AdmissionVerdict {
    let Some(others) = others else { return review_with(user, old, new, None, &DryRunResult::Accepted).0 };
    let found = |lookup: &ObjectLookup| {
        if lookup.name.is_none() { others.clone() } else { LookupOutcome::Absent }
    };
    review_with(user, old, new, Some(&found), &DryRunResult::Accepted).0
}

/// What a review needs in a namespace without objects.
fn needs(old: Option<&Value>, new: &Value) -> Asked {
    let found = |_: &ObjectLookup| LookupOutcome::Absent;
    review_with("alice", old, new, Some(&found), &DryRunResult::Accepted).1
}

fn judge(old: Option<&Value>, new: &Value) -> AdmissionVerdict {
    among("alice", old, new, Some(&LookupOutcome::There(json!({ "items": [] }))))
}

fn create(new: &Value) -> AdmissionVerdict {
    judge(None, new)
}

fn update(old: &Value, new: &Value) -> AdmissionVerdict {
    judge(Some(old), new)
}

/// The rule in the catalogue.
fn listed(rule: admission::AdmissionRule) -> Rule {
    let listed = Rule::ALL.iter().find(|listed| rule == **listed);
    let listed = *listed.unwrap_or_else(|| panic!("{rule} is not in the catalogue"));
    assert_eq!(rule.severity(), listed.severity(), "{rule}");
    listed
}

/// The rules that reject the request.
fn refused(verdict: &AdmissionVerdict) -> Vec<Rule> {
    match &verdict.outcome {
        AdmissionDecision::Refused(refusals) => refusals.iter().map(|refusal| listed(refusal.rule)).collect(),
        AdmissionDecision::Allowed => Vec::new(),
        AdmissionDecision::Malformed(reason) | AdmissionDecision::Undecided(reason) => panic!("{reason}"),
    }
}

fn warned(verdict: &AdmissionVerdict) -> Vec<Rule> {
    verdict.warnings.iter().map(|warning| listed(warning.rule)).collect()
}

fn assert_allowed(verdict: &AdmissionVerdict) {
    assert_eq!(verdict, &AdmissionVerdict { outcome: AdmissionDecision::Allowed, warnings: Vec::new() });
}

#[test]
fn a_good_pool_is_allowed_without_warnings() {
    assert_allowed(&create(&pool()));
    assert_allowed(&update(&pool(), &with(pool(), "/spec/replicas", json!(9))));
}

#[test]
fn identifiers_of_rules_differ() {
    let mut ids: Vec<&str> = Rule::ALL.iter().map(|rule| rule.id()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), Rule::ALL.len());
}

#[test]
fn all_broken_rules_are_reported_together() {
    let bad = with(pool(), "/spec/maxUnavailable", json!("x%"));
    let bad = with(bad, "/spec/selector/matchLabels/farm", json!("other"));
    let bad = with(bad, &format!("{MACHINE}/runStrategy"), json!(null));
    let bad = with(bad, "/spec/updateStrategy", json!({ "unmanaged": {}, "opportunistic": {} }));
    let verdict = create(&bad);
    assert_eq!(
        refused(&verdict),
        [Rule::NoRunStrategy, Rule::SelectorMatch, Rule::BadPercent, Rule::UpdateStrategies]
    );
    let AdmissionDecision::Refused(refusals) = verdict.outcome else { unreachable!("it is refused") };
    let text = refusals.to_string();
    for refusal in refusals.iter() {
        assert_eq!(refusal.rule.severity(), RuleSeverity::Invalid);
        assert_eq!(refusal.reason(), "FieldValueInvalid");
        assert!(text.contains(&refusal.to_string()), "{text}");
    }
}
