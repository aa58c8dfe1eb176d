//! Whether KubeVirt's observability controller exports metrics of the pools.

use rstest::rstest;

use super::*;

const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
/// The name of the role if KubeVirt's cluster operator installs the program.
const OPERATED: &str = "virt-observability-controller";
/// Its name with the manifest of the program.
const OWN: &str = "virt-observability-controller-manager-role";

fn role(name: &str, group: &str, resource: &str, verb: &str) -> Value {
    let rules = json!([
        { "apiGroups": ["kubevirt.io"], "resources": ["virtualmachines"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": [group], "resources": [resource], "verbs": ["get", verb] },
    ]);
    json!({ "metadata": { "name": name }, "rules": rules })
}

/// A world in which the cluster decides about the names.
fn world_with_auto() -> LeaderWorld {
    let mut world = LeaderWorld::new();
    world.settings.kubevirt_metrics = KubevirtMetrics::Auto;
    world
}

fn has_names(world: &LeaderWorld) -> bool {
    world.metrics.page().contains("kubevirt_vmpool_info{")
}

#[rstest]
#[case::without_a_role(None, true)]
#[case::with_the_operator(Some(role(OPERATED, "pool.kubevirt.io", "virtualmachinepools", "list")), false)]
#[case::with_its_own_manifest(Some(role(OWN, "pool.kubevirt.io", "virtualmachinepools", "list")), false)]
#[case::with_wildcards(Some(role(OPERATED, "*", "*", "*")), false)]
#[case::a_version_without_metrics_of_pools(Some(role(OPERATED, "kubevirt.io", "kubevirts", "list")), true)]
#[case::a_role_that_cannot_list(Some(role(OPERATED, "pool.kubevirt.io", "virtualmachinepools", "get")), true)]
#[case::a_role_of_another_program(Some(role("viewer", "*", "*", "*")), true)]
#[tokio::test]
async fn metrics_have_the_names_of_kubevirt_unless_another_program_exports_them(
    #[case] role: Option<Value>,
    #[case] expected: bool,
) {
    let mut world = world_with_auto();
    if let Some(role) = role {
        world.server.create(ROLES, role);
    }
    lead(&mut world, 1);
    world.calm().await;
    assert_eq!(has_names(&world), expected);
}

#[tokio::test]
async fn the_metrics_follow_the_installation_of_the_other_program() {
    let mut world = world_with_auto();
    lead(&mut world, 1);
    world.calm().await;
    assert!(has_names(&world));
    world.server.create(ROLES, role(OPERATED, "pool.kubevirt.io", "virtualmachinepools", "list"));
    world.advance(SECOND * 310).await;
    assert!(!has_names(&world));
    world.server.delete_of_cluster(ROLES, OPERATED);
    world.advance(SECOND * 310).await;
    assert!(has_names(&world));
}

#[tokio::test]
async fn without_the_right_to_read_the_roles_the_metrics_are_off() {
    let mut world = world_with_auto();
    world.server.intercept(|call| match &*call.resource {
        "clusterroles" => Fate::Refuse(Refusal::new(403, "Forbidden", "no rights")),
        _ => Fate::Serve,
    });
    lead(&mut world, 1);
    world.calm().await;
    assert!(!has_names(&world));
}
