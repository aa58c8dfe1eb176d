use super::*;

#[test]
fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
    let stat = "4711 (a (b) 9 9) S 1 4711 4711 0 -1 4194560 2914 0 0 0 123 45 0 0 20 0 3 0 9 0 0";
    assert_eq!(ticks_of_process(stat).unwrap(), 168);
}

#[test]
fn memory_is_in_mib() {
    let status = "Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t   20480 kB\nVmRSS:\t   10240 kB\n";
    let memory = memory_of(status).unwrap();
    assert!((memory.now - 10.0).abs() < 1e-9 && (memory.peak - 20.0).abs() < 1e-9, "{memory:?}");
}

#[test]
fn the_usage_of_the_own_process_is_read() {
    let own = std::process::id();
    assert!(memory(own).unwrap().now > 0.5);
    cpu(own).unwrap();
    let own_threads = threads(own).unwrap();
    assert!((1..10_000).contains(&own_threads), "{own_threads}");
    assert!(descriptors(own).unwrap() >= 3);
}

#[test]
fn an_invalid_line_is_an_error() {
    assert!(ticks_of_process("4711 nonsense").is_err());
    assert!(memory_of("VmRSS: much\nVmHWM: 1 kB").is_err());
}
