use rstest::rstest;

use super::manifest::{install_manifest_text, manifest_text};
use super::objects::parse_rendered_chart;
use super::rules::{unknown_flags, variant_violations};
use super::schema;
use super::variants::Variant;

/// A minimal chart with a webhook. It violates no rule, except that other objects are missing.
const SOUND: &str = r"
{kind: ServiceAccount, metadata: {name: vmpool-webhook, namespace: vmpool-system}}
---
kind: CustomResourceDefinition
metadata:
  name: virtualmachinepools.virtualization.deckhouse.io
  annotations: {helm.sh/resource-policy: keep}
---
kind: Role
metadata: {name: vmpool-webhook-tls, namespace: vmpool-system}
rules:
  - {apiGroups: [''], resources: [secrets], verbs: [create]}
  - {apiGroups: [''], resources: [secrets], resourceNames: [vmpool-webhook-tls], verbs: [get, update]}
---
kind: RoleBinding
metadata: {name: vmpool-webhook-tls, namespace: vmpool-system}
roleRef: {kind: Role, name: vmpool-webhook-tls}
subjects: [{kind: ServiceAccount, name: vmpool-webhook, namespace: vmpool-system}]
---
kind: Service
metadata: {name: vmpool-webhook, namespace: vmpool-system}
spec: {selector: {app: webhook}, ports: [{name: https, port: 443, targetPort: https}]}
---
kind: PodDisruptionBudget
metadata: {name: vmpool-webhook, namespace: vmpool-system}
spec: {selector: {matchLabels: {app: webhook}}}
---
kind: NetworkPolicy
metadata: {name: vmpool-webhook, namespace: vmpool-system}
spec: {podSelector: {matchLabels: {app: webhook}}, ingress: [{ports: [{port: https}]}, {ports: [{port: health}]}]}
---
kind: ValidatingWebhookConfiguration
metadata: {name: vmpool-webhook}
webhooks:
  - name: pools
    clientConfig:
      service: {name: vmpool-webhook, namespace: vmpool-system, port: 443, path: /validate-virtualization-deckhouse-io-v1alpha2-virtualmachinepool}
    rules: [{operations: [CREATE, UPDATE], resources: [virtualmachinepools], apiVersions: [v1alpha2], apiGroups: [virtualization.deckhouse.io], scope: Namespaced}]
    matchConditions: [{name: any, expression: 'true'}]
    failurePolicy: Fail
    matchPolicy: Equivalent
    sideEffects: None
    admissionReviewVersions: [v1]
    timeoutSeconds: 10
  - name: scale
    clientConfig:
      service: {name: vmpool-webhook, namespace: vmpool-system, port: 443, path: /validate-virtualization-deckhouse-io-v1alpha2-virtualmachinepool-scale}
    rules: [{operations: [UPDATE], resources: [virtualmachinepools/scale], apiVersions: [v1alpha2], apiGroups: [virtualization.deckhouse.io], scope: Namespaced}]
    matchConditions: [{name: any, expression: 'true'}]
    failurePolicy: Fail
    matchPolicy: Equivalent
    sideEffects: None
    admissionReviewVersions: [v1]
    timeoutSeconds: 10
---
kind: Deployment
metadata: {name: vmpool-webhook, namespace: vmpool-system}
spec:
  strategy: {rollingUpdate: {maxUnavailable: 0}}
  selector: {matchLabels: {app: webhook}}
  template:
    metadata: {labels: {app: webhook, part-of: vmpool}}
    spec:
      serviceAccountName: vmpool-webhook
      automountServiceAccountToken: true
      terminationGracePeriodSeconds: 30
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      topologySpreadConstraints: [{labelSelector: {matchLabels: {app: webhook}}}]
      containers:
        - image: vmpool/vmpool-webhook:0.1.0
          args: [--feature-gates=A=true, --ca-bundle-of=validatingwebhookconfigurations/vmpool-webhook]
          ports: [{name: health}, {name: https}]
          livenessProbe: {httpGet: {path: /livez}, timeoutSeconds: 5}
          readinessProbe: {httpGet: {path: /readyz}, timeoutSeconds: 5}
          lifecycle: {preStop: {sleep: {seconds: 5}}}
          resources: {requests: {cpu: 50m}, limits: {memory: 64Mi}}
          securityContext:
            readOnlyRootFilesystem: true
            allowPrivilegeEscalation: false
            capabilities: {drop: [ALL]}
