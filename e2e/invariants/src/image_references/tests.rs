use rstest::rstest;
use serde_json::json;

use super::*;

const IMAGES: &str = "vmdiskimages.vmpool.dev";
const WRAPPED: &str = "wrappedvirtualmachines.vmpool.dev";
const MACHINES: &str = "virtualmachines.kubevirt.io";
const VOLUMES: &str = "datavolumes.cdi.kubevirt.io";
const CLAIMS: &str = "persistentvolumeclaims";
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
    fn change(self, resource: &str, name: &str, content: &Value, removed: bool) -> Self {
        self.change_in("team", resource, name, content, removed)
    }

    fn change_in(
        mut self,
        namespace: &str,
        resource: &str,
        name: &str,
        content: &Value,
        removed: bool,
    ) -> Self {
        self.revision += 1;
        let mut object = content.clone();
        object["metadata"]["name"] = json!(name);
        object["metadata"]["namespace"] = json!(namespace);
        object["metadata"]["uid"] = json!(format!("uid-{name}"));
        let object = JsonObject::new(object);
        let change = ImageChange { resource, object: &object, removed, revision: self.revision };
        let found = self.references.observe(change, &self.by_users);
        self.found.extend(found.iter().map(ToString::to_string));
        self
    }

    fn image(self) -> Self {
        self.image_in("Ready").snapshot(false)
    }

    /// An image in this phase, without its data.
    fn image_in(self, phase: &str) -> Self {
        self.change(IMAGES, "debian", &json!({ "status": { "phase": phase } }), false)
    }

    /// The deletion timestamp of the image is set.
    fn marked(self) -> Self {
        self.marked_with(&[IMAGE_PROTECTION])
    }

    /// The deletion timestamp of the image is set, and the image has these finalizers.
    fn marked_with(self, finalizers: &[&str]) -> Self {
        self.marked_in("Ready", finalizers)
    }

    fn marked_in(self, phase: &str, finalizers: &[&str]) -> Self {
        let metadata = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers });
        let image = json!({ "metadata": metadata, "status": { "phase": phase } });
        self.change(IMAGES, "debian", &image, false)
    }

    /// The status of the ready image names this snapshot.
    fn ready_with(self, snapshot: &str) -> Self {
        let status = json!({ "phase": "Ready", "snapshot": { "uid": snapshot } });
        self.change(IMAGES, "debian", &json!({ "status": status }), false)
    }

    fn gone(self) -> Self {
        self.change(IMAGES, "debian", &json!({}), true)
    }

    fn snapshot(self, removed: bool) -> Self {
        let labels = json!({ "vmpool.dev/vmdiskimage-uid": "uid-debian" });
        self.change(SNAPSHOTS, "debian-snapshot", &json!({ "metadata": { "labels": labels } }), removed)
    }

    /// A snapshot that the image owns.
    fn owned_snapshot(self, removed: bool) -> Self {
        let metadata = json!({ "labels": { "vmpool.dev/vmdiskimage-uid": "uid-debian" },
            "ownerReferences": [{ "apiVersion": "vmpool.dev/v1alpha1", "uid": "uid-debian" }] });
        self.change(SNAPSHOTS, "debian-snapshot", &json!({ "metadata": metadata }), removed)
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

    fn grant(self, removed: bool) -> Self {
        let content = json!({ "spec": { "from": [{ "namespace": "guests" }] } });
        self.change("vmdiskimagegrants.vmpool.dev", "grant", &content, removed)
    }

    /// A wrapper of another namespace.
    fn guest(self, bound: bool) -> Self {
        let mark = json!({ "uid": "uid-debian", "bound": bound });
        let content = json!({ "status": { "vmDiskImage": mark } });
        self.change_in("guests", WRAPPED, "guest", &content, false)
    }

    /// The permission for an account of the other namespace.
    fn permission(self) -> Self {
        let labels = json!({ "vmpool.dev/vmdiskimage-uid": "uid-debian" });
        let content = json!({ "metadata": { "labels": labels },
            "subjects": [{ "kind": "ServiceAccount", "name": "default", "namespace": "guests" }] });
        self.change("rolebindings.rbac.authorization.k8s.io", "clone", &content, false)
    }

    /// A clone in the other namespace.
    fn clone_of_guest(self) -> Self {
        let content =
            json!({ "spec": { "source": { "snapshot": { "name": "debian", "namespace": "team" } } } });
        self.change_in("guests", "datavolumes.cdi.kubevirt.io", "guest-root", &content, false)
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
#[case::an_image_that_had_no_finalizer_yet(Checked::default().image().machine(false).marked_with(&["orphan"]).gone(), 0)]
#[case::a_machine_before_the_image(Checked::default().machine(false).image().marked().gone(), 1)]
#[case::a_mark_that_came_after_the_deletion(Checked::default().image().marked().wrapper(false).gone(), 0)]
#[case::a_mark_before_the_deletion(Checked::default().image().wrapper(false).marked().gone(), 1)]
#[case::a_bound_wrapper(Checked::default().image().marked().wrapper(false).wrapper(true).gone(), 1)]
#[case::a_machine_that_changes_after_the_deletion(
    Checked::default().image().machine(false).marked().machine(false).snapshot(true).gone(), 2)]
