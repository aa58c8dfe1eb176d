//! Every field of a pool with every unusual value. If the value is refused, the message names the field. If
//! it is accepted, the controller applies it, or a condition explains the problem.
//!
//! The fields come from the CRD's schema, so a new field is included automatically. By default each kind of
//! field is tried once and a few of the accepted pools are created; `make fields`
//! (`VMPOOL_UNUSUAL_VALUES=all`) tries all fields and creates all accepted pools.

mod final_state;
mod hosts;
mod judge;
mod schema;
mod values;

use std::fs;
use std::time::Duration;

use anyhow::ensure;
use futures::{StreamExt, TryStreamExt, stream};
use rstest::rstest;
use serde_json::Value;
use vmpool_e2e::scenario::{LIMIT, define_scenario};
use vmpool_e2e::schemas::of_pools;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_invariants::platform::TestedPlatform;

use crate::REPLICAS;

use final_state::{FinalState, FinalStateCounts, changed, lived};
use hosts::{host_of, hosts};
use judge::{PoolVerdict, ResponseTally, of_change, of_create};
use schema::{PoolField, fields};
use values::{FieldChange, changes};

/// Number of concurrent requests.
const IN_FLIGHT: usize = 32;

/// Number of concurrent pools.
const ALIVE: usize = 24;

/// Default number of trials, and of pools that are created.
const SOME: usize = 500;
const A_FEW: usize = 12;

/// Timeout for all trials: they take some six minutes, and more on a busy host.
const ALL: Duration = Duration::from_mins(45);

fn everything() -> bool {
    std::env::var("VMPOOL_UNUSUAL_VALUES").is_ok_and(|value| value == "all")
}

/// One value for one field of one pool.
struct FieldCase {
    pointer: String,
    what: &'static str,
    /// The original pool; `pool` is the changed one.
    host: Value,
    pool: Value,
}

impl FieldCase {
    fn of(field: &PoolField, host: &Value, what: &'static str, change: &FieldChange) -> Self {
        let mut pool = host.clone();
        change.make(&mut pool, &field.pointer);
        Self { pointer: field.pointer.clone(), what, host: host.clone(), pool }
    }

    fn told(&self) -> String {
        format!(
            "{} {}: {}",
            self.pointer,
            self.what,
            self.pool.pointer(&self.pointer).unwrap_or(&Value::Null)
        )
    }
}

/// The fields to try: all, or the first one of those with the same name and kind.
fn chosen(platform: TestedPlatform) -> anyhow::Result<Vec<PoolField>> {
    let mut all = fields(&of_pools(platform)?);
    if !everything() {
        let mut known = Vec::new();
        all.retain(|field| {
            let kind = (field.name().to_owned(), field.schema.clone());
            let fresh = !known.contains(&kind);
            known.push(kind);
            fresh
        });
    }
    Ok(all)
}

fn trials(hosts: &[Value], fields: &[PoolField]) -> Vec<FieldCase> {
    let each = fields.iter().flat_map(|field| {
        let host = host_of(hosts, field);
        changes(&field.schema)
            .into_iter()
            .map(move |(what, change)| FieldCase::of(field, host, what, &change))
    });
    // A change without an effect proves nothing.
    each.filter(|trial| trial.pool != trial.host).collect()
}

/// Sends each trial as a new pool and as a change of an existing one. Returns the trials that would be
/// created, and the wrong responses.
async fn judged(
    world: &ScenarioWorld,
    trials: Vec<FieldCase>,
) -> anyhow::Result<(Vec<FieldCase>, Vec<String>)> {
    let answers = stream::iter(trials).map(async |trial| {
        let created = of_create(world, &trial.pool).await?;
        let changed = of_change(world, &trial.host, &trial.pool).await?;
        anyhow::Ok((trial, created, changed))
    });
    let mut answers = std::pin::pin!(answers.buffered(IN_FLIGHT));
    let (mut creates, mut updates, mut accepted) =
        (ResponseTally::new("new pools"), ResponseTally::new("changes"), Vec::new());
    while let Some((trial, created, changed)) = answers.try_next().await? {
        creates.add(&trial.pointer, &created, || trial.told());
        updates.add(&trial.pointer, &changed, || trial.told());
        if created == PoolVerdict::Accepted {
            accepted.push(trial);
        }
    }
    let wrong = [creates.settle(), updates.settle()].concat();
    Ok((accepted, wrong))
}

