use std::path::{Path, PathBuf};

use clap::CommandFactory as _;

use super::*;

#[test]
fn the_arguments_are_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn every_global_flag_is_documented() {
    let page = include_str!("../../../docs/kubectl.md");
    let command = Arguments::command();
    let globals = command.get_arguments().filter(|argument| argument.is_global_set());
    for flag in globals.filter_map(|argument| argument.get_long()) {
        assert!(page.contains(&format!("`--{flag}`")), "--{flag}");
    }
}

#[test]
fn flags_of_the_connection_can_be_before_and_after_the_command() {
    for line in [
        ["kubectl-vmpool", "--as=ed", "--as-group=a", "--as-group=b", "--request-timeout=5s", "list"],
        ["kubectl-vmpool", "list", "--as=ed", "--as-group=a", "--as-group=b", "--request-timeout=5s"],
    ] {
        let Arguments { connection, .. } = Arguments::try_parse_from(line).unwrap();
        assert_eq!(connection.impersonate.as_deref(), Some("ed"));
        assert_eq!(connection.impersonate_groups, ["a", "b"]);
        assert_eq!(connection.request_timeout, Duration::from_secs(5));
    }
}

#[test]
fn every_command_and_flag_is_documented() {
    let page = include_str!("../../../docs/kubectl.md");
    for command in Arguments::command().get_subcommands() {
        let name = command.get_name();
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name} ")));
        let row = row.unwrap_or_else(|| panic!("{name} has no row"));
        let own = command.get_arguments().filter(|argument| !argument.is_global_set());
        for flag in own.filter_map(|argument| argument.get_long()).filter(|flag| *flag != "output") {
            let short = [("--watch", "-w"), ("--filename", "-f"), ("--all-namespaces", "-A")];
            let long = format!("--{flag}");
            let shown = short.iter().find(|(name, _)| **name == long).map_or(&*long, |(_, short)| short);
            assert!(row.contains(shown), "{name} {shown}: {row}");
        }
    }
}

/// The Rust files of the plugin that can contain texts for users.
fn source_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
    let mut found: Vec<PathBuf> = folders.iter().flat_map(|folder| source_files(folder)).collect();
    found.extend(files.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "rs")));
    found
}

/// The words of a text that begin with two dashes, up to their value.
fn long_flags(text: &str) -> Vec<&str> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-'));
    let is_flag = |word: &&str| {
        word.strip_prefix("--")
            .is_some_and(|name| name.starts_with(|letter: char| letter.is_ascii_lowercase()))
    };
    words.filter(is_flag).collect()
}

/// All flags of all commands.
fn known_flags(command: &clap::Command) -> Vec<String> {
    let own = command.get_arguments().filter_map(|argument| argument.get_long());
    let mut flags: Vec<String> = own.map(|flag| format!("--{flag}")).collect();
    flags.extend(command.get_subcommands().flat_map(known_flags));
    flags
}

/// The first word after each mention of the plugin.
fn mentioned_commands(text: &str) -> Vec<&str> {
    let after = text.split("kubectl vmpool ").skip(1);
    let words = after.map(|rest| rest.split(|letter: char| !(letter.is_ascii_lowercase() || letter == '-')));
    let words = words.filter_map(|mut words| words.next());
    words.filter(|word| word.starts_with(|letter: char| letter.is_ascii_lowercase())).collect()
}

#[test]
fn texts_advise_only_flags_and_commands_that_exist() {
    let command = Arguments::command();
    let flags = known_flags(&command);
    let commands: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    let files = source_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(files.len() > 30, "{files:?}");
    for file in files.iter().filter(|file| !file.ends_with("tests.rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: Vec<&str> = product.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let code = code.join("\n");
        for flag in long_flags(&code) {
            assert!(flags.iter().any(|known| known == flag), "{}: {flag}", file.display());
        }
        for word in mentioned_commands(&code) {
            assert!(commands.contains(&word), "{}: kubectl vmpool {word}", file.display());
        }
    }
}

#[test]
fn pages_mention_only_commands_that_exist() {
    let command = Arguments::command();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let pages = std::fs::read_dir(docs).unwrap().map(|entry| entry.unwrap().path());
    for page in pages.filter(|page| page.extension().is_some_and(|ending| ending == "md")) {
        let text = std::fs::read_to_string(&page).unwrap();
        // In code, a command is a line or is in backticks.
        let lines = text.lines().flat_map(|line| line.split('`'));
        let code = lines.filter(|part| part.trim_start_matches("$ ").starts_with("kubectl vmpool "));
        for part in code {
            for word in mentioned_commands(part) {
                let found = command.find_subcommand(word);
                let found = found.unwrap_or_else(|| panic!("{}: {part}", page.display()));
                let known = [known_flags(&command), known_flags(found)].concat();
                for flag in long_flags(part.split(" | ").next().unwrap_or_default()) {
                    let is_known = known.iter().any(|known| known == flag);
                    assert!(is_known || flag == "--help", "{}: {part}: {flag}", page.display());
                }
            }
        }
    }
}
