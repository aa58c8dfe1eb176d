//! A builder for pools of KubeVirt.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use super::{
    Autohealing, DataVolumeSpec, DataVolumeTemplate, InstancetypeMatcher, MachineTemplate, ScaleInStrategy,
    TemplateMetadata, UpdateStrategy, VirtualMachinePool, VirtualMachinePoolSpec, VirtualMachineSpec, Volume,
    labels,
    values::{RunStrategy, SortPolicy, StatePreservation},
    virtual_machine::VirtualMachineTemplate,
    virtual_machine_instance::{
        VirtualMachineInstanceDomain, VirtualMachineInstanceDomainDevices,
        VirtualMachineInstanceDomainDevicesDisks, VirtualMachineInstanceSpec,
        VirtualMachineInstanceVolumesDataVolume,
    },
    virtual_machine_pool::VirtualMachinePoolScaleInStrategyProactive,
};
use crate::enums::ImageRefreshMode;
use crate::{GoDuration, Quantity, Share};

#[cfg(test)]
mod tests;

/// A builder for pools of KubeVirt, see [`VirtualMachinePool::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until build() creates the pool"]
pub struct KubeVirtPoolBuilder {
    name: String,
    pool: VirtualMachinePool,
}

impl VirtualMachinePool {
    /// Starts a pool without replicas, whose machines run always. It selects its machines by the label
    /// [`labels::POOL`] with the name of the pool.
    ///
    /// The machines need a size: [`cpu`](KubeVirtPoolBuilder::cpu) and
    /// [`memory`](KubeVirtPoolBuilder::memory), or an
    /// [`instancetype`](KubeVirtPoolBuilder::instancetype). They need at least one
    /// [`disk`](KubeVirtPoolBuilder::disk) or
    /// [`container_disk`](KubeVirtPoolBuilder::container_disk).
    ///
    /// ```
    /// use vmpool_api::kubevirt::{DataVolumeSpec, VirtualMachinePool};
    ///
    /// let pool = VirtualMachinePool::builder("builders")
    ///     .namespace("ci")
    ///     .replicas(2)
    ///     .cpu(2)
    ///     .memory("2Gi")
    ///     .disk("root", DataVolumeSpec::from_registry("docker://images.example.com/debian:13", "10Gi"))
    ///     .build();
    /// assert_eq!(pool.desired_replicas(), 2);
    /// ```
    pub fn builder(name: &str) -> KubeVirtPoolBuilder {
        let labels = BTreeMap::from([(labels::POOL.to_owned(), name.to_owned())]);
        let metadata =
            || Some(TemplateMetadata { labels: Some(labels.clone()), ..TemplateMetadata::default() });
        let machine = VirtualMachineSpec {
            run_strategy: Some(RunStrategy::Always.into()),
            template: VirtualMachineTemplate {
                metadata: metadata(),
                spec: VirtualMachineInstanceSpec {
                    domain: Some(VirtualMachineInstanceDomain {
                        // The schema of KubeVirt requires the field.
                        devices: Some(VirtualMachineInstanceDomainDevices::default()),
                        ..VirtualMachineInstanceDomain::default()
                    }),
                    ..VirtualMachineInstanceSpec::default()
                },
                ..VirtualMachineTemplate::default()
            },
            ..VirtualMachineSpec::default()
        };
        let spec = VirtualMachinePoolSpec {
            replicas: Some(0),
            selector: LabelSelector { match_labels: Some(labels.clone()), ..LabelSelector::default() },
            virtual_machine_template: MachineTemplate {
                metadata: metadata(),
                spec: machine,
                ..MachineTemplate::default()
            },
            ..VirtualMachinePoolSpec::default()
        };
        KubeVirtPoolBuilder { name: name.to_owned(), pool: VirtualMachinePool::new(name, spec) }
    }
}

