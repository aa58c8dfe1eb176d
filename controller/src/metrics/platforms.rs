//! What the leader does with the pools of each platform.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use vmpool_runtime::label_set;
use vmpool_runtime::metrics::MetricsRegistry;

use super::label_values::PlatformState;
use super::pool_series::PlatformName;

label_set!(PlatformLabels { platform: PlatformName, state: PlatformState });

/// The gauge of the platforms.
#[derive(Debug)]
pub(super) struct PlatformGauges(Family<PlatformLabels, Gauge>);

impl PlatformGauges {
    pub(super) fn new(registry: &mut MetricsRegistry) -> Self {
        Self(registry.register(
            "vmpool_platform_state",
            "0 or 1",
            "Whether the leader is in this state for the pools of this platform. A standby exports no series",
            Family::default(),
        ))
    }

    /// Shows the state of a platform; `None` removes its series.
    pub(super) fn show(&self, platform: &'static str, now: Option<PlatformState>) {
        for &state in PlatformState::ALL {
            let labels = PlatformLabels { platform: PlatformName(platform.into()), state };
            match now {
                Some(now) => {
                    self.0.get_or_create(&labels).set(i64::from(now == state));
                }
                None => {
                    self.0.remove(&labels);
                }
            }
        }
    }
}
