use clap::{CommandFactory, Parser};
use vmpool_engine::scale_down::removal::RESERVATION_AGE;
use vmpool_feature_gates::Feature;
use vmpool_runtime::testing::flags::{flag_differences, help_gaps};

use super::*;

fn options(flags: &[&str]) -> ApiServerOptions {
    ApiServerOptions::try_parse_from(["vmpool-apiserver"].iter().chain(flags)).unwrap()
}

#[test]
fn the_command_line_is_well_formed() {
    ApiServerOptions::command().debug_assert();
}

#[test]
fn the_gate_is_off_by_default() {
    assert!(!options(&[]).gates.gates().unwrap().enabled(Feature::VirtualMachinePool));
    let on = options(&["--feature-gates=VirtualMachinePool=true"]);
    assert!(on.gates.gates().unwrap().enabled(Feature::VirtualMachinePool));
}

#[test]
fn help_lists_every_flag_with_its_variable_and_every_gate() {
    assert_eq!(help_gaps(ApiServerOptions::command()), [""; 0]);
}

#[test]
fn a_certificate_source_is_required() {
    let error = options(&[]).serving().unwrap_err().to_string();
    assert!(error.contains("--tls-secret"), "{error}");
    assert!(options(&["--tls-secret=a/b", "--tls-dns-names=localhost"]).serving().is_ok());
}

#[test]
fn the_reservation_timeout_is_validated() {
    let timeout = |flags| options(flags).reservation_timeout().map_err(|error| error.to_string());
    assert_eq!(timeout(&[]), Ok(RESERVATION_AGE), "the default of the engine");
    assert_eq!(timeout(&["--reservation-timeout=3s"]), Ok(Duration::from_secs(3)));
    let refused = "--reservation-timeout must be at least 1s, not 500ms".to_owned();
    assert_eq!(timeout(&["--reservation-timeout=500ms"]), Err(refused));
}

#[test]
fn the_request_timeout_is_shorter_than_the_deadline_of_a_removal() {
    let timeout = |flags: &[&str]| options(flags).request_timeout().map_err(|error| error.to_string());
    assert_eq!(timeout(&[]), Ok(Duration::from_secs(12)));
    assert_eq!(timeout(&["--request-timeout=26s"]), Ok(Duration::from_secs(26)));
    for refused in ["0", "500ms", "27s", "1h"] {
        let flag = format!("--request-timeout={refused}");
        let error = timeout(&[&flag]).unwrap_err();
        assert!(error.starts_with("--request-timeout must be between 1s and 26s, not "), "{error}");
    }
}

#[test]
fn the_documentation_lists_every_flag_with_variable_and_default() {
    let page = include_str!("../../../docs/apiserver.md");
    assert_eq!(flag_differences(&ApiServerOptions::command(), page), [""; 0]);
}
