use clap::CommandFactory;
use clap::error::ErrorKind;
use rstest::rstest;
use vmpool_runtime::testing::flags::help_gaps;

use super::*;

fn parse(arguments: &[&str]) -> Result<ControllerArgs, clap::Error> {
    ControllerArgs::try_parse_from(std::iter::once("vmpool-controller").chain(arguments.iter().copied()))
}

#[test]
fn incompatible_flags_are_rejected() {
    ControllerArgs::command().debug_assert();
}

#[test]
fn the_defaults_are_usable_and_are_those_of_the_settings() {
    let options = parse(&[]).unwrap();
    let found =
        ControllerSettings { kubevirt_metrics: KubevirtMetrics::Auto, ..ControllerSettings::default() };
    let skipping = ControllerSettings { skips_forbidden_platforms: true, ..found };
    assert_eq!(options.settings().unwrap(), skipping);
    let named = parse(&["--platforms=dvp,kubevirt"]).unwrap();
    assert_eq!(named.settings().unwrap(), found, "a named platform must be permitted");
    assert!(options.gates.gates().is_ok());
}

#[test]
fn help_names_every_flag_with_its_variable_and_every_gate() {
    assert_eq!(help_gaps(ControllerArgs::command()), [""; 0]);
}

#[test]
fn the_flag_of_platforms_accepts_and_explains_those_of_the_registry() {
    assert_eq!(parse(&[]).unwrap().platforms(), PlatformName::ALL);
    // The last flag counts.
    assert_eq!(parse(&["--platforms=auto", "--platforms=dvp"]).unwrap().platforms(), [PlatformName::Dvp]);
    for values in ["--platforms=kubevirt,dvp", "--platforms=auto", "--platforms=kubevirt,auto"] {
        assert_eq!(parse(&[values]).unwrap().platforms(), PlatformName::ALL, "{values}");
    }
    assert_eq!(parse(&["--platforms=kubevirt"]).unwrap().platforms(), [PlatformName::Kubevirt]);
    assert_eq!(parse(&["--platforms=DVP"]).unwrap_err().kind(), ErrorKind::InvalidValue);

    let command = ControllerArgs::command();
    let flag = command.get_arguments().find(|flag| flag.get_id() == "platforms").unwrap();
    let help = flag.get_possible_values().into_iter().map(|value| value.get_help().unwrap().to_string());
    assert_eq!(
        help.collect::<Vec<_>>(),
        [
            "Deckhouse DVP: pools of virtualization.deckhouse.io",
            "KubeVirt: pools of pool.kubevirt.io, while the pool loop of KubeVirt's own controller is off",
            "Each platform whose definitions the cluster has",
        ]
    );
}

#[test]
fn help_starts_with_the_purpose_of_the_program() {
    let error = parse(&["--help"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DisplayHelp);
    let help = error.to_string();
    assert!(help.starts_with("Controller for pools of identical virtual machines"), "{help}");
}

#[rstest]
#[case::no_unit(&["--debounce=5"], "--debounce", "has no unit")]
#[case::no_duration(&["--request-deadline=soon"], "--request-deadline", "not a duration")]
#[case::no_number(&["--workers=many"], "--workers", "invalid digit")]
#[case::negative(&["--max-in-flight-writes=-1"], "--max-in-flight-writes", "invalid digit")]
#[case::unknown(&["--replicas=2"], "--replicas", "unexpected argument")]
#[case::no_address(&["--health-address=8080"], "--health-address", "invalid")]
fn a_value_that_cannot_be_read_is_refused_by_name(
    #[case] arguments: &[&str],
    #[case] flag: &str,
    #[case] why: &str,
) {
    let text = parse(arguments).unwrap_err().to_string();
    let line = text.lines().next().unwrap();
    assert!(line.contains(flag) && line.contains(why), "{line}");
}

#[rstest]
#[case::workers(&["--workers=0"], "--workers must be at least 1")]
#[case::writes(&["--max-in-flight-writes=0"], "--max-in-flight-writes must be at least 1")]
#[case::deadline(&["--request-deadline=9s"], "--request-deadline 9s must be shorter than")]
#[case::slow_writes(&["--slow-write-deadline=7s"], "--slow-write-deadline must be between --request-deadline, which is 8s")]
#[case::reservations(&["--reservation-timeout=999ms"], "--reservation-timeout must be at least 1s, not 999ms")]
#[case::a_limit_without_its_gate(
    &["--max-provisioning-per-storage-class=5"],
    "--max-provisioning-per-storage-class requires the feature gate ProvisioningLimit"
)]
#[case::short_lease(&["--lease-duration=4s", "--lease-renew-interval=1s"], "--request-deadline 8s must be")]
fn invalid_values_are_rejected_in_one_line(#[case] arguments: &[&str], #[case] expected: &str) {
    let error = parse(arguments).unwrap().settings().unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
    assert!(!error.contains('\n') && !error.contains("  "), "{error}");
}

