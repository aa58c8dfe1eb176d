//! A set of Linux namespaces: a network, mounts and process ids of its own, as a node of a cluster has them.
//!
//! ```text
//! harness ──► unshare ──► holder      the first process inside: reaps orphans, and its end is everybody's
//!    │           └─ dies with the harness, and the holder with it
//!    ├──► nsenter --net ─► etcd, kube-apiserver ...            children of the harness as ever, on the network inside
//!    └──► nsenter --net --mount --pid ─► containerd, kubelet   what they start cannot leave
//! ```
//!
//! Nothing done inside is seen outside: devices, routes and packet filters are the network's own, mounts are private,
//! and what programs want to write below `/run`, `/var/lib` and `/var/log` goes to memory. When the holder ends, the
//! kernel kills every process inside and takes network and mounts away. Only control groups stay: see `cgroups`.

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

pub use forwarder::Forwarder;
use rustix::process::Pid;

use self::cgroups::Cgroups;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::process::Process;
use crate::programs;

/// The address of the node on its own network. Everybody there reaches it, nobody elsewhere.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 123, 0, 1);

/// Directories that are empty and in memory inside, so that nothing is left behind in those of the host.
pub const HIDDEN: [&str; 3] = ["/run", "/var/lib", "/var/log"];

/// Exists inside, in a directory of its own, once everything is set up.
const READY: &str = "/run/namespaces-ready";

/// Setting up takes a tenth of a second; the machine may be busy.
const READY_DEADLINE: Duration = Duration::from_secs(30);

/// How long the kernel may take to end everything inside.
const KILL_DEADLINE: Duration = Duration::from_secs(10);

/// How often readiness, or the end, is looked for.
const POLL: Duration = Duration::from_millis(10);

/// What the first process inside does before it becomes the holder.
///
/// A kubelet writes certain values into the kernel's settings, which are the whole machine's: a file that says what it
/// wants to read stands in front of each.
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

/// How much of the namespaces a program enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The network. The program stays a child like any other: it has its id outside, and signals reach it.
    Network,
    /// Network, mounts and process ids. What is outside is its parent; it can be killed, and nothing gentler.
    All,
}

/// Namespaces, held open. Dropping them kills everything inside.
#[derive(Debug)]
pub struct Namespaces {
    holder: Process,
    cgroups: Cgroups,
}

impl Namespaces {
    /// Makes namespaces whose holder logs into `directory`. Root on Linux can.
    ///
    /// # Errors
    /// [`Error::MissingProgram`] without the holder, [`Error::Exited`] with what could not be set up.
    pub async fn create(directory: &Path) -> Result<Self> {
        let cgroups = Cgroups::create()?;
        let holder = programs::find("pause", "VMPOOL_PAUSE")?;
        let command = unshare(&cgroups, &format!("{SET_UP}\n: >{READY}\nexec \"$0\""), &holder);
        let holder = Process::spawn("the namespaces' holder", command, directory.join("namespaces.log"))?;
        let namespaces = Self { holder, cgroups };
        let deadline = Deadline::after(READY_DEADLINE);
        // Before the namespaces are there the path leads to the host's own directory, which has no such file.
        while !namespaces.path(Path::new(READY)).exists() {
            namespaces.check()?;
            if deadline.is_over() {
                return Err(namespaces.holder.not_in_time("ready", deadline.elapsed(), String::new()));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(namespaces)
    }

    /// Tries on this machine whether namespaces can be made and what `script` does in them works.
    ///
    /// # Errors
    /// The last line of what was said.
    pub(crate) fn rehearse(script: &str) -> std::result::Result<(), String> {
        let cgroups = Cgroups::create().map_err(|error| crate::error::chain(&error))?;
        let output = unshare(&cgroups, &format!("{SET_UP}\n{script}"), Path::new("sh"))
            .output()
            .map_err(|error| format!("unshare cannot be run: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(words.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("unshare failed").trim().to_owned())
    }

    /// A command that runs `program` inside. It finds what was built beside it, and what is for administrators.
    pub fn command(&self, depth: Depth, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.handle("net").display()));
        if depth == Depth::All {
            command.arg(format!("--mount={}", self.handle("mnt").display()));
            // The holder's parent stays outside of it; its children do not.
            command.arg(format!("--pid={}", self.handle("pid_for_children").display()));
        }
        command.arg("--").arg(program).env("PATH", search_path(program.parent()));
        command
    }

    /// A path inside as it can be used outside, while the namespaces live.
    pub fn path(&self, inside: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.pid()));
        root.join(inside.strip_prefix("/").unwrap_or(inside))
    }

