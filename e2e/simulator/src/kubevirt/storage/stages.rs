//! The table of phases of a DataVolume: what follows a phase, and when.

use super::source::CloneSource;
use crate::{
    duration::Delay,
    kubevirt::{
        model::KubeVirtModel,
        objects::{ALLOW_ADOPTION, CDI, DataVolumeView, KubeVirtObjectId, KubeVirtObjectKind},
        writes::controller_reference,
    },
    objects::{BindingMode, NamespacedKey},
    shared::delay_end,
};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Annotation of a claim with the UID of the DataVolume that it was created for.
pub(super) const CREATED_FOR: &str = "cdi.kubevirt.io/createdForDataVolume";
/// Annotation with which CDI populates the claim through a volume populator.
const USE_POPULATOR: &str = "cdi.kubevirt.io/storage.usePopulator";

/// Annotation of a DataVolume whose claim CDI must not fill.
const PREPOPULATED: &str = "cdi.kubevirt.io/storage.prePopulated";

/// Annotation of a DataVolume that waits for an upload, with the value `true`: a user has sent the data.
const UPLOADED: &str = "simulator.vmpool.dev/uploaded";

/// The phases of a copy, before the last one.
fn copy_phases(
    key: &NamespacedKey,
    spec: &Value,
    source: Option<&CloneSource>,
    smart: bool,
) -> &'static [&'static str] {
    let near = source.is_none_or(|source| source.key().namespace == key.namespace);
    match source {
        Some(CloneSource::Snapshot(_)) if near => &["CloneScheduled", "CloneFromSnapshotSourceInProgress"],
        Some(CloneSource::Snapshot(_)) => {
            &["CloneScheduled", "CloneFromSnapshotSourceInProgress", "NamespaceTransferInProgress"]
        }
        Some(CloneSource::Claim(_)) if smart => &[
            "CloneScheduled",
            "SnapshotForSmartCloneInProgress",
            "CloneFromSnapshotSourceInProgress",
            "RebindInProgress",
        ],
        Some(CloneSource::Claim(_)) => &["CloneScheduled", "CloneInProgress"],
        // Its DataSource is missing.
        None if spec["sourceRef"].is_object() => &["CloneScheduled", "CloneInProgress"],
        None if spec["source"]["upload"].is_object() => &["UploadScheduled", "UploadReady"],
        None => &["ImportScheduled", "ImportInProgress"],
    }
}

/// What a DataVolume in phase `Pending` sees of its claim.
enum Claim {
    /// It must be created.
    Missing,
    /// It must be adopted.
    Free,
    /// It is the DataVolume's, and empty.
    Empty,
    /// It is the DataVolume's, and has content.
    Populated,
    /// It is not usable.
    Foreign,
}

impl KubeVirtModel {
    /// Takes every step that is due, and wakes the DataVolume for the next one.
    pub(super) fn advance_data_volume(
        &mut self,
        key: &NamespacedKey,
        view: &DataVolumeView,
        stage: &mut (String, Timestamp),
        now: Timestamp,
    ) {
        while let Some((at, phase)) = self.next_phase(key, view, stage, now) {
            if at > now {
                return self.agenda.wake(KubeVirtObjectId::new(KubeVirtObjectKind::DataVolume, key), at);
            }
            if phase == "Failed" {
                self.spend_failure(key, view);
            }
            *stage = (phase, now);
            self.mark(KubeVirtObjectKind::Claim, key);
        }
        if stage.0 == "Pending" {
            self.prepare_claim(key, view, now);
        }
        if stage.0 == "ImportInProgress" {
            self.download(key, view, now);
        }
    }

    /// The table.
    fn next_phase(
        &self,
        key: &NamespacedKey,
        view: &DataVolumeView,
        (phase, since): &(String, Timestamp),
        now: Timestamp,
    ) -> Option<(Timestamp, String)> {
        let knobs = self.knobs_of_data_volume(key, view);
        if let Some(held) = knobs.get(|knobs| knobs.hold_phase.clone()) {
            return (*phase != held).then_some((now, held));
        }
        let delay = knobs.get(|knobs| knobs.provisioning_delay).unwrap_or(self.settings.provisioning_delay);
        let source = self.clone_source(key, &view.spec).and_then(Result::ok);
        let smart = knobs.is(|knobs| knobs.smart_clone);
        let phases = copy_phases(key, &view.spec, source.as_ref(), smart);
        let first = phases[0];
        let part = match delay {
            Delay::After(delay) => Delay::After(delay / u32::try_from(phases.len()).unwrap_or(2)),
            Delay::Never => Delay::Never,
        };
        let at_once = |phase: &str| Some((now, phase.to_owned()));
        let later = |phase: &str| Some((delay_end(*since, part)?, phase.to_owned()));
        match &**phase {
            "" => at_once("Pending"),
            "Pending" => match self.claim_state(key, view) {
                Claim::Populated => at_once("Succeeded"),
                Claim::Empty => match self.binding(view)? {
                    BindingMode::WaitForFirstConsumer if !self.has_consumer(key) => {
                        let populator =
                            view.meta.annotations.get(USE_POPULATOR).is_some_and(|value| value == "true");
                        at_once(if populator { "PendingPopulation" } else { "WaitForFirstConsumer" })
                    }
                    _ => at_once(first),
                },
                Claim::Missing | Claim::Free | Claim::Foreign => None,
            },
            "WaitForFirstConsumer" | "PendingPopulation" => {
                if self.has_consumer(key) {
                    at_once(first)
                } else {
                    None
                }
            }
            // CDI fills a new claim by itself.
            "Succeeded" if self.claims.view(key).is_none() && !is_prepopulated(view) => at_once("Pending"),
            "UploadReady" if is_uploaded(view) => at_once("Succeeded"),
            "Succeeded" | "Failed" | "UploadReady" => None,
            // A clone waits for its source.
            scheduled if scheduled == first && self.missing_source(key, view).is_some() => None,
            copying if phases[1..].contains(&copying) && self.stopped(key, view).is_some() => None,
            phase if phases[..phases.len() - 1].contains(&phase) => {
                let at = phases.iter().position(|known| *known == phase)?;
                later(phases[at + 1])
            }
            // Also phases in which the knob `hold-phase` held the DataVolume.
            _ => later(if self.must_fail(key, view) { "Failed" } else { "Succeeded" }),
        }
    }