#[case::a_mark_that_is_written_again(
    Checked::default().image().wrapper(false).marked().wrapper(false).gone(), 1)]
#[case::a_new_snapshot_of_an_image_that_is_not_ready_yet(
    Checked::default().image_in("Syncing").machine(false).owned_snapshot(false).marked_in("Syncing", &[IMAGE_PROTECTION])
        .owned_snapshot(true), 0)]
#[case::a_snapshot_that_a_ready_image_owns(
    Checked::default().machine(false).owned_snapshot(false).ready_with("uid-debian-snapshot").marked().owned_snapshot(true), 1)]
#[case::a_snapshot_that_replaces_the_one_of_a_ready_image(
    Checked::default().ready_with("uid-lost").machine(false).owned_snapshot(false).marked().owned_snapshot(true), 0)]
#[case::lost_data_is_imported_again(Checked::default().image().machine(false).snapshot(true), 0)]
fn an_image_is_deleted_after_its_references(#[case] checked: Checked, #[case] violations: usize) {
    assert_eq!(checked.found.len(), violations, "{:#?}", checked.found);
    assert!(checked.found.iter().all(|violation| violation.starts_with("I11: ")));
}

#[rstest]
#[case::with_a_grant(Checked::default().image().grant(false).guest(true).marked().gone(), 1)]
#[case::without_a_grant(Checked::default().image().guest(true).marked().gone(), 0)]
#[case::after_the_grant_was_removed(
    Checked::default().image().grant(false).guest(true).grant(true).marked().gone(), 0)]
#[case::with_a_grant_that_came_after_the_deletion(
    Checked::default().image().guest(true).marked().grant(false).gone(), 0)]
fn a_reference_of_another_namespace_needs_a_grant(#[case] checked: Checked, #[case] violations: usize) {
    assert_eq!(checked.found.len(), violations, "{:#?}", checked.found);
}

#[rstest]
#[case::a_permission_with_a_grant(Checked::default().image().grant(false).permission(), 0)]
#[case::a_permission_without(Checked::default().image().permission(), 1)]
#[case::a_clone_with_a_grant(Checked::default().image().grant(false).clone_of_guest(), 0)]
#[case::a_clone_without(Checked::default().image().clone_of_guest(), 1)]
fn nothing_is_cloned_without_a_grant(#[case] checked: Checked, #[case] violations: usize) {
    assert_eq!(checked.found.len(), violations, "{:#?}", checked.found);
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

#[test]
fn an_account_may_clone_while_a_granted_object_of_it_refers_to_the_image() {
    let guest = |account: &str| {
        json!({ "spec": {
            "dataVolumeTemplates": [{ "spec": { "sourceRef": { "name": "debian", "namespace": "team" } } }],
            "template": { "spec": { "serviceAccountName": account } },
        } })
    };
    let grant = json!({ "spec": { "from": [{ "namespace": "guests" }] } });
    let may =
        |checked: &Checked, account: &str| checked.references.may_clone("uid-debian", "guests", account);
    let both = Checked::default().image().change_in("guests", MACHINES, "a", &guest("one"), false).change_in(
        "guests",
        MACHINES,
        "b",
        &guest("two"),
        false,
    );
    assert!(!may(&both, "one"), "no grant");
    let granted = both.change("vmdiskimagegrants.vmpool.dev", "g", &grant, false);
    assert!(may(&granted, "one") && may(&granted, "two") && !may(&granted, "default"));
    let left = granted.change_in("guests", MACHINES, "a", &guest("one"), true);
    assert!(!may(&left, "one") && may(&left, "two"), "one of two objects is gone");
    let ended = left.change("vmdiskimagegrants.vmpool.dev", "g", &grant, true);
    assert!(!may(&ended, "two"), "the grant is gone");
}

#[rstest]
#[case::with_its_claim(false, 1)]
#[case::after_its_claim_was_deleted(true, 0)]
fn a_data_volume_without_a_claim_has_no_data_to_lose(
    #[case] is_claim_deleted: bool,
    #[case] expected: usize,
) {
    let labels = json!({ "vmpool.dev/vmdiskimage-uid": "uid-debian" });
    let volume = json!({ "metadata": { "labels": labels }, "status": { "claimName": "debian", "phase": "Succeeded" } });
    let change = |history: Checked, resource: &str, removed: bool| {
        history.change(resource, "debian", if resource == CLAIMS { &Value::Null } else { &volume }, removed)
    };
    let history = change(change(Checked::default().image(), VOLUMES, false), CLAIMS, false);
    let history = history.machine(false).marked();
    let history = if is_claim_deleted { change(history, CLAIMS, true) } else { history };
    assert_eq!(change(history, VOLUMES, true).found.len(), expected);
}
