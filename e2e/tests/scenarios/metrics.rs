//! The metrics of a running controller.

use anyhow::{Context, ensure};
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{disk_count, machine_count, ready_replicas};
use vmpool_e2e::world::{DEADLINE, SETTLE};
use vmpool_installation::programs::{ControllerOptions, ControllerProgram};
use vmpool_test_cluster::poll;

/// The metrics page of a controller at one moment.
struct Page(String);

impl Page {
    async fn of(controller: &ControllerProgram) -> anyhow::Result<Self> {
        let (code, text) = controller.probe("/metrics").await;
        ensure!(code == 200, "/metrics returned {code} {text}");
        ensure!(text.ends_with("# EOF\n"), "the page is truncated:\n{text}");
        Ok(Self(text))
    }

    /// The value of a series.
    fn value(&self, series: &str) -> anyhow::Result<f64> {
        let value = self.0.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let value = value.with_context(|| format!("no {series} in\n{}", self.0))?;
        value.parse().with_context(|| format!("{series} is {value}"))
    }

    /// The value of a counter.
    fn count(&self, series: &str) -> anyhow::Result<u64> {
        let value = self.value(series)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counters of scenarios are small whole numbers"
        )]
        Ok(value as u64)
    }

    /// The series of writes to pools, machines and disks, without events and leases.
    fn writes(&self) -> Vec<&str> {
        let of_work =
            |line: &&str| line.starts_with("vmpool_writes_total") && !line.contains("kind=\"event\"");
        self.0.lines().filter(of_work).collect()
    }
}

/// Waits until `series` has the value `expected`.
async fn until(controller: &ControllerProgram, series: &str, expected: u64) -> anyhow::Result<()> {
    let counted = poll::poll_until(
        || format!("{series} is {expected}"),
        DEADLINE,
        async || {
            let page = Page::of(controller).await;
            let counted = page.and_then(|page| page.count(series));
            Ok(match counted {
                Ok(count) if count == expected => Ok(()),
                Ok(count) => Err(count.to_string()),
                Err(error) => Err(format!("{error:#}")),
            })
        },
    );
    Ok(counted.await?)
}