#[test]
fn flags_become_settings() {
    let arguments = ["--workers=2", "--max-in-flight-writes=5", "--request-deadline=2s", "--debounce=10ms"];
    let settings = parse(&arguments).unwrap().settings().unwrap();
    assert_eq!((settings.workers, settings.writes_in_flight), (2, 5));
    assert_eq!(settings.request_deadline, Duration::from_secs(2));
    assert_eq!(settings.debounce, Duration::from_millis(10));
    assert_eq!(settings.reservation_timeout, vmpool_engine::scale_down::removal::RESERVATION_AGE);
    assert_eq!(settings.collection_grace, vmpool_engine::plan::COLLECTION_GRACE);
    assert_eq!(settings.slow_write_deadline, Duration::from_mins(1));
    assert_eq!(settings.kubevirt_metrics, KubevirtMetrics::Auto);
    for (text, policy) in [("always", KubevirtMetrics::Always), ("never", KubevirtMetrics::Never)] {
        let settings = parse(&["--kubevirt-metrics", text]).unwrap().settings().unwrap();
        assert_eq!(settings.kubevirt_metrics, policy);
    }
    assert_eq!(settings.kubevirt_conditions, KubevirtConditions::Auto);
    for (text, policy) in [("always", KubevirtConditions::Always), ("never", KubevirtConditions::Never)] {
        let settings = parse(&["--kubevirt-conditions", text]).unwrap().settings().unwrap();
        assert_eq!(settings.kubevirt_conditions, policy);
    }
    assert!(!settings.limits_provisioning, "the feature gate is off by default");
    let arguments = ["--feature-gates=ProvisioningLimit=true", "--max-provisioning-per-storage-class=7"];
    let settings = parse(&arguments).unwrap().settings().unwrap();
    assert_eq!((settings.limits_provisioning, settings.max_provisioning_per_class), (true, 7));
    assert_eq!(parse(&[]).unwrap().image_refresh().unwrap(), None, "the feature gate is off by default");
    let arguments = ["--feature-gates=ImageRefresh=true", "--image-namespaces=images,golden"];
    let refresh = parse(&arguments).unwrap().image_refresh().unwrap().unwrap();
    assert_eq!(refresh.namespaces.into_iter().collect::<Vec<_>>(), ["golden", "images"]);
    let error = parse(&["--image-namespaces=images"]).unwrap().image_refresh().unwrap_err();
    assert_eq!(error.to_string(), "--image-namespaces requires the feature gate ImageRefresh");
    let arguments = ["--reservation-timeout=3s", "--disk-collection-grace=2s"];
    let settings = parse(&arguments).unwrap().settings().unwrap();
    assert_eq!(settings.reservation_timeout, Duration::from_secs(3));
    assert_eq!(settings.collection_grace, Duration::from_secs(2));
}
