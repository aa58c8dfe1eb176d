//! Publishes the files of a release: pushes images and chart, and creates the release of the tag.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::chart_archive::chart_file_name;
use super::files::{VERSION, list_files};
use super::images::{PROGRAMS, image_file_name, image_reference};
use crate::workspace::run_command;

/// Runs the commands that publish these files, or only prints them.
///
/// # Errors
/// The folder cannot be listed, or a command fails.
pub(super) fn publish_files(out: &Path, registry: &str, is_real: bool) -> Result<()> {
    let mut names = Vec::new();
    for path in list_files(out)? {
        names.push(path.strip_prefix(out).context("a file is outside of its folder")?.display().to_string());
    }
    for command in publish_commands(&names, registry) {
        let [program, arguments @ ..] = command.as_slice() else { continue };
        if is_real {
            run_command(Command::new(program).args(arguments).current_dir(out))?;
        } else {
            println!("would run: {}", command.join(" "));
        }
    }
    Ok(())
}

/// The commands, which run in the folder of these files.
pub(super) fn publish_commands(files: &[String], registry: &str) -> Vec<Vec<String>> {
    let command = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let has = |name: &str| files.iter().any(|file| file == name);
    let mut commands = Vec::new();
    for program in PROGRAMS {
        let file = format!("images/{}", image_file_name(program));
        if has(&file) {
            let target = format!("docker://{}", image_reference(registry, program));
            commands.push(command(&["skopeo", "copy", &format!("oci-archive:{file}"), &target]));
        }
    }
    let chart = chart_file_name();
    if has(&chart) {
        let target = format!("oci://{}/charts", registry.trim_end_matches('/'));
        commands.push(command(&["helm", "push", &chart, &target]));
    }
    if has("CHANGES.md") {
        let tag = format!("v{VERSION}");
        let mut create = command(&["gh", "release", "create", &tag, "--verify-tag", "--title", &tag]);
        create.extend(command(&["--notes-file", "CHANGES.md"]));
        create.extend(files.iter().filter(|file| *file != "CHANGES.md").cloned());
        commands.push(create);
    }
    commands
}