";

/// The violations, without the objects that the minimal chart lacks.
fn broken(text: &str) -> Vec<String> {
    let mut found =
        variant_violations(&Variant::defaults().with_dvp_only(), &parse_rendered_chart(text).unwrap());
    found.retain(|line| !line.ends_with(" is missing"));
    found
}

#[test]
fn the_manifest_of_the_demo_changes_with_the_objects_that_local_processes_need_and_with_no_others() {
    let of = |text: &str| manifest_text(&parse_rendered_chart(text).unwrap()).unwrap();
    assert_eq!(of(SOUND), of(&of(SOUND)), "it reads back as the objects it was made of");
    assert_ne!(of(SOUND), of(&SOUND.replace("verbs: [create]", "verbs: [create, list]")), "a role");
    assert_ne!(of(SOUND), of(&SOUND.replace("--feature-gates=A", "--feature-gates=B")), "an argument");
    assert_ne!(of(SOUND), of(&SOUND.replace("timeoutSeconds: 10", "timeoutSeconds: 9")), "a webhook");
    assert_eq!(of(SOUND), of(&SOUND.replace("targetPort: https", "targetPort: http")), "a Service");
    assert_eq!(of(SOUND), of(&SOUND.replace("{port: health}", "{port: https}")), "a network policy");
}

#[test]
fn a_correct_chart_has_no_violations() {
    assert_eq!(broken(SOUND), Vec::<String>::new());
}

