//! The command lines and settings of the node's components.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::tools::NodeTools;
use crate::control_plane::Pki;
use crate::error::{Error, Result};
use crate::namespaces::{ADDRESS, Depth, LinuxNamespaces};

/// The name of the node.
pub const NODE: &str = "node";

/// The socket of containerd, inside the namespaces. A path on disk could exceed the length limit of sockets.
pub(super) const SOCKET: &str = "/run/containerd/containerd.sock";

/// The address range of Pods.
const POD_NETWORK: &str = "10.244.0.0/24";

/// The directories in which distributions install CNI plugins.
pub(super) const CNI_PLUGINS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

/// The CNI plugins of the node's network.
pub(super) const USED_PLUGINS: [&str; 4] = ["bridge", "host-local", "loopback", "portmap"];

/// containerd, with all its data in `directory`.
///
/// # Errors
/// [`Error::File`].
pub(super) fn containerd_command(
    namespaces: &LinuxNamespaces,
    tools: &NodeTools,
    directory: &Path,
    pause: &str,
) -> Result<Command> {
    let networks = directory.join("networks");
    std::fs::create_dir_all(&networks).map_err(Error::file("creating", &networks))?;
    let bridge = json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "pods0",
                "isGateway": true,
                "ipMasq": true,
                // A Pod may call a Service whose endpoint is the Pod itself.
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{ "subnet": POD_NETWORK }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    });
    write(&networks.join("10-pods.conflist"), &bridge.to_string())?;
    let data = directory.join("containerd");
    // The disabled snapshotters need devices or special file systems; the `opt` plugin would write to /opt.
    let settings = format!(
        r#"version = 3
root = {root}
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.differ.v1.erofs",
  "io.containerd.internal.v1.opt",
  "io.containerd.nri.v1.nri",
]

[grpc]
  address = "{SOCKET}"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = {pause}

[plugins."io.containerd.cri.v1.runtime"]
  # Only one with CAP_SYS_RESOURCE may lower the score of others, and not every root has that.
  restrict_oom_score_adj = true
  # A profile is loaded into the kernel, which is the whole machine's.
  disable_apparmor = true

[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = {plugins}
  conf_dir = {networks}
"#,
        // A JSON string is a valid TOML string.
        root = json!(data),
        pause = json!(pause),
        plugins = json!(CNI_PLUGINS),
        networks = json!(networks),
    );
    let file = directory.join("containerd.toml");
    write(&file, &settings)?;
    let mut command = namespaces.command(Depth::All, &tools.containerd);
    command.arg("--config").arg(file);
    Ok(command)
}

/// The kubelet, with the permissions of a normal kubelet.
///
/// # Errors
/// [`Error::File`].
pub(super) fn kubelet_command(
    namespaces: &LinuxNamespaces,
    tools: &NodeTools,
    directory: &Path,
    pki: &Pki,
    server: &str,
) -> Result<Command> {
    let settings = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": { "x509": { "clientCAFile": pki.certificate("ca") } },
        "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": namespaces.cgroup(),
        // Some hosts still use cgroup v1.
        "failCgroupV1": false,
        "failSwapOn": false,
        // There is no cluster DNS: programs find the API server by its address in their environment.
        "clusterDNS": [],
        "resolvConf": "",
        // The disk belongs to the developer's host: its usage must not cause evictions or image deletions.
        "evictionHard": { "memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%" },
        "imageGCHighThresholdPercent": 100,
        "podLogsDir": directory.join("pods"),
        "volumePluginDir": directory.join("kubelet/volume-plugins"),
        "nodeStatusUpdateFrequency": "5s",
        "maxPods": 60,
        "registerNode": true,
    });
    let file = directory.join("kubelet.yaml");
    // JSON is valid YAML.
    write(&file, &settings.to_string())?;
    let data = directory.join("kubelet");
    let mut command = namespaces.command(Depth::All, &tools.kubelet);
    command
        .arg(flag("--config", &file))
        .arg(flag("--kubeconfig", &pki.certificate_kubeconfig("kubelet", server)?))
        .arg(flag("--root-dir", &data))
        .arg(flag("--cert-dir", &data.join("pki")))
        .arg(format!("--hostname-override={NODE}"))
        .arg(format!("--node-ip={ADDRESS}"));
    Ok(command)
}

/// kube-proxy, which configures the node's packet filter for Services.
///
/// # Errors
/// [`Error::File`].
pub(super) fn kube_proxy_command(
    namespaces: &LinuxNamespaces,
    tools: &NodeTools,
    pki: &Pki,
    server: &str,
) -> Result<Command> {
    let mut command = namespaces.command(Depth::All, &tools.proxy);
    command
        .arg(flag("--kubeconfig", &pki.certificate_kubeconfig("kube-proxy", server)?))
        .arg(format!("--hostname-override={NODE}"))
        .arg("--proxy-mode=iptables")
        .arg(format!("--cluster-cidr={POD_NETWORK}"))
        // Changes of endpoints take effect at once, instead of a second later.
        .arg("--iptables-min-sync-period=100ms")
        // The size of the connection table is a setting of the whole host.
        .arg("--conntrack-max-per-core=0");
    Ok(command)
}

/// kube-scheduler.
///
/// # Errors
/// [`Error::File`].
pub(super) fn scheduler_command(
    namespaces: &LinuxNamespaces,
    tools: &NodeTools,
    pki: &Pki,
    server: &str,
) -> Result<Command> {
    let mut command = namespaces.command(Depth::Network, &tools.scheduler);
    command
        .arg(flag("--kubeconfig", &pki.certificate_kubeconfig("kube-scheduler", server)?))
        .args(["--leader-elect=false", "--secure-port=0"]);
    Ok(command)
}

/// containerd's client, in the namespace of the kubelet's images.
pub(super) fn ctr_command(namespaces: &LinuxNamespaces, tools: &NodeTools) -> Command {
    let mut command = namespaces.command(Depth::All, &tools.ctr);
    command.args(["--address", SOCKET, "--namespace", "k8s.io"]);
    command
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(Error::file("writing", path))
}

fn flag(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}