/// Creates pools concurrently and waits for their ends. Prints the counts, and returns the errors.
async fn live<'t>(
    what: &str,
    trials: impl Iterator<Item = &'t FieldCase>,
    life: impl AsyncFn(String, &'t FieldCase) -> anyhow::Result<FinalState>,
) -> Vec<String> {
    let lives = stream::iter(trials.enumerate()).map(async |(number, trial)| {
        let end = life(format!("{what}-{number}"), trial).await;
        end.map_err(|error| format!("{what} pool, {}: {error:#}", trial.told()))
    });
    let ends: Vec<Result<FinalState, String>> = lives.buffer_unordered(ALIVE).collect().await;
    let (ends, wrong): (Vec<_>, Vec<_>) = ends.into_iter().partition(Result::is_ok);
    println!("{what} pools: {}", FinalStateCounts::of(&ends.into_iter().flatten().collect::<Vec<_>>()));
    wrong.into_iter().filter_map(Result::err).collect()
}

/// KubeVirt accepts this grace period, adds some seconds for its launcher, and never gets a Pod with the sum.
/// It reports that only on the instance.
fn starts(trial: &FieldCase) -> bool {
    let period = "/spec/virtualMachineTemplate/spec/template/spec/terminationGracePeriodSeconds";
    trial.pointer != period || trial.pool.pointer(period) != Some(&i64::MAX.into())
}

/// A selection with equal distances.
fn spread<T>(items: Vec<T>, some: usize) -> Vec<T> {
    let every = items.len().div_ceil(some).max(1);
    items.into_iter().enumerate().filter(|(place, _)| place % every == 0).map(|(_, item)| item).collect()
}

// `make fields` selects the cases by their names.
#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn every_field_is_refused_with_a_reason_or_applied(#[case] platform: TestedPlatform) {
    let story = define_scenario("every field is refused with a reason or applied").on(platform);
    story.within(if everything() { ALL } else { LIMIT }).run(async |world| {
        let _shared = REPLICAS.read().await;
        let hosts = hosts(world)?;
        for host in &hosts {
            judge::make(world, host).await?;
        }
        let fields = chosen(platform)?;
        let mut all = trials(&hosts, &fields);
        if !everything() {
            all = spread(all, SOME);
        }
        println!("{} fields, {} trials", fields.len(), all.len());
        let (accepted, mut wrong) = judged(world, all).await?;
        world.clear().await?;

        let accepted: Vec<FieldCase> = accepted.into_iter().filter(starts).collect();
        let accepted = if everything() { accepted } else { spread(accepted, A_FEW) };
        let lived =
            async |name: String, trial: &FieldCase| lived(world, &name, &trial.pool, &trial.pointer).await;
        wrong.extend(live("new", accepted.iter(), lived).await);
        // Removing a field is tried on a pool with machines.
        let removed = accepted.iter().filter(|trial| trial.pool.pointer(&trial.pointer).is_none());
        let changed = async |name: String, trial: &FieldCase| {
            changed(world, &name, &trial.host, &trial.pool, &trial.pointer).await
        };
        wrong.extend(live("changed", removed, changed).await);

        let log = fs::read_to_string(world.controller()?.log())?;
        if log.contains("panicked") {
            wrong.push(format!("the controller panicked:\n{}", world.controller()?.log_tail(40)));
        }
        ensure!(wrong.is_empty(), "{} errors:\n{}", wrong.len(), wrong.join("\n"));
        Ok::<_, anyhow::Error>(())
    });
}
