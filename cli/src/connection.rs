//! The flags that select a cluster, a namespace and a platform.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

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
