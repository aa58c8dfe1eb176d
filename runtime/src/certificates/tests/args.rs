use std::time::Duration;

use clap::{CommandFactory as _, Parser};
use rstest::rstest;

use crate::certificates::{BundleOf, CertificateSource, SecretName, ServingArgs, ServingConfig};

#[derive(Debug, Parser)]
#[command(name = "vmpool-test")]
struct Cli {
    #[command(flatten)]
    serving: ServingArgs,
}

fn config(flags: &str) -> Result<ServingConfig, String> {
    let flags = ["vmpool-test"].into_iter().chain(flags.split_whitespace());
    let cli = Cli::try_parse_from(flags).map_err(|error| error.to_string())?;
    cli.serving.config().map_err(|error| error.to_string())
}

#[test]
fn every_flag_has_a_variable() {
    Cli::command().debug_assert();
    for argument in Cli::command().get_arguments().filter(|argument| argument.get_id() != "help") {
        let variable = argument.get_env().and_then(|name| name.to_str()).unwrap_or_default();
        let flag = argument.get_long().unwrap_or_default();
        assert_eq!(variable, format!("VMPOOL_{}", flag.to_uppercase().replace('-', "_")));
        assert!(argument.get_help().is_some(), "--{flag} is not described");
    }
}

#[test]
fn self_signed_mode() {
    let config = config(
        "--tls-secret=ns/hook-tls --tls-dns-names=Hook.ns.svc,::0001 --tls-dns-names 10.0.0.1,hook.ns.svc \
         --ca-bundle-of=validatingwebhookconfigurations/hook --ca-bundle-of apiservices/v1.example.com \
         --ca-bundle-of=mutatingwebhookconfigurations/hook",
    );
    let expected = CertificateSource::SelfSigned {
        secret: SecretName { namespace: "ns".to_owned(), name: "hook-tls".to_owned() },
        names: ["hook.ns.svc", "::1", "10.0.0.1"].map(str::to_owned).to_vec(),
        validity: Duration::from_hours(24 * 90),
        bundles: vec![
            BundleOf::Webhooks("hook".to_owned()),
            BundleOf::ApiService("v1.example.com".to_owned()),
            BundleOf::MutatingWebhooks("hook".to_owned()),
        ],
    };
    assert_eq!(config, Ok(ServingConfig { address: "0.0.0.0:8443".parse().unwrap(), source: expected }));
}

#[test]
fn files_mode() {
    let config = config("--listen-address=127.0.0.1:1 --tls-cert-file=/a --tls-private-key-file=/b").unwrap();
    assert_eq!(config.address.port(), 1);
    assert_eq!(config.source, CertificateSource::Files { certificate: "/a".into(), key: "/b".into() });
}

#[rstest]
#[case::no_certificate("", "no certificate source: set --tls-secret")]
#[case::two(
    "--tls-secret=a/b --tls-dns-names=x --tls-cert-file=/a",
    "--tls-secret and --tls-cert-file are both set"
)]
#[case::no_key("--tls-cert-file=/a", "--tls-cert-file requires --tls-private-key-file")]
#[case::no_file("--tls-private-key-file=/a", "--tls-private-key-file requires --tls-cert-file")]
#[case::no_names("--tls-secret=a/b", "--tls-secret requires --tls-dns-names")]
#[case::no_namespace("--tls-secret=b --tls-dns-names=x", "--tls-secret must be NAMESPACE/NAME, not `b`")]
#[case::too_many_parts(
    "--tls-secret=a/b/c --tls-dns-names=x",
    "--tls-secret must be NAMESPACE/NAME, not `a/b/c`"
)]
#[case::an_invalid_name(
    "--tls-secret=a/b --tls-dns-names=a_/b",
    "--tls-dns-names: `a_/b` is neither a DNS name nor"
)]
#[case::too_short(
    "--tls-secret=a/b --tls-dns-names=x --tls-validity=14s",
    "--tls-validity must be between 15s and"
)]
#[case::too_long(
    "--tls-secret=a/b --tls-dns-names=x --tls-validity=19801h",
    "--tls-validity must be between 15s"
)]
#[case::bundles_of_files(
    "--tls-cert-file=/a --tls-private-key-file=/b --ca-bundle-of=apiservices/x",
    "--ca-bundle-of requires --tls-secret"
)]
#[case::another_kind(
    "--ca-bundle-of=pods/x",
    "`pods/x` is neither validatingwebhookconfigurations/NAME, mutating"
)]
fn refused(#[case] flags: &str, #[case] message: &str) {
    let error = config(flags).unwrap_err();
    assert!(error.contains(message), "{error}");
}
