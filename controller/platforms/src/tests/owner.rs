//! Owners of objects of each platform: the group and the kind must be its own.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_engine::ObjectId;
use vmpool_engine::model::{Owner, OwnerKind};

use crate::{Dvp, KubeVirt, Platform, is_controlled_by, owner_of, shared_owner_of};

type Pool = <KubeVirt as Platform>::Pool;
type Machine = <KubeVirt as Platform>::Machine;

const UID: &str = "uid-of-the-pool";

/// Metadata with this owner as the controller.
fn owned(api_version: &str, kind: &str, name: &str, uid: &str) -> ObjectMeta {
    serde_json::from_value(json!({ "name": "web-0", "namespace": "evil", "ownerReferences": [
        { "apiVersion": "v1", "kind": "ConfigMap", "name": "first", "uid": UID },
        { "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true },
    ] }))
    .unwrap()
}

fn read<P: Platform>(metadata: &ObjectMeta) -> Option<Owner> {
    let owner = owner_of::<P::Pool, P::Machine>(metadata);
    assert_eq!(shared_owner_of::<P::Pool, P::Machine>(metadata).as_deref(), owner.as_ref());
    let pool = ObjectId::new("web", UID);
    assert_eq!(
        is_controlled_by::<P::Pool>(metadata, &pool),
        owner.as_ref().is_some_and(|owner| owner.is_pool(&pool))
    );
    owner
}

#[rstest]
#[case::its_own_version("virtualization.deckhouse.io/v1alpha2", "VirtualMachinePool", OwnerKind::Pool)]
#[case::another_version("virtualization.deckhouse.io/v1alpha3", "VirtualMachinePool", OwnerKind::Pool)]
#[case::a_machine("virtualization.deckhouse.io/v1alpha2", "VirtualMachine", OwnerKind::Machine)]
#[case::another_kind("virtualization.deckhouse.io/v1alpha2", "VirtualDisk", OwnerKind::Other)]
#[case::an_unknown_group("no.such.group/v1", "VirtualMachinePool", OwnerKind::Other)]
#[case::no_group("v1", "VirtualMachinePool", OwnerKind::Other)]
#[case::a_longer_group("x.virtualization.deckhouse.io/v1alpha2", "VirtualMachinePool", OwnerKind::Other)]
#[case::of_another_platform("pool.kubevirt.io/v1beta1", "VirtualMachinePool", OwnerKind::Other)]
fn group_and_kind_of_a_dvp_owner(#[case] api_version: &str, #[case] kind: &str, #[case] expected: OwnerKind) {
    let owner = read::<Dvp>(&owned(api_version, kind, "web", UID));
    assert_eq!(owner, Some(Owner { kind: expected, id: ObjectId::new("web", UID) }));
}

#[rstest]
#[case::the_version_of_vmpool("pool.kubevirt.io/v1beta1", "VirtualMachinePool", OwnerKind::Pool)]
#[case::the_version_of_virt_controller("pool.kubevirt.io/v1alpha1", "VirtualMachinePool", OwnerKind::Pool)]
#[case::a_machine("kubevirt.io/v1", "VirtualMachine", OwnerKind::Machine)]
#[case::the_group_of_machines("kubevirt.io/v1", "VirtualMachinePool", OwnerKind::Other)]
#[case::the_group_of_pools("pool.kubevirt.io/v1beta1", "VirtualMachine", OwnerKind::Other)]
#[case::an_unknown_group("no.such.group/v1", "VirtualMachinePool", OwnerKind::Other)]
#[case::of_another_platform("virtualization.deckhouse.io/v1alpha2", "VirtualMachinePool", OwnerKind::Other)]
fn group_and_kind_of_a_kubevirt_owner(
    #[case] api_version: &str,
    #[case] kind: &str,
    #[case] expected: OwnerKind,
) {
    let owner = read::<KubeVirt>(&owned(api_version, kind, "web", UID));
    assert_eq!(owner, Some(Owner { kind: expected, id: ObjectId::new("web", UID) }));
}

#[test]
fn machines_of_a_pool_share_their_owner_and_its_texts() {
    let metadata = owned("pool.kubevirt.io/v1beta1", "VirtualMachinePool", "web", UID);
    let shared = || shared_owner_of::<Pool, Machine>(&metadata).unwrap();
    assert!(Arc::ptr_eq(&shared(), &shared()));
    let owner = owner_of::<Pool, Machine>(&metadata).unwrap();
    assert!(Arc::ptr_eq(&owner.id.name, &shared().id.name));
    assert_eq!(size_of::<Option<Arc<Owner>>>(), 8, "less than the UID alone");
    assert!(size_of::<Option<Owner>>() <= 40, "eight bytes more than name and UID");
}

#[test]
fn only_the_controller_owns() {
    let none: Value = json!({ "ownerReferences": [
        { "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "web", "uid": UID },
    ] });
    let none: ObjectMeta = serde_json::from_value(none).unwrap();
    assert_eq!(read::<KubeVirt>(&none), None);
}
