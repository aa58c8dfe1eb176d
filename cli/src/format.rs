//! The formats of the output, in the syntax of kubectl's flag `-o`.

use anyhow::{Context as _, Result, bail};
use clap::Args;
use clap_complete::{ArgValueCandidates, CompletionCandidate};

use crate::jsonpath::JsonPathTemplate;

/// What a template begins with.
const JSON_PATH: &str = "jsonpath=";

/// The formats for users of all commands, each with its meaning.
const FORMATS: [(&str, &str); 4] = [
    ("text", "For users"),
    ("json", "JSON"),
    ("yaml", "YAML"),
    (JSON_PATH, "The fields of a template, for example jsonpath={.pools[*].name}"),
];

/// The formats of commands that print objects only.
const OBJECT_FORMATS: [(&str, &str); 2] =
    [("wide", "For users, with everything"), ("name", "One TYPE/NAME in a line")];

/// A format of the output.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Format {
    /// For users.
    #[default]
    Text,
    /// For users, with everything.
    Wide,
    /// One TYPE/NAME in a line.
    Name,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// The fields of a template.
    JsonPath(JsonPathTemplate),
}

/// The flag of commands that print data.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OutputArguments {
    /// Format of the output: text, json, yaml or jsonpath=TEMPLATE
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_default_value = true,
        value_parser = parse_data_format,
        add = ArgValueCandidates::new(data_format_candidates)
    )]
    pub(crate) output: Format,
}

/// The flag of commands that print objects.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ObjectOutputArguments {
    /// Format of the output: text, wide, name, json, yaml or jsonpath=TEMPLATE
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_default_value = true,
        value_parser = parse_object_format,
        add = ArgValueCandidates::new(object_format_candidates)
    )]
    pub(crate) output: Format,
}

/// Parses a format of commands that print objects.
///
/// # Errors
/// It is no format, or the template cannot be read.
fn parse_object_format(text: &str) -> Result<Format> {
    match text {
        "wide" => Ok(Format::Wide),
        "name" => Ok(Format::Name),
        _ => match parse_format(text)? {
            Some(format) => Ok(format),
            None => bail!("use text, wide, name, json, yaml or jsonpath=TEMPLATE"),
        },
    }
}

/// Parses a format of commands that print other data.
///
/// # Errors
/// It is no format of these, or the template cannot be read.
fn parse_data_format(text: &str) -> Result<Format> {
    parse_format(text)?.context("use text, json, yaml or jsonpath=TEMPLATE")
}

/// Parses a format of all commands; `None` if it is none of these.
fn parse_format(text: &str) -> Result<Option<Format>> {
    Ok(match text {
        "text" => Some(Format::Text),
        "json" => Some(Format::Json),
        "yaml" => Some(Format::Yaml),
        _ => match text.strip_prefix(JSON_PATH) {
            Some(template) => Some(Format::JsonPath(JsonPathTemplate::parse(template)?)),
            None => None,
        },
    })
}

fn data_format_candidates() -> Vec<CompletionCandidate> {
    format_candidates(&FORMATS)
}

fn object_format_candidates() -> Vec<CompletionCandidate> {
    format_candidates(&FORMATS).into_iter().chain(format_candidates(&OBJECT_FORMATS)).collect()
}

fn format_candidates(formats: &[(&str, &str)]) -> Vec<CompletionCandidate> {
    let candidate =
        |(name, help): &(&str, &str)| CompletionCandidate::new(*name).help(Some((*help).to_owned().into()));
    formats.iter().map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("json", &Format::Json)]
    #[case("yaml", &Format::Yaml)]
    #[case("text", &Format::Text)]
    fn all_commands_have_the_formats_for_programs(#[case] text: &str, #[case] expected: &Format) {
        assert_eq!(parse_data_format(text).unwrap(), *expected);
        assert_eq!(parse_object_format(text).unwrap(), *expected);
    }

    #[test]
    fn only_objects_have_names() {
        assert_eq!(parse_object_format("name").unwrap(), Format::Name);
        let error = parse_data_format("name").unwrap_err().to_string();
        assert_eq!(error, "use text, json, yaml or jsonpath=TEMPLATE");
        let error = parse_object_format("xml").unwrap_err().to_string();
        assert_eq!(error, "use text, wide, name, json, yaml or jsonpath=TEMPLATE");
    }

    #[test]
    fn a_template_follows_jsonpath() {
        assert!(matches!(parse_object_format("jsonpath={.pools[*].name}").unwrap(), Format::JsonPath(_)));
        assert!(parse_object_format("jsonpath={.pools[").is_err());
    }
}
