//! Builders for pools, machines and disks.
//!
//! They create objects that the API server accepts, without the fields that it fills in.

use std::collections::BTreeMap;

use crate::{
    GoDuration, Quantity, Share,
    enums::{DeviceKind, ImageRefreshMode, ReclaimPolicy, RunPolicy, ScaleDownPolicy},
    v1alpha2::{
        BlockDeviceRef, DiskTemplate, MachineTemplate, Reclaim, Rollout, TemplateMetadata, VirtualDiskSpec,
        VirtualMachinePool, VirtualMachinePoolSpec, VirtualMachineSpec,
        virtual_disk::{
            VirtualDiskDataSource, VirtualDiskDataSourceObjectRef, VirtualDiskPersistentVolumeClaim,
        },
        virtual_machine::{VirtualMachineCpu, VirtualMachineMemory},
    },
};

#[cfg(test)]
mod tests;

/// A builder for pools, see [`VirtualMachinePool::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until build() creates the pool"]
pub struct PoolBuilder {
    pool: VirtualMachinePool,
}

impl VirtualMachinePool {
    /// Starts a pool without replicas. Its machines have one core and 512Mi of memory. It needs at least one
    /// [`disk`](PoolBuilder::disk).
    pub fn builder(name: &str, policy: ScaleDownPolicy) -> PoolBuilder {
        let spec = VirtualMachinePoolSpec {
            replicas: Some(0),
            scale_down_policy: policy.into(),
            virtual_disk_templates: Vec::new(),
            virtual_machine_template: MachineTemplate {
                metadata: None,
                spec: VirtualMachineSpec::sized(1, "512Mi"),
            },
            ..VirtualMachinePoolSpec::default()
        };
        PoolBuilder { pool: VirtualMachinePool::new(name, spec) }
    }
}

impl PoolBuilder {
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

    /// Sets the cores of a machine and the guaranteed share of each, from `1%` to `100%`, or `Auto`.
    pub fn cpu(mut self, cores: i32, core_fraction: &str) -> Self {
        let cpu = &mut self.machine().cpu;
        cpu.cores = cores;
        cpu.core_fraction = Some(core_fraction.to_owned());
        self
    }

    /// Sets the memory of a machine.
    pub fn memory(mut self, size: impl Into<Quantity>) -> Self {
        self.machine().memory.size = size.into();
        self
    }

    /// Sets the class of the machines. The default is the default class of the cluster.
    pub fn class(mut self, name: &str) -> Self {
        self.machine().virtual_machine_class_name = Some(name.to_owned());
        self
    }

    /// Sets the run policy of the machines.
    pub fn run_policy(mut self, policy: RunPolicy) -> Self {
        self.machine().run_policy = Some(policy.into());
        self
    }

