//! The playground and the demo as a user runs them, in directories of their own, and the tour of the playground's page,
//! command by command.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that cannot go on fails its test")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, getsid, kill_process};
use tempfile::TempDir;
use vmpool_installation::workspace_root;
use vmpool_test_cluster::control_plane::target_directory;
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::{node_test, plain_test, test_runner};

fn main() -> ExitCode {
    test_runner::run(vec![
        plain_test!(it_stays_up_until_it_is_taken_down_and_the_tour_shows_what_it_promises),
        plain_test!(the_demo_runs_once_and_ends_with_the_state_of_its_pool),
        node_test!(on_a_node_the_chart_is_installed_with_two_replicas_of_everything),
        plain_test!(what_is_half_dead_is_noticed_and_made_anew),
        plain_test!(a_program_that_is_missing_is_told_in_one_line),
        plain_test!(a_directory_of_somebody_else_is_left_alone),
        plain_test!(a_process_that_has_the_supervisors_id_by_now_is_not_touched),
    ])
}

const PAGE: &str = "docs/playground.md";

/// Far more than needed: it only bounds a failure.
const DEADLINE: Duration = Duration::from_secs(30);

/// etcd, kube-apiserver, kube-controller-manager, the simulator, the webhook, the aggregated API, two controllers and the
/// supervisor.
const PROCESSES: usize = 9;

/// A place for a playground, which is taken down at the end of the test, however that comes.
struct Playground {
    parent: TempDir,
    /// Which one, and how a directory is named to it.
    flags: &'static [&'static str],
    variable: &'static str,
}

impl Playground {
    fn new() -> Self {
        Self { parent: tempfile::tempdir().unwrap(), flags: &[], variable: "VMPOOL_PLAYGROUND_DIR" }
    }

    /// One with a node, whose images need more room than there may be in memory.
    fn on_a_node() -> Self {
        let parent = tempfile::tempdir_in(target_directory()).unwrap();
        Self { parent, flags: &["--node"], variable: "VMPOOL_NODE_DIR" }
    }

    fn directory(&self) -> PathBuf {
        self.parent.path().join("playground")
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_playground"));
        command.args(self.flags).arg(verb).env(self.variable, self.directory()).stdin(Stdio::null());
        if self.flags.is_empty() {
            only_with_a_control_plane(&mut command, self.parent.path());
        }
        command
    }

    /// Reads the answer to its end, which would not come if the background held our pipe.
    fn run(&self, verb: &str) -> Output {
        self.command(verb).output().unwrap()
    }

    fn succeeds(&self, verb: &str) -> String {
        let output = self.run(verb);
        assert!(output.status.success(), "{verb}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// What it says as its error.
    fn fails(&self, verb: &str) -> String {
        let output = self.run(verb);
        assert!(!output.status.success(), "{verb}: {}", text(&output.stdout));
        text(&output.stderr)
    }

    /// The process that `status` lists under this name, unless it lists it as ended.
    fn listed(&self, name: &str) -> Option<Pid> {
        let status = self.succeeds("status");
        let line = status.lines().find(|line| line.trim_start().starts_with(name));
        let word = line.and_then(|line| line.split_whitespace().last());
        Pid::from_raw(word.unwrap_or_else(|| panic!("no {name} in\n{status}")).parse().ok()?)
    }

    fn pid(&self, name: &str) -> Pid {
        self.listed(name).unwrap_or_else(|| panic!("{name} has ended"))
    }

    /// All processes that have the directory in their command line.
    fn processes(&self) -> Vec<(Pid, String)> {
        let directory = self.directory().display().to_string();
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let pid = Pid::from_raw(name.parse().ok()?)?;
                let command = std::fs::read(entry.path().join("cmdline")).ok()?;
                let command = text(&command).replace('\0', " ");
                command.contains(&directory).then_some((pid, command))
            })
            .collect()
    }

    fn is_gone(&self) {
        assert_eq!(self.processes(), [], "left running");
        assert!(!self.directory().exists());
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.directory().join("supervisor.log"));
            eprintln!("the supervisor's log:\n{}", log.unwrap_or_else(|error| error.to_string()));
        }
        let _ = self.run("down");
    }
}

/// A process that the playground must never touch.
struct Bystander(Child);