#[rstest]
#[case::a_wildcard_verb("verbs: [create]", "verbs: ['*']", "has a wildcard")]
#[case::more_than_the_table_allows(
    "verbs: [get, update]",
    "verbs: [get, update, list]",
    "grants list on /secrets vmpool-webhook-tls, which is too much"
)]
#[case::less_than_is_needed(
    "verbs: [get, update]",
    "verbs: [get]",
    "does not grant update on /secrets vmpool-webhook-tls"
)]
#[case::all_secrets_of_the_namespace(
    "resourceNames: [vmpool-webhook-tls], ",
    "",
    "grants get, update on /secrets, which is too much"
)]
#[case::a_group_as_subject(
    "kind: ServiceAccount, name: vmpool-webhook, namespace: vmpool-system}]",
    "kind: Group, name: all}]",
    "is not bound to exactly the ServiceAccount vmpool-webhook"
)]
#[case::the_service_account_of_another_program(
    "kind: ServiceAccount, name: vmpool-webhook, namespace: vmpool-system}]",
    "kind: ServiceAccount, name: vmpool-apiserver, namespace: vmpool-system}]",
    "is not bound to exactly the ServiceAccount vmpool-webhook"
)]
#[case::a_missing_service_account(
    "{kind: ServiceAccount, metadata: {name: vmpool-webhook,",
    "{kind: ServiceAccount, metadata: {name: vmpool-controller,",
    "uses a service account that does not exist"
)]
#[case::a_missing_role(
    "{kind: Role, name: vmpool-webhook-tls}",
    "{kind: Role, name: cluster-admin}",
    "binds another role"
)]
#[case::a_crd_that_is_deleted_with_the_release("helm.sh/resource-policy: keep", "a: b", "would be deleted")]
#[case::root("runAsNonRoot: true", "runAsNonRoot: false", "may run as root")]
#[case::a_fixed_user(
    "{runAsNonRoot: true,",
    "{runAsUser: 65532, runAsNonRoot: true,",
    "has a fixed runAsUser, which OpenShift refuses"
)]
#[case::a_writable_root(
    "readOnlyRootFilesystem: true",
    "readOnlyRootFilesystem: false",
    "has a writable root"
)]
#[case::no_token(
    "automountServiceAccountToken: true",
    "automountServiceAccountToken: false",
    "has no token, so the API server refuses its requests"
)]
#[case::capabilities("{drop: [ALL]}", "{drop: []}", "keeps capabilities")]
#[case::a_wrong_probe("/livez", "/healthz", "has no liveness probe")]
#[case::a_probe_that_a_busy_node_fails(
    ", timeoutSeconds: 5}\n          readiness",
    "}\n          readiness",
    "has a livenessProbe that a busy node fails"
)]
#[case::replicas_on_one_node(
    "topologySpreadConstraints: [{labelSelector: {matchLabels: {app: webhook}}}]",
    "",
    "does not spread its replicas"
)]
#[case::no_replica_during_a_rollout(
    "{maxUnavailable: 0}",
    "{maxUnavailable: 1}",
    "removes a replica before its replacement serves"
)]
#[case::no_pause_before_the_shutdown(
    "{seconds: 5}",
    "{seconds: 0}",
    "stops serving before its endpoint is removed"
)]
#[case::a_pause_longer_than_the_grace_period(
    "{seconds: 5}",
    "{seconds: 30}",
    "is killed before its preStop pause ends"
)]
#[case::a_disruption_budget_without_pods(
    "spec: {selector: {matchLabels: {app: webhook}}}",
    "spec: {selector: {matchLabels: {app: other}}}",
    "does not select the pods of its program"
)]
#[case::a_policy_that_blocks_the_webhook("{ports: [{port: https}]}, ", "", "blocks https")]
#[case::a_service_without_a_port("targetPort: https", "targetPort: web", "does not target its pods")]
#[case::an_outage_that_disables_validation(
    "failurePolicy: Fail",
    "failurePolicy: Ignore",
    "would disable validation"
)]
#[case::an_outage_that_blocks_all(
    "matchConditions: [{name: any, expression: 'true'}]",
    "",
    "would block finalizers"
)]
#[case::a_wrong_path("virtualmachinepool-scale}", "scale}", "scale: wrong path")]
#[case::status_writes(
    "resources: [virtualmachinepools]",
    "resources: ['virtualmachinepools/*']",
    "wrong resources"
)]
#[case::another_service(
    "service: {name: vmpool-webhook",
    "service: {name: webhook",
    "refers to the service webhook, which does not exist"
)]
#[case::a_ca_bundle_in_the_manifest(
    "clientConfig:",
    "clientConfig:\n      caBundle: Cg==",
    "contains a CA bundle"
)]
#[case::a_ca_bundle_that_no_program_maintains(
    "--ca-bundle-of=validatingwebhookconfigurations/vmpool-webhook",
    "--ca-bundle-of=validatingwebhookconfigurations/other",
    "CA bundle that not exactly one program maintains"
)]
#[case::another_namespace(
    "{kind: ServiceAccount, metadata: {name: vmpool-webhook, namespace: vmpool-system}}",
    "{kind: ServiceAccount, metadata: {name: vmpool-webhook, namespace: other}}",
    "is in namespace \"other\""
)]
#[case::an_unexpected_object("{kind: ServiceAccount, ", "{kind: Job, ", "Job/vmpool-webhook is not expected")]
fn each_violation_of_the_chart_is_reported(#[case] sound: &str, #[case] rotten: &str, #[case] message: &str) {
    assert!(SOUND.contains(sound), "{sound} is not in the chart");
    let found = broken(&SOUND.replace(sound, rotten));
    assert!(found.iter().any(|line| line.contains(message)), "{found:?}");
}

/// The job that removes the finalizers, beside a controller with the flag `--workers`.
const JOB: &str = r"
{kind: ServiceAccount, metadata: {name: vmpool-controller, namespace: vmpool-system}}
---
kind: Deployment
metadata: {name: vmpool-controller, namespace: vmpool-system}
spec:
  selector: {matchLabels: {app: controller}}
  template:
    spec: {containers: [{args: [--workers=4, '--health-address=0.0.0.0:8080'], env: [{name: TZ}]}]}
