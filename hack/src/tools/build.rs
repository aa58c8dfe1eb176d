//! Builds the programs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::catalogue::{GoModule, GoTool};
use super::disk::{self, MIB};
use super::go::Go;
use super::monitor;
use super::stamp::{self, BuildKey};

/// Disk space of one compiled package in Go's cache and scratch folder, measured on a cold build of
/// Kubernetes.
const BYTES_PER_PACKAGE: u64 = MIB + MIB / 2;

/// Disk space of one linked program: one copy in the scratch folder, one in its destination.
const BYTES_PER_TOOL: u64 = 100 * MIB;

/// Disk space of the sources of one module, if none is downloaded yet.
const BYTES_OF_SOURCES: u64 = 700 * MIB;

/// Builds the tools one after another, each with its stamp.
pub(super) fn build_tools(
    go: &Go,
    module: &GoModule,
    tools: &[&GoTool],
    flags: &str,
    output: &Path,
    key: &BuildKey,
) -> Result<()> {
    if !go.module_cache.join("cache/download").join(module.main).exists() {
        disk::require_disk_space(
            &go.module_cache,
            BYTES_OF_SOURCES,
            &format!("downloading the sources of {}", module.name),
        )?;
    }
    let stale = stale_packages(go, module, tools, flags, output)?;
    let purpose = format!("building {}", module.name);
    let programs = BYTES_PER_TOOL * tools.len() as u64;
    disk::require_disk_space(&go.build_cache, BYTES_PER_PACKAGE * stale as u64 + programs, &purpose)?;
    disk::require_disk_space(&std::env::temp_dir(), BYTES_PER_TOOL * 2, &purpose)?;
    disk::require_disk_space(output, programs, &purpose)?;

    for tool in tools {
        one(go, module, tool, flags, output)?;
        stamp::write_build_stamp(output, tool.file, key)?;
    }
    Ok(())
}

/// The number of packages of these tools that are not in Go's cache. Downloads missing sources.
fn stale_packages(
    go: &Go,
    module: &GoModule,
    tools: &[&GoTool],
    flags: &str,
    output: &Path,
) -> Result<usize> {
    let mut list = go.command();
    list.args(["list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", "-ldflags", flags]);
    list.args(["-tags", module.tags]);
    list.args(tools.iter().map(|tool| tool.package));
    let title = format!("sources of {}", module.name);
    let stale = monitor::run_with_progress(&mut list, &title, &output.join("sources.log"), |progress| {
        format!("downloading, {} modules so far", progress.downloaded)
    })?;
    Ok(stale.lines().filter(|line| !line.is_empty()).count())
}

fn one(go: &Go, module: &GoModule, tool: &GoTool, flags: &str, output: &Path) -> Result<()> {
    let total = stale_packages(go, module, &[tool], flags, output)?;
    // The program gets its name only when it is complete. A running copy of the old one keeps its file.
    let unfinished = output.join(format!("{}.unfinished", tool.file));
    // `go build` links a program anew for every working tree, but `go run` caches the linked program.
    // Therefore the program is run under `cp`, which copies it to its destination.
    let mut build = go.command();
    build.args(["run", "-v", "-exec", "cp", "-ldflags", flags, "-tags", module.tags, tool.package]);
    build.arg(&unfinished);
    monitor::run_with_progress(
        &mut build,
        tool.name,
        &output.join(format!("{}.log", tool.file)),
        |progress| {
            if progress.compiled < total {
                format!("compiling, {} of {total} packages", progress.compiled)
            } else {
                "linking".to_owned()
            }
        },
    )?;
    let place = output.join("bin").join(tool.file);
    fs::rename(&unfinished, &place).with_context(|| format!("moving {} to its destination", place.display()))
}
