use super::*;

fn devices(devices: Value, preferences: Value) -> Value {
    preferred(json!({"domain": {"devices": devices}}), json!({"devices": preferences}))["domain"]["devices"]
        .clone()
}

/// A default fills an empty field, and leaves the user's value.
#[rstest]
#[case::virtio_transitional("preferredUseVirtioTransitional", "useVirtioTransitional", json!(true), json!(false))]
#[case::block_multi_queue("preferredBlockMultiQueue", "blockMultiQueue", json!(true), json!(false))]
#[case::network_multi_queue("preferredNetworkInterfaceMultiQueue", "networkInterfaceMultiqueue", json!(true), json!(false))]
#[case::graphics("preferredAutoattachGraphicsDevice", "autoattachGraphicsDevice", json!(false), json!(true))]
#[case::memory_balloon("preferredAutoattachMemBalloon", "autoattachMemBalloon", json!(false), json!(true))]
#[case::pod_interface("preferredAutoattachPodInterface", "autoattachPodInterface", json!(false), json!(true))]
#[case::serial_console("preferredAutoattachSerialConsole", "autoattachSerialConsole", json!(false), json!(true))]
#[case::input_device("preferredAutoattachInputDevice", "autoattachInputDevice", json!(true), json!(false))]
#[case::rng("preferredRng", "rng", json!({}), json!({"mine": {}}))]
#[case::tpm("preferredTPM", "tpm", json!({"persistent": true}), json!({}))]
#[case::a_refused_tpm("preferredTPM", "tpm", json!({"enabled": true}), json!({"enabled": false}))]
fn a_default_fills_an_empty_field(
    #[case] preferred: &str,
    #[case] field: &str,
    #[case] default: Value,
    #[case] mine: Value,
) {
    let preferences = json!({ preferred: default });
    assert_eq!(devices(json!({}), preferences.clone()), json!({ field: default }));
    assert_eq!(devices(json!({ field: null }), preferences.clone()), json!({ field: default }));
    assert_eq!(devices(json!({ field: mine }), preferences), json!({ field: mine }));
}

#[rstest]
#[case::set(json!({"disableHotplug": false}), json!({"preferredDisableHotplug": true}), json!({"disableHotplug": true}))]
#[case::set_to_true(json!({"disableHotplug": true}), json!({"preferredDisableHotplug": false}), json!({"disableHotplug": false}))]
#[case::unset(json!({}), json!({"preferredDisableHotplug": true}), json!({"disableHotplug": true}))]
#[case::no_preference(json!({"disableHotplug": true}), json!({}), json!({"disableHotplug": true}))]
fn hotplug_is_overwritten(#[case] before: Value, #[case] preferences: Value, #[case] after: Value) {
    assert_eq!(devices(before, preferences), after);
}

#[rstest]
#[case::no_device(json!({}), json!({}))]
#[case::without_a_model(json!({"sound": {"name": "s"}}), json!({"sound": {"name": "s", "model": "ich9"}}))]
#[case::with_a_model(json!({"sound": {"model": "ac97"}}), json!({"sound": {"model": "ac97"}}))]
fn a_sound_device_that_exists_gets_its_model(#[case] before: Value, #[case] after: Value) {
    assert_eq!(devices(before, json!({"preferredSoundModel": "ich9"})), after);
}

#[rstest]
#[case::absent(json!({}), json!({"video": {"type": "vga"}}))]
#[case::without_a_type(json!({"video": {}}), json!({"video": {"type": "vga"}}))]
#[case::with_a_type(json!({"video": {"type": "virtio"}}), json!({"video": {"type": "virtio"}}))]
fn a_video_device_gets_its_type(#[case] before: Value, #[case] after: Value) {
    assert_eq!(devices(before, json!({"preferredVideoType": "vga"})), after);
}

#[rstest]
#[case::no_target_becomes_a_disk(json!({}), json!({"disk": {"bus": "virtio"}}))]
#[case::a_disk(json!({"disk": {}}), json!({"disk": {"bus": "virtio"}}))]
#[case::a_disk_with_a_bus(json!({"disk": {"bus": "scsi"}}), json!({"disk": {"bus": "scsi"}}))]
#[case::a_cdrom(json!({"cdrom": {}}), json!({"cdrom": {"bus": "sata"}}))]
#[case::a_cdrom_with_a_bus(json!({"cdrom": {"bus": "usb"}}), json!({"cdrom": {"bus": "usb"}}))]
#[case::a_lun(json!({"lun": {}}), json!({"lun": {"bus": "scsi"}}))]
#[case::a_lun_with_a_bus(json!({"lun": {"bus": "virtio"}}), json!({"lun": {"bus": "virtio"}}))]
fn a_disk_gets_the_bus_of_its_target(#[case] before: Value, #[case] after: Value) {
    let buses = json!({"preferredDiskBus": "virtio", "preferredCdromBus": "sata", "preferredLunBus": "scsi"});
    assert_eq!(devices(json!({"disks": [before]}), buses), json!({"disks": [after]}));
}

#[test]
fn only_device_preferences_turn_a_disk_without_target_into_a_disk() {
    let spec = json!({"domain": {"devices": {"disks": [{"name": "a"}]}}});
    assert_eq!(preferred(spec.clone(), json!({"cpu": {}})), spec);
    let expected = json!({"domain": {"devices": {"disks": [{"name": "a", "disk": {}}]}}});
    assert_eq!(preferred(spec, json!({"devices": {}})), expected);
}

