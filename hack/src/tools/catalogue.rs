//! The list of programs, and the version flags for linking each.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// One folder below `hack/tools`, with its own go.mod.
#[derive(Debug)]
pub(super) struct GoModule {
    /// The folder's name.
    pub(super) name: &'static str,
    /// The Go module whose version the programs report.
    pub(super) main: &'static str,
    /// The programs, in the order in which they are built.
    pub(super) tools: &'static [GoTool],
    /// Go variables that contain the version, as `(variable, part of the version)`.
    versions: &'static [(&'static str, Part)],
    /// The value of `-tags`, if the programs are built with build tags.
    pub(super) tags: &'static str,
}

/// One program.
#[derive(Debug)]
pub(super) struct GoTool {
    /// The name in messages.
    pub(super) name: &'static str,
    /// Its file name below `bin`, as `go build` would choose it.
    pub(super) file: &'static str,
    /// Its main package, as in the `tool` lines of go.mod.
    pub(super) package: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Whole,
    Major,
    Minor,
}

/// The version variables of Kubernetes programs. Clients parse the version; without these flags it is
/// v0.0.0-master.
const KUBERNETES: &[(&str, Part)] = &[
    ("k8s.io/component-base/version.gitVersion", Part::Whole),
    ("k8s.io/component-base/version.gitMajor", Part::Major),
    ("k8s.io/component-base/version.gitMinor", Part::Minor),
    ("k8s.io/client-go/pkg/version.gitVersion", Part::Whole),
];

const KUBE_APISERVER: GoTool = GoTool {
    name: "kube-apiserver",
    file: "kube-apiserver",
    package: "k8s.io/kubernetes/cmd/kube-apiserver",
};

const KUBE_CONTROLLER_MANAGER: GoTool = GoTool {
    name: "kube-controller-manager",
    file: "kube-controller-manager",
    package: "k8s.io/kubernetes/cmd/kube-controller-manager",
};

const KUBECTL: GoTool = GoTool { name: "kubectl", file: "kubectl", package: "k8s.io/kubernetes/cmd/kubectl" };

/// Every module. A test compares the programs with the `tool` lines of each go.mod.
pub(super) const MODULES: &[GoModule] = &[
    GoModule {
        name: "control-plane",
        main: "k8s.io/kubernetes",
        tools: &[
            GoTool { name: "etcd", file: "server", package: "go.etcd.io/etcd/server/v3" },
            KUBE_APISERVER,
            KUBE_CONTROLLER_MANAGER,
            KUBECTL,
        ],
        versions: KUBERNETES,
        tags: "",
    },
    GoModule {
        name: "oldest-kubernetes",
        main: "k8s.io/kubernetes",
        tools: &[KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, KUBECTL],
        versions: KUBERNETES,
        tags: "",
    },
    GoModule {
        name: "node",
        main: "k8s.io/kubernetes",
        tools: &[
            GoTool { name: "kubelet", file: "kubelet", package: "k8s.io/kubernetes/cmd/kubelet" },
            GoTool { name: "kube-proxy", file: "kube-proxy", package: "k8s.io/kubernetes/cmd/kube-proxy" },
            GoTool {
                name: "kube-scheduler",
                file: "kube-scheduler",
                package: "k8s.io/kubernetes/cmd/kube-scheduler",
            },
        ],
        versions: KUBERNETES,
        tags: "",
    },
    GoModule {
        name: "containerd",
        main: "github.com/containerd/containerd/v2",
        tools: &[
            GoTool {
                name: "containerd",
                file: "containerd",
                package: "github.com/containerd/containerd/v2/cmd/containerd",
            },
            GoTool {
                name: "its shim for runc",
                file: "containerd-shim-runc-v2",
                package: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
            },
            GoTool { name: "ctr", file: "ctr", package: "github.com/containerd/containerd/v2/cmd/ctr" },
        ],
        // Without it the kubelet reports no version for the container runtime.
        versions: &[("github.com/containerd/containerd/v2/version.Version", Part::Whole)],
        tags: "",
    },
    GoModule {
        name: "helm",
        main: "helm.sh/helm/v4",
        tools: &[GoTool { name: "helm", file: "helm", package: "helm.sh/helm/v4/cmd/helm" }],
        versions: &[("helm.sh/helm/v4/internal/version.version", Part::Whole)],
        tags: "",
    },
    GoModule {
        name: "promtool",
        main: "github.com/prometheus/prometheus",
        tools: &[GoTool {
            name: "promtool",
            file: "promtool",
            package: "github.com/prometheus/prometheus/cmd/promtool",
        }],
        versions: &[("github.com/prometheus/common/version.Version", Part::Whole)],
        // It discovers no services, whose clients are most of its code.
        tags: "remove_all_sd",
    },
    GoModule {
        name: "cert-manager",
        main: "github.com/cert-manager/cert-manager",
        tools: &[GoTool {
            name: "cert-manager",
            file: "cert-manager",
            package: "vmpool.dev/hack/tools/cert-manager",
        }],
        versions: &[("github.com/cert-manager/cert-manager/pkg/util.AppVersion", Part::Whole)],
        tags: "",
    },
    GoModule {
        name: "keda",
        main: "github.com/kedacore/keda/v2",
        tools: &[
            GoTool {
                name: "KEDA's operator",
                file: "operator",
                package: "github.com/kedacore/keda/v2/cmd/operator",
            },
            GoTool {
                name: "KEDA's metrics server",
                file: "adapter",
                package: "github.com/kedacore/keda/v2/cmd/adapter",
            },
        ],
        versions: &[("github.com/kedacore/keda/v2/version.Version", Part::Whole)],
        tags: "",
    },
];

