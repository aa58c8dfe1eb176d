//! The scripts of the recipes, with stand-ins for kubectl and ssh that play the aggregated API and a machine.

use std::path::Path;
use std::process::{Command, Output};

use rstest::rstest;
use vmpool_installation::workspace_root;

/// What kubectl prints if the account may not claim.
const FORBIDDEN: &str = "Error from server (Forbidden): virtualmachinepools.subresources.vmpool.dev \"runners\" \
    is forbidden: User \"system:serviceaccount:ci:ci\" cannot create resource \"virtualmachinepools/claim\"";

/// A folder with the state of the stand-ins: two free machines, and a log of all requests.
struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for machine in ["machine-0", "machine-1"] {
            std::fs::write(folder.path().join(machine), "").unwrap();
        }
        Self { folder }
    }

    fn run(&self, script: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let root = workspace_root();
        let stubs = root.join("e2e/tests/docs/stubs");
        let path = format!("{}:{}", stubs.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.arg(root.join("docs/examples/recipes").join(script)).args(arguments);
        command.env("PATH", path).env("STUB", self.folder.path()).env("TMPDIR", self.folder.path());
        command.env("POOL_NAMESPACE", "ci").env("POOL", "runners");
        command.env("RETRY_SECONDS", "0").env("CLAIM_ATTEMPTS", "2");
        command.envs(variables.iter().copied()).stdin(std::process::Stdio::null());
        command.output().unwrap()
    }

    /// Changes how the stand-in for kubectl responds: it looks for files with certain names.
    fn respond(&self, file: &str, text: &str) {
        std::fs::write(self.folder.path().join(file), text).unwrap();
    }

    /// The requests since the last call.
    fn log(&self) -> String {
        let path = self.folder.path().join("log");
        let log = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(path);
        log
    }

    fn is_free(&self, machine: &str) -> bool {
        std::fs::read_to_string(self.folder.path().join(machine)).unwrap().is_empty()
    }
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn job(folder: &Path) -> String {
    let path = folder.join("job.sh");
    std::fs::write(&path, "echo hello from the job\n").unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_gitlab_job_runs_on_a_claimed_machine_that_is_replaced_afterwards() {
    let stage = Stage::new();
    let of_job = [("CUSTOM_ENV_CI_JOB_ID", "7")];
    let prepared = text(&stage.run("gitlab/prepare.sh", &[], &of_job));
    assert_eq!(prepared, "job 7 runs on machine-0 (10.0.0.7)\n");
    let script = job(stage.folder.path());
    assert!(stage.run("gitlab/run.sh", &[&script, "build_script"], &of_job).status.success());
    let log = stage.log();
    assert!(log.contains("\"renew\":true"), "the claim is renewed before each stage: {log}");
    assert!(log.contains("runner@10.0.0.7") && log.contains("echo hello from the job"), "{log}");
    // A repeated cleanup finds nothing to do.
    for _ in 0..2 {
        text(&stage.run("gitlab/cleanup.sh", &[], &of_job));
    }
    let log = stage.log();
    let release = "{\"id\":\"gitlab-7\",\"machineUID\":\"uid-of-machine-0\",\"then\":\"Replace\"}";
    assert_eq!(log.matches(release).count(), 1, "{log}");
    assert!(stage.is_free("machine-0"));
}

#[test]
fn a_gitlab_job_goes_to_another_runner_if_no_machine_is_free_or_the_claim_has_ended() {
    let stage = Stage::new();
    for job in ["1", "2"] {
        text(&stage.run("gitlab/prepare.sh", &[], &[("CUSTOM_ENV_CI_JOB_ID", job)]));
    }
    let codes = [("CUSTOM_ENV_CI_JOB_ID", "3"), ("SYSTEM_FAILURE_EXIT_CODE", "77")];
    assert_eq!(stage.run("gitlab/prepare.sh", &[], &codes).status.code(), Some(77));
    let script = job(stage.folder.path());
    assert_eq!(stage.run("gitlab/run.sh", &[&script, "build_script"], &codes).status.code(), Some(77));
}

#[test]
fn a_github_job_gives_its_machine_back_also_if_it_fails() {
    let stage = Stage::new();
    let of_job = [("JOB", "9"), ("JIT_COMMAND", "echo configuration")];
    text(&stage.run("github/run-job.sh", &[], &of_job));
    let log = stage.log();
    assert!(log.contains("./run.sh --jitconfig configuration"), "{log}");
    assert!(log.contains("\"then\":\"Replace\""), "{log}");
    let failed = stage.run("github/run-job.sh", &[], &[("JOB", "10"), ("JIT_COMMAND", "exit 3")]);
    assert!(!failed.status.success());
    assert!(stage.is_free("machine-0"), "{}", stage.log());
}

#[test]
fn a_user_keeps_one_desktop_until_logout() {
    let stage = Stage::new();
    let broker = |arguments: &[&str]| stage.run("vdi/broker.sh", arguments, &[]);
    for _ in 0..2 {
        assert_eq!(text(&broker(&["connect", "ann"])), "10.0.0.7\n");
    }
    text(&broker(&["keep", "ann"]));
    text(&broker(&["connect", "bob"]));
    assert!(!broker(&["connect", "carl"]).status.success(), "both desktops are in use");
    assert!(!broker(&["keep", "carl"]).status.success());
    for _ in 0..2 {
        text(&broker(&["logout", "ann"]));
    }
    text(&broker(&["connect", "carl"]));
    assert!(!stage.is_free("machine-0") && !stage.is_free("machine-1"));
}

#[test]
fn a_logout_that_gives_no_desktop_back_is_an_error() {
    let stage = Stage::new();
    let broker = |arguments: &[&str]| stage.run("vdi/broker.sh", arguments, &[]);
    text(&broker(&["connect", "ann"]));
    stage.respond("refusal", FORBIDDEN);
    let output = broker(&["logout", "ann"]);
    assert_eq!(output.status.code(), Some(75));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, format!("the desktop of user ann was not given back: {FORBIDDEN}\n"));
    assert!(!stage.is_free("machine-0"));
}

#[rstest]
#[case::gitlab("gitlab/prepare.sh", 2)]
#[case::github("github/run-job.sh", 77)]
fn a_refused_claim_ends_a_job_at_once_with_the_message_of_the_api_server(
    #[case] script: &str,
    #[case] code: i32,
) {
    let stage = Stage::new();
    stage.respond("refusal", FORBIDDEN);
    let of_job =
        [("CUSTOM_ENV_CI_JOB_ID", "7"), ("JOB", "7"), ("JIT_COMMAND", "true"), ("CLAIM_ATTEMPTS", "20")];
    let output = stage.run(script, &[], &of_job);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_eq!(said, format!("claiming a machine of pool runners in namespace ci is refused: {FORBIDDEN}\n"));
    assert_eq!(stage.log().lines().count(), 1, "it is not repeated");
}

#[rstest]
#[case::gitlab("gitlab/prepare.sh", 2)]
#[case::github("github/run-job.sh", 75)]
fn a_job_without_a_free_machine_shows_the_last_response(#[case] script: &str, #[case] code: i32) {
    let stage = Stage::new();
    let text = "Error from server (NoMachineAvailable): no machine is free";
    stage.respond("refusal", text);
    let of_job = [("CUSTOM_ENV_CI_JOB_ID", "7"), ("JOB", "7"), ("JIT_COMMAND", "true")];
    let output = stage.run(script, &[], &of_job);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_eq!(said, format!("pool runners in namespace ci gave no machine in 2 attempts: {text}\n"));
    assert_eq!(stage.log().lines().count(), 2, "it is repeated");
}

#[rstest]
#[case::gitlab("gitlab/prepare.sh", &[], 2, "machine machine-0 of pool runners has no address")]
#[case::github("github/run-job.sh", &[], 75, "machine machine-0 of pool runners has no address")]
#[case::desktop("vdi/broker.sh", &["connect", "ann"], 75, "desktop machine-0 of user ann has no address")]
fn a_machine_without_an_address_is_an_error_that_names_it(
    #[case] script: &str,
    #[case] arguments: &[&str],
    #[case] code: i32,
    #[case] message: &str,
) {
    let stage = Stage::new();
    stage.respond("no-address", "");
    let of_job = [("CUSTOM_ENV_CI_JOB_ID", "7"), ("JOB", "7"), ("JIT_COMMAND", "true")];
    let output = stage.run(script, arguments, &of_job);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(code), &b""[..]), "{said}");
    assert!(said.starts_with(message), "{said}");
}

