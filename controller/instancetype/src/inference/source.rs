//! The way from a volume to the object whose labels count.

use serde_json::Value;

use super::lookup::{InferenceError, InferenceLookup, InferenceSourceKind};
use crate::model::TypeFamily;
use crate::tree::{self, Malformed};

/// What is searched for, and for which namespace.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) family: TypeFamily,
    pub(super) namespace: String,
}

/// What an object was looked up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookupPurpose {
    /// The object must have the labels.
    Last,
    /// The object may have the labels, or lead on.
    Between,
}

/// The next step of a search.
#[derive(Debug)]
pub(super) enum SearchStep {
    Lookup(InferenceLookup, LookupPurpose),
    Labels { name: String, kind: String },
}

type Found = Result<SearchStep, InferenceError>;

impl Search {
    /// From the volume of a machine.
    pub(super) fn volume(&self, machine: &Value, name: &str) -> Found {
        let volumes = tree::items_at(machine, "spec.template.spec.volumes")?;
        let index = volumes.iter().position(|volume| volume["name"] == name);
        let index = index.ok_or_else(|| InferenceError::NoVolume(name.to_owned()))?;
        self.source(machine, name, &volumes[index]).map_err(|error| match error {
            InferenceError::Malformed(error) => {
                error.below(&format!("spec.template.spec.volumes[{index}]")).into()
            }
            error => error,
        })
    }

    fn source(&self, machine: &Value, name: &str, volume: &Value) -> Found {
        if tree::object_at(volume, "persistentVolumeClaim")?.is_some() {
            let claim = required_text(volume, "persistentVolumeClaim.claimName")?;
            return Ok(self.last(InferenceSourceKind::Claim, None, claim));
        }
        if tree::object_at(volume, "dataVolume")?.is_some() {
            let data_volume = required_text(volume, "dataVolume.name")?;
            let templates = tree::items_at(machine, "spec.dataVolumeTemplates")?;
            let own = templates.iter().find(|template| template["metadata"]["name"] == data_volume);
            // The labels of a template do not count: they are those of the machine's author, not of the
            // image.
            return match own {
                Some(template) => self.data_volume_spec(template),
                None => Ok(SearchStep::Lookup(
                    self.at(InferenceSourceKind::DataVolume, None, data_volume),
                    LookupPurpose::Between,
                )),
            };
        }
        Err(InferenceError::Unsupported(format!("the type of volume {name:?}")))
    }

    /// From an object that was looked up.
    pub(super) fn object(
        &self,
        lookup: &InferenceLookup,
        place: LookupPurpose,
        object: Option<&Value>,
    ) -> Found {
        let Some(object) = object else {
            // A claim outlives its DataVolume, which may be deleted when the import has ended.
            return match lookup.source {
                InferenceSourceKind::DataVolume => {
                    Ok(self.last(InferenceSourceKind::Claim, Some(&lookup.namespace), &lookup.name))
                }
                _ if lookup.namespace != self.namespace => {
                    let from = self.namespace.clone();
                    Err(InferenceError::NotAvailable { lookup: lookup.clone(), from })
                }
                _ => Err(InferenceError::NotFound(lookup.clone())),
            };
        };
        match (self.labels(lookup, object), place) {
            (Err(InferenceError::NoLabel { .. }), LookupPurpose::Between) => match lookup.source {
                InferenceSourceKind::DataVolume => self.data_volume_spec(object),
                _ => self.data_source(object),
            },
            (labels, _) => labels,
        }
    }

    /// From the spec of a DataVolume or of a template of one.
    fn data_volume_spec(&self, data_volume: &Value) -> Found {
        if let Some(next) = self.claim_or_snapshot(data_volume)? {
            return Ok(next);
        }
        if tree::object_at(data_volume, "spec.sourceRef")?.is_none() {
            return Err(InferenceError::Unsupported("the source of the DataVolume".to_owned()));
        }
        if tree::text_at(data_volume, "spec.sourceRef.kind")? != Some("DataSource") {
            return Err(InferenceError::Unsupported("the kind of sourceRef of the DataVolume".to_owned()));
        }
        let namespace = tree::text_at(data_volume, "spec.sourceRef.namespace")?;
        let name = required_text(data_volume, "spec.sourceRef.name")?;
        Ok(SearchStep::Lookup(
            self.at(InferenceSourceKind::DataSource, namespace, name),
            LookupPurpose::Between,
        ))
    }

    /// From the source of a DataSource.
    fn data_source(&self, data_source: &Value) -> Found {
        let unsupported =
            || InferenceError::Unsupported("a DataSource without claim and snapshot".to_owned());
        self.claim_or_snapshot(data_source)?.ok_or_else(unsupported)
    }

    /// The claim or the snapshot in `spec.source`.
    fn claim_or_snapshot(&self, object: &Value) -> Result<Option<SearchStep>, Malformed> {
        for (path, source) in [
            ("spec.source.pvc", InferenceSourceKind::Claim),
            ("spec.source.snapshot", InferenceSourceKind::Snapshot),
        ] {
            if tree::object_at(object, path)?.is_some() {
                let namespace = tree::text_at(object, &format!("{path}.namespace"))?;
                let name = required_text(object, &format!("{path}.name"))?;
                return Ok(Some(self.last(source, namespace, name)));
            }
        }
        Ok(None)
    }

    /// The names in an object's labels.
    fn labels(&self, lookup: &InferenceLookup, object: &Value) -> Found {
        let (name_label, kind_label) = match self.family {
            TypeFamily::Instancetype => (
                "instancetype.kubevirt.io/default-instancetype",
                "instancetype.kubevirt.io/default-instancetype-kind",
            ),
            TypeFamily::Preference => (
                "instancetype.kubevirt.io/default-preference",
                "instancetype.kubevirt.io/default-preference-kind",
            ),
        };
        let mut labels = tree::text_map_at(object, "metadata.labels")?.unwrap_or_default();
        match labels.remove(name_label).filter(|name| !name.is_empty()) {
            Some(name) => {
                Ok(SearchStep::Labels { name, kind: labels.remove(kind_label).unwrap_or_default() })
            }
            None => Err(InferenceError::NoLabel {
                object: format!("{} {}/{}", lookup.source.as_str(), lookup.namespace, lookup.name),
                label: name_label,
            }),
        }
    }

    fn last(&self, source: InferenceSourceKind, namespace: Option<&str>, name: &str) -> SearchStep {
        SearchStep::Lookup(self.at(source, namespace, name), LookupPurpose::Last)
    }

    /// An object; its namespace defaults to that of the machine.
    fn at(&self, source: InferenceSourceKind, namespace: Option<&str>, name: &str) -> InferenceLookup {
        // CDI takes an empty namespace for an omitted one.
        let namespace = namespace.filter(|name| !name.is_empty()).unwrap_or(&self.namespace).to_owned();
        InferenceLookup { source, namespace, name: name.to_owned() }
    }
}

/// A text without which an object cannot be looked up.
fn required_text<'a>(object: &'a Value, path: &str) -> Result<&'a str, Malformed> {
    tree::text_at(object, path)?.ok_or_else(|| Malformed::new(path, "set"))
}
