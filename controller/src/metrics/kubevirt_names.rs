//! Metrics of KubeVirt pools under the names that dashboards of KubeVirt use.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use vmpool_platforms::{KubeVirt, Platform};
use vmpool_runtime::{label_set, metric_table};

use super::label_values::MachineState;
use super::labels::gauge_value;
use super::pool_series::{Name, Namespace, PoolNumbers, PoolSeries};

label_set!(KubeVirtPoolLabels { namespace: Namespace, name: Name });

type PoolGauge = Family<KubeVirtPoolLabels, Gauge>;
type PoolCounter = Family<KubeVirtPoolLabels, Counter>;

metric_table!(
    /// The gauges and counters. They have series only if they are switched on.
    #[derive(Debug)]
    pub(super) struct KubeVirtNames {
        /// A KubeVirt pool: 1.
        info: PoolGauge = "kubevirt_vmpool_info" in "1";
        /// The desired number of machines.
        desired: PoolGauge = "kubevirt_vmpool_desired_replicas" in "machines";
        /// Machines that exist.
        replicas: PoolGauge = "kubevirt_vmpool_replicas" in "machines";
        /// Machines that are ready.
        ready: PoolGauge = "kubevirt_vmpool_ready_replicas" in "machines";
        /// Whether the pool is paused.
        paused: PoolGauge = "kubevirt_vmpool_paused" in "0 or 1";
        /// Whether the condition ReplicaFailure of the pool is True.
        failure: PoolGauge = "kubevirt_vmpool_replica_failure" in "0 or 1";
        /// Machines that this process created since it became the leader.
        started: PoolCounter = "kubevirt_vmpool_vms_started_total" in "machines";
        /// Machines that this process deleted since it became the leader.
        stopped: PoolCounter = "kubevirt_vmpool_vms_stopped_total" in "machines";
        /// Machines that this process replaced since it became the leader, because they did not start.
        healed: PoolCounter = "kubevirt_vmpool_auto_healing_operations_total" in "machines";
    }
);

impl KubeVirtNames {
    /// Replaces all series by those of the KubeVirt pools among `pools`; by none if they are switched off.
    pub(super) fn show(&self, pools: &PoolSeries, is_enabled: bool) {
        for gauge in [&self.info, &self.desired, &self.replicas, &self.ready, &self.paused, &self.failure] {
            gauge.clear();
        }
        for counter in [&self.started, &self.stopped, &self.healed] {
            counter.clear();
        }
        for ((namespace, name, platform), numbers) in pools.iter().filter(|_| is_enabled) {
            if &*platform.0 == <KubeVirt as Platform>::NAME {
                let labels = KubeVirtPoolLabels { namespace: namespace.clone(), name: name.clone() };
                self.show_pool(&labels, numbers);
            }
        }
    }

    fn show_pool(&self, labels: &KubeVirtPoolLabels, numbers: &PoolNumbers) {
        let machines = |state: MachineState| numbers.machines[state as usize];
        let gauges = [
            (&self.info, 1),
            (&self.desired, machines(MachineState::Desired)),
            (&self.replicas, machines(MachineState::Replicas)),
            (&self.ready, machines(MachineState::Ready)),
            (&self.paused, numbers.paused),
            (&self.failure, numbers.blocked.iter().sum::<usize>()),
        ];
        for (gauge, count) in gauges {
            gauge.get_or_create(labels).set(gauge_value(count));
        }
        let actions = &numbers.actions;
        for (counter, count) in [
            (&self.started, actions.created),
            (&self.stopped, actions.deleted),
            (&self.healed, actions.healed),
        ] {
            counter.get_or_create(labels).inc_by(count as u64);
        }
    }
}