#[test]
fn the_broker_without_a_user_prints_its_usage() {
    let output = Stage::new().run("vdi/broker.sh", &["connect"], &[]);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("usage: broker.sh"));
}

/// The mark of a drain as the controller writes it.
const MARK: &str =
    r#"{"id":"d1","reason":"ScaleDown","since":"2026-01-01T00:00:00Z","deadline":"2026-01-01T00:10:00Z"}"#;

fn hook(stage: &Stage) -> String {
    std::fs::read_to_string(stage.folder.path().join("hook")).unwrap()
}

fn agent(stage: &Stage, arguments: &[&str]) -> Output {
    stage.run("drain/agent.sh", arguments, &[("MACHINE", "runners-0")])
}

#[test]
fn a_job_has_a_hook_while_it_runs() {
    let stage = Stage::new();
    let seen = stage.folder.path().join("hook").display().to_string();
    assert_eq!(text(&agent(&stage, &["run", "cat", &seen])), "drain.vmpool.dev/job=\n");
    assert_eq!(hook(&stage), "drain.vmpool.dev/job-\n", "the hook is removed");
    assert!(stage.log().contains("virtualmachines.virtualization.deckhouse.io runners-0 -n ci"));
    assert_eq!(agent(&stage, &["run", "sh", "-c", "exit 3"]).status.code(), Some(3));
    assert_eq!(hook(&stage), "drain.vmpool.dev/job-\n");
}

#[test]
fn a_job_of_a_draining_machine_is_finished_and_releases_the_hook_with_the_id() {
    let stage = Stage::new();
    text(&agent(&stage, &["begin"]));
    stage.respond("draining", MARK);
    assert_eq!(text(&agent(&stage, &["end"])), "draining\n");
    assert_eq!(hook(&stage), "drain.vmpool.dev/job=d1\n");
}

#[rstest]
#[case::it_drains("draining", MARK, "drain.vmpool.dev/job=d1\n")]
#[case::it_drains_since_the_hook_was_set("drain-next", MARK, "drain.vmpool.dev/job=d1\n")]
#[case::it_is_being_deleted("deleted", "2026-01-01T00:00:00Z", "drain.vmpool.dev/job=\n")]
fn a_machine_that_leaves_starts_no_job(#[case] file: &str, #[case] content: &str, #[case] expected: &str) {
    let stage = Stage::new();
    stage.respond(file, content);
    let output = agent(&stage, &["run", "echo", "a job"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(75), &b""[..]));
    assert_eq!(hook(&stage), expected);
}
