//! The API server's response to a pool.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vmpool_e2e::schemas::of_pools;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::error::error_with_causes;

use super::schema::{KEY, rules};

/// Which check refuses the pool, with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PoolVerdict {
    Accepted,
    /// The types, ranges and patterns of the schema.
    Schema(String),
    /// A rule in the schema.
    Cel(String),
    /// The validating webhook.
    Admission(String),
}

/// Creates a pool.
pub(super) async fn make(world: &ScenarioWorld, pool: &Value) -> anyhow::Result<()> {
    let object: DynamicObject = serde_json::from_value(pool.clone())?;
    let made = world.api(TestedKind::Pool).create(&PostParams::default(), &object).await;
    made.map(drop).with_context(|| pool.to_string())
}

/// The response to the creation of a pool.
pub(super) async fn of_create(world: &ScenarioWorld, pool: &Value) -> anyhow::Result<PoolVerdict> {
    let mut object: DynamicObject = serde_json::from_value(pool.clone())?;
    object.metadata.name = Some("another".to_owned());
    let params = PostParams { dry_run: true, ..PostParams::default() };
    verdict(world, world.api(TestedKind::Pool).create(&params, &object).await)
        .with_context(|| pool.to_string())
}

/// The response to a change of an existing pool.
pub(super) async fn of_change(
    world: &ScenarioWorld,
    host: &Value,
    pool: &Value,
) -> anyhow::Result<PoolVerdict> {
    let name = host["metadata"]["name"].as_str().unwrap_or_default();
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    verdict(world, world.api(TestedKind::Pool).patch(name, &params, &respec(pool)?).await)
        .with_context(|| pool.to_string())
}

/// The patch that sets the whole spec of a pool.
pub(super) fn respec(pool: &Value) -> anyhow::Result<Patch<()>> {
    let operation = match pool.get("spec") {
        Some(spec) => json!({ "op": "add", "path": "/spec", "value": spec }),
        None => json!({ "op": "remove", "path": "/spec" }),
    };
    Ok(Patch::Json(serde_json::from_value(json!([operation]))?))
}

fn verdict<T>(world: &ScenarioWorld, answer: Result<T, kube::Error>) -> anyhow::Result<PoolVerdict> {
    let message = match answer {
        Ok(_) => return Ok(PoolVerdict::Accepted),
        Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => status.message,
        Err(error) => bail!("{}", error_with_causes(&error)),
    };
    let by_rule = || -> anyhow::Result<bool> {
        let rules = rules(&of_pools(world.platform())?);
        Ok(rules.iter().any(|rule| message.contains(rule.as_str())))
    };
    Ok(if message.contains("denied the request") {
        PoolVerdict::Admission(message)
    } else if by_rule()? {
        PoolVerdict::Cel(message)
    } else {
        PoolVerdict::Schema(message)
    })
}

/// Whether a message contains the location of the problem: the field or its parent.
pub(super) fn names(text: &str, pointer: &str) -> bool {
    let parts =
        pointer.split('/').filter(|part| !part.is_empty() && *part != KEY && part.parse::<usize>().is_err());
    let parts: Vec<&str> = parts.collect();
    parts.iter().rev().take(4).any(|part| text.contains(part))
}

/// Counts of responses.
pub(super) struct ResponseTally {
    what: &'static str,
    accepted: usize,
    schema: usize,
    cel: usize,
    /// By rule.
    admission: BTreeMap<String, usize>,
    /// Refusals that do not name the field.
    vague: Vec<String>,
}

impl ResponseTally {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, accepted: 0, schema: 0, cel: 0, admission: BTreeMap::new(), vague: Vec::new() }
    }

    /// Counts a response for the field at this path.
    pub(super) fn add(&mut self, pointer: &str, verdict: &PoolVerdict, told: impl FnOnce() -> String) {
        let message = match verdict {
            PoolVerdict::Accepted => {
                self.accepted += 1;
                return;
            }
            PoolVerdict::Schema(message) => {
                self.schema += 1;
                message
            }
            PoolVerdict::Cel(message) => {
                self.cel += 1;
                message
            }
            PoolVerdict::Admission(message) => {
                let rule = message.rsplit_once("(rule ").map_or("none", |(_, rule)| rule);
                *self.admission.entry(rule.trim_end_matches(')').to_owned()).or_default() += 1;
                message
            }
        };
        if !names(message, pointer) {
            self.vague.push(format!("{}\n  {message}", told()));
        }
    }

    /// Prints the counts. Returns errors: every refusal must name its field, and each kind of check must have
    /// refused a pool.
    pub(super) fn settle(self) -> Vec<String> {
        let Self { what, accepted, schema, cel, admission, vague } = self;
        let by_admission: usize = admission.values().sum();
        println!(
            "{what}: {accepted} accepted, {schema} refused by the schema, {cel} by its rules, {by_admission} at \
             admission: {admission:?}"
        );
        let mut wrong: Vec<String> = vague
            .into_iter()
            .map(|refusal| format!("{what}: a refusal does not name the field: {refusal}"))
            .collect();
        if [accepted, schema, cel, by_admission].contains(&0) {
            wrong.push(format!("{what}: a kind of check refuses nothing, or everything"));
        }
        wrong
    }
}
