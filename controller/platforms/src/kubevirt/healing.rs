//! Which machines fail to start, as autohealing sees them. How long a machine has failed, and when it is replaced, the
//! engine decides.

use jiff::Timestamp;
use vmpool_api::kubevirt::values::PrintableStatus;

use super::read::{Autohealing, MachineFacts, Readiness};

/// Whether a machine fails to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartFailure {
    /// It does not.
    None,
    /// Its state is bad, and the controller replaces it if that lasts.
    Failing {
        /// When the condition Ready became False; `None` if KubeVirt did not record it. The time is a lower bound of the
        /// failure only if the controller did not see the machine ready since.
        since: Option<Timestamp>,
    },
    /// The number of its failed starts has reached the threshold, so the controller replaces it at once.
    Repeated,
}

/// Whether this machine fails to start. A machine that started once and is not ready does not.
pub fn start_failure(machine: &MachineFacts, settings: &Autohealing) -> StartFailure {
    if machine.start_failures >= settings.threshold {
        return StartFailure::Repeated;
    }
    match machine.readiness {
        Readiness::NotReady { since }
            if machine.printable_status.is_some_and(PrintableStatus::is_start_failure) =>
        {
            StartFailure::Failing { since }
        }
        _ => StartFailure::None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::super::{fixtures, read};
    use super::*;

    const SINCE: &str = "2026-11-21T13:06:07Z";

    fn failing(count: u64, printable_status: &str, ready: &Value) -> StartFailure {
        let mut object = fixtures::machine();
        object["status"] = json!({
            "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": SINCE }],
            "printableStatus": printable_status,
            "startFailure": { "consecutiveFailCount": count },
        });
        start_failure(&read::machine(&serde_json::from_value(object).unwrap()), &Autohealing::default())
    }

    #[rstest]
    #[case::crash_loop("CrashLoopBackOff")]
    #[case::unschedulable("ErrorUnschedulable")]
    #[case::data_volume("DataVolumeError")]
    #[case::claim("ErrorPvcNotFound")]
    #[case::image("ErrImagePull")]
    #[case::image_backoff("ImagePullBackOff")]
    fn a_bad_state_counts_while_ready_is_false(#[case] status: &str) {
        let since = Some(SINCE.parse().unwrap());
        assert_eq!(failing(0, status, &json!("False")), StartFailure::Failing { since });
        assert_eq!(failing(0, status, &json!("True")), StartFailure::None);
        assert_eq!(failing(0, status, &json!("Unknown")), StartFailure::None);
    }

    #[rstest]
    #[case::below_the_threshold(2, StartFailure::None)]
    #[case::at_the_threshold(3, StartFailure::Repeated)]
    #[case::above_the_threshold(4, StartFailure::Repeated)]
    fn failed_starts_count_in_any_state(#[case] count: u64, #[case] expected: StartFailure) {
        assert_eq!(failing(count, "Running", &json!("True")), expected);
    }

    #[rstest]
    #[case("Starting")]
    #[case("Running")]
    #[case("Stopped")]
    #[case("Provisioning")]
    #[case("Unexpected")]
    fn a_machine_that_is_not_ready_in_another_state_does_not_fail(#[case] status: &str) {
        assert_eq!(failing(0, status, &json!("False")), StartFailure::None);
    }
}
