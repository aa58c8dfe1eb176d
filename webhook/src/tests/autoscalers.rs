//! The webhook for autoscalers.

use rstest::rstest;

use super::*;
use crate::autoscalers::AUTOSCALER_PATH;

impl World {
    /// A webhook that reviews autoscalers.
    fn of_autoscalers() -> Self {
        let clock = ManualClock::new();
        let (server, metrics) = (Server::default(), WebhookMetrics::new());
        let state = ReviewState::new(Vec::new(), server.client(), metrics.clone(), test_env(&clock, 0));
        let callers = Callers::Certified([API_SERVER.to_owned()].into());
        let router = webhook_router(&state.accepting(callers).with_autoscalers());
        Self { server, metrics, clock, router, certificate: Some(API_SERVER) }
    }
}

fn autoscaler(start: &str, zone: &str) -> Value {
    json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "PoolAutoscaler", "metadata": { "name": "runners" },
        "spec": {
            "poolRef": { "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "p" },
            "maxReplicas": 10,
            "schedules": [
                { "name": "day", "start": start, "duration": "8h", "timeZone": zone, "minReplicas": 2 },
            ],
        },
    })
}

#[rstest]
#[case("30 7 * * MON-FRI", "Europe/Berlin", "")]
#[case("30 7 * *", "Europe/Berlin", "spec.schedules[0].start")]
#[case("0 0 31 2 *", "Europe/Berlin", "spec.schedules[0].start")]
#[case("30 7 * * *", "Europe/Nowhere", "spec.schedules[0].timeZone")]
#[tokio::test]
async fn the_webhook_checks_cron_and_time_zone(
    #[case] start: &str,
    #[case] zone: &str,
    #[case] refused_field: &str,
) {
    let world = World::of_autoscalers();
    let response = world.creates(AUTOSCALER_PATH, &autoscaler(start, zone)).await;
    assert_eq!(response["allowed"], refused_field.is_empty(), "{response}");
    assert!(response["status"]["message"].as_str().unwrap_or_default().contains(refused_field), "{response}");
    assert_eq!(world.server.requests(), [] as [String; 0], "the rules read nothing");
}
