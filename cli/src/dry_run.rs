//! The flag `--dry-run` of commands that write.

use clap::{Args, ValueEnum};

/// Whether requests that write are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum WriteMode {
    /// Carry the requests out
    #[default]
    #[value(name = "none")]
    Store,
    /// Let the server validate the requests, and store nothing
    #[value(name = "server")]
    DryRun,
}

impl WriteMode {
    /// Whether nothing is stored.
    pub(crate) fn is_dry_run(self) -> bool {
        self == Self::DryRun
    }

    /// What a message about a write ends with.
    pub(crate) fn note(self) -> &'static str {
        match self {
            Self::Store => "",
            Self::DryRun => " (server dry run)",
        }
    }
}

/// The flag. As in kubectl, it can have a value.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct DryRunArguments {
    /// With server, the server validates the requests and stores nothing. Without a value, it is server
    #[arg(
        long = "dry-run",
        id = "dry-run",
        value_enum,
        value_name = "MODE",
        num_args = 0..=1,
        require_equals = true,
        default_value_t,
        default_missing_value = "server"
    )]
    pub(crate) mode: WriteMode,
}

impl DryRunArguments {
    /// Whether nothing is stored.
    pub(crate) fn is_on(self) -> bool {
        self.mode.is_dry_run()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[derive(Parser)]
    struct Line {
        name: String,
        #[command(flatten)]
        dry_run: DryRunArguments,
    }

    #[rstest]
    #[case::without_the_flag(&["program", "web"], WriteMode::Store)]
    #[case::without_a_value(&["program", "--dry-run", "web"], WriteMode::DryRun)]
    #[case::server(&["program", "web", "--dry-run=server"], WriteMode::DryRun)]
    #[case::none(&["program", "web", "--dry-run=none"], WriteMode::Store)]
    fn the_flag_has_the_values_of_kubectl(#[case] line: &[&str], #[case] expected: WriteMode) {
        let line = Line::try_parse_from(line).ok().unwrap();
        assert_eq!((&*line.name, line.dry_run.mode), ("web", expected));
    }

    #[test]
    fn what_only_the_client_would_check_is_refused() {
        assert!(Line::try_parse_from(["program", "web", "--dry-run=client"]).is_err());
    }
}
