//! Whether the status of a pool is about its current spec.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use vmpool_engine::ParsedPool;

use crate::age::format_age;
use crate::leader::LeaderState;
use crate::phase::read_published_phase;

/// A spec that the controller has not observed: state, counters and conditions are those of an earlier one,
/// or there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnobservedSpec {
    /// The generation of the spec.
    pub(crate) generation: i64,
    /// The generation that the status is about; `None` if no controller has written a status.
    pub(crate) observed: Option<i64>,
    /// When a client wrote the spec last; `None` if the managed fields do not contain it.
    pub(crate) since: Option<Timestamp>,
}

impl UnobservedSpec {
    /// Compares the generations of a stored pool. `None` if the status is about the current spec, or if the
    /// definition of pools does not keep the observed generation.
    pub(crate) fn read(stored: &Value, pool: &ParsedPool) -> Option<Self> {
        let observed = match stored["status"]["observedGeneration"].as_i64() {
            // The default of the field, before the first status.
            Some(observed) if observed < 0 => None,
            Some(observed) if observed < pool.generation => Some(observed),
            None if read_published_phase(pool).is_none() => None,
            Some(_) | None => return None,
        };
        Some(Self { generation: pool.generation, observed, since: spec_write_time(stored) })
    }

    /// What it means for the status, and what to do. `leader` is `None` if the user may not read the lease.
    pub(crate) fn describe(&self, leader: Option<&LeaderState>, now: Timestamp) -> String {
        let mut text = format!("generation {} of the pool is not observed", self.generation);
        if let Some(since) = self.since {
            let _ = write!(text, " since {since} ({})", format_age(since, now));
        }
        if let Some(leader) = leader {
            text.push_str(", ");
            text.push_str(&leader.describe(now));
        }
        match self.observed {
            Some(observed) => {
                let _ = write!(text, ": state and conditions are those of generation {observed}");
            }
            None => text.push_str(": no controller has written a status"),
        }
        text.push_str("; `kubectl vmpool doctor` checks whether a controller works");
        text
    }
}

/// What is shown in place of a phase that is not about the current spec.
pub(crate) fn describe_earlier_phase(phase: &str) -> String {
    if phase.is_empty() { "NotObserved".to_owned() } else { format!("NotObserved (was {phase})") }
}

/// When a client wrote the spec last. The API server keeps one time for all fields of a client, so it can be
/// that of a later change of a label.
fn spec_write_time(stored: &Value) -> Option<Timestamp> {
    let entries = stored["metadata"]["managedFields"].as_array().into_iter().flatten();
    let of_spec =
        entries.filter(|entry| entry["subresource"] != "status" && entry["fieldsV1"].get("f:spec").is_some());
    of_spec.filter_map(|entry| entry["time"].as_str()?.parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;
    use vmpool_platforms::KubeVirt;

    use super::*;
    use crate::pool::decode_pool;

    const GENERATION: i64 = 4;

    fn read(status: &Value) -> Option<UnobservedSpec> {
        let stored = json!({
            "metadata": {
                "name": "web", "namespace": "a", "uid": "u", "generation": GENERATION,
                "managedFields": [
                    { "manager": "kubectl", "time": "1970-01-01T00:01:00Z", "fieldsV1": { "f:spec": {} } },
                    {
                        "manager": "hpa", "subresource": "scale", "time": "1970-01-01T00:02:00Z",
                        "fieldsV1": { "f:spec": { "f:replicas": {} } },
                    },
                    {
                        "manager": "vmpool-controller", "subresource": "status",
                        "time": "1970-01-01T00:03:00Z", "fieldsV1": { "f:status": {} },
                    },
                    { "manager": "kubectl-label", "time": "1970-01-01T00:04:00Z", "fieldsV1": { "f:metadata": {} } },
                ],
            },
            "spec": {
                "selector": { "matchLabels": { "app": "web" } },
                "virtualMachineTemplate": { "spec": {} },
            },
            "status": status,
        });
        UnobservedSpec::read(&stored, &decode_pool::<KubeVirt>(&stored).unwrap().1)
    }

    #[rstest]
    #[case::earlier(json!({ "observedGeneration": 3 }), Some(3))]
    #[case::default_of_the_field(json!({ "observedGeneration": -1 }), None)]
    #[case::no_status(json!({}), None)]
    fn a_status_of_an_earlier_spec_is_recognized(#[case] status: Value, #[case] observed: Option<i64>) {
        let since = Timestamp::from_second(120).ok();
        assert_eq!(read(&status), Some(UnobservedSpec { generation: GENERATION, observed, since }));
    }

    #[rstest]
    #[case::current(json!({ "observedGeneration": 4 }))]
    #[case::a_definition_without_the_field(
        json!({ "conditions": [{ "type": "Ready", "status": "True", "reason": "Ready", "message": "" }] }),
    )]
    #[case::a_definition_without_the_field_and_a_pool_without_the_condition(
        json!({ "labelSelector": "app=web", "replicas": 1 }),
    )]
    fn a_status_of_the_current_spec_is_observed(#[case] status: Value) {
        assert_eq!(read(&status), None);
    }

    #[test]
    fn an_unobserved_spec_names_its_time_and_the_leader_if_it_may_be_read() {
        let now = Timestamp::from_second(420).unwrap();
        let spec = read(&json!({ "observedGeneration": 3 })).unwrap();
        let end = ": state and conditions are those of generation 3; \
                   `kubectl vmpool doctor` checks whether a controller works";
        let begin = "generation 4 of the pool is not observed since 1970-01-01T00:02:00Z (5m)";
        assert_eq!(spec.describe(None, now), format!("{begin}{end}"));
        let leader = LeaderState::Silent { holder: "a".into(), renewed: Timestamp::UNIX_EPOCH };
        let with_leader = format!("{begin}, the leader a has been silent for 7m{end}");
        assert_eq!(spec.describe(Some(&leader), now), with_leader);
    }
}
