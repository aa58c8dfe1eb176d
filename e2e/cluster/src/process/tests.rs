use std::process::Command;
use std::time::Duration;

use vmpool_process_stat::ProcessStat;

use super::*;

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

fn alive(pid: u32) -> bool {
    // A zombie still has an entry, so the state is checked.
    ProcessStat::read(pid).is_ok_and(|process| process.state != 'Z')
}

fn log() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    (dir, path)
}

#[tokio::test]
async fn output_is_written_to_the_log() {
    let (_dir, path) = log();
    let process = ChildProcess::spawn("printer", shell("echo out; echo err >&2"), &path).unwrap();
    let status = process.wait(Duration::from_secs(10)).await.unwrap();
    assert!(status.success());
    assert_eq!(process.log_tail(5), "out\nerr");
}

#[tokio::test]
async fn drop_kills_the_whole_process_group() {
    let (_dir, path) = log();
    let process = ChildProcess::spawn("parent", shell("sleep 600 & echo $!; wait"), &path).unwrap();
    let grandchild = loop {
        if let Ok(pid) = process.log_tail(1).trim().parse::<u32>() {
            break pid;
        }
        tokio::time::sleep(POLL).await;
    };
    assert!(alive(grandchild));
    drop(process);
    let deadline = Deadline::after(Duration::from_secs(10));
    while alive(grandchild) {
        assert!(!deadline.is_over(), "the grandchild still exists");
        tokio::time::sleep(POLL).await;
    }
}

#[tokio::test]
async fn a_child_survives_the_thread_that_spawned_it() {
    let (_dir, path) = log();
    let process =
        std::thread::spawn(move || ChildProcess::spawn("sleeper", shell("sleep 600"), path).unwrap())
            .join()
            .unwrap();
    // If the thread's exit sends a signal, it arrives at once.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(process.exit_status(), None);
}

#[tokio::test]
async fn a_paused_child_stops_and_resumes() {
    let (_dir, path) = log();
    let script = "while true; do echo tick; sleep 0.01; done";
    let process = ChildProcess::spawn("ticker", shell(script), &path).unwrap();
    let size = || std::fs::metadata(&path).map_or(0, |m| m.len());
    while size() == 0 {
        tokio::time::sleep(POLL).await;
    }
    process.pause().unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let paused = size();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(size(), paused);
    process.resume().unwrap();
    let deadline = Deadline::after(Duration::from_secs(10));
    while size() == paused {
        assert!(!deadline.is_over(), "the process did not resume");
        tokio::time::sleep(POLL).await;
    }
}

#[tokio::test]
async fn a_child_that_ignores_sigterm_is_killed_after_the_deadline() {
    let (_dir, path) = log();
    let script = "trap '' TERM; echo deaf; while true; do sleep 0.01; done";
    let process = ChildProcess::spawn("deaf", shell(script), &path).unwrap();
    while process.log_tail(1).is_empty() {
        tokio::time::sleep(POLL).await;
    }
    let error = process.stop(Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(error, Error::NotInTime { state: "gone", .. }), "{error}");
    assert!(!alive(process.pid()));
}

#[tokio::test]
async fn a_short_command_is_killed_at_its_deadline() {
    let error = command_output("slow", shell("sleep 600"), Duration::from_millis(50)).await.unwrap_err();
    assert!(crate::error::error_with_causes(&error).contains("killed"), "{error}");
}

/// Not a test on its own: the test below runs it in a process that it kills.
#[tokio::test]
async fn harness_in_the_harness() {
    let Some(path) = std::env::var_os("VMPOOL_E2E_VICTIM") else { return };
    let _child = ChildProcess::spawn("orphan", shell("echo $$; exec sleep 600"), path).unwrap();
    std::future::pending::<()>().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_is_killed_with_its_harness() {
    let (dir, path) = log();
    let mut victim = Command::new(std::env::current_exe().unwrap());
    victim.args(["--exact", "process::tests::harness_in_the_harness"]).env("VMPOOL_E2E_VICTIM", &path);
    let harness = ChildProcess::spawn("victim", victim, dir.path().join("victim.log")).unwrap();
    let deadline = Deadline::after(Duration::from_secs(20));
    let orphan = loop {
        if let Ok(pid) = last_lines(&path, 1).trim().parse::<u32>() {
            break pid;
        }
        assert!(!deadline.is_over(), "{}", harness.log_tail(20));
        tokio::time::sleep(POLL).await;
    };
    assert!(alive(orphan));
    // Only the parent, not its group: the child has its own group.
    harness.kill();
    let deadline = Deadline::after(Duration::from_secs(10));
    while alive(orphan) {
        assert!(!deadline.is_over(), "the child still runs after its parent was killed");
        tokio::time::sleep(POLL).await;
    }
}
