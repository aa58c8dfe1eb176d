//! The playground and the demo as a user runs them, each in its own directory, and the commands of the
//! playground's page.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that cannot go on fails its test")]

mod pseudo_terminal;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, getsid, kill_process};
use tempfile::TempDir;
use vmpool_demo::screen::TerminalSize;
use vmpool_demo::terminal::VirtualTerminal;
use vmpool_installation::workspace_root;
use vmpool_test_cluster::control_plane::target_directory;
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::{node_test, plain_test, test_runner};

fn main() -> ExitCode {
    test_runner::run_tests(vec![
        plain_test!(the_playground_stays_up_and_the_commands_of_its_page_work),
        plain_test!(a_playground_with_both_platforms_has_pools_of_both),
        plain_test!(on_a_terminal_the_demo_runs_once_and_erases_only_its_tables),
        plain_test!(the_demo_of_kubevirt_runs_once_and_ends_with_the_state_of_its_pool),
        node_test!(on_a_node_the_chart_is_installed_with_two_replicas_of_each_program),
        plain_test!(a_broken_playground_is_detected_and_replaced),
        plain_test!(the_error_for_a_missing_program_is_one_line),
        plain_test!(a_directory_with_other_files_is_not_changed),
        plain_test!(another_process_with_the_supervisors_id_is_not_signaled),
    ])
}

/// The page with the tour of the playground, and the one with the tour of a playground with all systems.
const PAGE: &str = "docs/playground.md";
const KUBEVIRT_PAGE: &str = "docs/playground-kubevirt.md";

/// Only limits failures; waits usually take much less.
const DEADLINE: Duration = Duration::from_secs(30);

/// etcd, kube-apiserver, kube-controller-manager, the simulator, the webhook, the aggregated API, two
/// controllers and the supervisor.
const PROCESSES: usize = 9;

/// A directory for a playground, which is stopped at the end of the test, even if the test fails.
struct Playground {
    parent: TempDir,
    /// The flags that select it, and the environment variable for its directory.
    flags: &'static [&'static str],
    variable: &'static str,
}

impl Playground {
    fn new() -> Self {
        Self { parent: tempfile::tempdir().unwrap(), flags: &[], variable: "VMPOOL_PLAYGROUND_DIR" }
    }

    /// A playground with a node, whose images may not fit into a directory in memory.
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

    /// Reads the output to its end, which would never come if a background process held the pipe.
    fn run(&self, verb: &str) -> Output {
        self.command(verb).output().unwrap()
    }