    /// Adds a label to the machines and their pods.
    pub fn machine_label(mut self, key: &str, value: &str) -> Self {
        let template = &mut self.pool.spec.virtual_machine_template;
        let metadata = template.metadata.get_or_insert_with(TemplateMetadata::default);
        metadata.labels.get_or_insert_with(BTreeMap::new).insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets how many machines may be unavailable during a rollout.
    pub fn max_unavailable(mut self, share: Share) -> Self {
        self.rollout().max_unavailable = Some(share.into());
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

    /// Pauses rollouts: existing machines keep their configuration if the template changes.
    pub fn paused(mut self) -> Self {
        self.rollout().paused = Some(true);
        self
    }

    /// Sets the stored revision that machines get instead of the template.
    pub fn revision(mut self, name: &str) -> Self {
        self.rollout().revision = Some(name.to_owned());
        self
    }

    /// Adds a disk template, and a device for it at the end of the list.
    pub fn disk(mut self, template: DiskTemplate) -> Self {
        self.machine().block_device_refs.push(BlockDeviceRef::disk(&template.name));
        self.pool.spec.virtual_disk_templates.push(template);
        self
    }

    /// Adds a device at the end of the list, for an image that all machines share.
    pub fn device(mut self, device: BlockDeviceRef) -> Self {
        self.machine().block_device_refs.push(device);
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

    fn rollout(&mut self) -> &mut Rollout {
        self.pool.spec.rollout.get_or_insert_with(Rollout::default)
    }

    fn machine(&mut self) -> &mut VirtualMachineSpec {
        &mut self.pool.spec.virtual_machine_template.spec
    }
}

impl VirtualMachineSpec {
    /// A machine with this number of cores and this memory. It still needs a device in `block_device_refs`.
    pub fn sized(cores: i32, memory: impl Into<Quantity>) -> Self {
        Self {
            cpu: VirtualMachineCpu { cores, core_fraction: None },
            memory: VirtualMachineMemory { size: memory.into() },
            ..Self::default()
        }
    }
}

impl BlockDeviceRef {
    /// A device with this kind and name. Its position in the list determines the boot order.
    pub fn new(kind: DeviceKind, name: &str) -> Self {
        Self { kind: kind.into(), name: name.to_owned(), boot_order: None }
    }

    /// A disk; in a pool the name is that of a disk template.
    pub fn disk(name: &str) -> Self {
        Self::new(DeviceKind::VirtualDisk, name)
    }

    /// An image in the namespace.
    pub fn image(name: &str) -> Self {
        Self::new(DeviceKind::VirtualImage, name)
    }

    /// A cluster-wide image.
    pub fn cluster_image(name: &str) -> Self {
        Self::new(DeviceKind::ClusterVirtualImage, name)
    }
}

impl VirtualDiskSpec {
    /// An empty disk of this size.
    pub fn blank(size: impl Into<Quantity>) -> Self {
        Self::default().with_size(size)
    }

    /// A disk with the content and size of a cluster-wide image.
    pub fn from_cluster_image(image: &str) -> Self {
        Self {
            data_source: Some(VirtualDiskDataSource {
                r#type: Some("ObjectRef".to_owned()),
                object_ref: Some(VirtualDiskDataSourceObjectRef {
                    kind: "ClusterVirtualImage".to_owned(),
                    name: image.to_owned(),
                }),
                ..VirtualDiskDataSource::default()
            }),
            persistent_volume_claim: None,
        }
    }

    /// The same disk with this size.
    #[must_use]
    pub fn with_size(mut self, size: impl Into<Quantity>) -> Self {
        self.claim().size = Some(size.into());
        self
    }

    /// The same disk with this storage class.
    #[must_use]
    pub fn with_storage_class(mut self, name: &str) -> Self {
        self.claim().storage_class_name = Some(name.to_owned());
        self
    }

    fn claim(&mut self) -> &mut VirtualDiskPersistentVolumeClaim {
        self.persistent_volume_claim.get_or_insert_with(VirtualDiskPersistentVolumeClaim::default)
    }
}

impl DiskTemplate {
    /// A template for ephemeral disks.
    pub fn new(name: &str, spec: VirtualDiskSpec) -> Self {
        Self { name: name.to_owned(), reclaim: None, spec }
    }

    /// A template for empty disks of this size.
    pub fn blank(name: &str, size: impl Into<Quantity>) -> Self {
        Self::new(name, VirtualDiskSpec::blank(size))
    }

    /// A template for disks with the content of a cluster-wide image.
    pub fn from_cluster_image(name: &str, image: &str) -> Self {
        Self::new(name, VirtualDiskSpec::from_cluster_image(image))
    }

    /// The same template with retained disks that are never garbage-collected.
    #[must_use]
    pub fn retained(mut self) -> Self {
        let policy = ReclaimPolicy::Retain.into();
        self.reclaim = Some(Reclaim { on_scale_down: Some(policy), keep: None, ttl: None });
        self
    }

    /// The same template with retained disks. A disk that is free for longer than `ttl` is deleted, except
    /// the `keep` disks that became free last.
    #[must_use]
    pub fn retained_for(mut self, ttl: GoDuration, keep: i32) -> Self {
        let policy = ReclaimPolicy::Retain.into();
        self.reclaim =
            Some(Reclaim { on_scale_down: Some(policy), keep: Some(keep), ttl: Some(ttl.to_string()) });
        self
    }
}
