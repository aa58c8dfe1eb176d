//! Admission through our rules in this process, and through a real API server with schema, webhook and all, agree.

mod changes;
mod judges;
mod pools;
pub(crate) mod schema;

use std::time::Instant;

use anyhow::Context;
use futures::{StreamExt, stream};
use serde_json::Value;
use vmpool_e2e::scenario::scenario;
use vmpool_engine::admission::Request;

use judges::{ADMIN, Cluster, Tally, furnish, of_create};
use pools::{Dice, places, pool};

/// How many pools are tried, unless `VMPOOL_AGREEMENT_POOLS` says otherwise; and a quarter as many changes of
/// pools.
const POOLS: usize = 2_000;

/// Requests at a time.
const IN_FLIGHT: usize = 32;

fn pools_to_try() -> anyhow::Result<usize> {
    match std::env::var("VMPOOL_AGREEMENT_POOLS") {
        Ok(text) => text.parse().context("VMPOOL_AGREEMENT_POOLS"),
        Err(_) => Ok(POOLS),
    }
}

#[test]
fn our_rules_and_the_api_server_agree_about_pools() {
    scenario("our rules and the API server agree about pools").guarded().controllers(0).run(async |world| {
        let count = pools_to_try()?;
        furnish(world).await?;
        let cluster = Cluster::read(world).await?;
        let (places, mut dice) = (places(), Dice(5));
        let pools: Vec<Value> = (0..count).map(|_| pool(world, &places, &mut dice)).collect();
        let begun = Instant::now();
        let answers = stream::iter(&pools).map(async |pool| (pool, of_create(world, pool).await));
        let mut answers = std::pin::pin!(answers.buffer_unordered(IN_FLIGHT));
        let mut tally = Tally::default();
        while let Some((pool, theirs)) = answers.next().await {
            let ours = cluster.ours(Request { user: ADMIN, old: None, new: pool });
            tally.add(ours.as_deref(), theirs?.as_deref(), || pool.to_string());
        }
        println!("within {:.1} s", begun.elapsed().as_secs_f32());
        // What the schema cannot say is what the webhook is for.
        tally.settle("pools", count, &["W12a", "W2", "W4", "W5", "W6", "W7"])
    });
}
