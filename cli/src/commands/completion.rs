//! `completion`: scripts that complete commands and names.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap_complete::env::Shells;
use clap_complete::{ArgValueCandidates, CompletionCandidate};

use crate::arguments::{Arguments, Completer, CompletionArguments};
use crate::candidates::{complete_contexts, complete_namespaces};
use crate::output::print_text;

/// The hidden command with which kubectl completes. Its output is that of kubectl's own completion.
pub(crate) const HIDDEN: &str = "__complete";

/// The variable that selects the completion of a shell.
pub(crate) const VARIABLE: &str = "COMPLETE";

/// The program.
const PROGRAM: &str = "kubectl-vmpool";

/// kubectl runs this file with the words after `kubectl vmpool`.
const KUBECTL: &str = "#!/bin/sh\n# Save this as kubectl_complete-vmpool in a directory of $PATH, and make it executable.\n\
    exec kubectl-vmpool __complete \"$@\"\n";

/// The command line with candidates from the cluster and from the kubeconfig.
pub(crate) fn completed_command() -> clap::Command {
    let complete = |candidates: fn() -> Vec<CompletionCandidate>| {
        move |argument: clap::Arg| argument.add(ArgValueCandidates::new(candidates))
    };
    Arguments::command()
        .mut_arg("namespace", complete(complete_namespaces))
        .mut_arg("context", complete(complete_contexts))
}

/// Prints the script.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn print_completion_script(arguments: &CompletionArguments) -> Result<()> {
    let shell = match arguments.program {
        Completer::Kubectl => return print_text(KUBECTL),
        Completer::Bash => "bash",
        Completer::Zsh => "zsh",
        Completer::Fish => "fish",
    };
    let shells = Shells::builtins();
    let completer = shells.completer(shell).context("the shell is not supported")?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)
        .context("writing the script")?;
    print_text(&String::from_utf8_lossy(&script))
}

/// The candidates for the last of these words, as kubectl reads them.
pub(crate) fn complete_command_line(words: impl Iterator<Item = OsString>) -> Result<String> {
    let words: Vec<OsString> = std::iter::once(PROGRAM.into()).chain(words).collect();
    let last = words.len() - 1;
    let is_flag = |word: &OsStr| word.as_encoded_bytes().starts_with(b"-");
    let wants_flags = is_flag(&words[last]);
    let candidates = clap_complete::engine::complete(&mut completed_command(), words, last, None);
    let candidates = candidates.context("completing the command line")?;
    let mut text = String::new();
    // As kubectl, flags are candidates after a dash only.
    for candidate in candidates.iter().filter(|candidate| wants_flags || !is_flag(candidate.get_value())) {
        let _ = write!(text, "{}", candidate.get_value().to_string_lossy());
        if let Some(help) = candidate.get_help() {
            let _ = write!(text, "\t{help}");
        }
        text.push('\n');
    }
    // Do not complete names of files.
    text.push_str(":4\n");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_flags_are_completed_for_kubectl() {
        let text = complete_command_line(["ro".into()].into_iter()).unwrap();
        assert!(text.starts_with("rollback\tWrite the machine template"), "{text}");
        assert!(text.ends_with(":4\n"), "{text}");
        let flags = complete_command_line(["plan".into(), "--rep".into()].into_iter()).unwrap();
        assert!(flags.starts_with("--replicas\t"), "{flags}");
        let formats = complete_command_line(["list".into(), "-o".into(), "wi".into()].into_iter()).unwrap();
        assert!(formats.starts_with("wide\t"), "{formats}");
    }

    #[test]
    fn flags_are_no_candidates_for_names() {
        let names = complete_command_line(["completion".into(), OsString::new()].into_iter()).unwrap();
        assert!(names.contains("kubectl\t") && !names.contains("--"), "{names}");
    }

    #[test]
    fn the_completed_arguments_exist() {
        completed_command().debug_assert();
    }
}
