//! What a page of the documentation has of a program: for tests that keep the two together.

use clap::Command;

/// The differences between the flags of `command` and the table in the section `## Flags` of `page`, whose rows begin
/// with flag, variable and default. None, if the page is right.
pub fn flag_differences(command: &Command, page: &str) -> Vec<String> {
    let Some((_, section)) = page.split_once("\n## Flags\n") else {
        return vec!["there is no section `## Flags`".to_owned()];
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
    differences.extend(rows.into_iter().map(|row| format!("there is no such flag: {row}")));
    differences
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn every_kind_of_difference_in_flags_is_told() {
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
