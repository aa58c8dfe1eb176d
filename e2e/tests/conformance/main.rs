//! Compares the API server model with a real kube-apiserver, etcd and kube-controller-manager: random
//! sequences of operations must give the same responses.
//!
//! `SEED` runs one sequence, `SEEDS` this many; `make conformance` runs 500.

mod fields;
mod generator;
mod kind;
mod normalized;
mod operation;
mod perform;
mod sequence;
mod view;

use std::fmt::Write as _;

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt;
use vmpool_e2e::harness;
use vmpool_installation::installation::cluster_options;
use vmpool_test_cluster::control_plane::{AuditLog, ControlPlane};

use crate::generator::Generator;
use crate::operation::NumberedOperation;
use crate::sequence::{Difference, RealServer};

/// Number of concurrent sequences.
const CONCURRENCY: usize = 24;

/// Number of sequences without `SEEDS`.
const SEEDS: u64 = 40;

/// Number of differences that are shrunk.
const MAX_SHRUNK: usize = 4;

#[test]
fn the_model_responds_like_the_real_server() -> Result<()> {
    harness::block_on(async {
        let options = vmpool_test_cluster::control_plane::ControlPlaneOptions {
            audit: AuditLog::Off,
            ..cluster_options("conformance")
        };
        let cluster = ControlPlane::start(options).await?;
        let real = RealServer::new(cluster.admin()).await?;
        let begin = std::time::Instant::now();
        let seeds = seeds()?;
        let count = seeds.len();
        let found: Vec<(u64, Result<Option<Difference>>)> = futures::stream::iter(seeds)
            .map(|seed| {
                let real = real.clone();
                async move {
                    let steps = Generator::sequence(seed);
                    let run = tokio::spawn(async move { sequence::run(&real, seed, &steps).await });
                    (seed, run.await.context("the sequence panicked").and_then(|result| result))
                }
            })
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        let mut report = String::new();
        let mut differences = 0;
        for (seed, result) in found {
            let Some(found) = result.with_context(|| format!("SEED={seed}"))? else { continue };
            differences += 1;
            if differences <= MAX_SHRUNK {
                let (steps, found) = sequence::shrink(&real, seed, Generator::sequence(seed), found).await;
                write!(report, "{}", describe(seed, &steps, &found))?;
            } else {
                write!(report, "{}", describe(seed, &[], &found))?;
            }
        }
        println!("conformance: {count} sequences, {differences} differences, in {:.1?}", begin.elapsed());
        if differences > 0 {
            cluster.keep_directory();
            println!("{report}");
            bail!("{differences} of {count} sequences differ");
        }
        ensure!(
            real.has_compared_enough_watches(),
            "more than a tenth of all watches on the real server had expired"
        );
        cluster.stop().await?;
        Ok(())
    })
}

fn describe(seed: u64, steps: &[NumberedOperation], found: &Difference) -> String {
    let steps: Vec<String> = steps.iter().map(|step| format!("  {:>2} {:?}\n", step.id, step.op)).collect();
    let last = found.step.as_ref().map_or("the end".to_owned(), |step| format!("{}, {:?}", step.id, step.op));
    format!("\n\nSEED={seed}\n{}in {last}:\n{}", steps.concat(), found.what)
}

fn seeds() -> Result<Vec<u64>> {
    let number = |name: &str| -> Result<Option<u64>> {
        let value = std::env::var(name).ok();
        value.map(|value| value.parse().with_context(|| format!("{name}={value}"))).transpose()
    };
    if let Some(seed) = number("SEED")? {
        return Ok(vec![seed]);
    }
    Ok((1..=number("SEEDS")?.unwrap_or(SEEDS)).collect())
}
