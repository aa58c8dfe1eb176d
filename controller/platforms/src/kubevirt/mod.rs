//! KubeVirt: pools of `pool.kubevirt.io`, machines of `kubevirt.io`, and the DataVolumes and claims of the machines.

pub mod admission;
