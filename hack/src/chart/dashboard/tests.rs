use rstest::rstest;
use serde_json::{Value, json};

use super::super::objects;
use super::{dashboard_violations, rendered_dashboard_violations};

const SOURCES: &str = r#"
    struct Labels { state: State }
    registry.register("vmpool_pools", "pools", "Pools", all);
    metric_table!(
        struct PassMetrics {
            /// Time of a pass.
            time: Histogram =
                "vmpool_pass_duration_seconds" in "seconds", histogram();
        }
    );
    health.register("caches");
"#;

fn good() -> Value {
    let panel = |id: u64, x: u64, expression: &str| {
        json!({ "id": id, "type": "timeseries", "title": "A", "description": "What is there.",
            "gridPos": { "x": x, "y": 1, "w": 12, "h": 8 },
            "targets": [{ "expr": expression, "datasource": { "type": "prometheus", "uid": "${datasource}" } }] })
    };
    json!({ "panels": [
        { "id": 1, "type": "row", "title": "All", "gridPos": { "x": 0, "y": 0, "w": 24, "h": 1 } },
        panel(2, 0, r#"sum(vmpool_pools{namespace=~"$namespace"})"#),
        panel(3, 12, r#"rate(vmpool_pass_duration_seconds_bucket{namespace=~"$namespace",le="1"}[5m])"#),
    ] })
}

#[test]
fn a_dashboard_of_all_that_there_is_will_do() {
    assert_eq!(dashboard_violations(&good().to_string(), SOURCES), Vec::<String>::new());
}

#[rstest]
#[case::misspelt("/panels/1/targets/0/expr", json!(r#"vmpool_pool{namespace=~"$namespace"}"#), "no program exports: [vmpool_pool]")]
#[case::not_shown("/panels/1/targets/0/expr", json!("1"), "does not show: [vmpool_pools]")]
#[case::an_unknown_label(
    "/panels/1/targets/0/expr", json!(r#"sum by (state, sate) (vmpool_pools{namespace=~"$namespace"})"#), "groups by sate")]
#[case::all_namespaces("/panels/1/targets/0/expr", json!("vmpool_pools"), "shows other installations")]
#[case::all_pools(
    "/panels/1/targets/0/expr", json!(r#"vmpool_pool_machines{namespace=~"$namespace"}"#), "shows pools that are not selected")]
#[case::a_fixed_prometheus("/panels/1/targets/0/datasource/uid", json!("PBFA97"), "selected data source")]
#[case::the_same_id("/panels/2/id", json!(2), "no unique id")]
#[case::an_overlap("/panels/2/gridPos/x", json!(11), "overlaps another panel")]
#[case::outside("/panels/2/gridPos/w", json!(13), "outside the grid")]
#[case::no_title("/panels/2/title", json!(""), "has no title")]
#[case::no_description("/panels/2/description", json!(null), "has no description")]
#[case::no_expression("/panels/2/targets", json!([]), "shows nothing")]
fn each_violation_is_reported(#[case] pointer: &str, #[case] value: Value, #[case] message: &str) {
    let mut dashboard = good();
    *dashboard.pointer_mut(pointer).unwrap() = value;
    let found = dashboard_violations(&dashboard.to_string(), SOURCES);
    assert!(found.iter().any(|line| line.contains(message)), "{found:?}");
}

#[test]
fn a_dashboard_that_is_not_json_is_a_violation() {
    assert!(dashboard_violations("{", SOURCES)[0].contains("not JSON"));
    assert_eq!(
        dashboard_violations("{}", "").len(),
        1,
        "an empty dashboard is a violation even without metrics"
    );
}

#[test]
fn the_config_map_must_equal_the_file() {
    let map = |text: &str| {
        objects::parse_rendered_chart(&format!(
            "kind: ConfigMap\nmetadata: {{name: vmpool-dashboard}}\ndata:\n  vmpool.json: |-\n    {text}\n"
        ))
        .unwrap()
    };
    assert_eq!(rendered_dashboard_violations(&map("{}"), "{}\n"), Vec::<String>::new());
    assert_eq!(rendered_dashboard_violations(&map("[]"), "{}\n").len(), 1);
}