---
kind: NetworkPolicy
metadata: {name: vmpool-remove-finalizers, namespace: vmpool-system}
spec: {podSelector: {matchLabels: {app: job}}}
---
kind: Job
metadata: {name: vmpool-remove-finalizers, namespace: vmpool-system, annotations: {helm.sh/hook: pre-delete}}
spec:
  template:
    metadata: {labels: {app: job}}
    spec:
      serviceAccountName: vmpool-controller
      automountServiceAccountToken: true
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - image: vmpool/vmpool-controller:0.1.0
          args: [--remove-finalizers, --workers=4]
          env: [{name: TZ}]
          resources: {requests: {cpu: 50m}, limits: {memory: 64Mi}}
          securityContext:
            readOnlyRootFilesystem: true
            allowPrivilegeEscalation: false
            capabilities: {drop: [ALL]}
";

#[rstest]
#[case::nothing("kind: Job", "kind: Job", "")]
#[case::no_token("      automountServiceAccountToken: true\n", "", "has no token")]
#[case::no_hook("helm.sh/hook: pre-delete", "a: b", "would remove finalizers while the controller runs")]
#[case::fewer_flags(
    "[--remove-finalizers, --workers=4]",
    "[--remove-finalizers]",
    "lacks --workers=4 of vmpool-controller"
)]
#[case::another_environment(
    "          env: [{name: TZ}]\n",
    "",
    "has another environment than vmpool-controller"
)]
#[case::no_network_policy(
    "{podSelector: {matchLabels: {app: job}}}",
    "{}",
    "is selected by 0 network policies"
)]
#[case::labels_of_a_deployment(
    "matchLabels: {app: controller}",
    "matchLabels: {app: job}",
    "has the labels of the pods of a Deployment"
)]
#[case::a_writable_root(
    "readOnlyRootFilesystem: true",
    "readOnlyRootFilesystem: false",
    "has a writable root"
)]
fn the_job_that_removes_the_finalizers_can_do_so(
    #[case] sound: &str,
    #[case] rotten: &str,
    #[case] message: &str,
) {
    assert!(JOB.contains(sound), "{sound} is not in the chart");
    let mut found = broken(&JOB.replace(sound, rotten));
    found.retain(|line| line.starts_with("Job/") && !line.ends_with("is not expected"));
    if message.is_empty() {
        assert_eq!(found, Vec::<String>::new());
    } else {
        assert!(found.iter().any(|line| line.contains(message)), "{found:?}");
    }
}

#[test]
fn missing_objects_are_reported() {
    let objects = parse_rendered_chart(SOUND).unwrap();
    let found = variant_violations(&Variant::defaults().with_dvp_only(), &objects);
    for missing in ["Deployment/vmpool-apiserver", "APIService/v1alpha1.subresources.vmpool.dev"] {
        assert!(found.contains(&format!("{missing} is missing")), "{found:?}");
    }
    assert!(!found.contains(&"Deployment/vmpool-webhook is missing".to_owned()), "{found:?}");
}

#[test]
fn without_the_feature_gate_webhook_group_and_pool_rules_are_unexpected() {
    let role = "\n---\nkind: ClusterRole\nmetadata: {name: vmpool-controller}\nrules: [{apiGroups: [virtualization.deckhouse.io], resources: [virtualmachinepools], verbs: [get]}]\n";
    let group = "\n---\nkind: APIService\nmetadata: {name: v1alpha1.subresources.vmpool.dev}\n";
    let objects = parse_rendered_chart(&format!("{SOUND}{role}{group}")).unwrap();
    let found = variant_violations(&Variant::defaults().with_dvp_only().gate_off(), &objects);
    assert!(found.iter().any(|line| line.contains("although the feature gate is off")), "{found:?}");
    for surplus in [
        "ClusterRole/vmpool-controller",
        "ValidatingWebhookConfiguration/vmpool-webhook",
        "APIService/v1alpha1.subresources.vmpool.dev",
    ] {
        assert!(found.contains(&format!("{surplus} is not expected")), "{found:?}");
    }
}

