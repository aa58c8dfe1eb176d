//! A set of Linux namespaces for a node: network, mounts and process ids.
//!
//! ```text
//! process ──► unshare ──► holder      the first process inside: reaps orphans; if it exits, all processes inside are killed
//!    │           └─ is killed with the test process, and the holder with it
//!    ├──► nsenter --net ─► etcd, kube-apiserver ...            children of the test process, on the network inside
//!    └──► nsenter --net --mount --pid ─► containerd, kubelet   their children cannot leave the namespaces
//! ```
//!
//! Changes inside do not affect the host: devices, routes and packet filters belong to the network namespace,
//! mounts are private, and files below `/run`, `/var/lib` and `/var/log` are in memory. When the holder
//! exits, the kernel kills every process inside and removes network and mounts. Only control groups remain:
//! see `cgroups`.

mod cgroups;
mod forwarder;
mod listener;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub use forwarder::NamespaceForwarder;
use rustix::process::Pid;
use vmpool_process_stat::ProcessStat;

use self::cgroups::Cgroups;
use crate::binaries;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::process::ChildProcess;

/// The address of the node on its network. It is reachable only inside.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 123, 0, 1);

/// Directories that are empty and in memory inside, so that those of the host are not changed.
pub const HIDDEN: [&str; 3] = ["/run", "/var/lib", "/var/log"];

/// A file inside, in one of these directories, that exists once everything is set up.
const READY: &str = "/run/namespaces-ready";

/// The setup takes a tenth of a second, but the host may be busy.
const READY_DEADLINE: Duration = Duration::from_secs(30);

/// How long the kernel may take to kill everything inside.
const KILL_DEADLINE: Duration = Duration::from_secs(10);

/// Poll interval for readiness and for the end.
const POLL: Duration = Duration::from_millis(10);

/// The setup that the first process runs before it becomes the holder.
///
/// A kubelet writes certain kernel settings, which would affect the whole host. Therefore a file with the
/// expected value is mounted over each.
const SET_UP: &str = r"
for directory in $HIDDEN; do mount -t tmpfs -o mode=755 inside $directory; done
mkdir /run/settings
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  path=/proc/sys/${setting%=*}
  test -e $path || continue
  file=/run/settings/$(echo ${setting%=*} | tr / -)
  echo ${setting#*=} >$file
  mount --bind $file $path
done
for group in $GROUPS_OF_HOLDER; do echo 0 >$group/cgroup.procs; done
ip link set lo up
ip link add node0 type bridge
ip address add $ADDRESS/32 dev node0
ip link set node0 up
ip route add default dev node0
echo 1 >/proc/sys/net/ipv4/ip_forward
";

/// Which namespaces a program enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Only the network. The program remains a normal child: its process id is valid outside, and signals
    /// reach it.
    Network,
    /// Network, mounts and process ids. Its parent is outside, and it can only be killed.
    All,
}

/// Open namespaces. Dropping them kills everything inside.
#[derive(Debug)]
pub struct LinuxNamespaces {
    holder: ChildProcess,
    cgroups: Cgroups,
}

impl LinuxNamespaces {
    /// Creates namespaces whose holder logs into `directory`. Requires root on Linux.
    ///
    /// # Errors
    /// [`Error::MissingProgram`] without the holder, [`Error::Exited`] if the setup failed.
    pub async fn create(directory: &Path) -> Result<Self> {
        let cgroups = Cgroups::create()?;
        let holder = binaries::find_program("pause", "VMPOOL_PAUSE")?;
        let command = unshare(&cgroups, &format!("{SET_UP}\n: >{READY}\nexec \"$0\""), &holder);
        let holder =
            ChildProcess::spawn("the namespaces' holder", command, directory.join("namespaces.log"))?;
        let namespaces = Self { holder, cgroups };
        let deadline = Deadline::after(READY_DEADLINE);
        // Before the namespaces exist, the path leads to the host's own directory, which has no such file.
        while !namespaces.path(Path::new(READY)).exists() {
            namespaces.check()?;
            if deadline.is_over() {
                return Err(namespaces.holder.not_in_time("ready", deadline.elapsed(), String::new()));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(namespaces)
    }

    /// Checks that this host can create namespaces and run `script` in them.
    ///
    /// # Errors
    /// The last line of the error output.
    pub(crate) fn rehearse(script: &str) -> std::result::Result<(), String> {
        let cgroups = Cgroups::create().map_err(|error| crate::error::error_with_causes(&error))?;
        let output = unshare(&cgroups, &format!("{SET_UP}\n{script}"), Path::new("sh"))
            .output()
            .map_err(|error| format!("unshare cannot be run: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(words.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("unshare failed").trim().to_owned())
    }

    /// A command that runs `program` inside. Its PATH contains the program's own directory and those for
    /// administrators.
    pub fn command(&self, depth: Depth, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.handle("net").display()));
        if depth == Depth::All {
            command.arg(format!("--mount={}", self.handle("mnt").display()));
            // The holder's parent is outside the process namespace; only its children are inside.
            command.arg(format!("--pid={}", self.handle("pid_for_children").display()));
        }
        command.arg("--").arg(program).env("PATH", search_path(program.parent()));
        command
    }

    /// The path through which a path inside is accessible from outside, while the namespaces exist.
    pub fn path(&self, inside: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.pid()));
        root.join(inside.strip_prefix("/").unwrap_or(inside))
    }

