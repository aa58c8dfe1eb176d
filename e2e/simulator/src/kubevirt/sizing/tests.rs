//! The names of fields.

use super::{instancetype::SHARED, instancetype::SIZES, preference::AUTOATTACH, preference::FILLED};

/// The fields below the spec of KubeVirt's VirtualMachineInstance.
const FIELDS: &str = include_str!("../../../../../api/tests/fixtures/kubevirt/instance-fields.txt");

#[test]
fn each_field_that_is_read_or_written_is_one_of_kubevirt() {
    let flags = AUTOATTACH.map(|(flag, _)| format!("domain.devices.{flag}"));
    let (shared, filled) = (SHARED.map(|(path, _)| path.to_owned()), FILLED.map(|(path, _)| path.to_owned()));
    for path in SIZES.map(str::to_owned).into_iter().chain(flags).chain(shared).chain(filled) {
        let map = path.rsplit_once('.').map(|(map, _)| format!("{map}.*"));
        let is_known = |line: &str| {
            line.strip_prefix(&*path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
                || map.as_deref() == Some(line)
        };
        assert!(FIELDS.lines().any(is_known), "{path}");
    }
}