    /// What a clone waits for.
    pub(super) fn missing_source(&self, key: &NamespacedKey, view: &DataVolumeView) -> Option<String> {
        let source = self.clone_source(key, &view.spec)?;
        source.and_then(|source| self.source_ready(&source)).err()
    }

    /// Why the copy does not proceed: reason and message. Without a reason it runs.
    pub(super) fn stopped(
        &self,
        key: &NamespacedKey,
        view: &DataVolumeView,
    ) -> Option<(String, Option<String>)> {
        let knobs = self.knobs_of_data_volume(key, view);
        let message = knobs.get(|knobs| knobs.import_message.clone());
        let error = knobs.get(|knobs| knobs.import_error.clone());
        if error.is_some() || message.is_some() {
            return Some((error.unwrap_or_else(|| "Error".to_owned()), message));
        }
        self.download_state(key, view)
    }

    fn claim_state(&self, key: &NamespacedKey, view: &DataVolumeView) -> Claim {
        let Some(claim) = self.claims.view(key) else { return Claim::Missing };
        let adoptable = view.meta.annotations.get(ALLOW_ADOPTION).is_some_and(|value| value == "true");
        match claim.meta.controller() {
            _ if claim.meta.deleting() => Claim::Foreign,
            Some(owner) if *owner.uid == *view.meta.uid => {
                let created_for = claim.meta.annotations.get(CREATED_FOR);
                let own = created_for.is_some_and(|uid| **uid == *view.meta.uid);
                if own { Claim::Empty } else { Claim::Populated }
            }
            None if adoptable => Claim::Free,
            _ => Claim::Foreign,
        }
    }

    fn prepare_claim(&mut self, key: &NamespacedKey, view: &DataVolumeView, now: Timestamp) {
        let id = KubeVirtObjectId::new(KubeVirtObjectKind::Claim, key);
        let owner = controller_reference(CDI, "DataVolume", key, &view.meta);
        match self.claim_state(key, view) {
            Claim::Missing => drop(self.create(&id, claim_body(key, view, &owner), now)),
            Claim::Free => {
                let owners = self.claims.view(key).map(|claim| claim.meta.owners.clone()).unwrap_or_default();
                let all: Vec<Value> = owners.iter().map(|owner| json!(owner)).chain([owner]).collect();
                self.patch(&id, json!({"metadata": {"ownerReferences": all}}), now);
            }
            Claim::Empty | Claim::Populated | Claim::Foreign => {}
        }
    }

    /// When the storage class makes volumes; `None` while the class does not exist. Without a class and a
    /// default class the volume is made at once.
    fn binding(&self, view: &DataVolumeView) -> Option<BindingMode> {
        let default = || self.classes.values().find(|class| class.is_default);
        match view.claim_template()["storageClassName"].as_str() {
            Some(name) => self.classes.get(name).map(|class| class.binding),
            None => Some(default().map_or(BindingMode::Immediate, |class| class.binding)),
        }
    }

    /// Whether the knob `fail-provisioning` still has copies to fail: on a DataVolume it is about this one,
    /// on a namespace about the next ones.
    fn must_fail(&self, key: &NamespacedKey, view: &DataVolumeView) -> bool {
        if let Some(own) = view.knobs.as_ref().and_then(|knobs| knobs.fail_provisioning) {
            return own > 0;
        }
        let wanted = self.knobs.get(&key.namespace).and_then(|knobs| knobs.fail_provisioning).unwrap_or(0);
        let (value, spent) = self.failures_spent.get(&key.namespace).copied().unwrap_or_default();
        wanted > if value == wanted { spent } else { 0 }
    }

    fn spend_failure(&mut self, key: &NamespacedKey, view: &DataVolumeView) {
        if view.knobs.as_ref().is_some_and(|knobs| knobs.fail_provisioning.is_some()) {
            return;
        }
        let wanted = self.knobs.get(&key.namespace).and_then(|knobs| knobs.fail_provisioning).unwrap_or(0);
        let spent = self.failures_spent.entry(key.namespace.clone()).or_default();
        *spent = (wanted, if spent.0 == wanted { spent.1 + 1 } else { 1 });
    }
}

fn is_uploaded(view: &DataVolumeView) -> bool {
    view.meta.annotations.get(UPLOADED).is_some_and(|value| value == "true")
}

fn is_prepopulated(view: &DataVolumeView) -> bool {
    view.meta.annotations.contains_key(PREPOPULATED)
}

fn claim_body(key: &NamespacedKey, view: &DataVolumeView, owner: &Value) -> Value {
    let template = view.claim_template();
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    });
    for field in ["accessModes", "resources", "storageClassName", "volumeMode"] {
        if !template[field].is_null() {
            spec[field] = template[field].clone();
        }
    }
    let mut labels = json!(view.meta.labels);
    labels["app"] = json!("containerized-data-importer");
    labels["app.kubernetes.io/managed-by"] = json!("cdi-controller");
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": *key.name,
            "namespace": *key.namespace,
            "labels": labels,
            "annotations": {CREATED_FOR: *view.meta.uid},
            "ownerReferences": [owner],
        },
        "spec": spec,
    })
}