impl Bystander {
    fn new() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Hides every Go program but those of the control plane: the others take minutes to build, and a new user waits for them.
fn only_with_a_control_plane(command: &mut Command, target: &Path) {
    command.env("VMPOOL_TOOLS", target_directory().join("tools/control-plane/bin"));
    command.env("CARGO_TARGET_DIR", target);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Deadline::after(DEADLINE);
    while !holds() {
        assert!(!deadline.is_over(), "not so after {}: {what}", deadline.elapsed());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The lines that a reader is to copy.
fn exports(said: &str) -> Vec<&str> {
    said.lines().map(str::trim).filter(|line| line.starts_with("export ")).collect()
}

/// All commands of the page as one script, each told before it is run. What `make` does is the test's part.
fn tour() -> String {
    let page = std::fs::read_to_string(workspace_root().join(PAGE)).unwrap();
    let blocks = page.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let commands = blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ "));
    let mut script = String::new();
    let mut count = 0;
    for command in commands.filter(|command| !command.starts_with("make ")) {
        count += 1;
        writeln!(script, "printf '%s\\n' '$ {}'\n{command}", command.replace('\'', r"'\''")).unwrap();
    }
    assert!(count > 50, "only {count} commands in {PAGE}");
    script
}

fn it_stays_up_until_it_is_taken_down_and_the_tour_shows_what_it_promises() {
    let playground = Playground::new();
    assert_eq!(playground.succeeds("down"), "Nothing is up.\n");

    let first = playground.succeeds("up");
    assert_eq!(playground.processes().len(), PROCESSES, "{:#?}", playground.processes());
    // The end of our terminal would not reach it. (Our own session may have no number here: in a container it can be
    // that of a process outside.)
    let supervisor = playground.pid("supervisor");
    assert_eq!(getsid(Some(supervisor)).unwrap(), supervisor);

    let second = playground.succeeds("up");
    assert!(second.starts_with("The playground is up already"), "{second}");
    assert_eq!(exports(&first).len(), 2, "{first}");
    assert_eq!(exports(&first), exports(&second));
    assert_eq!(playground.pid("supervisor"), supervisor);
    assert_eq!(playground.processes().len(), PROCESSES);

    let script = format!("{}\n{}", exports(&first).join("\n"), tour());
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &script]).current_dir(workspace_root()).env("HOME", playground.parent.path());
    let toured = shell.stdin(Stdio::null()).output().unwrap();
    assert!(toured.status.success(), "{}\n{}", text(&toured.stdout), text(&toured.stderr));

    // What ends by itself is started again.
    for name in ["controller-0", "simulator", "webhook", "apiserver"] {
        let killed = playground.pid(name);
        kill_process(killed, Signal::KILL).unwrap();
        until(&format!("{name} runs again"), || {
            playground.listed(name).is_some_and(|running| running != killed)
        });
    }

    let said = playground.succeeds("down");
    assert!(said.contains("Everything is stopped and removed"), "{said}");
    playground.is_gone();
    assert_eq!(playground.succeeds("down"), "Nothing is up.\n");
}

fn the_demo_runs_once_and_ends_with_the_state_of_its_pool() {
    let target = tempfile::tempdir().unwrap();
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"));
    only_with_a_control_plane(&mut demo, target.path());
    let output = demo.env("ONCE", "1").stdin(Stdio::null()).output().unwrap();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}\n{errors}");
    assert_eq!(said.lines().last(), Some("pool quickstart 3/3 ready"), "{said}");
}

fn on_a_node_the_chart_is_installed_with_two_replicas_of_everything() {
    let playground = Playground::on_a_node();
    let first = playground.succeeds("up");
    let supervisor = playground.pid("supervisor");
    let second = playground.succeeds("up");
    assert!(second.starts_with("The playground is up already"), "{second}");
    assert_eq!(exports(&first).len(), 2, "{first}");
    assert_eq!(exports(&first), exports(&second));
    assert_eq!(playground.pid("supervisor"), supervisor);

    let list = "kubectl -n vmpool-system get deployments -o jsonpath=\
        '{range .items[*]}{.metadata.name}={.status.readyReplicas} {end}'";
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &format!("{}\n{list}", exports(&first).join("\n"))]).stdin(Stdio::null());
    let listed = shell.env("HOME", playground.parent.path()).output().unwrap();
    assert_eq!(
        text(&listed.stdout).trim(),
        "vmpool-apiserver=2 vmpool-controller=2 vmpool-webhook=2",
        "{}",
        text(&listed.stderr)
    );

    let said = playground.succeeds("down");
    assert!(said.contains("Everything is stopped and removed"), "{said}");
    playground.is_gone();
}

