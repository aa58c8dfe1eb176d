use k8s_openapi::api::apps::v1::Deployment;
use rstest::rstest;

use super::lacks_aggregated_api;
use crate::commands::doctor::finding::CheckVerdict;
use crate::commands::doctor::probes::finding_without_aggregated_api;

#[rstest]
#[case::all_programs(&["vmpool-controller", "vmpool-webhook", "vmpool-apiserver"], false)]
#[case::without_the_server(&["vmpool-controller", "vmpool-webhook"], true)]
#[case::another_namespace(&[], false)]
fn an_installation_can_lack_the_aggregated_api(#[case] names: &[&str], #[case] lacks: bool) {
    let deployment = |name: &&str| {
        let mut deployment = Deployment::default();
        deployment.metadata.name = Some((*name).to_owned());
        deployment
    };
    let deployments: Vec<Deployment> = names.iter().map(deployment).collect();
    assert_eq!(lacks_aggregated_api(&deployments), lacks);
}

#[test]
fn the_missing_aggregated_api_is_no_failure() {
    let finding = finding_without_aggregated_api("DVP");
    assert_eq!(finding.check, "DVP API service");
    assert_eq!(finding.verdict, CheckVerdict::Warning, "`helm test` passes");
    assert!(finding.what.contains("`claim` and `release` do not work"), "{finding:?}");
    assert!(finding.remedy.contains("apiserver.enabled=true"), "{finding:?}");
}