    /// The folder for the control groups of the programs inside, relative to the root of each hierarchy.
    pub fn cgroup(&self) -> String {
        format!("/{}", self.cgroups.name())
    }

    /// Forwards ports of the host's loopback address to the same ports inside.
    ///
    /// # Errors
    /// [`Error::Port`], [`Error::File`].
    pub fn forward<const N: usize>(&self) -> Result<(NamespaceForwarder, [u16; N])> {
        NamespaceForwarder::start(self.network()?, |port| (Ipv4Addr::LOCALHOST, port).into())
    }

    /// Forwards a port of the host's loopback address to an address inside.
    ///
    /// # Errors
    /// [`Error::Port`], [`Error::File`].
    pub fn forward_to(&self, target: SocketAddr) -> Result<(NamespaceForwarder, u16)> {
        NamespaceForwarder::start(self.network()?, |_port| target)
            .map(|(forwarder, [port])| (forwarder, port))
    }

    fn network(&self) -> Result<File> {
        let path = self.handle("net");
        File::open(&path).map_err(Error::file("opening", path))
    }

    /// A socket of this process on a free port of [`ADDRESS`].
    ///
    /// # Errors
    /// [`Error::Port`], [`Error::File`].
    pub fn listen(&self) -> Result<std::net::TcpListener> {
        let path = self.handle("net");
        let network = File::open(&path).map_err(Error::file("opening", &path))?;
        listener::listen_in_network(network, ADDRESS)
    }

    /// Checks that the holder is running.
    ///
    /// # Errors
    /// [`Error::Exited`] with the holder's log.
    pub fn check(&self) -> Result<()> {
        self.holder.check()
    }

    /// Kills every process inside and waits for that. Programs that entered only [`Depth::Network`] continue.
    pub(crate) fn kill(&self) {
        // The parent reaps the first process when all others are gone, then exits on its own.
        if let Some(first) = self.first_process() {
            let _ = rustix::process::kill_process(first, rustix::process::Signal::KILL);
            let deadline = Deadline::after(KILL_DEADLINE);
            while self.holder.exit_status().is_none() && !deadline.is_over() {
                std::thread::sleep(POLL);
            }
        }
        self.holder.kill();
    }

    /// The holder, found as the child of the process that created the namespaces.
    fn first_process(&self) -> Option<Pid> {
        let parent = self.holder.pid();
        // If the parent has exited, its process id may be reused, so the search is skipped.
        self.check().ok()?;
        let child = ProcessStat::all().into_iter().find(|process| process.parent == parent)?;
        Pid::from_raw(i32::try_from(child.pid).ok()?)
    }

    fn handle(&self, kind: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/{kind}", self.holder.pid()))
    }
}

impl Drop for LinuxNamespaces {
    fn drop(&mut self) {
        // Control groups can be removed only if they contain no process.
        self.kill();
    }
}

/// PATH with `first` in front, and with the administrators' directories, which a user's PATH may lack.
pub(crate) fn search_path(first: Option<&Path>) -> OsString {
    let given = std::env::var_os("PATH").unwrap_or_default();
    let first = first.map(Path::to_owned).into_iter();
    let all = first.chain(std::env::split_paths(&given)).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    std::env::join_paths(all).unwrap_or(given)
}

/// A shell as the first process of new namespaces, with `program` as its `$0`.
fn unshare(cgroups: &Cgroups, script: &str, program: &Path) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["--propagation", "private", "--", "/bin/sh", "-euc"])
        .arg(script)
        .arg(program)
        .env("PATH", search_path(None))
        .env("ADDRESS", ADDRESS.to_string())
        .env("HIDDEN", HIDDEN.join(" "))
        .env("GROUPS_OF_HOLDER", cgroups.holders().join(" "));
    command
}
