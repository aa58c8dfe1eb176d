//! Every field of a pool, with every odd value: what is refused is refused with a message that says where, and what is
//! accepted is carried out, or a condition says why not.
//!
//! The fields are those of the definition's schema, so a new one is tried as soon as it is there. By default each kind
//! of field is tried once and a few of the accepted pools are made; `VMPOOL_LEAVES=all` tries all, and makes all.

mod hosts;
mod judge;
mod life;
mod schema;
mod values;

use std::fs;
use std::time::Duration;

use anyhow::ensure;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;
use vmpool_e2e::scenario::{LIMIT, scenario};
use vmpool_e2e::world::World;

use hosts::{host_of, hosts};
use judge::{Tally, Verdict, of_change, of_create};
use life::{End, Ends, changed, lived};
use schema::{Field, fields};
use values::{Change, changes};

/// Requests at a time.
const IN_FLIGHT: usize = 32;

/// Pools that live at a time.
const ALIVE: usize = 24;

/// Trials unless all are made, and pools that live then.
const SOME: usize = 500;
const A_FEW: usize = 12;

/// How long all of them may take: some six minutes, and more on a busy machine.
const ALL: Duration = Duration::from_mins(45);

fn everything() -> bool {
    std::env::var("VMPOOL_LEAVES").is_ok_and(|value| value == "all")
}

/// One value in one place of one pool.
struct Trial {
    pointer: String,
    what: &'static str,
    /// The pool that it comes to, and the pool with it.
    host: Value,
    pool: Value,
}

impl Trial {
    fn of(field: &Field, host: &Value, what: &'static str, change: &Change) -> Self {
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

/// The fields that are tried: all, or the first of those that are called alike and are of one kind.
fn chosen() -> anyhow::Result<Vec<Field>> {
    let mut all = fields(&crate::agreement::schema::of_pools()?);
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

fn trials(hosts: &[Value], fields: &[Field]) -> Vec<Trial> {
    let each = fields.iter().flat_map(|field| {
        let host = host_of(hosts, field);
        changes(&field.schema).into_iter().map(move |(what, change)| Trial::of(field, host, what, &change))
    });
    // What leaves a pool as it is says nothing.
    each.filter(|trial| trial.pool != trial.host).collect()
}

/// Asks about each of these, as a new pool and as a change of one that is there; returns those that would be made, and
/// what is wrong with the answers.
async fn judged(world: &World, trials: Vec<Trial>) -> anyhow::Result<(Vec<Trial>, Vec<String>)> {
    let answers = stream::iter(trials).map(async |trial| {
        let created = of_create(world, &trial.pool).await?;
        let changed = of_change(world, &trial.host, &trial.pool).await?;
        anyhow::Ok((trial, created, changed))
    });
    let mut answers = std::pin::pin!(answers.buffered(IN_FLIGHT));
    let (mut creates, mut updates, mut accepted) =
        (Tally::new("new pools"), Tally::new("changes"), Vec::new());
    while let Some((trial, created, changed)) = answers.try_next().await? {
        creates.add(&trial.pointer, &created, || trial.told());
        updates.add(&trial.pointer, &changed, || trial.told());
        if created == Verdict::Accepted {
            accepted.push(trial);
        }
    }
    let wrong = [creates.settle(), updates.settle()].concat();
    Ok((accepted, wrong))
}

/// Lets pools live side by side; tells how that ended, and returns what was wrong.
async fn live<'t>(
    what: &str,
    trials: impl Iterator<Item = &'t Trial>,
    life: impl AsyncFn(String, &'t Trial) -> anyhow::Result<End>,
) -> Vec<String> {
    let lives = stream::iter(trials.enumerate()).map(async |(number, trial)| {
        let end = life(format!("{what}-{number}"), trial).await;
        end.map_err(|error| format!("{what} pool, {}: {error:#}", trial.told()))
    });
    let ends: Vec<Result<End, String>> = lives.buffer_unordered(ALIVE).collect().await;
    let (ends, wrong): (Vec<_>, Vec<_>) = ends.into_iter().partition(Result::is_ok);
    println!("{what} pools: {}", Ends::of(&ends.into_iter().flatten().collect::<Vec<_>>()));
    wrong.into_iter().filter_map(Result::err).collect()
}

/// Of many, some that are far from each other.
fn spread<T>(items: Vec<T>, some: usize) -> Vec<T> {
    let every = items.len().div_ceil(some).max(1);
    items.into_iter().enumerate().filter(|(place, _)| place % every == 0).map(|(_, item)| item).collect()
}

#[test]
fn every_field_is_refused_with_a_reason_or_carried_out() {
    let story = scenario("every field is refused with a reason or carried out").guarded();
    story.within(if everything() { ALL } else { LIMIT }).run(async |world| {
        let hosts = hosts(world)?;
        for host in &hosts {
            judge::make(world, host).await?;
        }
        let fields = chosen()?;
        let mut all = trials(&hosts, &fields);
        if !everything() {
            all = spread(all, SOME);
        }
        println!("{} fields, {} trials", fields.len(), all.len());
        let (accepted, mut wrong) = judged(world, all).await?;
        world.clear().await?;

        let accepted = if everything() { accepted } else { spread(accepted, A_FEW) };
        let lived =
            async |name: String, trial: &Trial| lived(world, &name, &trial.pool, &trial.pointer).await;
        wrong.extend(live("new", accepted.iter(), lived).await);
        // What was set is taken away from a pool that has machines.
        let removed = accepted.iter().filter(|trial| trial.pool.pointer(&trial.pointer).is_none());
        let changed = async |name: String, trial: &Trial| {
            changed(world, &name, &trial.host, &trial.pool, &trial.pointer).await
        };
        wrong.extend(live("changed", removed, changed).await);

        let log = fs::read_to_string(world.controller()?.log())?;
        if log.contains("panicked") {
            wrong.push(format!("the controller panicked:\n{}", world.controller()?.log_tail(40)));
        }
        ensure!(wrong.is_empty(), "{} things are wrong:\n{}", wrong.len(), wrong.join("\n"));
        Ok::<_, anyhow::Error>(())
    });
}