    fn succeeds(&self, verb: &str) -> String {
        let output = self.run(verb);
        assert!(output.status.success(), "{verb}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The error output of a command that must fail.
    fn fails(&self, verb: &str) -> String {
        let output = self.run(verb);
        assert!(!output.status.success(), "{verb}: {}", text(&output.stdout));
        text(&output.stderr)
    }

    /// Runs a script as a user, after the lines that a user copies from the output of `up`. It must succeed.
    fn shell(&self, up: &str, script: &str) -> String {
        let script = format!("{}\n{script}", exports(up).join("\n"));
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", &script]).current_dir(workspace_root()).env("HOME", self.parent.path());
        let output = shell.stdin(Stdio::null()).output().unwrap();
        let said = text(&output.stdout);
        assert!(output.status.success(), "{said}\n{}", text(&output.stderr));
        said
    }

    /// The process that `status` lists under this name; `None` if it has exited.
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

/// A process that the playground must never signal.
struct Bystander(Child);

impl Bystander {
    fn new() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }

    fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Hides all Go programs except the control plane, because the demo and the playground must not need more:
/// building the others takes minutes.
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
        assert!(!deadline.is_over(), "{what}: not met after {}", deadline.elapsed());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The lines that a user copies.
fn exports(said: &str) -> Vec<&str> {
    said.lines().map(str::trim).filter(|line| line.starts_with("export ")).collect()
}

/// All commands of a page, which are more than `fewest`, as one script, each printed before it runs. The test
/// itself does what the `make` commands do.
fn tour(page: &str, fewest: usize) -> String {
    let name = page;
    let page = std::fs::read_to_string(workspace_root().join(page)).unwrap();
    let blocks = page.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let commands = blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ "));
    let mut script = String::new();
    let mut count = 0;
    for command in commands.filter(|command| !command.starts_with("make ")) {
        count += 1;
        writeln!(script, "printf '%s\\n' '$ {}'\n{command}", command.replace('\'', r"'\''")).unwrap();
    }
    assert!(count > fewest, "only {count} commands in {name}");
    script
}

fn the_playground_stays_up_and_the_commands_of_its_page_work() {
    let playground = Playground::new();
    assert_eq!(playground.succeeds("down"), "Nothing is up.\n");

    let first = playground.succeeds("up");
    assert_eq!(playground.processes().len(), PROCESSES, "{:#?}", playground.processes());
    // The end of the terminal does not reach it. The session id of this test may be that of a process outside
    // the container.
    let supervisor = playground.pid("supervisor");
    assert_eq!(getsid(Some(supervisor)).unwrap(), supervisor);

    let second = playground.succeeds("up");
    assert!(second.starts_with("The playground is up already"), "{second}");
    assert_eq!(exports(&first).len(), 2, "{first}");
    assert_eq!(exports(&first), exports(&second));
    assert_eq!(playground.pid("supervisor"), supervisor);
    assert_eq!(playground.processes().len(), PROCESSES);

    playground.shell(&first, &tour(PAGE, 50));

    // The supervisor restarts programs that exit.
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

/// The kubectl commands that `up` prints.
fn printed_commands(said: &str) -> Vec<&str> {
    said.lines().map(str::trim).filter(|line| line.starts_with("kubectl ")).collect()
}

fn a_playground_with_both_platforms_has_pools_of_both() {
    let playground = Playground::new();
    let mut up = playground.command("up");
    let up = up.env("PLATFORM", "all").output().unwrap();
    assert!(up.status.success(), "{}", text(&up.stderr));
    let up = text(&up.stdout);
    // `status` and a second `up` know without the variable that short names are ambiguous.
    let printed = printed_commands(&up);
    assert!(printed.len() > 5, "{up}");
    assert_eq!(printed_commands(&playground.succeeds("status")), printed);

    let said = playground.shell(&up, &tour(KUBEVIRT_PAGE, 25));
    for object in ["virtualmachine.kubevirt.io/quickstart-0", "datavolume.cdi.kubevirt.io/", "debian-13"] {
        assert!(said.contains(object), "{object}\n{said}");
    }
    let dvp = "kubectl wait virtualmachinepools.virtualization.deckhouse.io/quickstart \
        --for=jsonpath='{.status.readyReplicas}'=2 --timeout=60s";
    playground.shell(&up, &format!("{}\n{dvp}", printed.join("\n")));
    playground.succeeds("down");
    playground.is_gone();
}

/// The demo of a platform, which runs once.
fn demo(platform: &str, target: &Path) -> Command {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"));
    only_with_a_control_plane(&mut demo, target);
    demo.env("ONCE", "1").env("PLATFORM", platform).stdin(Stdio::null());
    demo
}

/// Checks that the demo showed all these steps, and at the end the state of its pool.
fn check_demo(said: &str, steps: &[&str]) {
    assert_eq!(said.lines().last(), Some("pool quickstart 3/3 ready"), "{said}");
    for step in steps {
        assert!(said.contains(step), "{step}\n{said}");
    }
}

/// Large enough for the longest line of the demo.
const TERMINAL: TerminalSize = TerminalSize { columns: 600, rows: 24 };

/// What a user of a terminal can read after a program wrote this.
fn read_screen(output: &str) -> String {
    let mut terminal = VirtualTerminal::new(TERMINAL);
    terminal.feed(output).unwrap();
    terminal.rows().join("\n")
}

fn on_a_terminal_the_demo_runs_once_and_erases_only_its_tables() {
    let target = tempfile::tempdir().unwrap();
    let (status, output) = pseudo_terminal::run_on_terminal(demo("", target.path()), TERMINAL);
    let screen = read_screen(&output);
    assert!(status.success(), "{screen}");
    check_demo(
        &screen,
        &[
            "stays: it is protected.",
            "removal accepted, replicas lowered",
            "All machines are updated after",
            "so only targeted removals delete machines",
            "$ kill -KILL",
        ],
    );
    // Each line that begins like these was written once, and is still there.
    for begin in ["$ ", "# ", "2 of 2 ready", "3 of 3 ready", "4 of 4 ready"] {
        let written: Vec<&str> =
            output.lines().map(str::trim_end).filter(|line| line.starts_with(begin)).collect();
        let kept: Vec<&str> = screen.lines().filter(|line| line.starts_with(begin)).collect();
        assert_eq!(kept, written, "{screen}");
        assert!(!kept.is_empty(), "no line begins with {begin}\n{screen}");
    }
    let tables = screen.lines().filter(|line| line.starts_with("pool quickstart: desired")).count();
    let results =
        screen.lines().filter(|line| line.contains(" ready after ") || line.contains("are updated"));
    assert_eq!(tables, results.count(), "each step has one table\n{screen}");
}

fn the_demo_of_kubevirt_runs_once_and_ends_with_the_state_of_its_pool() {
    let target = tempfile::tempdir().unwrap();
    let output = demo("kubevirt", target.path()).output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", text(&output.stderr));
    check_demo(
        &said,
        &["removal accepted, replicas lowered", "All machines are updated after", "$ kill -KILL"],
    );
}

fn on_a_node_the_chart_is_installed_with_two_replicas_of_each_program() {
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
    let listed = playground.shell(&first, list);
    assert_eq!(listed.trim(), "vmpool-apiserver=2 vmpool-controller=2 vmpool-webhook=2");

    let said = playground.succeeds("down");
    assert!(said.contains("Everything is stopped and removed"), "{said}");
    playground.is_gone();
}

fn a_broken_playground_is_detected_and_replaced() {
    let playground = Playground::new();
    playground.succeeds("up");

    // When the supervisor is killed, all its programs exit,
    kill_process(playground.pid("supervisor"), Signal::KILL).unwrap();
    until("nothing runs", || playground.processes().is_empty());
    let said = playground.fails("status");
    assert!(said.contains("has exited"), "{said}");
    // and the next `up` removes its files.
    let said = playground.succeeds("up");
    assert!(said.contains("An earlier playground has exited"), "{said}");
    let supervisor = playground.pid("supervisor");

    // When the API server cannot be reached,
    let kubeconfig = playground.directory().join("kubeconfig");
    let elsewhere = std::fs::read_to_string(&kubeconfig).unwrap().replace("127.0.0.1", "127.0.0.2");
    std::fs::write(&kubeconfig, elsewhere).unwrap();
    let said = playground.fails("status");
    assert!(said.contains("does not respond"), "{said}");
    // `up` replaces the playground.
    let said = playground.succeeds("up");
    assert!(said.contains("does not respond"), "{said}");
    assert_ne!(playground.pid("supervisor"), supervisor);
    assert_eq!(playground.processes().len(), PROCESSES, "{:#?}", playground.processes());

    // When a component of the control plane exits, the others are stopped, and the log contains the reason.
    let processes = playground.processes();
    let (etcd, _) = processes.iter().find(|(_, command)| command.contains("--data-dir")).unwrap();
    kill_process(*etcd, Signal::KILL).unwrap();
    until("nothing runs", || playground.processes().is_empty());
    let log = std::fs::read_to_string(playground.directory().join("supervisor.log")).unwrap();
    assert!(log.lines().any(|line| line.starts_with("playground: etcd ended")), "{log}");
    let said = playground.succeeds("down");
    assert!(said.contains("removed the files of an earlier playground"), "{said}");
    playground.is_gone();
}

fn the_error_for_a_missing_program_is_one_line() {
    let playground = Playground::new();
    let nowhere = playground.parent.path().join("nowhere");
    for (variable, advice) in [
        ("VMPOOL_TOOLS", "`cargo xtask tools`"),
        ("VMPOOL_SIMULATOR", "`cargo build"),
        ("VMPOOL_WEBHOOK", "`cargo build"),
        ("VMPOOL_APISERVER", "`cargo build"),
        ("VMPOOL_PLUGIN", "`cargo build"),
    ] {
        let output = playground.command("up").env(variable, &nowhere).output().unwrap();
        assert!(!output.status.success());
        let said = text(&output.stderr);
        assert!(said.contains(advice), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!playground.directory().exists());
    }
}

fn a_directory_with_other_files_is_not_changed() {
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

fn another_process_with_the_supervisors_id_is_not_signaled() {
    let playground = Playground::new();
    let mut bystander = Bystander::new();
    std::fs::create_dir(playground.directory()).unwrap();
    let lock = std::fs::File::create(playground.directory().join("supervisor.lock")).unwrap();
    let record = format!(r#"{{ "pid": {}, "ready": null }}"#, bystander.0.id());
    std::fs::write(playground.directory().join("supervisor.json"), record).unwrap();

    // The lock is held, but not by the process with that id.
    lock.lock().unwrap();
    let said = playground.fails("down");
    assert!(said.contains("is not the supervisor"), "{said}");
    assert!(bystander.is_running());
    // If the lock is not held, there is no process to signal.
    // Dropping the file is not enough, because a child that another test is forking may also have it open.
    lock.unlock().unwrap();
    let said = playground.succeeds("down");
    assert!(said.contains("Nothing is up"), "{said}");
    assert!(bystander.is_running());
    playground.is_gone();
}
