//! Measures the controller built with several profiles and settings of the allocator, with the benchmark.
//!
//! The release uses one of them: docs/benchmarks.md says which, and has the last results.

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use crate::tools::{self, ToolSelection};
use crate::workspace::{Workspace, run_command};

/// The measured program.
const PROGRAM: &str = "vmpool-controller";

/// Where the benchmark writes the figures of one large pool.
const FIGURES: &str = "latest.json";

/// A way to build the controller, and to run it.
#[derive(Debug)]
struct BuildVariant {
    name: &'static str,
    /// Keys of `profile.release`, with their values in TOML.
    profile: &'static [(&'static str, &'static str)],
    /// Environment variables of the running controller.
    environment: &'static [(&'static str, &'static str)],
}

/// All variants. The first is that of the release: the whole program is optimized at once, for its size.
const VARIANTS: &[BuildVariant] = &[
    BuildVariant { name: "release", profile: &[], environment: &[] },
    BuildVariant { name: "release-one-arena", profile: &[], environment: ONE_ARENA },
    BuildVariant { name: "fast", profile: &[FAST], environment: &[] },
    BuildVariant { name: "fast-one-arena", profile: &[FAST], environment: ONE_ARENA },
    BuildVariant { name: "level-2", profile: &[("opt-level", "2")], environment: &[] },
    BuildVariant { name: "thin", profile: THIN, environment: &[] },
    BuildVariant { name: "thin-fast", profile: THIN_FAST, environment: &[] },
];

const FAST: (&str, &str) = ("opt-level", "3");
/// Four parts of each crate are optimized at the same time, which takes the least time.
const THIN: &[(&str, &str)] = &[THIN_LTO, FOUR_UNITS];
const THIN_FAST: &[(&str, &str)] = &[THIN_LTO, FOUR_UNITS, FAST];
const THIN_LTO: (&str, &str) = ("lto", "\"thin\"");
const FOUR_UNITS: (&str, &str) = ("codegen-units", "4");

/// glibc's allocator shares one arena among all threads.
const ONE_ARENA: &[(&str, &str)] = &[("MALLOC_ARENA_MAX", "1")];

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct ProfileOptions {
    /// Only these variants; without a name, all
    names: Vec<String>,
    /// Runs of the benchmark for each variant, in turn. The table has the median
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    runs: u32,
    /// Machines of the pool
    #[arg(long, default_value_t = 1000)]
    machines: u32,
}

/// A built variant, with its figures so far.
#[derive(Debug)]
struct MeasuredVariant {
    variant: &'static BuildVariant,
    program: PathBuf,
    /// How long cargo took. The first variant of a profile pays for the dependencies.
    built_within: Duration,
    size: u64,
    figures: Vec<Figures>,
}

/// The figures of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Figures {
    rss_mib: f64,
    cpu_seconds: f64,
    rate_ratio: f64,
}

/// Builds and measures the variants, and prints a table for the documentation.
///
/// # Errors
/// A name is unknown, a build fails, or the benchmark does.
pub(crate) fn measure_profiles(workspace: &Workspace, options: &ProfileOptions) -> Result<()> {
    let selected = select_variants(&options.names)?;
    tools::ensure_tools(workspace, ToolSelection::ControlPlane)?;
    let programs = ["--package", "vmpool-simulator", "--package", "vmpool-bench"];
    run_command(workspace.cargo().args(["build", "--locked", "--profile", "optimized"]).args(programs))?;
    let built = selected.into_iter().map(|variant| build_variant(workspace, variant));
    let mut measured = built.collect::<Result<Vec<_>>>()?;
    // In turn, so that a load of the machine meets all variants.
    for _ in 0..options.runs {
        for one in &mut measured {
            let figures = run_benchmark(workspace, one, options)?;
            println!("{}: {figures:?}", one.variant.name);
            one.figures.push(figures);
        }
    }
    println!("{}", format_table(&measured));
    Ok(())
}

