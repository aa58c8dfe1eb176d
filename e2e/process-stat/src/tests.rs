use super::*;

const LINE: &str = "4711 (a (b) 9 9) S 7 4711 4711 0 -1 4194560 2914 0 0 0 123 45 0 0 20 0 3 0 9 0 0";

#[test]
fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
    let expected =
        ProcessStat { pid: 4711, name: "a (b) 9 9".to_owned(), state: 'S', parent: 7, cpu_ticks: 168 };
    assert_eq!(ProcessStat::parse(LINE), Some(expected));
}

#[test]
fn an_incomplete_line_is_invalid() {
    for line in ["", "4711 nonsense", "42 (a", "42 (a) S 7 42", &LINE[..50]] {
        assert_eq!(ProcessStat::parse(line), None, "{line}");
    }
}

#[test]
fn files_without_a_process_are_left_out() {
    let proc = std::env::temp_dir().join(format!("process-stat-{}", std::process::id()));
    let process = proc.join("4711");
    fs::create_dir_all(&process).unwrap();
    fs::create_dir_all(proc.join("sys")).unwrap();
    fs::write(process.join("stat"), LINE).unwrap();
    fs::write(proc.join("stat"), "cpu 1 2 3 4 5 6 7 8").unwrap();
    let found: Vec<u32> = ProcessStat::all_in(&proc).iter().map(|process| process.pid).collect();
    fs::remove_dir_all(&proc).unwrap();
    assert_eq!(found, [4711]);
}

#[cfg(target_os = "linux")]
#[test]
fn the_own_process_is_found() {
    let own = std::process::id();
    let read = ProcessStat::read(own).unwrap();
    assert!(ProcessStat::all().iter().any(|process| process.pid == own && process.parent == read.parent));
}
