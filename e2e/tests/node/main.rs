//! The chart as a user installs it, on a cluster of one node: real Pods, Services, probes and evictions.
//!
//! All tests share one cluster. Tests that only use the installed programs run in parallel. A test that makes
//! programs unavailable has exclusive access, and restores the initial state, so the order does not matter.
//! Clients send requests continuously: see [`load`].
//!
//! If the host cannot run such a cluster, every test is reported as ignored, with the reason.

mod autoscaling;
mod doctor;
mod drain;
mod kills;
mod load;
mod namespaces;
mod outage;
mod pods;
mod pools;
mod quickstart;
mod restricted;
mod rotation;
mod stage;
mod uninstall;
mod upgrade;

use std::process::ExitCode;

use vmpool_test_cluster::{node_test, test_runner};

fn main() -> ExitCode {
    test_runner::run_tests(vec![
        node_test!(autoscaling::an_autoscaler_scales_newest_first_pools_down_and_explicit_pools_only_up),
        node_test!(doctor::the_test_of_the_release_passes_and_leaves_no_rights),
        node_test!(drain::a_drain_evicts_one_replica_after_the_other),
        node_test!(kills::a_pool_converges_after_one_replica_of_each_program_was_killed),
        node_test!(outage::without_the_aggregated_api_namespace_deletion_waits_until_it_is_back),
        node_test!(pools::the_core_scenarios_pass_on_a_real_node),
        node_test!(quickstart::the_quickstart_installs_vmpool_and_removes_it_again),
        node_test!(restricted::the_processes_of_pods_are_restricted),
        node_test!(restricted::the_namespace_refuses_unrestricted_pods),
        node_test!(restricted::probes_pass_and_no_container_was_restarted),
        node_test!(restricted::disruption_budgets_and_network_policies_exist),
        node_test!(rotation::certificates_and_authorities_are_replaced_without_failed_requests),
        node_test!(uninstall::uninstalling_the_chart_keeps_pools_and_machines_and_blocks_nothing),
        node_test!(upgrade::upgrade_and_rollback_replace_pods_and_no_machines),
    ])
}
