//! Runs the commands of the documentation as they are printed.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use vmpool_installation::workspace_root;
use vmpool_test_cluster::control_plane::ControlPlane;
use vmpool_test_cluster::process;

/// How long a script may take.
const LIMIT: Duration = Duration::from_mins(2);

/// A page of `docs`.
///
/// # Errors
/// If the page cannot be read.
pub fn read_docs_page(name: &str) -> Result<String> {
    let path = workspace_root().join("docs").join(name);
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// The first code block with this language below a heading of a page, without its indentation.
///
/// # Errors
/// If the page has no such heading or block.
pub fn find_code_block(page: &str, heading: &str, language: &str) -> Result<String> {
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).context("no such heading")?;
    let (before, rest) = section.split_once(&format!("```{language}\n")).context("no such block")?;
    let indentation = before.rsplit('\n').next().unwrap_or_default();
    let (block, _) = rest.split_once("```").context("the block does not end")?;
    let lines = block.lines().map(|line| line.strip_prefix(indentation).unwrap_or(line));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// The commands in the code blocks with this language below a heading of a page, with its `#`, up to the next
/// heading of the same or a higher level.
///
/// # Errors
/// If the page has no such heading or command.
pub fn find_documented_commands(page: &str, heading: &str, language: &str) -> Result<Vec<String>> {
    let (_, section) = page.split_once(&format!("\n{heading}\n")).with_context(|| heading.to_owned())?;
    let level = heading.split(' ').next().unwrap_or_default().len();
    let higher = |line: &&str| (1..=level).any(|level| line.starts_with(&format!("{} ", "#".repeat(level))));
    let section: Vec<&str> = section.lines().take_while(|line| !higher(line)).collect();
    let (mut commands, mut is_inside, mut continues) = (Vec::<String>::new(), false, false);
    for line in section {
        if line.starts_with("```") {
            (is_inside, continues) = (!is_inside && line == format!("```{language}"), false);
        } else if is_inside {
            // In a console, other lines are output.
            let command = if language == "console" { line.strip_prefix("$ ") } else { Some(line) };
            match (command, commands.last_mut().filter(|_| continues)) {
                (_, Some(last)) => last.extend(["\n", line]),
                (Some(command), None) => commands.push(command.to_owned()),
                (None, None) => continue,
            }
            continues = line.ends_with('\\');
        }
    }
    ensure!(!commands.is_empty(), "{heading} has no {language} commands");
    Ok(commands)
}

/// Runs a script in a shell whose kubectl uses this kubeconfig and these flags. A command may begin with its
/// prompt. Returns whether the script succeeded, and its output.
///
/// # Errors
/// If the shell cannot be started or does not end in time.
pub async fn run_shell_script(
    cluster: &ControlPlane,
    kubeconfig: &Path,
    flags: &str,
    directory: &Path,
    script: &str,
) -> Result<(bool, String)> {
    let (kubectl, config) = (cluster.kubectl_program().display(), kubeconfig.display());
    let lines: Vec<&str> = script.lines().map(|line| line.strip_prefix("$ ").unwrap_or(line)).collect();
    let script = format!(
        "set -eu\nkubectl() {{ {kubectl} --kubeconfig={config} {flags} \"$@\"; }}\n{}\n",
        lines.join("\n")
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env("HOME", cluster.directory()).env_remove("KUBECONFIG");
    command.current_dir(directory);
    let output = process::command_output("sh", command, LIMIT).await?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}
