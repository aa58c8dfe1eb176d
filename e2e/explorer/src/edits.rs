//! What users write in pools and machines, for each platform.

use serde_json::{Value, json};
use vmpool_api::labels;
use vmpool_invariants::platform::TestedPlatform;

use crate::manifest::{self, MAX_PROVISIONING, STANDBY, disk_template, spec_with_disk_templates};
use crate::manifest_kubevirt::{self as kubevirt, LABEL, TypeSource};
use crate::operation_standby::standby_setting;
use crate::requests::stored_pool;
use crate::world::SimulatedWorld;

/// A pool with this number of replicas, this scale-down policy and these disk templates.
pub(crate) fn pool_for_world(
    world: &SimulatedWorld,
    replicas: i64,
    policy: &str,
    disks: &[(&'static str, Value)],
) -> Value {
    let mut pool = match world.platform() {
        TestedPlatform::Dvp => manifest::dvp_pool(replicas, policy, disks),
        TestedPlatform::KubeVirt => {
            let pool = kubevirt::kubevirt_pool(replicas, sort_policy(policy), disks);
            match world.instancetypes() {
                Some(from) => kubevirt::pool_with_instancetype(pool, from),
                None => pool,
            }
        }
    };
    if let limit @ 1.. = world.provisioning_limit() {
        pool["metadata"]["annotations"][MAX_PROVISIONING] = limit.to_string().into();
    }
    if let standby @ 1.. = world.initial_standby() {
        pool["metadata"]["annotations"][STANDBY] = standby_setting(standby, true).into();
    }
    pool
}

/// The spec with this number of cores, or with another instance type.
pub(crate) fn spec_with_cores(world: &SimulatedWorld, cores: i64) -> Value {
    if let Some(from) = world.instancetypes() {
        let mut matcher = json!({ "name": null, "kind": null, "inferFromVolume": null });
        let now = if from == TypeSource::Claim && cores % 2 == 0 {
            kubevirt::inferring_matcher()
        } else {
            kubevirt::instancetype_matcher(usize::try_from(cores).unwrap_or_default())
        };
        if let (Some(matcher), Value::Object(now)) = (matcher.as_object_mut(), now) {
            matcher.extend(now);
        }
        return json!({ "virtualMachineTemplate": { "spec": { "instancetype": matcher } } });
    }
    let cpu = json!({ "cores": cores });
    match world.platform() {
        TestedPlatform::Dvp => json!({ "virtualMachineTemplate": { "spec": { "cpu": cpu } } }),
        TestedPlatform::KubeVirt => json!({ "virtualMachineTemplate": { "spec": { "template": { "spec": {
            "domain": { "cpu": cpu },
        } } } } }),
    }
}

/// The spec with this scale-down policy.
pub(crate) fn scale_down_policy_spec(world: &SimulatedWorld, policy: &str) -> Value {
    if world.platform() == TestedPlatform::Dvp {
        return json!({ "scaleDownPolicy": policy });
    }
    let pool = stored_pool(world).unwrap_or_default();
    let preserves = pool["spec"]["scaleInStrategy"].to_string().contains("Offline");
    let mut strategy = json!({ "unmanaged": null, "opportunistic": null, "proactive": null });
    if let (Some(all), Value::Object(one)) =
        (strategy.as_object_mut(), kubevirt::scale_in_strategy(sort_policy(policy), preserves))
    {
        all.extend(one);
    }
    json!({ "scaleInStrategy": strategy })
}

/// The spec with one more disk template; `None` if the pool has it.
pub(crate) fn add_disk(world: &SimulatedWorld, name: &str, reclaim: &Value) -> Option<Value> {
    if world.platform() == TestedPlatform::KubeVirt {
        let mut names = volumes_of(world)?;
        let is_new = !names.iter().any(|known| known == name);
        names.push(name.to_owned());
        return is_new.then(|| kubevirt::spec_with_data_volumes(&names, world.instancetypes()));
    }
    let known = |disks: &[Value]| disks.iter().any(|disk| disk["name"] == *name);
    let (mut devices, mut disks) = disks_of(world).filter(|(_, disks)| !known(disks))?;
    devices.push(json!({ "kind": "VirtualDisk", "name": name }));
    disks.push(disk_template(name, reclaim));
    Some(spec_with_disk_templates(&devices, &disks))
}

/// The spec without a disk template; `None` if no other would be left.
pub(crate) fn remove_disk(world: &SimulatedWorld, name: &str) -> Option<Value> {
    if world.platform() == TestedPlatform::KubeVirt {
        let mut names = volumes_of(world)?;
        names.retain(|known| known != name);
        return (!names.is_empty()).then(|| kubevirt::spec_with_data_volumes(&names, world.instancetypes()));
    }
    let (mut devices, mut disks) = disks_of(world)?;
    devices.retain(|device| device["name"] != *name);
    disks.retain(|disk| disk["name"] != *name);
    (!disks.is_empty()).then(|| spec_with_disk_templates(&devices, &disks))
}

/// The patch after which a machine does not belong to its pool by its labels.
pub(crate) fn without_labels(platform: TestedPlatform) -> Value {
    let label = match platform {
        TestedPlatform::Dvp => labels::POOL_UID,
        TestedPlatform::KubeVirt => LABEL,
    };
    json!({ "metadata": { "labels": { (label): null } } })
}

/// The devices and the disk templates of the pool.
fn disks_of(world: &SimulatedWorld) -> Option<(Vec<Value>, Vec<Value>)> {
    let pool = stored_pool(world)?;
    let list = |pointer: &str| pool.pointer(pointer)?.as_array().cloned();
    list("/spec/virtualMachineTemplate/spec/blockDeviceRefs").zip(list("/spec/virtualDiskTemplates"))
}

/// The names of the DataVolume templates of the pool.
fn volumes_of(world: &SimulatedWorld) -> Option<Vec<String>> {
    let pool = stored_pool(world)?;
    let all = pool.pointer("/spec/virtualMachineTemplate/spec/dataVolumeTemplates")?.as_array()?;
    Some(all.iter().filter_map(|one| one["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

/// The policy of KubeVirt that corresponds to one of DVP; any other one stays.
fn sort_policy(policy: &str) -> &str {
    match policy {
        "NewestFirst" => "Newest",
        "OldestFirst" => "Oldest",
        "Explicit" => "Unmanaged",
        other => other,
    }
}