impl GoModule {
    /// The value of `-ldflags`: no symbol tables, which double the size, and the version that the program
    /// reports.
    ///
    /// # Errors
    /// go.mod does not require the main module in a `vMAJOR.MINOR.PATCH` version.
    pub(super) fn link_flags(&self, pins: &GoModFile) -> Result<String> {
        let version =
            pins.version(self.main).with_context(|| format!("go.mod does not require {}", self.main))?;
        let mut parts = version.trim_start_matches('v').split('.');
        let (Some(major), Some(minor), Some(_)) = (parts.next(), parts.next(), parts.next()) else {
            anyhow::bail!("{} {version} is not a version like v1.2.3", self.main);
        };
        let mut flags = String::from("-s -w");
        for (variable, part) in self.versions {
            let value = match part {
                Part::Whole => version,
                Part::Major => major,
                Part::Minor => minor,
            };
            flags.push_str(" -X ");
            flags.push_str(variable);
            flags.push('=');
            flags.push_str(value);
        }
        Ok(flags)
    }
}

/// The parts of a go.mod that a build needs.
#[derive(Debug)]
pub(super) struct GoModFile {
    /// The `go` line: the oldest Go that may build the module.
    pub(super) go: String,
    text: String,
}

impl GoModFile {
    /// # Errors
    /// The file cannot be read or has no `go` line.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(text).with_context(|| format!("{} has no go line", path.display()))
    }

    /// `None` without a `go` line.
    pub(super) fn parse(text: String) -> Option<Self> {
        let go = text.lines().find_map(|line| line.strip_prefix("go "))?.trim().to_owned();
        Some(Self { go, text })
    }

    /// The required version of the module. Lines with `=>` are replacements and are ignored.
    pub(super) fn version(&self, module: &str) -> Option<&str> {
        self.text.lines().find_map(|line| {
            let mut words = line.trim().trim_start_matches("require ").split_whitespace();
            (words.next() == Some(module))
                .then(|| words.next())
                .flatten()
                .filter(|word| word.starts_with('v'))
        })
    }

    /// The packages of the `tool` lines, sorted.
    #[cfg(test)]
    pub(super) fn tools(&self) -> Vec<&str> {
        let mut block = false;
        let mut tools = Vec::new();
        for line in self.text.lines().map(str::trim) {
            match line {
                "tool (" => block = true,
                ")" => block = false,
                _ if block => tools.push(line),
                _ => tools.extend(line.strip_prefix("tool ")),
            }
        }
        tools.sort_unstable();
        tools
    }
}
