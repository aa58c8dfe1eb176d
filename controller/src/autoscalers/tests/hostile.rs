//! Input that a user or a clock can give, and that must not cost machines or many writes.

use super::*;

/// The numbers that the controller wrote into the scale of the pool.
fn scales(world: &LeaderWorld) -> Vec<u64> {
    let writes = world.take_writes().into_iter().filter(|call| call.subresource == "scale");
    writes.map(|call| call.body["spec"]["replicas"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_limit_that_changes_all_the_time_removes_no_machine_before_the_delay() {
    let world = world(0, json!({ "free": 8 })).await;
    assert_eq!(world.replicas(), 8);
    world.server.take_log();
    for round in 0..40 {
        let max = if round % 2 == 0 { 2 } else { 10 };
        world.server.edit(AUTOSCALERS, "web", |autoscaler| autoscaler["spec"]["maxReplicas"] = json!(max));
        world.advance(2 * SECOND).await;
    }
    // The higher limit was desired within each delay.
    assert_eq!(scales(&world), [0; 0]);
    world.server.edit(AUTOSCALERS, "web", |autoscaler| autoscaler["spec"]["maxReplicas"] = json!(2));
    world.advance(90 * SECOND).await;
    assert_eq!(scales(&world), [2]);
}

#[tokio::test]
async fn a_limit_below_the_busy_machines_removes_none_of_them() {
    let world = world(4, json!({ "free": 4, "scaleDown": { "delay": "0s" } })).await;
    let machines = machine_names(&world.machines());
    for machine in machines.iter().take(3) {
        world.protect(machine, Duration::from_hours(1));
    }
    world.server.edit(AUTOSCALERS, "web", |autoscaler| autoscaler["spec"]["free"] = json!(0));
    for max in [0, 100_000, 1, 7, 0] {
        world.server.edit(AUTOSCALERS, "web", |autoscaler| autoscaler["spec"]["maxReplicas"] = json!(max));
        world.calm().await;
        assert!(world.replicas().as_u64().unwrap() >= 3, "{max}");
    }
    assert_eq!(scales(&world).last(), Some(&3));
}

#[rstest]
#[case::forward(1)]
#[case::back(-1)]
#[tokio::test]
async fn a_clock_that_jumps_removes_no_machine_before_the_delay(#[case] hours: i64) {
    let world = world(4, json!({ "free": 1 })).await;
    world.advance(50 * SECOND).await;
    world.clock.step_wall(jiff::SignedDuration::from_hours(hours));
    world.advance(50 * SECOND).await;
    assert_eq!(world.replicas(), 4, "the delay has begun again");
    world.advance(40 * SECOND).await;
    assert_eq!(world.replicas(), 1);
}

#[rstest]
#[case::free_of_text(json!({ "free": "many" }))]
#[case::a_percentage_with_a_sign(json!({ "free": "+10%" }))]
#[case::a_percentage_that_is_too_large(json!({ "free": "99999999999999999999%" }))]
#[case::a_negative_limit(json!({ "maxReplicas": -1 }))]
#[case::a_delay_of_text(json!({ "scaleDown": { "delay": "soon" } }))]
#[tokio::test]
async fn a_stored_value_that_cannot_be_read_is_a_condition_and_writes_no_number(#[case] spec: Value) {
    let mut spec = spec;
    json_patch::merge(&mut spec, &json!({ "minReplicas": 5 }));
    let world = world(1, spec).await;
    assert_eq!(world.replicas(), 1);
    assert_eq!(world.autoscaler_condition("web", "Ready").1, "InvalidSpec");
    assert_eq!(world.autoscaler_condition("web", "Active").1, "InvalidSpec");
}

#[rstest]
#[case::a_cron_of_text(json!({ "start": "every morning" }))]
#[case::a_date_that_never_comes(json!({ "start": "0 0 30 2 *" }))]
#[case::an_unknown_zone(json!({ "timeZone": "Mars/Olympus" }))]
#[case::a_path_as_zone(json!({ "timeZone": "../../etc/passwd" }))]
#[case::a_long_zone(json!({ "timeZone": "A".repeat(10_000) }))]
#[tokio::test]
async fn a_stored_schedule_that_cannot_be_read_is_skipped(#[case] fields: Value) {
    let mut broken = json!({ "name": "broken", "start": "* * * * *", "duration": "1h", "minReplicas": 9 });
    json_patch::merge(&mut broken, &fields);
    let always = json!({ "name": "always", "start": "* * * * *", "duration": "1h", "minReplicas": 2 });
    let world = world(0, json!({ "schedules": [always, broken] })).await;
    assert_eq!(world.replicas(), 2);
    assert_eq!(world.autoscaler_condition("web", "Ready").1, "InvalidSpec");
    assert_eq!(world.autoscaler_condition("web", "Active").0, "True");
}

#[tokio::test]
async fn limits_follow_a_clock_that_is_set_forward_and_back() {
    let mut world = LeaderWorld::new();
    world.settings.autoscales = true;
    let start = time_after(world.env.now(), Duration::from_hours(1));
    let start = start.strftime("%M %H %d %m *").to_string();
    let schedule = json!([{ "name": "later", "start": start, "duration": "30m", "minReplicas": 3 }]);
    world.server.create(POOLS, pool_manifest("web", 1));
    world.server.create(AUTOSCALERS, autoscaler("web", &json!({ "minReplicas": 1, "schedules": schedule })));
    world.lead_all(&[PlatformName::Dvp]);
    world.run().await;
    let machine = machine_names(&world.machines()).remove(0);
    let hour = jiff::SignedDuration::from_mins(61);
    world.clock.step_wall(hour);
    world.protect(&machine, Duration::from_hours(3));
    world.calm().await;
    assert_eq!(world.replicas(), 3);
    world.clock.step_wall(-hour);
    world.protect(&machine, Duration::from_hours(4));
    world.advance(90 * SECOND).await;
    assert_eq!(world.replicas(), 1);
}

#[tokio::test]
async fn an_invalid_pool_does_not_shrink() {
    let world = world(4, json!({ "free": 4 })).await;
    // While the removal record cannot be read, the pool removes no machine.
    let record = |text: Value| {
        world.server.edit(POOLS, "web", |pool| {
            pool["metadata"]["annotations"][vmpool_api::annotations::SCALE_DOWN_TARGETS] = text;
        });
    };
    record(json!("[{"));
    world.server.edit(AUTOSCALERS, "web", |autoscaler| autoscaler["spec"]["free"] = json!(1));
    world.advance(2 * Duration::from_mins(1)).await;
    assert_eq!(world.replicas(), 4);
    record(json!("[]"));
    world.advance(10 * SECOND).await;
    assert_eq!(world.replicas(), 1);
}
