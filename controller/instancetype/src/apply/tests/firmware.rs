use super::*;

#[rstest]
#[case::bios(json!({"preferredUseBios": true}), json!({}), json!({"bios": {}}))]
#[case::bios_false_chooses_nothing(json!({"preferredUseBios": false}), json!({}), json!({}))]
#[case::bios_of_the_user(json!({"preferredUseBios": true}), json!({"bios": {"useSerial": true}}), json!({"bios": {"useSerial": true}}))]
#[case::efi_of_the_user(json!({"preferredUseBios": true}), json!({"efi": {}}), json!({"efi": {}}))]
#[case::bios_with_serial(json!({"preferredUseBios": true, "preferredUseBiosSerial": true}), json!({}), json!({"bios": {"useSerial": true}}))]
#[case::serial_for_bios_of_the_user(json!({"preferredUseBiosSerial": true}), json!({"bios": {}}), json!({"bios": {"useSerial": true}}))]
#[case::serial_of_the_user(json!({"preferredUseBiosSerial": true}), json!({"bios": {"useSerial": false}}), json!({"bios": {"useSerial": false}}))]
#[case::serial_without_bios(json!({"preferredUseBiosSerial": true}), json!({}), json!({}))]
#[case::bios_before_efi(json!({"preferredUseBios": true, "preferredEfi": {}, "preferredUseEfi": true}), json!({}), json!({"bios": {}}))]
#[case::efi(json!({"preferredEfi": {"persistent": true}}), json!({}), json!({"efi": {"persistent": true}}))]
#[case::efi_is_not_merged(json!({"preferredEfi": {"persistent": true}}), json!({"efi": {"secureBoot": false}}), json!({"efi": {"secureBoot": false}}))]
#[case::efi_for_bios_of_the_user(json!({"preferredEfi": {}}), json!({"bios": {}}), json!({"bios": {}}))]
#[case::efi_stops_there(json!({"preferredEfi": {}, "preferredUseSecureBoot": true}), json!({}), json!({"efi": {}}))]
#[case::deprecated_efi(json!({"preferredUseEfi": true}), json!({}), json!({"efi": {}}))]
#[case::deprecated_efi_false(json!({"preferredUseEfi": false}), json!({}), json!({}))]
#[case::deprecated_efi_with_secure_boot(json!({"preferredUseEfi": true, "preferredUseSecureBoot": true}), json!({}), json!({"efi": {"secureBoot": true}}))]
#[case::secure_boot_for_efi_of_the_user(json!({"preferredUseSecureBoot": true}), json!({"efi": {}}), json!({"efi": {"secureBoot": true}}))]
#[case::secure_boot_of_the_user(json!({"preferredUseSecureBoot": true}), json!({"efi": {"secureBoot": false}}), json!({"efi": {"secureBoot": false}}))]
#[case::secure_boot_without_efi(json!({"preferredUseSecureBoot": true}), json!({}), json!({}))]
#[case::null_is_no_bootloader(json!({"preferredEfi": {}}), json!({"bios": null, "efi": null}), json!({"bios": null, "efi": {}}))]
fn the_bootloader_is_chosen(#[case] preferences: Value, #[case] before: Value, #[case] after: Value) {
    let spec = json!({"domain": {"firmware": {"bootloader": before}}});
    let spec = preferred(spec, json!({"firmware": preferences}));
    assert_eq!(spec["domain"]["firmware"]["bootloader"], after);
}

#[test]
fn a_machine_without_firmware_gets_it_only_with_a_bootloader() {
    assert_eq!(preferred(json!({}), json!({"firmware": {"preferredUseSecureBoot": true}})), json!({}));
    let expected = json!({"domain": {"firmware": {"bootloader": {"bios": {}}}}});
    assert_eq!(preferred(json!({}), json!({"firmware": {"preferredUseBios": true}})), expected);
}