impl KubeVirtPoolBuilder {
    /// Sets the namespace of the pool.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.pool.metadata.namespace = Some(namespace.to_owned());
        self
    }

    /// Sets the number of machines.
    pub fn replicas(mut self, replicas: i32) -> Self {
        self.pool.spec.replicas = Some(replicas);
        self
    }

    /// Sets the cores of a machine. Do not combine it with an instance type, which sets them.
    pub fn cpu(mut self, cores: u32) -> Self {
        self.domain().unknown_fields.insert("cpu".to_owned(), json!({ "cores": cores }));
        self
    }

    /// Sets the memory of a machine. Do not combine it with an instance type, which sets it.
    pub fn memory(mut self, size: impl Into<Quantity>) -> Self {
        let size: Quantity = size.into();
        self.domain().unknown_fields.insert("memory".to_owned(), json!({ "guest": size }));
        self
    }

    /// Sets the cluster-wide instance type of the machines. Use [`with`](Self::with) for one in the
    /// namespace.
    pub fn instancetype(mut self, name: &str) -> Self {
        self.machine().instancetype = Some(named_matcher(name));
        self
    }

    /// Sets the cluster-wide preference of the machines. Use [`with`](Self::with) for one in the namespace.
    pub fn preference(mut self, name: &str) -> Self {
        self.machine().preference = Some(named_matcher(name));
        self
    }

    /// Sets when the machines run.
    pub fn run_strategy(mut self, strategy: RunStrategy) -> Self {
        self.machine().run_strategy = Some(strategy.into());
        self
    }

    /// Adds a label to the machines, their VirtualMachineInstances and their pods.
    pub fn machine_label(mut self, key: &str, value: &str) -> Self {
        let template = &mut self.pool.spec.virtual_machine_template;
        for metadata in [&mut template.metadata, &mut template.spec.template.metadata] {
            let labels = metadata.get_or_insert_default().labels.get_or_insert_default();
            labels.insert(key.to_owned(), value.to_owned());
        }
        self
    }

    /// Adds a disk. Each machine gets a DataVolume of its own, whose name begins with those of the pool and
    /// the disk.
    pub fn disk(mut self, name: &str, spec: DataVolumeSpec) -> Self {
        let data_volume = format!("{}-{name}", self.name);
        let template = DataVolumeTemplate {
            metadata: Some(TemplateMetadata {
                name: Some(data_volume.clone()),
                ..TemplateMetadata::default()
            }),
            spec: Some(spec),
            ..DataVolumeTemplate::default()
        };
        self.machine().data_volume_templates.get_or_insert_default().push(template);
        let reference = VirtualMachineInstanceVolumesDataVolume {
            name: Some(data_volume),
            ..VirtualMachineInstanceVolumesDataVolume::default()
        };
        self.volume(Volume { name: name.to_owned(), data_volume: Some(reference), ..Volume::default() })
    }

    /// Adds a disk with the content of a container image. The machine loses what it writes there when it
    /// stops.
    pub fn container_disk(self, name: &str, image: &str) -> Self {
        let source = BTreeMap::from([("containerDisk".to_owned(), json!({ "image": image }))]);
        self.volume(Volume { name: name.to_owned(), unknown_fields: source, ..Volume::default() })
    }

    /// Adds a volume, and a virtio disk that shows it to the guest.
    pub fn volume(mut self, volume: Volume) -> Self {
        let disk = VirtualMachineInstanceDomainDevicesDisks {
            name: volume.name.clone(),
            unknown_fields: BTreeMap::from([("disk".to_owned(), json!({ "bus": "virtio" }))]),
        };
        self.domain().devices.get_or_insert_default().disks.get_or_insert_default().push(disk);
        self.machine().template.spec.volumes.get_or_insert_default().push(volume);
        self
    }

    /// Sets the order in which a scale-down removes machines.
    pub fn scale_in_order(mut self, order: SortPolicy) -> Self {
        self.proactive_scale_in().selection_policy.get_or_insert_default().sort_policy = Some(order.into());
        self
    }

    /// Sets what happens to the volumes of a removed machine.
    pub fn state_preservation(mut self, preservation: StatePreservation) -> Self {
        self.proactive_scale_in().state_preservation = Some(preservation.into());
        self
    }

    /// Deletes only stopped machines in a scale-down. A pool has one strategy, so this method and
    /// [`scale_in_order`](Self::scale_in_order) or [`state_preservation`](Self::state_preservation) replace
    /// each other.
    pub fn opportunistic_scale_in(mut self, preservation: StatePreservation) -> Self {
        let mut strategy = ScaleInStrategy::default();
        strategy.opportunistic.get_or_insert_default().state_preservation = Some(preservation.into());
        self.pool.spec.scale_in_strategy = Some(strategy);
        self
    }

    /// Updates machines without a restart by the controller: a machine runs with a changed template after its
    /// next restart.
    pub fn opportunistic_updates(mut self) -> Self {
        self.pool.spec.update_strategy =
            Some(UpdateStrategy { opportunistic: Some(BTreeMap::new()), ..UpdateStrategy::default() });
        self
    }

    /// Sets how many machines may be unavailable during a rollout.
    pub fn max_unavailable(mut self, share: Share) -> Self {
        self.pool.spec.max_unavailable = Some(share.into());
        self
    }

    /// Sets the longest time for which a machine can be protected or claimed, from 1 minute to 720 hours.
    pub fn max_protection(mut self, duration: GoDuration) -> Self {
        self.pool.spec.max_protection = Some(duration.to_string());
        self
    }

    /// Sets how many machines may exist that have not been ready yet.
    pub fn max_provisioning(mut self, share: Share) -> Self {
        self.pool.spec.max_provisioning = Some(share.into());
        self
    }

    /// Sets what the controller does if a source of the disks leads to other content.
    pub fn image_refresh(mut self, refresh: ImageRefreshMode) -> Self {
        self.pool.spec.image_refresh = Some(refresh.into());
        self
    }

    /// Sets after how many seconds without progress the pool is stalled.
    pub fn progress_deadline_seconds(mut self, seconds: i32) -> Self {
        self.pool.spec.progress_deadline_seconds = Some(seconds);
        self
    }

    /// Replaces machines that fail to start, after three failed starts and five minutes.
    pub fn autohealing(mut self) -> Self {
        self.pool.spec.autohealing = Some(Autohealing::default());
        self
    }

    /// Pauses the pool: the controller creates, deletes and updates no machines.
    pub fn paused(mut self) -> Self {
        self.pool.spec.paused = Some(true);
        self
    }

    /// Applies a change for which there is no other method.
    pub fn with(mut self, change: impl FnOnce(&mut VirtualMachinePool)) -> Self {
        change(&mut self.pool);
        self
    }

    /// Returns the pool.
    pub fn build(self) -> VirtualMachinePool {
        self.pool
    }

    fn proactive_scale_in(&mut self) -> &mut VirtualMachinePoolScaleInStrategyProactive {
        let strategy = self.pool.spec.scale_in_strategy.get_or_insert_default();
        strategy.opportunistic = None;
        strategy.proactive.get_or_insert_default()
    }

    fn machine(&mut self) -> &mut VirtualMachineSpec {
        &mut self.pool.spec.virtual_machine_template.spec
    }

    fn domain(&mut self) -> &mut VirtualMachineInstanceDomain {
        self.machine().template.spec.domain.get_or_insert_default()
    }
}