#[test]
fn the_metrics_of_a_leader_count_its_work() {
    define_scenario("the metrics of a leader count its work").run(async |world| {
        let controller = world.controller()?;
        // Given a pool that was scaled up and down and has settled,
        let pool = world.pool("web").replicas(5).ready().await?;
        pool.scale(2).await?;
        pool.until(ready_replicas(2).and(machine_count(2)).and(disk_count(2))).await?;
        until(&controller, r#"vmpool_members{state="ready"}"#, 2).await?;
        until(&controller, r#"vmpool_pools{state="ready"}"#, 1).await?;
        let labels = format!(r#"namespace="{}",pool="web",platform="dvp",state="ready""#, world.namespace());
        until(&controller, &format!("vmpool_pool_machines{{{labels}}}"), 2).await?;
        until(&controller, r#"vmpool_ledger_entries{resource="machines"}"#, 0).await?;
        pool.holds(ready_replicas(2), SETTLE).await?;
        // then the controller's metrics report that it is the leader,
        let page = Page::of(&controller).await?;
        ensure!(page.count("vmpool_leader")? == 1);
        let remaining = page.value("vmpool_lease_remaining_seconds")?;
        ensure!((1.0..=15.0).contains(&remaining), "the lease lasts {remaining} s");
        for (series, expected) in [
            // count every created and deleted object,
            (r#"vmpool_writes_total{kind="create_machine",outcome="done"}"#, 5),
            (r#"vmpool_writes_total{kind="create_disk",outcome="done"}"#, 5),
            (r#"vmpool_writes_total{kind="delete_machine",outcome="done"}"#, 3),
            (r#"vmpool_writes_total{kind="patch_pool",outcome="done"}"#, 1),
            // count the requests,
            (r#"vmpool_api_requests_total{verb="create",resource="machines",code="201"}"#, 5),
            (r#"vmpool_api_requests_total{verb="delete",resource="machines",code="200"}"#, 3),
            (r#"vmpool_api_request_duration_seconds_count{verb="create",resource="disks"}"#, 5),
            // and report the current state.
            (r#"vmpool_members{state="desired"}"#, 2),
            (r#"vmpool_members{state="terminating"}"#, 0),
            (r#"vmpool_cache_objects{resource="machines"}"#, 2),
            (r#"vmpool_cache_objects{resource="pools"}"#, 1),
            (r#"vmpool_lease_transitions_total{event="acquired"}"#, 1),
            (r#"vmpool_failures_total{reason="FailedCreate"}"#, 0),
        ] {
            ensure!(
                page.count(series)? == expected,
                "{series}: {} instead of {expected}",
                page.value(series)?
            );
        }
        ensure!(page.value("process_cpu_seconds_total")? > 0.0);
        ensure!(page.count("process_resident_memory_bytes")? > 1 << 20);
        // The controller does not write to the settled pool, so the counters do not change.
        pool.holds(ready_replicas(2), SETTLE).await?;
        let later = Page::of(&controller).await?;
        ensure!(page.writes() == later.writes(), "{:#?}\n{:#?}", page.writes(), later.writes());
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn the_metrics_of_a_standby_report_its_role() {
    define_scenario("the metrics of a standby report its role").run(async |world| {
        let leader = world.controller()?;
        let pool = world.pool("web").replicas(1).ready().await?;
        let standby = world.add_controller().await?;
        until(&leader, "vmpool_leader", 1).await?;
        let page = Page::of(&standby).await?;
        ensure!(page.count("vmpool_leader")? == 0);
        ensure!(page.count(r#"vmpool_cache_objects{resource="machines"}"#)? == 0);
        ensure!(page.count(r#"vmpool_pools{state="ready"}"#)? == 0);
        // When it becomes leader, its metrics report that, and it finds the pool settled.
        leader.stop().await?;
        until(&standby, "vmpool_leader", 1).await?;
        until(&standby, r#"vmpool_pools{state="ready"}"#, 1).await?;
        let page = Page::of(&standby).await?;
        ensure!(page.count(r#"vmpool_writes_total{kind="create_machine",outcome="done"}"#)? == 0);
        pool.holds(ready_replicas(1), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn metrics_require_the_token_of_an_account_with_the_chart_s_role() {
    define_scenario("metrics require a token").controllers(0).ends_unsettled().run(async |world| {
        // Given two accounts of a namespace, and the role of the chart for one of them,
        let (cluster, namespace) = (world.cluster(), world.namespace());
        let mut tokens = Vec::new();
        for account in ["prometheus", "prober"] {
            cluster.kubectl(&["create", "serviceaccount", account, "-n", namespace]).await?;
            tokens.push(cluster.kubectl(&["create", "token", account, "-n", namespace]).await?);
        }
        let (subject, binding) =
            (format!("--serviceaccount={namespace}:prometheus"), format!("{namespace}-metrics"));
        let role = "--clusterrole=vmpool-metrics-reader";
        cluster.kubectl(&["create", "clusterrolebinding", &binding, role, &subject]).await?;
        // when a controller with the chart's account requires tokens,
        let mut options = ControllerOptions::new(namespace, "guarded");
        options.extra.push("--metrics-authorization".to_owned());
        let controller = world.add_controller_with(options).await?;
        // then only the account with the role reads the metrics, and probes need no token.
        let [prometheus, prober] = [&tokens[0], &tokens[1]].map(|token| token.trim());
        let is_readable = || format!("the token of {binding} is accepted");
        poll::poll_until(is_readable, DEADLINE, async || {
            let (code, text) = controller.probe_with_token("/metrics", prometheus).await;
            Ok(if code == 200 { Ok(()) } else { Err(format!("{code} {text}")) })
        })
        .await?;
        ensure!(controller.probe_with_token("/metrics", prober).await.0 == 403);
        ensure!(controller.probe_with_token("/metrics", "forged").await.0 == 401);
        ensure!(controller.probe("/metrics").await.0 == 401);
        ensure!(controller.probe("/livez").await.0 == 200);
        cluster.kubectl(&["delete", "clusterrolebinding", &binding]).await?;
        Ok::<_, anyhow::Error>(())
    });
}
