use clap::CommandFactory;
use rstest::rstest;
use vmpool_runtime::testing::flags::{flag_differences, help_gaps};

use super::*;

fn parse(arguments: &[&str]) -> Result<WebhookOptions, clap::Error> {
    WebhookOptions::try_parse_from(std::iter::once("vmpool-webhook").chain(arguments.iter().copied()))
}

#[test]
fn the_command_line_is_well_formed() {
    WebhookOptions::command().debug_assert();
}

#[test]
fn by_default_no_user_is_exempt_and_capabilities_are_unknown() {
    let options = parse(&[]).unwrap();
    assert_eq!(options.settings().unwrap(), AdmissionSettings::default());
    assert!(options.gates.gates().is_ok());
}

#[test]
fn help_lists_every_flag_with_its_variable_and_every_gate() {
    assert_eq!(help_gaps(WebhookOptions::command()), [""; 0]);
}

#[test]
fn flags_become_settings() {
    let options = parse(&[
        "--cluster-sdn=true",
        "--cluster-machine-cidrs=false",
        "--cluster-in-place-resize=unknown",
        "--cluster-gpus=true",
        "--cluster-gpus=false",
        "--removal-handler=system:serviceaccount:a:b",
        "--controller-user=system:serviceaccount:a:c",
    ])
    .unwrap();
    let settings = options.settings().unwrap();
    let cluster = ClusterCapabilities {
        sdn: CapabilityState::Yes,
        machine_cidrs: CapabilityState::No,
        gpus: CapabilityState::No,
        in_place_resize: CapabilityState::Unknown,
    };
    assert_eq!(settings.cluster, cluster);
    assert_eq!(settings.users.removal_handler.as_deref(), Some("system:serviceaccount:a:b"));
    assert_eq!(settings.users.controller.as_deref(), Some("system:serviceaccount:a:c"));
    assert!(parse(&["--cluster-sdn=perhaps"]).is_err());
}

#[rstest]
#[case(&["--removal-handler="], "--removal-handler must not be empty; omit the flag if there is no such user")]
#[case(&["--controller-user= "], "--controller-user must not be empty; omit the flag if there is no such user")]
fn user_names_must_not_be_empty(#[case] arguments: &[&str], #[case] message: &str) {
    assert_eq!(parse(arguments).unwrap().settings().unwrap_err().to_string(), message);
}

#[test]
fn the_two_servers_need_different_addresses() {
    let same = [
        "--tls-secret=a/b",
        "--tls-dns-names=c",
        "--listen-address=127.0.0.1:9",
        "--health-address=127.0.0.1:9",
    ];
    let error = parse(&same).unwrap().serving().unwrap_err();
    assert_eq!(
        error.to_string(),
        "--listen-address and --health-address are both 127.0.0.1:9; use different ports"
    );
    let any = [
        "--tls-secret=a/b",
        "--tls-dns-names=c",
        "--listen-address=127.0.0.1:0",
        "--health-address=127.0.0.1:0",
    ];
    assert!(parse(&any).unwrap().serving().is_ok());
    assert!(parse(&[]).unwrap().serving().unwrap_err().to_string().starts_with("no certificate source"));
}

#[test]
fn the_documentation_lists_every_flag_with_variable_and_default() {
    let page = include_str!("../../../docs/admission.md");
    assert_eq!(flag_differences(&WebhookOptions::command(), page), [""; 0]);
}