#[rstest]
#[case::correct("", "", None)]
#[case::a_name_of_another_group(
    "group: subresources.vmpool.dev",
    "group: vmpool.dev",
    Some("does not match its group")
)]
#[case::before_the_crd(
    "groupPriorityMinimum: 998",
    "groupPriorityMinimum: 1000",
    Some("would take precedence")
)]
#[case::no_service("name: vmpool-webhook", "name: missing", Some("which does not exist"))]
#[case::no_verification(
    "version: v1alpha1,",
    "version: v1alpha1, insecureSkipTLSVerify: true,",
    Some("does not verify")
)]
fn violations_of_an_api_service_are_reported(
    #[case] sound: &str,
    #[case] rotten: &str,
    #[case] message: Option<&str>,
) {
    const GROUP: &str = "
kind: APIService
metadata: {name: v1alpha1.subresources.vmpool.dev}
spec: {group: subresources.vmpool.dev, version: v1alpha1, groupPriorityMinimum: 998, service: {name: vmpool-webhook, namespace: vmpool-system, port: 443}}
";
    let chart = SOUND.replace(
        "--feature-gates=A=true",
        "--feature-gates=A=true, --ca-bundle-of=apiservices/v1alpha1.subresources.vmpool.dev",
    );
    assert!(GROUP.contains(sound), "{sound} is not in the chart");
    let found = broken(&format!("{chart}\n---\n{}", GROUP.replace(sound, rotten)));
    match message {
        Some(message) => assert!(found.iter().any(|line| line.contains(message)), "{found:?}"),
        None => assert_eq!(found, Vec::<String>::new()),
    }
}

#[rstest]
#[case::correct("", "", true)]
#[case::another_port("port: health", "port: metrics", false)]
#[case::another_path("path: /metrics", "path: /", false)]
#[case::other_pods("part-of: vmpool", "part-of: other", false)]
#[case::all_pods("{part-of: vmpool}", "{}", false)]
fn a_monitor_must_select_the_pods(#[case] sound: &str, #[case] rotten: &str, #[case] finds: bool) {
    const MONITOR: &str = r"
kind: PodMonitor
metadata: {name: vmpool, namespace: vmpool-system}
spec: {selector: {matchLabels: {part-of: vmpool}}, podMetricsEndpoints: [{port: health, path: /metrics}]}
";
    let found = broken(&format!("{SOUND}\n---\n{}", MONITOR.replace(sound, rotten)));
    assert_eq!(!found.iter().any(|line| line.contains("does not select the metrics")), finds, "{found:?}");
}

#[test]
fn an_unknown_flag_is_reported() {
    let objects = parse_rendered_chart(SOUND).unwrap();
    let help = "      --feature-gates <A=B>\n      --ca-bundle-of <R/N>  [env: X=]";
    assert_eq!(unknown_flags("vmpool-webhook", &objects, help), Vec::<String>::new());
    let found = unknown_flags("vmpool-webhook", &objects, "--feature-gates <A=B>, --ca-bundle-of-all");
    assert_eq!(found, ["passes --ca-bundle-of, which vmpool-webhook does not know"]);
}

#[test]
fn every_combination_of_the_main_values_is_rendered() {
    let names: Vec<String> = Variant::all().into_iter().map(|variant| variant.name).collect();
    assert!(names.contains(&"gate off, cert-manager, one namespace, PodMonitor".to_owned()), "{names:?}");
    assert!(names.len() >= 22, "{names:?}");
    let objects = Variant::defaults().objects();
    for group in ["subresources.vmpool.dev", "kubevirt.subresources.vmpool.dev"] {
        assert!(objects.contains(&format!("APIService/v1alpha1.{group}")), "{objects:?}");
    }
    // Whether a cluster has a platform is not known while Helm only renders the chart.
    assert!(objects.iter().all(|object| !object.starts_with("CustomResourceDefinition/")), "{objects:?}");
}

