//! What people type.

use vmpool_e2e::cluster::workspace_root;
use vmpool_e2e::scenario::scenario;

#[test]
fn kubectl_shows_scales_and_waits() {
    scenario("kubectl shows, scales and waits").run(async |world| {
        // Given the manifest of the README,
        let manifest = workspace_root().join("docs/examples/quickstart.yaml");
        world.kubectl(&["apply", "-f", &manifest.to_string_lossy()]).await?;
        // when somebody waits for it with kubectl,
        let wait = |what: &'static str| ["wait", what, "vmpool/quickstart", "--timeout=60s"];
        world.kubectl(&wait("--for=condition=Available")).await?;
        world.kubectl(&wait("--for=jsonpath={.status.readyReplicas}=2")).await?;
        // then the table says what is there,
        let table = world.kubectl(&["get", "vmpool"]).await?;
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["NAME", "DESIRED", "REPLICAS", "READY", "AGE"], "{table}");
        assert_eq!(rows[1][..4], ["quickstart", "2", "2", "2"], "{table}");
        let wide = world.kubectl(&["get", "vmpools", "-o", "wide"]).await?;
        for column in ["UP-TO-DATE", "RESTART", "POLICY", "REVISION"] {
            assert!(wide.contains(column), "{column} is missing:\n{wide}");
        }
        // and zero can be waited for, because zero is written.
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
    scenario("every example of the docs is accepted").controllers(0).ends_unsettled().run(async |world| {
        let examples = workspace_root().join("docs/examples");
        let mut found = 0;
        // What the platform alone does not know is in the folder keda; what makes no sense alone, in handover and removal:
        // see `documented`, and below.
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
    });
}

#[test]
fn the_count_is_handed_over_as_the_docs_say() {
    scenario("the count is handed over as the docs say").run(async |world| {
        let example =
            |name: &str| workspace_root().join("docs/examples").join(name).to_string_lossy().into_owned();
        let (pool, only, without) = (
            example("runners.yaml"),
            example("handover/only-replicas.yaml"),
            example("handover/runners-without-replicas.yaml"),
        );
        let members = ["get", "vm", "-l", "vmpool.virtualization.deckhouse.io/pool=runners", "-o", "name"];
        // Given an Explicit pool whose manifest is applied by the server,
        world.kubectl(&["apply", "--server-side", "-f", &pool]).await?;
        world
            .kubectl(&["wait", "--for=jsonpath={.status.readyReplicas}=3", "vmpool/runners", "--timeout=60s"])
            .await?;
        let before = world.kubectl(&members).await?;
        // whose count would be gone if it simply left the manifest,
        let replicas = "jsonpath={.spec.replicas}";
        let dropped = world
            .kubectl(&["apply", "--server-side", "--dry-run=server", "-f", &without, "-o", replicas])
            .await?;
        assert_eq!(dropped.trim(), "0");
        // when somebody else holds the count before it leaves,
        let handover = ["apply", "--server-side", "--field-manager=handover", "-f", &only];
        world.kubectl(&handover).await?;
        let left = world.kubectl(&["apply", "--server-side", "-f", &without, "-o", replicas]).await?;
        // then it stays, and so does every machine,
        assert_eq!(left.trim(), "3");
        assert_eq!(world.kubectl(&members).await?, before);
        // and whoever scales now is not undone by the next apply.
        world.kubectl(&["scale", "vmpool/runners", "--replicas=2"]).await?;
        let left = world.kubectl(&["apply", "--server-side", "-f", &without, "-o", replicas]).await?;
        assert_eq!(left.trim(), "2");
        let wait = ["wait", "--for=jsonpath={.status.replicas}=2", "vmpool/runners", "--timeout=60s"];
        world.kubectl(&wait).await?;
        Ok::<_, anyhow::Error>(())
    });
}
