use rstest::rstest;
use vmpool_platforms::KubeVirt;

use super::*;

const DVP: Option<PlatformName> = Some(PlatformName::Dvp);
const KUBEVIRT: Option<PlatformName> = Some(PlatformName::Kubevirt);

#[rstest]
#[case::a_name("web", None)]
#[case::a_short_name("vmpool/web", None)]
#[case::its_plural("vmpools/web", None)]
#[case::the_kind("VirtualMachinePool/web", None)]
#[case::the_singular("virtualmachinepool/web", None)]
#[case::the_plural("virtualmachinepools/web", None)]
#[case::a_group("virtualmachinepools.pool.kubevirt.io/web", KUBEVIRT)]
#[case::the_other_group("virtualmachinepools.virtualization.deckhouse.io/web", DVP)]
#[case::output_of_kubectl("virtualmachinepool.virtualization.deckhouse.io/web", DVP)]
#[case::version_and_group("virtualmachinepools.v1alpha2.virtualization.deckhouse.io/web", DVP)]
#[case::a_short_name_with_a_group("vmpool.pool.kubevirt.io/web", KUBEVIRT)]
fn a_pool_is_named_as_kubectl_names_objects(#[case] text: &str, #[case] platform: Option<PlatformName>) {
    let expected = PoolReference { name: "web".into(), platform };
    assert_eq!(PoolReference::parse(text).unwrap(), expected);
}

#[rstest]
#[case::another_type("pod/web", "is not a type of pools")]
#[case::another_group("virtualmachinepools.example.com/web", "is not a type of pools")]
#[case::another_version("virtualmachinepools.v9.virtualization.deckhouse.io/web", "is not a type of pools")]
#[case::no_name("vmpool/", "use NAME or TYPE/NAME")]
#[case::three_parts("vmpool/web/a", "use NAME or TYPE/NAME")]
#[case::nothing("", "is empty")]
fn other_words_are_refused(#[case] text: &str, #[case] expected: &str) {
    let error = PoolReference::parse(text).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn the_error_for_another_type_lists_the_types_of_all_platforms() {
    let error = PoolReference::parse("pod/web").unwrap_err().to_string();
    assert_eq!(
        error,
        "\"pod\" in \"pod/web\" is not a type of pools: use vmpool, virtualmachinepools.virtualization.deckhouse.io \
         or virtualmachinepools.pool.kubevirt.io"
    );
}

#[test]
fn a_name_of_two_pools_needs_the_flag() {
    assert_eq!(
        ambiguous_name_text("web", "team-a", &[PlatformName::Dvp, PlatformName::Kubevirt]),
        "both platforms have a pool web in namespace team-a: choose one with --platform=dvp or --platform=kubevirt"
    );
}

#[test]
fn a_type_selects_the_platform_and_must_agree_with_the_flag() {
    let reference = |platform| PoolReference { name: "web".into(), platform };
    assert_eq!(reference(None).selected_platform(DVP).unwrap(), DVP);
    assert_eq!(reference(KUBEVIRT).selected_platform(None).unwrap(), KUBEVIRT);
    assert_eq!(reference(DVP).selected_platform(DVP).unwrap(), DVP);
    assert!(reference(DVP).selected_platform(KUBEVIRT).is_err());
}

#[test]
fn a_printed_name_is_accepted() {
    let printed = resource_name::<<KubeVirt as Platform>::Pool>("web");
    assert_eq!(printed, "virtualmachinepool.pool.kubevirt.io/web");
    assert_eq!(PoolReference::parse(&printed).unwrap().platform, KUBEVIRT);
}