fn select_variants(names: &[String]) -> Result<Vec<&'static BuildVariant>> {
    for name in names {
        let known: Vec<&str> = VARIANTS.iter().map(|variant| variant.name).collect();
        ensure!(known.contains(&name.as_str()), "there is no variant {name}, but {}", known.join(", "));
    }
    let is_selected =
        |variant: &&BuildVariant| names.is_empty() || names.iter().any(|name| name == variant.name);
    Ok(VARIANTS.iter().filter(is_selected).collect())
}

/// Builds the controller in a target folder of the profile.
fn build_variant(workspace: &Workspace, variant: &'static BuildVariant) -> Result<MeasuredVariant> {
    let target = workspace.profiles().join(folder_name(variant));
    let begun = Instant::now();
    let mut build = workspace.cargo();
    build.args(["build", "--locked", "--release", "--package", PROGRAM]).arg("--target-dir").arg(&target);
    run_command(build.args(profile_flags(variant)))?;
    let built_within = begun.elapsed();
    let program = target.join("release").join(PROGRAM);
    let size = measure_stripped_size(&program)?;
    Ok(MeasuredVariant { variant, program, built_within, size, figures: Vec::new() })
}

/// The same for variants with the same profile, so that each is built once.
fn folder_name(variant: &BuildVariant) -> String {
    let parts: Vec<String> = variant.profile.iter().map(|(key, value)| format!("{key}-{value}")).collect();
    if parts.is_empty() { "release".to_owned() } else { parts.join("-").replace('"', "") }
}

fn profile_flags(variant: &BuildVariant) -> Vec<String> {
    let flag =
        |(key, value): &(&str, &str)| ["--config".to_owned(), format!("profile.release.{key}={value}")];
    variant.profile.iter().flat_map(flag).collect()
}

/// The size of the program as it ships, without symbols.
fn measure_stripped_size(program: &Path) -> Result<u64> {
    let stripped = program.with_added_extension("stripped");
    run_command(Command::new("strip").arg("-o").arg(&stripped).arg(program))?;
    let metadata = fs::metadata(&stripped).with_context(|| format!("reading {}", stripped.display()))?;
    Ok(metadata.len())
}

fn run_benchmark(
    workspace: &Workspace,
    measured: &MeasuredVariant,
    options: &ProfileOptions,
) -> Result<Figures> {
    let mut bench = Command::new(workspace.optimized_programs().join("bench"));
    bench.current_dir(workspace.root()).env("VMPOOL_CONTROLLER", &measured.program);
    bench.envs(measured.variant.environment.iter().copied());
    bench.args(["--machines", &options.machines.to_string(), "--rounds", "1", "--settle", "5s"]);
    run_command(bench.arg("--skip-convergence"))?;
    let file = workspace.bench_figures().join(FIGURES);
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    read_figures(&text).with_context(|| format!("{} lacks a figure", file.display()))
}

/// `None` if a figure is missing.
fn read_figures(text: &str) -> Option<Figures> {
    let figures: Value = serde_json::from_str(text).ok()?;
    Some(Figures {
        rss_mib: figures["rss_mib"].as_f64()?,
        cpu_seconds: figures["cpu_seconds_per_1000"].as_f64()?,
        rate_ratio: figures["rate_ratio"].as_f64()?,
    })
}

/// The table in Markdown.
fn format_table(measured: &[MeasuredVariant]) -> String {
    let head = "| Variant | Program | `rss_mib` | `cpu_seconds_per_1000` | `rate_ratio` | Build |\n\
                | --- | --- | --- | --- | --- | --- |\n";
    std::iter::once(head.to_owned()).chain(measured.iter().map(format_row)).collect()
}

fn format_row(measured: &MeasuredVariant) -> String {
    let median_of = |pick: fn(&Figures) -> f64| median_value(measured.figures.iter().map(pick).collect());
    format!(
        "| `{}` | {} KiB | {:.1} | {:.2} | {:.2} | {} s |\n",
        measured.variant.name,
        measured.size / 1024,
        median_of(|figures| figures.rss_mib),
        median_of(|figures| figures.cpu_seconds),
        median_of(|figures| figures.rate_ratio),
        measured.built_within.as_secs(),
    )
}

/// The middle value, or the upper one of two. Not a number without values.
fn median_value(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
