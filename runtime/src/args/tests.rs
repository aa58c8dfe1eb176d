use std::time::Duration;

use clap::{CommandFactory as _, Parser};
use rstest::rstest;

use super::{GateArgs, LeaseArgs, ProgramArgs};
use crate::lease::LeaseConfig;
use crate::telemetry::LogFormat;
use crate::testing::{ManualClock, test_env};

#[derive(Debug, Parser)]
#[command(name = "vmpool-test")]
struct Cli {
    #[command(flatten)]
    gates: GateArgs,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    program: ProgramArgs,
}

fn parse(flags: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(["vmpool-test"].into_iter().chain(flags.split_whitespace()))
}

fn config(flags: &str) -> Result<LeaseConfig, String> {
    let environment = test_env(&ManualClock::new(), 1);
    parse(flags).unwrap().lease.config(&environment, "from-client").map_err(|error| error.to_string())
}

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}

#[test]
fn defaults() {
    let cli = parse("").unwrap();
    assert_eq!(cli.program.log.log_format, LogFormat::Text);
    assert_eq!(cli.program.health.health_address.to_string(), "0.0.0.0:8080");
    assert_eq!(cli.program.client.kubeconfig, None);
    let config = config("").unwrap();
    assert_eq!((config.namespace.as_str(), config.name.as_str()), ("from-client", "vmpool-controller"));
    let expected = LeaseConfig::new("from-client", "vmpool-controller", config.identity.clone());
    assert_eq!(config, expected, "flags and type have the same defaults");
}

#[test]
fn every_flag_has_a_variable() {
    for argument in Cli::command().get_arguments().filter(|argument| argument.get_id() != "help") {
        let variable = argument.get_env().and_then(|name| name.to_str()).unwrap_or_default();
        let flag = argument.get_long().unwrap_or_default();
        assert_eq!(variable, format!("VMPOOL_{}", flag.to_uppercase().replace('-', "_")));
        assert!(argument.get_help().is_some(), "--{flag} is not described");
    }
}

#[test]
fn the_default_identity_contains_the_host_name_and_differs_between_processes() {
    let cli = parse("").unwrap();
    let identity = |seed| cli.lease.config(&test_env(&ManualClock::new(), seed), "ns").unwrap().identity;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(identity(1).starts_with(&format!("{}_", host.trim())), "{}", identity(1));
    assert_ne!(identity(1), identity(2));
}

#[test]
fn flags_become_the_configuration() {
    let flags =
        "--lease-namespace ns --lease-name l --identity me --lease-duration 1m --lease-renew-interval 20s";
    let config = config(flags).unwrap();
    assert_eq!(
        config,
        LeaseConfig {
            duration: Duration::from_mins(1),
            renew_interval: Duration::from_secs(20),
            request_deadline: Duration::from_secs(20),
            ..LeaseConfig::new("ns", "l", "me")
        }
    );
}

#[rstest]
#[case::an_interval_that_is_too_long(
    "--lease-duration 15s --lease-renew-interval 6s",
    "--lease-renew-interval must be between 100ms and a third of --lease-duration, which is 5s, not 6s"
)]
#[case::an_interval_that_is_too_short(
    "--lease-renew-interval 0",
    "--lease-renew-interval must be between 100ms and a third of --lease-duration, which is 5s, not 0ns"
)]
#[case::a_duration_in_fractions(
    "--lease-duration 2500ms",
    "--lease-duration must be in whole seconds and at least 2s, not 2.5s"
)]
#[case::a_duration_that_is_too_short(
    "--lease-duration 1s",
    "--lease-duration must be in whole seconds and at least 2s, not 1s"
)]
#[case::an_empty_name("--lease-name=", "--lease-name must not be empty")]
#[case::an_empty_namespace("--lease-namespace=", "--lease-namespace must not be empty")]
#[case::an_empty_identity("--identity=", "--identity must not be empty")]
fn invalid_combinations(#[case] flags: &str, #[case] message: &str) {
    assert_eq!(config(flags).unwrap_err(), message);
}

#[rstest]
#[case::a_duration_without_unit("--lease-duration 15", "15 has no unit")]
#[case::an_invalid_level("--log-level verbose", "`verbose` is not a log level")]
#[case::an_invalid_format("--log-format xml", "[possible values: text, json]")]
#[case::an_address_without_port("--health-address 127.0.0.1", "--health-address <IP:PORT>")]
fn invalid_values(#[case] flags: &str, #[case] message: &str) {
    let error = parse(flags).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[rstest]
#[case::unknown("VirtualMachinePol=true", "did you mean `VirtualMachinePool`?")]
#[case::no_value("VirtualMachinePool", "has no value")]
fn an_invalid_gate_is_refused(#[case] gates: &str, #[case] expected: &str) {
    let cli = parse(&format!("--feature-gates={gates}")).unwrap();
    let error = cli.gates.gates().unwrap_err().to_string();
    assert!(error.starts_with("--feature-gates: ") && error.contains(expected), "{error}");
    assert!(!error.contains('\n'), "{error}");
}
