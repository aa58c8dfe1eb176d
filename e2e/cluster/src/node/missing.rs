//! Checks what this host lacks for a node cluster.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::components::{CNI_PLUGINS, USED_PLUGINS};
use crate::control_plane::target_directory;
use crate::namespaces::{HIDDEN, LinuxNamespaces, search_path};

/// Required programs, and their packages in Debian and its derivatives.
const PROGRAMS: [(&str, &str); 8] = [
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("ip", "iproute2"),
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    // Programs for images are stripped of debug information.
    ("strip", "binutils"),
    ("ldd", "libc-bin"),
];

/// A script that tries the remaining requirements in temporary namespaces.
const NAMESPACE_CHECK_SCRIPT: &str = "
mkdir /run/lower /run/upper /run/work /run/both
mount -t overlay overlay -o lowerdir=/run/lower,upperdir=/run/upper,workdir=/run/work /run/both
ip link add pods0 type bridge
ip link add outer type veth peer name inner
iptables --wait --table nat --append POSTROUTING --match comment --comment try --jump MASQUERADE
iptables --wait --table filter --append FORWARD --match conntrack --ctstate INVALID --jump DROP
iptables --wait --table nat --append OUTPUT --match statistic --mode random --probability 0.5 --jump RETURN
";

/// One line that describes what this host lacks for a node cluster; `None` if it lacks nothing.
///
/// The first call takes a tenth of a second.
pub fn missing_host_requirement() -> Option<String> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    FOUND.get_or_init(find_missing_requirement).clone()
}

fn find_missing_requirement() -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("a node cluster needs Linux".to_owned());
    }
    if !rustix::process::geteuid().is_root() {
        return Some("a node cluster needs root".to_owned());
    }
    let path: Vec<PathBuf> = std::env::split_paths(&search_path(None)).collect();
    let directories: Vec<&Path> = path.iter().map(PathBuf::as_path).collect();
    let plugins = CNI_PLUGINS.map(Path::new);
    let checkout = std::env::current_dir().unwrap_or_default();
    missing_packages(&directories, &plugins)
        .or_else(|| hidden_directory_in_use(&[&checkout, &target_directory()]))
        .or_else(|| {
            let tried = LinuxNamespaces::rehearse(NAMESPACE_CHECK_SCRIPT);
            tried
                .err()
                .map(|words| format!("a node cluster cannot have namespaces as it needs them here: {words}"))
        })
}

/// The missing packages.
pub(super) fn missing_packages(path: &[&Path], plugins: &[&Path]) -> Option<String> {
    let is_in = |directories: &[&Path], file: &str| directories.iter().any(|path| path.join(file).is_file());
    let mut lacking: Vec<&str> =
        PROGRAMS.iter().filter(|(program, _)| !is_in(path, program)).map(|(_, package)| *package).collect();
    // All plugins must be in the same directory, as packages install them.
    if !plugins.iter().any(|directory| USED_PLUGINS.iter().all(|plugin| is_in(&[directory], plugin))) {
        lacking.push("containernetworking-plugins");
    }
    lacking.dedup();
    (!lacking.is_empty()).then(|| format!("a node cluster needs the packages {}", lacking.join(", ")))
}

/// Whether the current directory or the target directory is inside a directory that the node hides.
pub(super) fn hidden_directory_in_use(ours: &[&Path]) -> Option<String> {
    let hidden = |path: &&&Path| HIDDEN.iter().any(|directory| path.starts_with(directory));
    let path = ours.iter().find(hidden)?;
    Some(format!("a node cluster cannot use {}, since it has a directory of its own there", path.display()))
}