#[rstest]
#[case::empty(json!({"disk": {}}),
    json!({"disk": {}, "blockSize": {"matchVolume": {}}, "cache": "none", "io": "native"}))]
#[case::set(json!({"disk": {}, "blockSize": {"custom": {}}, "cache": "writeback", "io": "threads"}),
    json!({"disk": {}, "blockSize": {"custom": {}}, "cache": "writeback", "io": "threads"}))]
#[case::a_cdrom_has_only_a_bus(json!({"cdrom": {}}), json!({"cdrom": {}}))]
#[case::a_lun_has_only_a_bus(json!({"lun": {}}), json!({"lun": {}}))]
fn a_disk_gets_block_size_cache_and_io_mode(#[case] before: Value, #[case] after: Value) {
    let preferences = json!({"preferredDiskBlockSize": {"matchVolume": {}}, "preferredDiskCache": "none", "preferredDiskIO": "native"});
    assert_eq!(devices(json!({"disks": [before]}), preferences), json!({"disks": [after]}));
}

#[rstest]
#[case::virtio(json!({"disk": {"bus": "virtio"}}), "sata", json!({"disk": {"bus": "virtio"}, "dedicatedIOThread": true}))]
#[case::virtio_by_preference(json!({"disk": {}}), "virtio", json!({"disk": {"bus": "virtio"}, "dedicatedIOThread": true}))]
#[case::another_bus(json!({"disk": {"bus": "sata"}}), "virtio", json!({"disk": {"bus": "sata"}}))]
#[case::set(json!({"disk": {"bus": "virtio"}, "dedicatedIOThread": false}), "sata", json!({"disk": {"bus": "virtio"}, "dedicatedIOThread": false}))]
fn only_virtio_disks_get_an_io_thread(#[case] before: Value, #[case] bus: &str, #[case] after: Value) {
    let preferences = json!({"preferredDiskDedicatedIoThread": true, "preferredDiskBus": bus});
    assert_eq!(devices(json!({"disks": [before]}), preferences), json!({"disks": [after]}));
}

#[rstest]
#[case::empty(json!({"name": "a"}), json!({"name": "a", "model": "e1000"}))]
#[case::set(json!({"name": "a", "model": "virtio"}), json!({"name": "a", "model": "virtio"}))]
fn an_interface_gets_its_model(#[case] before: Value, #[case] after: Value) {
    let preferences = json!({"preferredInterfaceModel": "e1000"});
    assert_eq!(devices(json!({"interfaces": [before]}), preferences), json!({"interfaces": [after]}));
}

#[rstest]
#[case::no_binding(json!({"name": "pod"}), true)]
#[case::dhcp_options_are_no_binding(json!({"name": "pod", "dhcpOptions": {}, "macAddress": "x", "ports": []}), true)]
#[case::a_null_binding(json!({"name": "pod", "bridge": null}), true)]
#[case::a_bridge(json!({"name": "pod", "bridge": {}}), false)]
#[case::a_plugin(json!({"name": "pod", "binding": {"name": "passt"}}), false)]
#[case::a_binding_of_the_future(json!({"name": "pod", "wormhole": {}}), false)]
#[case::another_network(json!({"name": "multus"}), false)]
#[case::a_network_whose_pod_is_null(json!({"name": "null"}), false)]
#[case::a_network_that_is_not_listed(json!({"name": "elsewhere"}), false)]
fn an_interface_without_binding_on_the_pod_network_gets_masquerade(
    #[case] interface: Value,
    #[case] added: bool,
) {
    let spec = json!({
        "networks": [{"name": "pod", "pod": {}}, {"name": "multus", "multus": {}}, {"name": "null", "pod": null}],
        "domain": {"devices": {"interfaces": [interface]}},
    });
    let spec = preferred(spec, json!({"devices": {"preferredInterfaceMasquerade": {}}}));
    let interface = &spec["domain"]["devices"]["interfaces"][0];
    assert_eq!(interface.get("masquerade"), added.then_some(&json!({})));
}

#[rstest]
#[case::empty(json!({"name": "a", "bus": ""}), json!({"name": "a", "bus": "virtio", "type": "tablet"}))]
#[case::set(json!({"bus": "usb", "type": "keyboard"}), json!({"bus": "usb", "type": "keyboard"}))]
fn an_input_gets_bus_and_type(#[case] before: Value, #[case] after: Value) {
    let preferences = json!({"preferredInputBus": "virtio", "preferredInputType": "tablet"});
    assert_eq!(devices(json!({"inputs": [before]}), preferences), json!({"inputs": [after]}));
}

#[rstest]
#[case::none(json!({}), json!({"panicDevices": [{"model": "isa"}]}))]
#[case::an_empty_list(json!({"panicDevices": []}), json!({"panicDevices": [{"model": "isa"}]}))]
#[case::some(json!({"panicDevices": [{"model": "hyperv"}, {}]}), json!({"panicDevices": [{"model": "hyperv"}, {"model": "isa"}]}))]
fn panic_devices_get_their_model(#[case] before: Value, #[case] after: Value) {
    assert_eq!(devices(before, json!({"preferredPanicDeviceModel": "isa"})), after);
}

#[test]
fn without_a_preferred_model_no_panic_device_is_added() {
    assert_eq!(devices(json!({}), json!({})), json!({}));
}

#[test]
fn options_of_virtual_gpus_have_no_effect() {
    let preferences = json!({"preferredVirtualGPUOptions": {"display": {"enabled": false}}});
    let gpus = json!({"gpus": [{"name": "a"}]});
    assert_eq!(devices(gpus.clone(), preferences), gpus);
}
