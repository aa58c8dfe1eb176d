//! PoolAutoscalers: machines are kept free, follow waiting claims and schedules, and leave after a delay.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::json;
use vmpool_api::autoscaler::PoolAutoscaler;
use vmpool_e2e::autoscaling::{AutoscalerHandle, at_once, cpu_metric, create_pool_autoscaler};
use vmpool_e2e::wait::let_time_pass;
use vmpool_e2e::world::condition::{desired_replicas, has_machine, live_machine_count, ready_replicas};
use vmpool_e2e::world::{PoolScaleDownPolicy, SETTLE, ScenarioWorld};
use vmpool_installation::programs::Accounts;
use vmpool_invariants::object::TestedKind;
use vmpool_invariants::platform::TestedPlatform;

use crate::protected::{expect, machine, uid_in};
use crate::with_gate;

/// Longer than the delay of the autoscalers in these scenarios.
const AFTER_DELAY: Duration = Duration::from_secs(8);

/// Runs a scenario with a controller that scales pools.
pub(crate) fn on_autoscaled(
    platform: TestedPlatform,
    name: &'static str,
    body: impl AsyncFnOnce(&ScenarioWorld) -> Result<()>,
) {
    with_gate(platform, name, "PoolAutoscaler", body);
}

/// The controller sends no request except for its lease and its watches.
async fn check_rest(world: &ScenarioWorld) -> Result<()> {
    world.settles().await?;
    // A status may have to wait for the interval between two writes.
    let_time_pass(AFTER_DELAY).await;
    let before = world.audit()?.len();
    let_time_pass(AFTER_DELAY).await;
    let mut requests = world.audit()?.split_off(before);
    let controller = Accounts::controller_user();
    requests.retain(|entry| entry.user == controller && entry.verb != "watch" && entry.resource != "leases");
    ensure!(requests.is_empty(), "{requests:?}");
    Ok(())
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn an_autoscaler_keeps_machines_free_and_rests(#[case] platform: TestedPlatform) {
    on_autoscaled(platform, "an autoscaler keeps machines free", async |world| {
        // Given an empty pool, an autoscaler creates the free machines,
        let pool = world.pool("web").replicas(0).create().await?;
        let scaling = AutoscalerHandle::create(world, "web", &pool, &json!({ "free": 2 })).await?;
        pool.until(ready_replicas(2).and(desired_replicas(2))).await?;
        // and one more for each claim.
        let first = pool.claim("a").send().await?;
        ensure!(first.code == 201, "{first}");
        pool.until(ready_replicas(3).and(desired_replicas(3))).await?;
        scaling.until_condition("Active", "True", "Scaling").await?;
        let counted = "1 busy and 2 free machines";
        scaling
            .until(counted, |object| {
                let status = object.status.as_ref();
                status.is_some_and(|status| (status.busy, status.free) == (Some(1), Some(2)))
            })
            .await?;
        let events =
            world.kubectl(&["get", "events", "--field-selector=reason=Scaled", "-o", "name"]).await?;
        ensure!(events.lines().count() >= 2, "{events}");
        check_rest(world).await?;
        // When the claim ends, the surplus leaves after the delay.
        let released = pool.release("a", &uid_in(&first)?, "Keep").send().await?;
        ensure!(released.is_success(), "{released}");
        pool.until(ready_replicas(2).and(desired_replicas(2))).await?;
        // The autoscaler leaves the number behind.
        scaling.delete().await?;
        pool.holds(ready_replicas(2).and(desired_replicas(2)), AFTER_DELAY).await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_waiting_claim_creates_the_first_machine(#[case] platform: TestedPlatform) {
    on_autoscaled(platform, "a waiting claim creates the first machine", async |world| {
        let pool = world.pool("web").replicas(0).create().await?;
        let scaling = AutoscalerHandle::create(world, "web", &pool, &json!({ "free": 0 })).await?;
        scaling.until_condition("Active", "True", "Scaling").await?;
        // A dry run and a claim of one machine do not wait.
        let dry = pool.claim("dry").with("dryRun", json!(["All"])).send().await?;
        expect(&dry, StatusCode::CONFLICT, "NoMachineAvailable", &[])?;
        let named = pool.claim("named").with("machine", json!("web-0")).send().await?;
        ensure!(!named.is_success(), "{named}");
        pool.holds(live_machine_count(0).and(desired_replicas(0)), SETTLE).await?;
        // A claim does, until it has a machine.
        let claimed = pool.claim("job").with("waitSeconds", json!(25)).send().await?;
        ensure!(claimed.code == 201, "{claimed}");
        pool.until(ready_replicas(1).and(desired_replicas(1))).await?;
        // While the claim lasts, the machine stays.
        pool.holds(desired_replicas(1), AFTER_DELAY).await?;
        let released = pool.release("job", &uid_in(&claimed)?, "Keep").send().await?;
        ensure!(released.is_success(), "{released}");
        pool.until(live_machine_count(0).and(desired_replicas(0))).await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_scale_down_waits_for_the_delay_and_keeps_busy_machines(#[case] platform: TestedPlatform) {
    on_autoscaled(platform, "a scale-down waits for the delay", async |world| {
        let pool = world.pool("web").replicas(0).create().await?;
        let fields = json!({ "free": 4, "scaleDown": { "delay": "15s" } });
        let scaling = AutoscalerHandle::create(world, "web", &pool, &fields).await?;
        pool.until(ready_replicas(4)).await?;
        let claimed = pool.claim("a").send().await?;
        let busy = machine(&pool, &uid_in(&claimed)?).await?;
        pool.until(ready_replicas(5)).await?;
        // A lower demand takes effect after the delay, not before it,
        scaling.edit(&json!({ "free": 0 })).await?;
        pool.holds(desired_replicas(5), Duration::from_secs(8)).await?;
        // and the busy machine stays, also beyond `maxReplicas`.
        scaling.edit(&json!({ "maxReplicas": 0 })).await?;
        pool.until(desired_replicas(1).and(live_machine_count(1))).await?;
        pool.holds(has_machine(&busy).and(desired_replicas(1)), AFTER_DELAY).await?;
        scaling.until_condition("Limited", "True", "TooManyReplicas").await?;
        Ok(())
    });
}

/// The minute that begins at least this many seconds from now.
fn minute_after(seconds: i64) -> Timestamp {
    let earliest = Timestamp::now().as_second() + seconds;
    Timestamp::from_second((earliest / 60 + 1) * 60).unwrap_or_default()
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_schedule_replaces_the_limits_while_it_is_active(#[case] platform: TestedPlatform) {
    on_autoscaled(platform, "a schedule replaces the limits", async |world| {
        let pool = world.pool("web").replicas(0).create().await?;
        // A schedule that is active all the time, before one that starts within the next minute.
        let soon = minute_after(10).strftime("%M %H %d %m *").to_string();
        let never = (Timestamp::now() - SignedDuration::from_hours(48)).strftime("0 0 %d %m *").to_string();
        let always = json!({ "name": "always", "start": "* * * * *", "duration": "1m", "minReplicas": 1 });
        let starts = json!({ "name": "soon", "start": soon, "duration": "1m", "minReplicas": 3 });
        let past = json!({ "name": "past", "start": never, "duration": "1m", "minReplicas": 6 });
        let fields = json!({ "schedules": [always, starts, past] });
        let scaling = AutoscalerHandle::create(world, "web", &pool, &fields).await?;
        pool.until(ready_replicas(1)).await?;
        let long = Duration::from_secs(100);
        pool.until_within(desired_replicas(3).and(ready_replicas(3)), long).await?;
        let active = |object: &PoolAutoscaler| {
            let status = object.status.as_ref();
            status.and_then(|status| status.active_schedule.as_deref()) == Some("soon")
        };
        scaling.until("the schedule soon is active", active).await?;
        // At its end the lower number holds after the delay.
        pool.until_within(desired_replicas(1).and(live_machine_count(1)), long).await?;
        // The webhook refuses what the schema cannot check.
        for (field, value) in [("start", "every morning"), ("timeZone", "Mars/Olympus")] {
            let mut broken = json!({ "name": "a", "start": "* * * * *", "duration": "1m", "minReplicas": 1 });
            broken[field] = json!(value);
            let refused = scaling.edit(&json!({ "schedules": [broken] })).await;
            let text = format!("{:?}", refused.err().context("it is accepted")?);
            ensure!(text.contains(field), "{text}");
        }
        scaling.delete().await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn beside_another_autoscaler_of_the_pool_nothing_is_written(#[case] platform: TestedPlatform) {
    on_autoscaled(platform, "an autoscaler yields to others", async |world| {
        // Given a HorizontalPodAutoscaler without a metric, the autoscaler writes nothing.
        let pool = world.pool("web").replicas(1).ready().await?;
        create_pool_autoscaler(world, &pool, cpu_metric(), at_once()).await?;
        let first = AutoscalerHandle::create(world, "first", &pool, &json!({ "free": 3 })).await?;
        first.until_condition("Conflicting", "True", "HorizontalPodAutoscaler").await?;
        first.until_condition("Active", "False", "Conflict").await?;
        pool.holds(desired_replicas(1), AFTER_DELAY).await?;
        // Without it, the older of two autoscalers scales the pool.
        world.kubectl(&["delete", "horizontalpodautoscaler", "web"]).await?;
        pool.until(ready_replicas(3).and(desired_replicas(3))).await?;
        // Creation timestamps have whole seconds.
        let_time_pass(Duration::from_secs(2)).await;
        let second = AutoscalerHandle::create(world, "second", &pool, &json!({ "free": 5 })).await?;
        second.until_condition("Conflicting", "True", "OlderAutoscaler").await?;
        first.until_condition("Conflicting", "False", "NoConflict").await?;
        pool.holds(desired_replicas(3), AFTER_DELAY).await?;
        // After the deletion of the older one, the other scales it.
        first.delete().await?;
        pool.until(ready_replicas(5).and(desired_replicas(5))).await?;
        second.until_condition("Conflicting", "False", "NoConflict").await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_paused_autoscaler_writes_nothing(#[case] platform: TestedPlatform) {
    on_autoscaled(platform, "a paused autoscaler writes nothing", async |world| {
        let pool = world.pool("web").replicas(1).ready().await?;
        let fields = json!({ "free": 3, "paused": true });
        let scaling = AutoscalerHandle::create(world, "web", &pool, &fields).await?;
        scaling.until_condition("Active", "False", "Paused").await?;
        pool.holds(desired_replicas(1), AFTER_DELAY).await?;
        // A user scales the pool meanwhile, which is no conflict.
        pool.scale(2).await?;
        scaling.edit(&json!({ "paused": false })).await?;
        pool.until(ready_replicas(3)).await?;
        if platform == TestedPlatform::KubeVirt {
            pool.edit(&json!({ "spec": { "paused": true } })).await?;
            scaling.until_condition("Active", "False", "PoolPaused").await?;
            scaling.edit(&json!({ "free": 5 })).await?;
            pool.holds(desired_replicas(3), AFTER_DELAY).await?;
            pool.edit(&json!({ "spec": { "paused": false } })).await?;
            pool.until(ready_replicas(5)).await?;
        }
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn an_explicit_pool_shrinks_through_removals_by_name(#[case] platform: TestedPlatform) {
    on_autoscaled(platform, "an autoscaler shrinks an Explicit pool by name", async |world| {
        let pool = world.pool("web").policy(PoolScaleDownPolicy::Explicit).replicas(0).create().await?;
        let scaling = AutoscalerHandle::create(world, "web", &pool, &json!({ "free": 3 })).await?;
        pool.until(ready_replicas(3)).await?;
        let claimed = pool.claim("a").send().await?;
        let busy = machine(&pool, &uid_in(&claimed)?).await?;
        pool.until(ready_replicas(4)).await?;
        scaling.edit(&json!({ "free": 1 })).await?;
        pool.until(desired_replicas(2).and(live_machine_count(2)).and(has_machine(&busy))).await?;
        check_explicit_writes(world)?;
        // A machine that a claim takes is passed over.
        scaling.edit(&json!({ "free": 0 })).await?;
        pool.until(desired_replicas(1).and(live_machine_count(1)).and(has_machine(&busy))).await?;
        pool.holds(has_machine(&busy), AFTER_DELAY).await?;
        Ok(())
    });
}

/// The controller only raises the scale, and lowers it through removals by name.
fn check_explicit_writes(world: &ScenarioWorld) -> Result<()> {
    let controller = Accounts::controller_user();
    let entries = world.audit()?.into_iter().filter(|entry| entry.user == controller && entry.is_success());
    let (mut removals, mut replicas) = (0, 0);
    for entry in entries.filter(|entry| entry.resource == TestedKind::Pool.plural()) {
        match entry.subresource.as_str() {
            "scaledownwith" => removals += 1,
            "scale" if entry.is_write() => {
                let to = entry.body["spec"]["replicas"].as_i64().unwrap_or_default();
                ensure!(to > replicas, "{entry} {}", entry.body);
                replicas = to;
            }
            _ => {}
        }
    }
    ensure!(removals > 0, "the controller removed no machine by name");
    Ok(())
}
