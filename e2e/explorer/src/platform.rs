//! The platform simulator: the simulator's pure core, driven by the model's history.

use std::time::Duration;

use jiff::Timestamp;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_model::{ApiServerModel, Verb};
use vmpool_simulator::duration::Delay;
use vmpool_simulator::world::{DiskViolation, SimulatorSettings};

use crate::platform_dvp::DvpSimulation;
use crate::platform_kubevirt::KubeVirtSimulation;
use crate::simulated::Simulated;

/// The simulated platform.
pub struct PlatformSimulation {
    server: ApiServerModel,
    core: Box<dyn Simulated>,
    seen: usize,
    violations: Vec<DiskViolation>,
}

impl PlatformSimulation {
    /// A platform whose delays are at most these, in milliseconds.
    pub fn new(
        name: TestedPlatform,
        server: &ApiServerModel,
        seed: u64,
        start: u64,
        evaluation: u64,
    ) -> Self {
        let delay = |milliseconds| Delay::After(Duration::from_millis(milliseconds));
        let settings = SimulatorSettings {
            start_delay: delay(start),
            stop_delay: delay(start),
            provisioning_delay: delay(start / 2),
            evaluation_delay: delay(evaluation),
            hot_plug_delay: delay(evaluation),
            nodes: vec!["node-1".to_owned()],
            // No component here reads Pods.
            pods: false,
            seed,
        };
        let core: Box<dyn Simulated> = match name {
            TestedPlatform::Dvp => Box::new(DvpSimulation::new(settings, server.now())),
            TestedPlatform::KubeVirt => Box::new(KubeVirtSimulation::new(settings, server.now())),
        };
        Self { server: server.clone(), core, seen: 0, violations: Vec::new() }
    }

    /// Reads the new changes and performs the due actions. Returns whether it did anything.
    pub async fn step(&mut self) -> bool {
        let mut acted = false;
        loop {
            let now = self.server.now();
            let news = self.server.changes_since(self.seen);
            self.seen += news.len();
            for change in &news {
                self.core.observe(change, now);
            }
            let (calls, violations) = self.core.step(now);
            if calls.is_empty() && violations.is_empty() {
                return acted;
            }
            acted = true;
            self.violations.extend(violations);
            for call in calls {
                let response = self.server.handle(&call).await.map(|(_, object)| object);
                let exists = |code: &str| call.verb == Verb::Create && code == "AlreadyExists";
                let response = match response {
                    Err(error) if exists(&error.reason) => {
                        let resource = format!("{}.{}", call.resource, call.group);
                        let resource = resource.trim_end_matches('.');
                        let stored = self.server.get(resource, &call.namespace, &call.name);
                        stored.map(|object| (*object).clone()).ok_or(error)
                    }
                    response => response,
                };
                self.core.written(&call, response, now);
            }
        }
    }

    /// When the next action is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.core.next_due()
    }

    /// The moments at which two machines had mounted the same disk.
    pub fn violations(&self) -> &[DiskViolation] {
        &self.violations
    }
}
