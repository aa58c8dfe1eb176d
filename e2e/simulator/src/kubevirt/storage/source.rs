//! What a DataVolume clones: a claim or a snapshot, named directly or through a DataSource.

use crate::{
    kubevirt::{
        events::CloneReview,
        model::KubeVirtModel,
        objects::{CDI, KubeVirtMachineView, KubeVirtObjectId, KubeVirtObjectKind},
    },
    objects::NamespacedKey,
};
use serde_json::{Value, json};

/// The source of a clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CloneSource {
    /// A PersistentVolumeClaim.
    Claim(NamespacedKey),
    /// A VolumeSnapshot.
    Snapshot(NamespacedKey),
}

impl CloneSource {
    /// The source that a `source` of a DataVolume or DataSource names. Without a namespace it is in the one
    /// of `key`.
    pub(crate) fn read(key: &NamespacedKey, source: &Value) -> Option<Self> {
        let named = |reference: &Value| {
            let name = reference["name"].as_str()?;
            Some(NamespacedKey::new(reference["namespace"].as_str().unwrap_or(&key.namespace), name))
        };
        let claim = named(&source["pvc"]).map(Self::Claim);
        claim.or_else(|| named(&source["snapshot"]).map(Self::Snapshot))
    }

    pub(crate) fn key(&self) -> &NamespacedKey {
        match self {
            Self::Claim(key) | Self::Snapshot(key) => key,
        }
    }
}

impl KubeVirtModel {
    /// The source of a clone; `None` if the spec of a DataVolume describes no clone.
    ///
    /// # Errors
    /// If its DataSource does not exist, or names no source.
    pub(crate) fn clone_source(
        &self,
        key: &NamespacedKey,
        spec: &Value,
    ) -> Option<Result<CloneSource, String>> {
        let Some(name) = spec["sourceRef"]["name"].as_str() else {
            return CloneSource::read(key, &spec["source"]).map(Ok);
        };
        let namespace = spec["sourceRef"]["namespace"].as_str().unwrap_or(&key.namespace);
        let reference = NamespacedKey::new(namespace, name);
        Some(match self.data_sources.view(&reference) {
            None => Err(format!("datasources.cdi.kubevirt.io {reference} not found")),
            Some(view) => self
                .resolved_source(&reference, &view.source)
                .and_then(|source| CloneSource::read(&reference, &source))
                .ok_or_else(|| format!("DataSource {reference} has no source")),
        })
    }

    /// The source of a DataSource. If it names another one of its namespace, the source of that one, which
    /// names no third.
    pub(crate) fn resolved_source(&self, key: &NamespacedKey, source: &Value) -> Option<Value> {
        let other = &source["dataSource"];
        let Some(name) = other["name"].as_str() else { return Some(source.clone()) };
        let is_same = other["namespace"].as_str().is_none_or(|namespace| *namespace == *key.namespace);
        let view = self.data_sources.view(&NamespacedKey::new(&key.namespace, name)).filter(|_| is_same)?;
        view.source["dataSource"].is_null().then(|| view.source.clone())
    }

