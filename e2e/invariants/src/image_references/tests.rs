use rstest::rstest;
use serde_json::json;

use super::*;

const IMAGES: &str = "vmdiskimages.vmpool.dev";
const WRAPPED: &str = "wrappedvirtualmachines.vmpool.dev";
const MACHINES: &str = "virtualmachines.kubevirt.io";
const SNAPSHOTS: &str = "volumesnapshots.snapshot.storage.k8s.io";

/// A history that the check reads as it grows.
#[derive(Default)]
struct Checked {
    references: ImageReferences,
    revision: u64,
    found: Vec<String>,
    by_users: BTreeSet<String>,
}

impl Checked {
    fn change(mut self, resource: &str, name: &str, content: &Value, removed: bool) -> Self {
        self.revision += 1;
        let mut object = content.clone();
        object["metadata"]["name"] = json!(name);
        object["metadata"]["namespace"] = json!("team");
        object["metadata"]["uid"] = json!(format!("uid-{name}"));
        let object = Object::new(object);
        let change = ImageChange { resource, object: &object, removed, revision: self.revision };
        let found = self.references.observe(change, &self.by_users);
        self.found.extend(found.iter().map(ToString::to_string));
        self
    }

    fn image(self) -> Self {
        self.change(IMAGES, "debian", &json!({ "status": { "phase": "Ready" } }), false).snapshot(false)
    }

    /// The deletion timestamp of the image is set.
    fn marked(self) -> Self {
        let deleted = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        self.change(IMAGES, "debian", &deleted, false)
    }

    fn gone(self) -> Self {
        self.change(IMAGES, "debian", &json!({}), true)
    }

    fn snapshot(self, removed: bool) -> Self {
        let owner = json!([{ "uid": "uid-debian", "controller": true }]);
        self.change(
            SNAPSHOTS,
            "debian-snapshot",
            &json!({ "metadata": { "ownerReferences": owner } }),
            removed,
        )
    }

    fn machine(self, removed: bool) -> Self {
        let spec = json!({ "sourceRef": { "kind": "DataSource", "name": "debian" } });
        self.change(
            MACHINES,
            "web",
            &json!({ "spec": { "dataVolumeTemplates": [{ "spec": spec }] } }),
            removed,
        )
    }

    fn wrapper(self, bound: bool) -> Self {
        let mark = json!({ "uid": "uid-debian", "bound": bound });
        self.change(WRAPPED, "wrapper", &json!({ "status": { "vmDiskImage": mark } }), false)
    }

    /// A machine of the wrapper.
    fn wrapped(self) -> Self {
        let owner =
            json!([{ "apiVersion": "vmpool.dev/v1alpha1", "uid": "uid-wrapper", "controller": true }]);
        self.change(MACHINES, "wrapped", &json!({ "metadata": { "ownerReferences": owner } }), false)
    }
}

#[rstest]
#[case::without_references(Checked::default().image().marked().snapshot(true).gone(), 0)]
#[case::after_the_last_reference(Checked::default().image().machine(false).marked().machine(true).snapshot(true).gone(), 0)]
#[case::a_machine_that_came_after_the_deletion(Checked::default().image().marked().machine(false).snapshot(true).gone(), 0)]
#[case::a_machine_before_the_deletion(Checked::default().image().machine(false).marked().snapshot(true).gone(), 2)]
#[case::a_machine_before_the_image(Checked::default().machine(false).image().marked().gone(), 1)]
#[case::a_mark_that_came_after_the_deletion(Checked::default().image().marked().wrapper(false).gone(), 0)]
#[case::a_mark_before_the_deletion(Checked::default().image().wrapper(false).marked().gone(), 1)]
#[case::a_bound_wrapper(Checked::default().image().marked().wrapper(false).wrapper(true).gone(), 1)]
#[case::lost_data_is_imported_again(Checked::default().image().machine(false).snapshot(true), 0)]
fn an_image_is_deleted_after_its_references(#[case] checked: Checked, #[case] violations: usize) {
    assert_eq!(checked.found.len(), violations, "{:#?}", checked.found);
    assert!(checked.found.iter().all(|violation| violation.starts_with("I11: ")));
}

#[test]
fn a_user_may_release_an_image_and_delete_its_data() {
    let released = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z",
        "annotations": { "vmpool.dev/force-release": "true" } } });
    let checked = Checked::default().image().machine(false).change(IMAGES, "debian", &released, false);
    assert!(checked.references.is_released("uid-debian"));
    let checked = checked.snapshot(true);
    assert_eq!(checked.found, [""; 0]);
    let mut checked = Checked::default().image().machine(false).marked();
    checked.by_users.insert("uid-debian-snapshot".to_owned());
    let checked = checked.snapshot(true);
    assert_eq!(checked.found, [""; 0]);
    assert_eq!(checked.references.holders("uid-debian"), ["virtualmachines.kubevirt.io web"]);
}

#[rstest]
#[case::bound(Checked::default().image().wrapper(true).wrapped(), 0)]
#[case::not_bound(Checked::default().image().wrapper(false).wrapped(), 1)]
#[case::a_wrapper_that_is_gone(Checked::default().image().wrapped(), 0)]
#[case::never_ready(
    Checked::default().change(IMAGES, "debian", &json!({}), false).wrapper(true).wrapped(), 1)]
fn a_wrapper_gets_a_machine_after_its_image_was_ready(#[case] checked: Checked, #[case] violations: usize) {
    assert_eq!(checked.found.len(), violations, "{:#?}", checked.found);
}