/// A reference to the cluster-wide object with this name.
fn named_matcher(name: &str) -> InstancetypeMatcher {
    InstancetypeMatcher { name: Some(name.to_owned()), ..InstancetypeMatcher::default() }
}

impl DataVolumeSpec {
    /// An empty disk of this size.
    pub fn blank(size: impl Into<Quantity>) -> Self {
        Self::from_source("blank", json!({}), size)
    }

    /// A disk with the content of a container image, for example `docker://images.example.com/debian:13`.
    pub fn from_registry(url: &str, size: impl Into<Quantity>) -> Self {
        Self::from_source("registry", json!({ "url": url }), size)
    }

    /// A disk with the content of a file on a web server.
    pub fn from_http(url: &str, size: impl Into<Quantity>) -> Self {
        Self::from_source("http", json!({ "url": url }), size)
    }

    /// A disk with this kind of source, a field of `spec.source` of a DataVolume, and its parameters.
    pub fn from_source(kind: &str, parameters: Value, size: impl Into<Quantity>) -> Self {
        let size: Quantity = size.into();
        let request = json!({ "requests": { "storage": size } });
        Self {
            source: Some(BTreeMap::from([(kind.to_owned(), parameters)])),
            storage: Some(BTreeMap::from([("resources".to_owned(), request)])),
            ..Self::default()
        }
    }

    /// The same disk with this storage class.
    #[must_use]
    pub fn with_storage_class(mut self, name: &str) -> Self {
        self.storage.get_or_insert_default().insert("storageClassName".to_owned(), json!(name));
        self
    }
}
