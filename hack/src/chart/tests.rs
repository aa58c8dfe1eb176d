use rstest::rstest;
use serde_yaml_ng::Value;

use super::objects::parse;
use super::rules::{undocumented, unknown_flags, violations};
use super::variants::VARIANTS;

/// The smallest set of objects that breaks no rule while the gate is off.
const SOUND: &str = r"
{kind: ServiceAccount, metadata: {name: vmpool-controller, namespace: vmpool-system}}
---
{kind: PodDisruptionBudget, metadata: {name: vmpool-controller, namespace: vmpool-system}}
---
kind: CustomResourceDefinition
metadata:
  name: virtualmachinepools.virtualization.deckhouse.io
  annotations: {helm.sh/resource-policy: keep}
---
kind: Role
metadata: {name: vmpool-controller-lease, namespace: vmpool-system}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}]
---
kind: RoleBinding
metadata: {name: vmpool-controller-lease, namespace: vmpool-system}
roleRef: {kind: Role, name: vmpool-controller-lease}
subjects: [{kind: ServiceAccount, name: vmpool-controller, namespace: vmpool-system}]
---
kind: Deployment
metadata: {name: vmpool-controller, namespace: vmpool-system}
spec:
  template:
    spec:
      serviceAccountName: vmpool-controller
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - image: vmpool/vmpool-controller:0.1.0
          args: [--feature-gates=A=true, --workers=4]
          livenessProbe: {httpGet: {path: /livez}}
          readinessProbe: {httpGet: {path: /readyz}}
          resources: {requests: {cpu: 50m}}
          securityContext:
            readOnlyRootFilesystem: true
            allowPrivilegeEscalation: false
            capabilities: {drop: [ALL]}
";

fn broken(text: &str) -> Vec<String> {
    let variant = VARIANTS.iter().find(|variant| variant.name == "gate off").unwrap();
    violations(variant, &parse(text).unwrap())
}

#[test]
fn a_sound_chart_breaks_no_rule() {
    assert_eq!(broken(SOUND), Vec::<String>::new());
}

#[rstest]
#[case::a_wildcard_verb("[get, create, update]", "['*']", "has a wildcard")]
#[case::more_than_the_table_allows(
    "[get, create, update]",
    "[get, create, update, list]",
    "grants list on coordination.k8s.io/leases, which is too much"
)]
#[case::less_than_is_needed(
    "[get, create, update]",
    "[get, create]",
    "does not grant update on coordination.k8s.io/leases"
)]
#[case::pool_rules_with_the_gate_off(
    "resources: [leases]",
    "resources: [leases, virtualmachinepools]",
    "grants create, get, update on coordination.k8s.io/virtualmachinepools"
)]
#[case::a_group_as_subject(
    "kind: ServiceAccount, name: vmpool-controller, namespace: vmpool-system}]",
    "kind: Group, name: all}]",
    "is not bound to the controller's ServiceAccount alone"
)]
#[case::a_definition_that_dies_with_the_release("helm.sh/resource-policy: keep", "a: b", "would be deleted")]
#[case::root("runAsNonRoot: true", "runAsNonRoot: false", "may run as root")]
#[case::a_writable_root(
    "readOnlyRootFilesystem: true",
    "readOnlyRootFilesystem: false",
    "has a writable root"
)]
#[case::capabilities("{drop: [ALL]}", "{drop: []}", "keeps capabilities")]
#[case::a_wrong_probe("/livez", "/healthz", "has no liveness probe")]
#[case::another_name(
    "name: vmpool-controller-lease, namespace: vmpool-system}\nrules",
    "name: lease, namespace: vmpool-system}\nrules",
    "Role/vmpool-controller-lease is missing"
)]
#[case::another_namespace(
    "{kind: ServiceAccount, metadata: {name: vmpool-controller, namespace: vmpool-system}}",
    "{kind: ServiceAccount, metadata: {name: vmpool-controller, namespace: other}}",
    "is in namespace \"other\""
)]
fn a_broken_chart_is_found(#[case] sound: &str, #[case] rotten: &str, #[case] message: &str) {
    assert!(SOUND.contains(sound), "{sound} is not there to be broken");
    let found = broken(&SOUND.replace(sound, rotten));
    assert!(found.iter().any(|line| line.contains(message)), "{found:?}");
}

#[test]
fn a_gate_that_is_off_renders_no_rule_for_pools() {
    let role = "\n---\nkind: ClusterRole\nmetadata: {name: vmpool-controller}\nrules: [{apiGroups: [virtualization.deckhouse.io], resources: [virtualmachinepools], verbs: [get]}]\n";
    let found = broken(&format!("{SOUND}{role}"));
    assert!(found.iter().any(|line| line.contains("although the gate is off")), "{found:?}");
    assert!(found.iter().any(|line| line == "ClusterRole/vmpool-controller is not expected"), "{found:?}");
}

#[test]
fn a_flag_that_the_program_lost_is_found() {
    let objects = parse(SOUND).unwrap();
    assert_eq!(
        unknown_flags(&objects, "      --feature-gates <A=B>\n      --workers <N>  [env: X=]"),
        Vec::<String>::new()
    );
    let found = unknown_flags(&objects, "--feature-gates <A=B>, --workers-max <N>");
    assert_eq!(found, ["passes --workers, which the controller does not know"]);
}

#[test]
fn a_value_that_the_readme_does_not_list_is_found() {
    let values: Value = serde_yaml_ng::from_str("{a: {b: 1, c: {}}, d: {e: 2}}").unwrap();
    assert_eq!(undocumented(&values, "| `a.b` |\n| `d` |"), ["the README does not list a.c"]);
}

#[rstest]
#[case::as_it_should_be("", "", true)]
#[case::another_port("port: health", "port: metrics", false)]
#[case::another_path("path: /metrics", "path: /", false)]
#[case::other_pods("app: vmpool", "app: other", false)]
#[case::all_pods("{app: vmpool}", "{}", false)]
fn a_monitor_must_find_the_pods(#[case] sound: &str, #[case] rotten: &str, #[case] finds: bool) {
    const MONITOR: &str = r"
kind: PodMonitor
metadata: {name: vmpool-controller, namespace: vmpool-system}
spec: {selector: {matchLabels: {app: vmpool}}, podMetricsEndpoints: [{port: health, path: /metrics}]}
";
    const DEPLOYMENT: &str = r"
kind: Deployment
metadata: {name: vmpool-controller}
spec: {template: {metadata: {labels: {app: vmpool}}, spec: {containers: [{ports: [{name: health}]}]}}}
";
    let found = broken(&format!("{}\n---\n{DEPLOYMENT}", MONITOR.replace(sound, rotten)));
    assert_eq!(!found.iter().any(|line| line.contains("does not find the metrics")), finds, "{found:?}");
}
