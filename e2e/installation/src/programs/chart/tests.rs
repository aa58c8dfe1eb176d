use super::*;
use crate::programs::Component;

fn chart() -> Chart {
    let text = r#"
kind: Deployment
metadata: { name: vmpool-webhook }
spec: { template: { spec: { containers: [{
  env: [{ name: POD, valueFrom: { fieldRef: { fieldPath: metadata.name } } }, { name: LEVEL, value: debug }],
  args: ["--identity=$(POD)", "--log-level=$(LEVEL)", "--other=$(NODE)"] }] } } }
---
kind: ValidatingWebhookConfiguration
metadata: { name: vmpool-webhook }
webhooks:
- clientConfig: { service: { name: vmpool-webhook, namespace: vmpool-system, path: /a, port: 443 } }
- clientConfig: { service: { name: vmpool-webhook, namespace: vmpool-system, path: /b, port: 443 } }
- clientConfig: { service: { name: vmpool-webhook, namespace: vmpool-system, path: /c, port: 443 } }
---
kind: APIService
metadata: { name: v1.theirs }
spec: { service: { name: theirs, namespace: elsewhere, port: 443 } }
"#;
    Chart { documents: parse_yaml_documents("a test", text).unwrap() }
}

#[test]
fn arguments_are_read_from_the_container() {
    let arguments = chart().arguments("vmpool-webhook").unwrap();
    // An undefined variable is not expanded, as in Kubernetes.
    assert_eq!(arguments, ["--identity=vmpool-webhook", "--log-level=debug", "--other=$(NODE)"]);
    let error = chart().arguments("vmpool-apiserver").unwrap_err().to_string();
    assert!(error.contains("Deployment/vmpool-webhook"), "the error lists the existing objects: {error}");
}

#[test]
fn references_point_to_the_ports_of_processes() {
    let wiring = chart().wiring(&[("vmpool-webhook", [12345, 23456].as_slice())].into());
    let kinds: Vec<_> = wiring.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Service", "ValidatingWebhookConfiguration", "APIService"]);
    assert_eq!(wiring[0]["spec"]["externalName"], "localhost");
    let webhooks = wiring[1]["webhooks"].as_array().unwrap();
    let reference = |webhook: &Value| webhook["clientConfig"]["service"].clone();
    let ports: Vec<Value> = webhooks.iter().map(|webhook| reference(webhook)["port"].clone()).collect();
    assert_eq!(ports, [12345, 23456, 12345], "in turn");
    assert_eq!(reference(&webhooks[0])["path"], "/a");
    assert_eq!(wiring[2]["spec"]["service"]["port"], 443, "a service outside the chart");
}

#[test]
fn the_stored_chart_has_the_arguments_of_both_components_and_registers_them() {
    let chart = Chart::stored().unwrap();
    for component in Component::ALL {
        let arguments = chart.arguments(component.name()).unwrap();
        assert!(arguments.iter().any(|argument| argument.starts_with("--ca-bundle-of=")), "{arguments:?}");
    }
    let kinds = ["ValidatingWebhookConfiguration", "APIService"].map(|kind| chart.all(kind).count());
    // The group of vmpool for each platform, and the group of DVP.
    assert_eq!(kinds, [1, 3]);
}
