use super::*;

/// The spec of an empty instance after an instance type was applied.
fn applied(more: Value) -> Value {
    let template = InstanceTemplate::new(json!({"spec": {}})).unwrap();
    apply_instancetype_and_preference(
        &template,
        Some(&typed_instancetype_spec(more)),
        None,
        MachineLocation::Instance,
    )
    .unwrap()
    .spec()
    .clone()
}

#[test]
fn the_least_instance_type_sets_cpu_and_memory() {
    let expected =
        json!({"domain": {"cpu": {"sockets": 2, "cores": 1, "threads": 1}, "memory": {"guest": "2Gi"}}});
    assert_eq!(applied(json!({})), expected);
}

#[rstest]
#[case::node_selector(json!({"nodeSelector": {"a": "b"}}), "/nodeSelector", json!({"a": "b"}))]
#[case::an_empty_node_selector(json!({"nodeSelector": {}}), "/nodeSelector", json!({}))]
#[case::scheduler(json!({"schedulerName": "other"}), "/schedulerName", json!("other"))]
#[case::model(json!({"cpu": {"model": "host-model"}}), "/domain/cpu/model", json!("host-model"))]
#[case::dedicated(json!({"cpu": {"dedicatedCPUPlacement": true}}), "/domain/cpu/dedicatedCpuPlacement", json!(true))]
#[case::not_dedicated(json!({"cpu": {"dedicatedCPUPlacement": false}}), "/domain/cpu/dedicatedCpuPlacement", json!(false))]
#[case::emulator(json!({"cpu": {"isolateEmulatorThread": true}}), "/domain/cpu/isolateEmulatorThread", json!(true))]
#[case::numa(json!({"cpu": {"numa": {"guestMappingPassthrough": {}}}}), "/domain/cpu/numa", json!({"guestMappingPassthrough": {}}))]
#[case::realtime(json!({"cpu": {"realtime": {"mask": "0-3"}}}), "/domain/cpu/realtime", json!({"mask": "0-3"}))]
#[case::max_sockets(json!({"cpu": {"maxSockets": 8}}), "/domain/cpu/maxSockets", json!(8))]
#[case::memory_keeps_its_spelling(json!({"memory": {"guest": "2048Mi"}}), "/domain/memory/guest", json!("2048Mi"))]
#[case::hugepages(json!({"memory": {"hugepages": {"pageSize": "2Mi"}}}), "/domain/memory/hugepages", json!({"pageSize": "2Mi"}))]
#[case::max_guest(json!({"memory": {"maxGuest": "4Gi"}}), "/domain/memory/maxGuest", json!("4Gi"))]
#[case::overcommit(json!({"memory": {"guest": "1Gi", "overcommitPercent": 15}}), "/domain/resources/requests/memory", json!("912680550"))]
#[case::io_threads(json!({"ioThreads": {"supplementalPoolThreadCount": 4}}), "/domain/ioThreads", json!({"supplementalPoolThreadCount": 4}))]
#[case::io_threads_policy(json!({"ioThreadsPolicy": "supplementalPool"}), "/domain/ioThreadsPolicy", json!("supplementalPool"))]
#[case::launch_security(json!({"launchSecurity": {"sev": {"session": "x"}}}), "/domain/launchSecurity", json!({"sev": {"session": "x"}}))]
#[case::gpus(json!({"gpus": [{"name": "a", "tag": "t"}, {"name": "b"}]}), "/domain/devices/gpus", json!([{"name": "a", "tag": "t"}, {"name": "b"}]))]
#[case::host_devices(json!({"hostDevices": [{"name": "a", "claimName": "c"}]}), "/domain/devices/hostDevices", json!([{"name": "a", "claimName": "c"}]))]
fn a_field_is_copied(#[case] more: Value, #[case] pointer: &str, #[case] expected: Value) {
    assert_eq!(applied(more).pointer(pointer), Some(&expected));
    assert_eq!(applied(json!({})).pointer(pointer).filter(|_| !pointer.ends_with("memory/guest")), None);
}

#[test]
fn without_overcommit_there_is_no_memory_request() {
    assert_eq!(applied(json!({"memory": {"overcommitPercent": 0}}))["domain"].get("resources"), None);
}

#[test]
fn max_sockets_of_the_machine_are_overwritten() {
    let template = InstanceTemplate::new(json!({"spec": {"domain": {"cpu": {"maxSockets": 2}}}})).unwrap();
    let max_sockets = |more| {
        let applied = apply_instancetype_and_preference(
            &template,
            Some(&typed_instancetype_spec(more)),
            None,
            MachineLocation::Instance,
        )
        .unwrap();
        applied.spec()["domain"]["cpu"]["maxSockets"].clone()
    };
    assert_eq!(max_sockets(json!({"cpu": {"maxSockets": 8}})), json!(8));
    assert_eq!(max_sockets(json!({})), json!(2));
}

#[test]
fn empty_lists_of_devices_leave_those_of_the_machine() {
    let template =
        InstanceTemplate::new(json!({"spec": {"domain": {"devices": {"gpus": [{"name": "mine"}]}}}}))
            .unwrap();
    let applied = apply_instancetype_and_preference(
        &template,
        Some(&typed_instancetype_spec(json!({"gpus": []}))),
        None,
        MachineLocation::Instance,
    )
    .unwrap();
    assert_eq!(applied.spec()["domain"]["devices"]["gpus"], json!([{"name": "mine"}]));
}

#[test]
fn annotations_are_added() {
    let template = InstanceTemplate::new(json!({"metadata": {"annotations": {"a": "1", "b": "2"}}})).unwrap();
    let instancetype = typed_instancetype_spec(json!({"annotations": {"a": "1", "c": "3"}}));
    let applied =
        apply_instancetype_and_preference(&template, Some(&instancetype), None, MachineLocation::Instance)
            .unwrap();
    let annotations: Vec<_> = applied.annotations().unwrap().into_iter().collect();
    let expected =
        [("a", "1"), ("b", "2"), ("c", "3")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(annotations, expected);
}
