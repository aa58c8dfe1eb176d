use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use rstest::rstest;
use serde_json::json;

use super::*;

#[rstest]
#[case::dvp(
    DVP,
    PoolSubresource::ScaleDownWith,
    "/apis/subresources.vmpool.dev/v1alpha1/namespaces/ci/virtualmachinepools/web/scaledownwith"
)]
#[case::kubevirt(
    KUBEVIRT,
    PoolSubresource::Release,
    "/apis/kubevirt.subresources.vmpool.dev/v1alpha1/namespaces/ci/virtualmachinepools/web/release"
)]
fn each_platform_has_paths_of_its_own(
    #[case] group: SubresourceGroup,
    #[case] subresource: PoolSubresource,
    #[case] path: &str,
) {
    assert_eq!(group.path("ci", "web", subresource), path);
}

#[test]
fn a_claim_contains_only_the_fields_that_were_set() {
    let claim = MachineClaim::new("job-1", Duration::from_mins(1));
    assert_eq!(serde_json::to_value(&claim).unwrap(), json!({"id": "job-1", "durationSeconds": 60}));
    let claim = claim
        .api_version(DVP.api_version())
        .reason("a build")
        .wait(Duration::from_secs(5))
        .machine("web-0")
        .renew()
        .dry_run();
    let body = json!({
        "apiVersion": "subresources.vmpool.dev/v1alpha1",
        "kind": "VirtualMachinePoolClaim",
        "id": "job-1",
        "durationSeconds": 60,
        "reason": "a build",
        "waitSeconds": 5,
        "machine": "web-0",
        "renew": true,
        "dryRun": ["All"],
    });
    assert_eq!(serde_json::to_value(&claim).unwrap(), body);
    assert_eq!(serde_json::from_value::<MachineClaim>(body).unwrap(), claim);
}

#[rstest]
#[case::whole_seconds(Duration::from_mins(1), 60)]
#[case::a_fraction(Duration::from_millis(1500), 2)]
#[case::less_than_a_second(Duration::from_nanos(1), 1)]
#[case::the_largest(Duration::MAX, u64::MAX)]
fn a_claim_is_never_shorter_than_asked(#[case] duration: Duration, #[case] seconds: u64) {
    assert_eq!(MachineClaim::new("a", duration).duration_seconds, seconds);
}

#[rstest]
#[case::whole_seconds(Duration::from_secs(7), 7)]
#[case::a_fraction(Duration::from_millis(1900), 1)]
#[case::longer_than_the_server_allows(Duration::from_mins(5), 25)]
fn a_request_waits_no_longer_than_the_server_allows(#[case] wait: Duration, #[case] seconds: u64) {
    assert_eq!(MachineClaim::new("a", Duration::from_mins(1)).wait(wait).wait_seconds, Some(seconds));
}

#[test]
fn a_claimed_machine_is_released_with_its_id_and_uid() {
    let response: ClaimResponse = serde_json::from_value(json!({
        "apiVersion": "subresources.vmpool.dev/v1alpha1",
        "kind": "VirtualMachinePoolClaim",
        "id": "job-1",
        "machine": {"name": "web-0", "uid": "u-1", "addresses": ["10.0.0.1"]},
        "expiresAt": "2026-01-01T00:10:00Z",
    }))
    .unwrap();
    assert_eq!(response.machine.addresses, ["10.0.0.1"]);
    assert_eq!(response.expires_at.0.to_string(), "2026-01-01T00:10:00Z");
    let release = response.release(ReleaseAction::Replace);
    assert_eq!(
        serde_json::to_value(&release).unwrap(),
        json!({"id": "job-1", "machineUID": "u-1", "then": "Replace"})
    );
}

#[test]
fn targets_without_a_uid_have_no_condition() {
    let removal = TargetedRemoval::of(["a"]).target("b", "u-b").pool_uid("u-pool").force();
    assert_eq!(
        serde_json::to_value(&removal).unwrap(),
        json!({
            "targets": ["a", "b"],
            "targetUIDs": ["", "u-b"],
            "preconditions": {"uid": "u-pool"},
            "force": true,
        })
    );
}

#[test]
fn the_results_of_a_removal_are_read() {
    let cause =
        |machine: &str, reason: &str| json!({"field": "targets", "message": machine, "reason": reason});
    let mut response = json!({"status": "Success", "details": {"causes": [
        cause("a", "Removed"), cause("b", "AlreadyRemoved"), cause("c", "Archived"),
    ]}});
    let results = removal_results(&serde_json::from_value::<Status>(response.clone()).unwrap());
    let found: Vec<_> = results.iter().map(|result| (result.machine.as_str(), result.outcome)).collect();
    assert_eq!(
        found,
        [("a", Some(RemovalOutcome::Removed)), ("b", Some(RemovalOutcome::AlreadyRemoved)), ("c", None)]
    );
    response["status"] = json!("Failure");
    assert!(removal_results(&serde_json::from_value::<Status>(response).unwrap()).is_empty());
}
