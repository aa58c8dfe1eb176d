//! What an autoscaler remembers, publishes and counts.

use super::*;
use vmpool_engine::protection::{CLAIM, Claim};

/// The value of a series without labels.
fn value_of(world: &LeaderWorld, series: &str) -> f64 {
    let page = world.metrics.page();
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("{series} ")));
    line.unwrap_or_else(|| panic!("{series} is not in {page}")).parse().unwrap()
}

#[tokio::test]
async fn the_status_is_written_once_in_five_seconds_and_has_the_last_change() {
    let world = world(0, json!({ "free": 0, "maxReplicas": 100 })).await;
    world.advance(10 * SECOND).await;
    world.server.take_log();
    for free in 1..=20 {
        world.server.edit(AUTOSCALERS, "web", |autoscaler| autoscaler["spec"]["free"] = json!(free));
        world.advance(SECOND).await;
    }
    let writes = world.take_writes();
    let of = |resource: &str, subresource: &str| {
        writes.iter().filter(|call| call.resource == resource && call.subresource == subresource).count()
    };
    assert!(of("virtualmachinepools", "scale") >= 15, "each change raises at once: {writes:?}");
    assert!(of("poolautoscalers", "status") <= 5, "{}", of("poolautoscalers", "status"));
    world.advance(6 * SECOND).await;
    let status = world.autoscaler_status("web");
    assert_eq!(status["lastScaleReason"], "0 busy, 0 waiting, 20 free wanted: 20");
}

#[tokio::test]
async fn the_time_until_a_claim_has_a_machine_is_observed() {
    let world = world(0, json!({ "free": 0 })).await;
    world.wait_for_machine("job-1");
    world.run().await;
    let pool = world.server.get(POOLS, "web").unwrap();
    let pool_uid = pool["metadata"]["uid"].as_str().unwrap().to_owned();
    let claim = Claim { id: "job-1".to_owned(), user: "ann".to_owned(), pool_uid };
    let machine = machine_names(&world.machines()).remove(0);
    let until = timestamp_text(time_after(world.env.now(), Duration::from_mins(30)));
    world.server.edit(MACHINES, &machine, |machine| {
        machine["metadata"]["annotations"][UNTIL] = json!(until);
        machine["metadata"]["annotations"][CLAIM] = json!(claim.text());
    });
    world.calm().await;
    assert!(value_of(&world, "vmpool_autoscaler_demand_duration_seconds_count") > 0.5);
    assert!(value_of(&world, "vmpool_autoscaler_demand_duration_seconds_sum") >= 5.0);
    assert!(value_of(&world, "vmpool_autoscaler_unanswered_claims_total") < 0.5);
}

#[tokio::test]
async fn a_claim_that_is_not_repeated_is_counted() {
    let world = world(0, json!({ "free": 0 })).await;
    world.wait_for_machine("job-1");
    world.advance(Duration::from_mins(1)).await;
    assert!(value_of(&world, "vmpool_autoscaler_unanswered_claims_total") > 0.5);
    assert!(value_of(&world, "vmpool_autoscaler_demand_duration_seconds_count") < 0.5);
}

#[tokio::test]
async fn an_autoscaler_that_does_not_scale_has_a_series_with_the_reason() {
    let world = world(0, json!({ "free": 0 })).await;
    assert!(!world.metrics.page().contains("vmpool_autoscaler_inactive{"), "it scales its pool");
    world.server.edit(POOLS, "web", |pool| pool["spec"]["paused"] = json!(true));
    world.server.edit(AUTOSCALERS, "web", |autoscaler| autoscaler["spec"]["paused"] = json!(true));
    world.advance(10 * SECOND).await;
    let labels = format!(r#"namespace="{NAMESPACE}",autoscaler="web",reason="Paused""#);
    let page = world.metrics.page();
    assert!(page.contains(&format!("vmpool_autoscaler_inactive{{{labels}}} 1")), "{page}");
}
