//! The admission rules in this process and a real API server with schema and webhook give the same responses.

mod changes;
mod pools;
mod schema;
mod verdicts;

use std::time::Instant;

use anyhow::Context;
use futures::{StreamExt, stream};
use serde_json::Value;
use vmpool_e2e::scenario::define_scenario;
use vmpool_engine::admission::PoolRequest;

use pools::{Random, fields, pool};
use verdicts::{ADMIN, ClassesAndImages, VerdictComparison, create_objects, of_create};

/// Default number of pools (`VMPOOL_AGREEMENT_POOLS`). A quarter of it is the number of changes of
/// pools.
const POOLS: usize = 2_000;

/// Number of concurrent requests.
const IN_FLIGHT: usize = 32;

fn pools_to_try() -> anyhow::Result<usize> {
    match std::env::var("VMPOOL_AGREEMENT_POOLS") {
        Ok(text) => text.parse().context("VMPOOL_AGREEMENT_POOLS"),
        Err(_) => Ok(POOLS),
    }
}

#[test]
fn rules_and_api_server_give_the_same_responses_for_new_pools() {
    define_scenario("rules and API server agree about new pools").guarded().controllers(0).run(
        async |world| {
            let count = pools_to_try()?;
            create_objects(world).await?;
            let cluster = ClassesAndImages::read(world).await?;
            let (fields, mut random) = (fields(), Random(5));
            let pools: Vec<Value> = (0..count).map(|_| pool(world, &fields, &mut random)).collect();
            let begun = Instant::now();
            let answers = stream::iter(&pools).map(async |pool| (pool, of_create(world, pool).await));
            let mut answers = std::pin::pin!(answers.buffer_unordered(IN_FLIGHT));
            let mut comparison = VerdictComparison::default();
            while let Some((pool, response)) = answers.next().await {
                let verdict = cluster.verdict(PoolRequest { user: ADMIN, old: None, new: pool });
                comparison.add(verdict.as_deref(), response?.as_deref(), || pool.to_string());
            }
            println!("within {:.1} s", begun.elapsed().as_secs_f32());
            // Rules that the schema cannot contain.
            comparison.finish("pools", count, &["W12a", "W2", "W4", "W5", "W6", "W7"])
        },
    );
}