    /// Whether the data of a source is there.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn source_ready(&self, source: &CloneSource) -> Result<(), String> {
        match source {
            CloneSource::Claim(key) => match self.claims.view(key) {
                None => Err(format!("The source pvc {key} doesn't exist")),
                Some(_) if self.data_volumes.view(key).is_some_and(|volume| !volume.succeeded()) => {
                    Err(format!("The source pvc {key} is not populated"))
                }
                Some(_) => Ok(()),
            },
            CloneSource::Snapshot(key) => match self.snapshots.view(key) {
                None => Err(format!("The source snapshot {key} doesn't exist")),
                Some(view) if view.status.ready_to_use != Some(true) => {
                    Err(format!("The source snapshot {key} is not ready"))
                }
                Some(_) => Ok(()),
            },
        }
    }

    /// The spec of the DataVolume that KubeVirt creates from a template: a DataSource is replaced by what it
    /// names. A source in another namespace needs the permission of the machine's service account.
    ///
    /// # Errors
    /// If the DataSource does not exist, or names no source.
    pub(crate) fn resolve_template(
        &self,
        key: &NamespacedKey,
        machine: &KubeVirtMachineView,
        spec: &Value,
    ) -> Result<(Value, Option<CloneReview>), String> {
        let mut spec = spec.clone();
        let Some(source) = self.clone_source(key, &spec) else { return Ok((spec, None)) };
        let source = source?;
        let (namespace, name) = (&*source.key().namespace, &*source.key().name);
        if let Some(fields) = spec.as_object_mut().filter(|fields| fields.contains_key("sourceRef")) {
            fields.remove("sourceRef");
            let kind = if matches!(source, CloneSource::Claim(_)) { "pvc" } else { "snapshot" };
            fields.insert("source".to_owned(), json!({kind: {"namespace": namespace, "name": name}}));
        }
        let review = (*namespace != *key.namespace).then(|| CloneReview {
            user: format!("system:serviceaccount:{}:{}", key.namespace, service_account(machine)),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        });
        Ok((spec, review))
    }

    /// A deleted snapshot waits for the DataVolumes that are restored from it.
    pub(crate) fn mark_source_of(&mut self, key: &NamespacedKey) {
        let source =
            self.data_volumes.view(key).and_then(|view| CloneSource::read(key, &view.spec["source"]));
        if let Some(CloneSource::Snapshot(snapshot)) = source {
            self.agenda.mark(KubeVirtObjectId::new(KubeVirtObjectKind::Snapshot, &snapshot));
        }
    }

    /// Marks the objects that wait for a claim, a snapshot or a DataSource.
    pub(crate) fn mark_dependents(&mut self, id: &KubeVirtObjectId) {
        let key = &id.key;
        let mut marked = Vec::new();
        if id.kind != KubeVirtObjectKind::DataSource {
            let of_source =
                |kind: KubeVirtObjectKind, source: &NamespacedKey| kind == id.kind && source == key;
            for (other, view) in self.data_sources.views() {
                let resolved = self.resolved_source(other, &view.source).unwrap_or_default();
                let found = match CloneSource::read(other, &resolved) {
                    Some(CloneSource::Claim(source)) => of_source(KubeVirtObjectKind::Claim, &source),
                    Some(CloneSource::Snapshot(source)) => of_source(KubeVirtObjectKind::Snapshot, &source),
                    None => false,
                };
                if found {
                    marked.push(KubeVirtObjectId::new(KubeVirtObjectKind::DataSource, other));
                }
            }
        }
        marked.extend(
            self.waiting.iter().map(|other| KubeVirtObjectId::new(KubeVirtObjectKind::DataVolume, other)),
        );
        match id.kind {
            KubeVirtObjectKind::Claim => {
                let copies = |(other, view): &(
                    &NamespacedKey,
                    &std::sync::Arc<crate::kubevirt::objects::SnapshotView>,
                )| {
                    other.namespace == key.namespace && view.claim.as_deref() == Some(&*key.name)
                };
                marked.extend(
                    self.snapshots
                        .views()
                        .filter(copies)
                        .map(|(other, _)| KubeVirtObjectId::new(KubeVirtObjectKind::Snapshot, other)),
                );
            }
            KubeVirtObjectKind::DataSource => {
                let is_alias = |source: &Value| source["dataSource"]["name"].as_str() == Some(&*key.name);
                let aliases = self
                    .data_sources
                    .views()
                    .filter(|(other, view)| other.namespace == key.namespace && is_alias(&view.source));
                marked.extend(
                    aliases.map(|(other, _)| KubeVirtObjectId::new(KubeVirtObjectKind::DataSource, other)),
                );
                let refers =
                    |template: &Value| template["spec"]["sourceRef"]["name"].as_str() == Some(&*key.name);
                for (other, view) in self.machines.views() {
                    if view.spec.data_volume_templates.iter().any(refers) {
                        marked.push(KubeVirtObjectId::new(KubeVirtObjectKind::Machine, other));
                    }
                }
            }
            _ => {}
        }
        for id in marked {
            self.agenda.mark(id);
        }
    }
}

/// The service account on whose behalf KubeVirt clones.
fn service_account(machine: &KubeVirtMachineView) -> String {
    let spec = &machine.spec.instance_spec;
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let mut of_volumes = volumes.filter_map(|volume| volume["serviceAccount"]["serviceAccountName"].as_str());
    let named = spec["serviceAccountName"].as_str().filter(|name| !name.is_empty());
    named.or_else(|| of_volumes.next()).unwrap_or("default").to_owned()
}

/// The body of a SubjectAccessReview.
pub(crate) fn review_body(review: &CloneReview) -> Value {
    let (group, version) = CDI.split_once('/').unwrap_or_default();
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": review.user,
            "resourceAttributes": {
                "verb": "create", "group": group, "version": version,
                "resource": "datavolumes", "subresource": "source",
                "namespace": review.namespace, "name": review.name,
            },
        },
    })
}
