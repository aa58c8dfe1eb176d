//! Commands that users type.

use anyhow::ensure;
use vmpool_e2e::documentation::{find_documented_commands, read_docs_page, run_shell_script};
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{PoolPredicate, ready_replicas};
use vmpool_installation::workspace_root;

#[test]
fn kubectl_shows_scales_and_waits() {
    define_scenario("kubectl shows, scales and waits").run(async |world| {
        // Given the manifest of the README,
        let manifest = workspace_root().join("docs/examples/quickstart.yaml");
        world.kubectl(&["apply", "-f", &manifest.to_string_lossy()]).await?;
        // when a user waits for it with kubectl,
        let wait = |what: &'static str| ["wait", what, "vmpool/quickstart", "--timeout=60s"];
        world.kubectl(&wait("--for=condition=Available")).await?;
        world.kubectl(&wait("--for=condition=Ready")).await?;
        world.kubectl(&wait("--for=jsonpath={.status.readyReplicas}=2")).await?;
        // then the table shows its state,
        let table = world.kubectl(&["get", "vmpool"]).await?;
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            rows[0],
            ["NAME", "STATUS", "DESIRED", "REPLICAS", "READY", "UP-TO-DATE", "AGE"],
            "{table}"
        );
        assert_eq!(rows[1][..6], ["quickstart", "Ready", "2", "2", "2", "2"], "{table}");
        let wide = world.kubectl(&["get", "vmpools", "-o", "wide"]).await?;
        for column in ["RESTART", "POLICY", "REVISION"] {
            assert!(wide.contains(column), "{column} is missing:\n{wide}");
        }
        // and a wait for zero succeeds, because the status contains zero.
        world.kubectl(&["scale", "vmpool/quickstart", "--replicas=0"]).await?;
        world.kubectl(&wait("--for=jsonpath={.status.replicas}=0")).await?;
        let selector = "vmpool.virtualization.deckhouse.io/pool=quickstart";
        let left = world.kubectl(&["get", "vm", "-l", selector, "-o", "name"]).await?;
        assert_eq!(left.trim(), "");
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn every_example_of_the_docs_is_accepted() {
    define_scenario("every example of the docs is accepted").controllers(0).ends_unsettled().run(
        async |world| {
            let examples = workspace_root().join("docs/examples");
            let mut found = 0;
            // Examples that need other kinds are in the directories keda and pool-autoscaler, and examples
            // that need a certain order are in handover and removal. They are tested in `documented` and
            // below.
            for folder in ["", "autoscaling", "disks", "roles", "rollouts"] {
                for entry in std::fs::read_dir(examples.join(folder))? {
                    let path = entry?.path();
                    if path.is_file() {
                        world.kubectl(&["apply", "--dry-run=server", "-f", &path.to_string_lossy()]).await?;
                        found += 1;
                    }
                }
            }
            assert!(found >= 15, "only {found} examples");
            Ok::<_, anyhow::Error>(())
        },
    );
}

#[test]
fn replicas_are_handed_over_as_documented() {
    define_scenario("replicas are handed over as documented").run(async |world| {
        let example =
            |name: &str| workspace_root().join("docs/examples").join(name).to_string_lossy().into_owned();
        let (pool, only, without) = (
            example("runners.yaml"),
            example("handover/only-replicas.yaml"),
            example("handover/runners-without-replicas.yaml"),
        );
        let list_machines =
            ["get", "vm", "-l", "vmpool.virtualization.deckhouse.io/pool=runners", "-o", "name"];
        // Given an Explicit pool whose manifest is applied with server-side apply,
        world.kubectl(&["apply", "--server-side", "-f", &pool]).await?;
        world
            .kubectl(&["wait", "--for=jsonpath={.status.readyReplicas}=3", "vmpool/runners", "--timeout=60s"])
            .await?;
        let before = world.kubectl(&list_machines).await?;
        // whose `replicas` would be removed with the field from the manifest,
        let replicas = "jsonpath={.spec.replicas}";
        let dropped = world
            .kubectl(&["apply", "--server-side", "--dry-run=server", "-f", &without, "-o", replicas])
            .await?;
        assert_eq!(dropped.trim(), "0");
        // when another field manager owns `replicas` before the field is removed,
        let handover = ["apply", "--server-side", "--field-manager=handover", "-f", &only];
        world.kubectl(&handover).await?;
        let left = world.kubectl(&["apply", "--server-side", "-f", &without, "-o", replicas]).await?;
        // then `replicas` and all machines remain,
        assert_eq!(left.trim(), "3");
        assert_eq!(world.kubectl(&list_machines).await?, before);
        // and the next apply does not revert a scale request.
        world.kubectl(&["scale", "vmpool/runners", "--replicas=2"]).await?;
        let left = world.kubectl(&["apply", "--server-side", "-f", &without, "-o", replicas]).await?;
        assert_eq!(left.trim(), "2");
        let wait = ["wait", "--for=jsonpath={.status.replicas}=2", "vmpool/runners", "--timeout=60s"];
        world.kubectl(&wait).await?;
        Ok::<_, anyhow::Error>(())
    });
}

/// The commands for DVP. Other tests run the plugin, and KubeVirt pools.
#[test]
fn the_quickstart_creates_scales_and_changes_a_pool() {
    define_scenario("the quickstart creates, scales and changes a pool").guarded().run(async |world| {
        let page = read_docs_page("quickstart.md")?;
        let flags = format!("--namespace={}", world.namespace());
        for heading in ["## Create a pool", "## Scale it", "## Change the template"] {
            let commands = find_documented_commands(&page, heading, "console")?;
            let is_run =
                |command: &&String| !command.contains("kubectl vmpool") && !command.contains("kubevirt");
            for command in commands.iter().filter(is_run) {
                let kubeconfig = world.cluster().kubeconfig();
                let (succeeded, said) =
                    run_shell_script(world.cluster(), kubeconfig, &flags, workspace_root(), command).await?;
                ensure!(succeeded, "{command}: {said}");
            }
        }
        // The newest machines are gone, and the others have the new template.
        let pool = world.existing("quickstart").await?;
        pool.until(ready_replicas(2)).await?;
        pool.until(PoolPredicate::new("the new memory in all machines", |view| {
            view.live().all(|machine| machine.text("/spec/memory/size") == "1Gi")
        }))
        .await?;
        Ok::<_, anyhow::Error>(())
    });
}
