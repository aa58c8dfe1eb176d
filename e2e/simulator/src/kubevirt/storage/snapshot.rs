//! The snapshot controller with its CSI driver: a VolumeSnapshot becomes a content that can be restored.

use super::source::CloneSource;
use crate::{
    kubevirt::{
        model::KubeVirtModel,
        objects::{
            KubeVirtObjectId, KubeVirtObjectKind, SNAPSHOT, SnapshotError, SnapshotStatus, SnapshotView,
        },
    },
    objects::{NamespacedKey, format_seconds},
    shared::{delay_end, outbox::status_merge_patch},
};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The finalizers of a snapshot: one for its content, one for the volumes that are restored from it.
const FINALIZERS: [&str; 2] = [
    "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection",
    "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection",
];
/// The driver of all snapshots.
const DRIVER: &str = "csi.simulator.vmpool.dev";

impl KubeVirtModel {
    /// One pass over a snapshot.
    pub(crate) fn plan_snapshot(&mut self, key: &NamespacedKey, now: Timestamp) {
        let Some(snapshot) = self.snapshots.view(key).cloned() else { return };
        let id = KubeVirtObjectId::new(KubeVirtObjectKind::Snapshot, key);
        if snapshot.meta.deleting() {
            return self.release_snapshot(&id, &snapshot, now);
        }
        if FINALIZERS.iter().any(|name| !snapshot.meta.has_finalizer(name)) {
            let others = snapshot.meta.finalizers.iter().map(String::as_str);
            let all: Vec<&str> = others.filter(|name| !FINALIZERS.contains(name)).chain(FINALIZERS).collect();
            self.patch(&id, json!({"metadata": {"finalizers": all}}), now);
            return;
        }
        let Some(status) = self.snapshot_status(key, &snapshot, now) else { return };
        if let Some(status) = status_merge_patch(&snapshot.status, &status) {
            self.patch_status(&id, &status, now);
        }
    }

    /// The status that the snapshot must have; `None` while its content is being created.
    fn snapshot_status(
        &mut self,
        key: &NamespacedKey,
        view: &SnapshotView,
        now: Timestamp,
    ) -> Option<SnapshotStatus> {
        let mut status = view.status.clone();
        let knobs = self.knobs_for(key, view.knobs.as_deref());
        let (error, hold) =
            (knobs.get(|knobs| knobs.snapshot_error.clone()), knobs.is(|knobs| knobs.hold_snapshot));
        let delay = knobs.get(|knobs| knobs.snapshot_delay).unwrap_or(self.settings.provisioning_delay);
        let fail = |status: &mut SnapshotStatus, message: String| {
            status.ready_to_use = Some(false);
            if status.error.as_ref().is_none_or(|known| known.message != message) {
                status.error = Some(SnapshotError { message, time: format_seconds(now) });
            }
        };
        if let Some(message) = error {
            fail(&mut status, message);
            return Some(status);
        }
        if view.status.bound_volume_snapshot_content_name.is_some() {
            // The content is not made again: its data is gone.
            if self.contents.view(&view.content()).is_none() {
                fail(&mut status, "VolumeSnapshotContent is missing".to_owned());
            } else if hold {
                status.ready_to_use = Some(false);
            } else {
                status.ready_to_use = Some(true);
                status.error = None;
            }
            return Some(status);
        }
        let claim = view.claim.as_deref().and_then(|name| self.claims.view(&key.sibling(name))).cloned();
        let Some(claim) = claim.filter(|claim| claim.phase.as_deref() == Some("Bound")) else {
            let name = view.claim.as_deref().unwrap_or_default();
            fail(&mut status, format!("the source claim {name} does not exist or is not bound"));
            return Some(status);
        };
        let since = *self.snapshots.slot(key)?.memory.since.get_or_insert(now);
        match delay_end(since, delay).filter(|_| !hold) {
            Some(at) if at <= now => {}
            Some(at) => {
                self.agenda.wake(KubeVirtObjectId::new(KubeVirtObjectKind::Snapshot, key), at);
                return Some(SnapshotStatus { ready_to_use: Some(false), error: None, ..status });
            }
            None => return Some(SnapshotStatus { ready_to_use: Some(false), error: None, ..status }),
        }
        let content = view.content();
        if self.contents.view(&content).is_none() {
            self.create(
                &KubeVirtObjectId::new(KubeVirtObjectKind::Content, &content),
                content_body(key, view),
                now,
            );
            return None;
        }
        let size = claim.spec["resources"]["requests"]["storage"].as_str().map(str::to_owned);
        Some(SnapshotStatus {
            bound_volume_snapshot_content_name: Some(content.name.to_string()),
            creation_time: Some(format_seconds(now)),
            ready_to_use: Some(true),
            restore_size: size,
            error: None,
        })
    }

    /// A deleted snapshot stays while a volume is restored from it. Then its content goes, then its
    /// finalizers.
    fn release_snapshot(&mut self, id: &KubeVirtObjectId, view: &SnapshotView, now: Timestamp) {
        let restores = self.data_volumes.views().any(|(key, volume)| {
            let running = volume.status.phase.ends_with("InProgress");
            running
                && CloneSource::read(key, &volume.spec["source"])
                    == Some(CloneSource::Snapshot(id.key.clone()))
        });
        if restores {
            return;
        }
        let content = view.content();
        if let Some(found) = self.contents.view(&content).cloned() {
            if !found.meta.deleting() {
                self.delete(
                    &KubeVirtObjectId::new(KubeVirtObjectKind::Content, &content),
                    &found.meta.uid,
                    false,
                    now,
                );
            }
            return;
        }
        let kept: Vec<&String> =
            view.meta.finalizers.iter().filter(|name| !FINALIZERS.contains(&name.as_str())).collect();
        if kept.len() < view.meta.finalizers.len() {
            self.patch(id, json!({"metadata": {"finalizers": kept}}), now);
        }
    }
}

fn content_body(key: &NamespacedKey, view: &SnapshotView) -> Value {
    json!({
        "apiVersion": SNAPSHOT,
        "kind": "VolumeSnapshotContent",
        "metadata": {"name": *view.content().name},
        "spec": {
            "deletionPolicy": "Delete",
            "driver": DRIVER,
            "source": {"volumeHandle": *view.meta.uid},
            "volumeSnapshotRef": {
                "apiVersion": SNAPSHOT, "kind": "VolumeSnapshot",
                "namespace": *key.namespace, "name": *key.name, "uid": *view.meta.uid,
            },
        },
    })
}