    /// The folder for the control groups of what runs inside, from the root of each hierarchy.
    pub fn cgroup(&self) -> String {
        format!("/{}", self.cgroups.name())
    }

    /// Makes ports of the host's loopback address lead to the same ports inside.
    ///
    /// # Errors
    /// [`Error::Port`], [`Error::File`].
    pub fn forward<const N: usize>(&self) -> Result<(Forwarder, [u16; N])> {
        Forwarder::start(self.network()?, |port| (Ipv4Addr::LOCALHOST, port).into())
    }

    /// Makes a port of the host's loopback address lead to an address inside.
    ///
    /// # Errors
    /// [`Error::Port`], [`Error::File`].
    pub fn forward_to(&self, target: SocketAddr) -> Result<(Forwarder, u16)> {
        Forwarder::start(self.network()?, |_port| target).map(|(forwarder, [port])| (forwarder, port))
    }

    fn network(&self) -> Result<File> {
        let path = self.handle("net");
        File::open(&path).map_err(Error::file("opening", path))
    }

    /// A socket on a free port of [`ADDRESS`] whose connections this process answers.
    ///
    /// # Errors
    /// [`Error::Port`], [`Error::File`].
    pub fn listen(&self) -> Result<std::net::TcpListener> {
        let path = self.handle("net");
        let network = File::open(&path).map_err(Error::file("opening", &path))?;
        listener::listen(network, ADDRESS)
    }

    /// Whether everything inside still lives.
    ///
    /// # Errors
    /// [`Error::Exited`] with what the holder said.
    pub fn check(&self) -> Result<()> {
        self.holder.check()
    }

    /// Ends every process inside and waits until the kernel has done so. What [`Depth::Network`] has entered lives on.
    pub(crate) fn kill(&self) {
        // The parent reaps the first process when all others are gone, and then ends by itself.
        if let Some(first) = self.first_process() {
            let _ = rustix::process::kill_process(first, rustix::process::Signal::KILL);
            let deadline = Deadline::after(KILL_DEADLINE);
            while self.holder.exit_status().is_none() && !deadline.is_over() {
                std::thread::sleep(POLL);
            }
        }
        self.holder.kill();
    }

    /// The holder, as the child of the process that made the namespaces.
    fn first_process(&self) -> Option<Pid> {
        let parent = self.holder.pid().to_string();
        let is_child = |pid: &i32| {
            // After the name, which is in parentheses: state, parent.
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit(')').next().is_some_and(|rest| rest.split_whitespace().nth(1) == Some(&parent))
        };
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        // One that has ended already has no parent's process to be the child of.
        self.check().ok().and_then(|()| ids.find(is_child)).and_then(Pid::from_raw)
    }

    fn handle(&self, kind: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/{kind}", self.holder.pid()))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // Control groups can be removed when nobody is in them.
        self.kill();
    }
}

/// PATH with `first` in front, and behind it what a user's may lack.
pub(crate) fn search_path(first: Option<&Path>) -> OsString {
    let given = std::env::var_os("PATH").unwrap_or_default();
    let first = first.map(Path::to_owned).into_iter();
    let all = first.chain(std::env::split_paths(&given)).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    std::env::join_paths(all).unwrap_or(given)
}

/// A shell as the first process of new namespaces; `program` is its `$0`.
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
