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
        for column in ["UP-TO-DATE", "RESTART", "POLICY"] {
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
        let mut found = 0;
        for entry in std::fs::read_dir(workspace_root().join("docs/examples"))? {
            let path = entry?.path();
            world.kubectl(&["apply", "--dry-run=server", "-f", &path.to_string_lossy()]).await?;
            found += 1;
        }
        assert!(found >= 2, "only {found} examples");
        Ok::<_, anyhow::Error>(())
    });
}
