//! The release is upgraded and rolled back.

use anyhow::{Context, ensure};
use vmpool_e2e::world::PoolHandle;
use vmpool_e2e::world::condition::ready_replicas;
use vmpool_invariants::object::object_uids;
use vmpool_test_cluster::Result;
use vmpool_test_cluster::access::Access;

use crate::pods;
use crate::stage::among_pods;

/// The log level in the arguments of the first Pod of each component.
async fn log_levels(access: &Access) -> anyhow::Result<Vec<String>> {
    let mut levels = Vec::new();
    for component in pods::COMPONENTS {
        for pod in pods::until_ready(access, component).await? {
            let containers = pod.spec.map(|spec| spec.containers).unwrap_or_default();
            let args = containers.into_iter().flat_map(|container| container.args.unwrap_or_default());
            levels.extend(args.filter_map(|arg| arg.strip_prefix("--log-level=").map(str::to_owned)));
        }
    }
    Ok(levels)
}

/// Scales a pool during `change`. Checks that it converges and keeps its first machines.
async fn scaled_meanwhile(
    pool: &PoolHandle<'_>,
    meanwhile: impl Future<Output = Result<()>>,
) -> anyhow::Result<()> {
    let before = pool.machines().await?;
    let scale = async {
        for replicas in [5, 2] {
            pool.scale(replicas).await?;
            pool.until(ready_replicas(replicas)).await?;
        }
        Ok(())
    };
    futures::try_join!(meanwhile, scale)?;
    pool.until(ready_replicas(2)).await?;
    let after = pool.machines().await?;
    // The newest machines are removed first, so the first machines must remain: an upgrade replaces no
    // machine.
    ensure!(
        object_uids(&before) == object_uids(&after),
        "before: {:?}, after: {:?}",
        object_uids(&before),
        object_uids(&after)
    );
    Ok(())
}

pub(crate) fn upgrade_and_rollback_replace_pods_and_no_machines() {
    among_pods(async |stage| {
        let (access, release) = (stage.access(), stage.release());
        let mark = stage.load().mark();
        ensure!(log_levels(access).await?.is_empty(), "the log level was changed before");
        let first = release.history().await?.last().context("there is no revision")?.0;
        stage
            .visit("the chart is upgraded and rolled back", async |world| {
                let pool = world.pool("web").replicas(2).ready().await?;
                let levels: Vec<String> = ["controller", "webhook", "apiserver"]
                    .map(|name| format!("{name}.log.level=debug"))
                    .into();
                let changes: Vec<&str> = levels.iter().map(String::as_str).collect();
                scaled_meanwhile(&pool, release.upgrade(&changes)).await?;
                ensure!(
                    log_levels(access).await? == ["debug"; 6],
                    "the Pods do not have the arguments of the upgrade"
                );
                scaled_meanwhile(&pool, release.rollback()).await?;
                ensure!(log_levels(access).await?.is_empty(), "the Pods do not have the original arguments");
                Ok(())
            })
            .await?;
        let history = release.history().await?;
        let expected = [(first + 1, "superseded".to_owned()), (first + 2, "deployed".to_owned())];
        ensure!(history.ends_with(&expected), "{history:?}");
        stage.load().ensure_served_since(mark)
    });
}
