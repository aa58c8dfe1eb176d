//! The flags that select a cluster, a namespace and a platform.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
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
    #[arg(long, global = true, value_enum)]
    pub(crate) platform: Option<PlatformArgument>,
}

/// A platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlatformArgument {
    /// Deckhouse DVP
    Dvp,
    /// KubeVirt
    Kubevirt,
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