fn what_is_half_dead_is_noticed_and_made_anew() {
    let playground = Playground::new();
    playground.succeeds("up");

    // When the supervisor is killed, everything goes with it,
    kill_process(playground.pid("supervisor"), Signal::KILL).unwrap();
    until("nothing runs", || playground.processes().is_empty());
    let said = playground.fails("status");
    assert!(said.contains("ended by itself"), "{said}");
    // and the next `up` clears the remains away.
    let said = playground.succeeds("up");
    assert!(said.contains("An earlier playground ended by itself"), "{said}");
    let supervisor = playground.pid("supervisor");

    // When the API server cannot be reached,
    let kubeconfig = playground.directory().join("kubeconfig");
    let elsewhere = std::fs::read_to_string(&kubeconfig).unwrap().replace("127.0.0.1", "127.0.0.2");
    std::fs::write(&kubeconfig, elsewhere).unwrap();
    let said = playground.fails("status");
    assert!(said.contains("half dead"), "{said}");
    // `up` replaces what is there.
    let said = playground.succeeds("up");
    assert!(said.contains("half dead"), "{said}");
    assert_ne!(playground.pid("supervisor"), supervisor);
    assert_eq!(playground.processes().len(), PROCESSES, "{:#?}", playground.processes());

    // When a part of the control plane ends, the rest is stopped, and the reason stays.
    let processes = playground.processes();
    let (etcd, _) = processes.iter().find(|(_, command)| command.contains("--data-dir")).unwrap();
    kill_process(*etcd, Signal::KILL).unwrap();
    until("nothing runs", || playground.processes().is_empty());
    let log = std::fs::read_to_string(playground.directory().join("supervisor.log")).unwrap();
    assert!(log.lines().any(|line| line.starts_with("playground: etcd ended")), "{log}");
    let said = playground.succeeds("down");
    assert!(said.contains("removed what an earlier playground had left"), "{said}");
    playground.is_gone();
}

fn a_program_that_is_missing_is_told_in_one_line() {
    let playground = Playground::new();
    let nowhere = playground.parent.path().join("nowhere");
    for (variable, advice) in [
        ("VMPOOL_TOOLS", "`cargo xtask tools`"),
        ("VMPOOL_SIMULATOR", "`cargo build"),
        ("VMPOOL_WEBHOOK", "`cargo build"),
        ("VMPOOL_APISERVER", "`cargo build"),
    ] {
        let output = playground.command("up").env(variable, &nowhere).output().unwrap();
        assert!(!output.status.success());
        let said = text(&output.stderr);
        assert!(said.contains(advice), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!playground.directory().exists());
    }
}

fn a_directory_of_somebody_else_is_left_alone() {
    let playground = Playground::new();
    let precious = playground.directory().join("precious");
    std::fs::create_dir(playground.directory()).unwrap();
    std::fs::write(&precious, "data").unwrap();
    for verb in ["up", "down", "status"] {
        let said = playground.fails(verb);
        assert!(said.contains("is no playground"), "{said}");
    }
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "data");
}

fn a_process_that_has_the_supervisors_id_by_now_is_not_touched() {
    let playground = Playground::new();
    let mut bystander = Bystander::new();
    std::fs::create_dir(playground.directory()).unwrap();
    let lock = std::fs::File::create(playground.directory().join("supervisor.lock")).unwrap();
    let record = format!(r#"{{ "pid": {}, "ready": null }}"#, bystander.0.id());
    std::fs::write(playground.directory().join("supervisor.json"), record).unwrap();

    // The lock is held, but not by the process of that id.
    lock.lock().unwrap();
    let said = playground.fails("down");
    assert!(said.contains("is not the supervisor"), "{said}");
    assert!(bystander.lives());
    // Nobody holds the lock, so there is nobody to signal.
    // Dropping it is not enough: a child that another test is forking may have the file open, too.
    lock.unlock().unwrap();
    let said = playground.succeeds("down");
    assert!(said.contains("Nothing is up"), "{said}");
    assert!(bystander.lives());
    playground.is_gone();
}
