use super::*;

#[test]
fn memory_is_in_mib() {
    let status = "Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t   20480 kB\nVmRSS:\t   10240 kB\n";
    let memory = memory_of(status).unwrap();
    assert!((memory.now - 10.0).abs() < 1e-9 && (memory.peak - 20.0).abs() < 1e-9, "{memory:?}");
}

#[test]
fn the_usage_of_the_own_process_is_read() {
    let own = std::process::id();
    assert!(resident_memory(own).unwrap().now > 0.5);
    cpu_seconds(own).unwrap();
    let own_threads = thread_count(own).unwrap();
    assert!((1..10_000).contains(&own_threads), "{own_threads}");
    assert!(open_descriptor_count(own).unwrap() >= 3);
}

#[test]
fn an_invalid_status_is_an_error() {
    assert!(memory_of("VmRSS: much\nVmHWM: 1 kB").is_err());
}