#[test]
fn a_schema_that_accepts_unknown_fields_is_reported() {
    let found = schema::values_schema_violations(
        r#"{"properties": {"a": {"type": "object", "additionalProperties": false}, "b": {"type": "object"}}}"#,
    );
    assert_eq!(found.unwrap(), [r#"values.schema.json accepts unknown fields at "/properties/b""#]);
}

#[test]
fn the_schema_has_the_feature_gates_of_the_programs() {
    let source = "    Self::A => \"A\",\n    Self::B => \"B\",\n    Self::Alpha => \"ALPHA\",\n";
    let schema =
        |names: &str| format!(r#"{{"properties": {{"featureGates": {{"properties": {{{names}}}}}}}}}"#);
    let all = schema(r#""AllAlpha": {}, "AllBeta": {}, "A": {}, "B": {}"#);
    assert!(schema::feature_gate_violations(&all, source).unwrap().is_empty());
    let found = schema::feature_gate_violations(&schema(r#""AllAlpha": {}, "A": {}"#), source).unwrap();
    assert!(found[0].contains("has the feature gates {\"A\", \"AllAlpha\"}, and the programs"), "{found:?}");
}

/// The pod of `helm test`, as a chart without its hook would have it.
const TEST_POD: &str = r"
---
{kind: ServiceAccount, metadata: {name: vmpool-doctor, namespace: vmpool-system, annotations: {helm.sh/hook: test}}}
---
kind: NetworkPolicy
metadata: {name: vmpool-doctor, namespace: vmpool-system}
spec: {podSelector: {matchLabels: {app: doctor}}}
---
kind: Pod
metadata: {name: vmpool-doctor, namespace: vmpool-system, labels: {app: doctor}, annotations: {helm.sh/hook: test}}
spec:
  serviceAccountName: vmpool-doctor
  automountServiceAccountToken: true
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
    - image: vmpool/kubectl-vmpool:0.1.0
      args: [doctor]
      resources: {requests: {cpu: 10m}, limits: {memory: 64Mi}}
      securityContext:
        readOnlyRootFilesystem: true
        allowPrivilegeEscalation: false
        capabilities: {drop: [ALL]}
";

#[test]
fn the_pod_of_the_test_and_what_it_needs_are_hooks_of_the_same_events() {
    let sound = format!("{SOUND}{TEST_POD}");
    assert_eq!(broken(&sound), Vec::<String>::new());
    let pod = "labels: {app: doctor}, annotations: {helm.sh/hook: test}";
    let found = broken(&sound.replace(pod, "labels: {app: doctor}")).join("\n");
    assert!(found.contains("is not run by helm test"), "{found}");
    let account = "{name: vmpool-doctor, namespace: vmpool-system, annotations: {helm.sh/hook: test}}}";
    let found =
        broken(&sound.replace(account, "{name: vmpool-doctor, namespace: vmpool-system}}")).join("\n");
    assert!(found.contains("needs ServiceAccount/vmpool-doctor"), "{found}");
    let found = broken(&sound.replace("matchLabels: {app: doctor}", "matchLabels: {app: other}")).join("\n");
    assert!(found.contains("is selected by 0 network policies"), "{found}");
    // Only helm runs hooks.
    let install = |text: &str| install_manifest_text(&parse_rendered_chart(text).unwrap()).unwrap();
    let whole = install(&sound);
    assert!(whole.contains("kind: Namespace") && whole.contains("kind: Service\n"), "{whole}");
    assert!(!whole.contains("kind: Pod\n"), "{whole}");
    // The demo creates no hooks.
    let of = |text: &str| manifest_text(&parse_rendered_chart(text).unwrap()).unwrap();
    assert_eq!(of(&sound), of(SOUND));
}
