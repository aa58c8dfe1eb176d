//! The flags that select a cluster, a namespace and a platform.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use vmpool_platforms::PlatformName;
use vmpool_runtime::duration::{FlagDurationError, parse_duration};

/// The cluster and the namespace.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ConnectionArguments {
    /// Kubeconfig file. The default is $KUBECONFIG, then ~/.kube/config
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. The default is its current context
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Namespace of the pool. The default is that of the context
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "USER")]
    pub(crate) impersonate: Option<String>,
    /// Group to impersonate, in addition to --as. It can be repeated
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    pub(crate) impersonate_groups: Vec<String>,
    /// How long to wait for one response, for example 30s or 2m. A number without a unit is seconds. 0 means
    /// without a limit
    #[arg(long, global = true, value_name = "DURATION", default_value = "0", value_parser = parse_request_timeout)]
    pub(crate) request_timeout: Duration,
    /// Platform of the pool, if both platforms have a pool with this name
    #[arg(long, global = true, value_parser = platform_parser())]
    pub(crate) platform: Option<PlatformName>,
}

/// The platform that a user names, or all platforms.
pub(crate) fn selected_platforms(named: Option<PlatformName>) -> impl Iterator<Item = PlatformName> {
    PlatformName::ALL.into_iter().filter(move |platform| named.is_none_or(|named| named == *platform))
}

/// The parser of the name of a platform. The help lists the platforms of the registry.
fn platform_parser() -> impl TypedValueParser<Value = PlatformName> {
    let values = PlatformName::ALL.map(|name| PossibleValue::new(name.as_str()).help(name.product()));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<PlatformName>())
}

/// Parses the value of `--request-timeout`, in the syntax of kubectl.
///
/// # Errors
/// It is neither a number of seconds nor a duration.
pub(crate) fn parse_request_timeout(text: &str) -> Result<Duration, FlagDurationError> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => parse_duration(text),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_flag_lists_the_platforms_of_the_registry() {
        let command = ConnectionArguments::augment_args(clap::Command::new("kubectl-vmpool"));
        let flag = command.get_arguments().find(|flag| flag.get_id() == "platform").unwrap();
        let values = flag.get_possible_values();
        let named = values.iter().map(|value| (value.get_name(), value.get_help().unwrap().to_string()));
        let expected = [("dvp", "Deckhouse DVP".to_owned()), ("kubevirt", "KubeVirt".to_owned())];
        assert_eq!(named.collect::<Vec<_>>(), expected);
    }

    #[rstest]
    #[case::unlimited("0", Some(0))]
    #[case::seconds_without_a_unit("30", Some(30))]
    #[case::with_a_unit("2m", Some(120))]
    #[case::negative("-1s", None)]
    #[case::no_duration("soon", None)]
    fn request_timeouts_are_read_as_by_kubectl(#[case] text: &str, #[case] seconds: Option<u64>) {
        let parsed = parse_request_timeout(text).ok();
        assert_eq!(parsed, seconds.map(Duration::from_secs));
    }
}
