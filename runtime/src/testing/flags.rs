//! Checks that `--help` and a page of the documentation contain all flags of a program.

use clap::Command;

/// The differences between the flags of `command` and the table in the section `## Flags` of `page`. Each row
/// of the table begins with the flag, its variable and its default.
pub fn flag_differences(command: &Command, page: &str) -> Vec<String> {
    let Some((_, section)) = page.split_once("\n## Flags\n") else {
        return vec!["the section `## Flags` is missing".to_owned()];
    };
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| `--")).collect();
    let mut differences = Vec::new();
    for argument in command.get_arguments() {
        let Some(flag) = argument.get_long().filter(|flag| !["help", "version"].contains(flag)) else {
            continue;
        };
        let variable = argument.get_env().unwrap_or_default().to_string_lossy();
        let default: String =
            argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let default = if default.is_empty() { default } else { format!("`{default}` ") };
        let head = format!("| `--{flag}` | `{variable}` | {default}| ");
        match rows.iter().position(|row| row.starts_with(&head)) {
            Some(row) => drop(rows.remove(row)),
            None => differences.push(format!("no row begins with {head}")),
        }
    }
    differences.extend(rows.into_iter().map(|row| format!("the flag does not exist: {row}")));
    differences
}

/// The texts that are missing in `--help` of `command`: flags, their variables, their descriptions, and
/// feature gates with their stages.
pub fn help_gaps(mut command: Command) -> Vec<String> {
    let help = command.render_long_help().to_string();
    let mut gaps = Vec::new();
    let mut expect = |found: bool, gap: String| gaps.extend((!found).then_some(gap));
    for argument in command.get_arguments() {
        let Some(flag) = argument.get_long().filter(|flag| !["help", "version"].contains(flag)) else {
            continue;
        };
        let variable = format!("VMPOOL_{}", flag.to_uppercase().replace('-', "_"));
        expect(help.contains(&format!("--{flag}")), format!("--{flag} is not shown"));
        expect(
            argument.get_env().is_some_and(|name| *name == *variable),
            format!("--{flag} has no {variable}"),
        );
        expect(help.contains(&variable), format!("{variable} is not shown"));
        expect(argument.get_help().is_some(), format!("--{flag} has no description"));
    }
    for gate in vmpool_feature_gates::KNOWN {
        let found = help.contains(&format!("{} ({}", gate.name, gate.stage));
        expect(found, format!("gate {} is not described", gate.name));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn each_kind_of_missing_text_is_reported() {
        let size = || Arg::new("size").long("size").help("How much");
        let complete = Command::new("p").after_long_help(vmpool_feature_gates::help_text());
        assert_eq!(help_gaps(complete.clone().arg(size().env("VMPOOL_SIZE"))), [""; 0]);
        assert_eq!(help_gaps(complete.clone().arg(size().env("SIZE"))).len(), 2);
        assert_eq!(
            help_gaps(complete.arg(Arg::new("n").long("n").env("VMPOOL_N"))),
            ["--n has no description"]
        );
        assert_eq!(help_gaps(Command::new("p")).len(), vmpool_feature_gates::KNOWN.len());
    }

    #[test]
    fn each_kind_of_difference_is_reported() {
        let flag = |name: &'static str, variable: &'static str| Arg::new(name).long(name).env(variable);
        let command =
            Command::new("p").arg(flag("size", "SIZE").default_value("5")).arg(flag("name", "NAME"));
        let page = "# P\n\n## Flags\n\n| `--size` | `SIZE` | `5` | How much |\n| `--name` | `NAME` | | Who |\n\n## More\n| `--x`";
        assert_eq!(flag_differences(&command, page), [""; 0]);
        let wrong = page.replace("`5`", "`6`").replace("--name", "--names");
        assert_eq!(flag_differences(&command, &wrong).len(), 4);
        assert_eq!(flag_differences(&command, "# P").len(), 1);
    }
}
