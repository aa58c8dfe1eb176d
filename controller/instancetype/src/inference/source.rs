//! The way from a volume to the object whose labels count.

use serde_json::Value;

use super::lookup::{InferenceError, Lookup, Source};
use crate::model::Family;
use crate::tree::{self, Malformed};

/// What is searched for, and for which namespace.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) family: Family,
    pub(super) namespace: String,
}

/// What an object was looked up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The object must have the labels.
    Last,
    /// The object may have the labels, or lead on.
    Between,
}

/// The next step of a search.
#[derive(Debug)]
pub(super) enum Next {
    Lookup(Lookup, Place),
    Labels { name: String, kind: String },
}

type Found = Result<Next, InferenceError>;

impl Search {
    /// From the volume of a machine.
    pub(super) fn volume(&self, machine: &Value, name: &str) -> Found {
        let volumes = tree::items(machine, "spec.template.spec.volumes")?;
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
        if tree::object(volume, "persistentVolumeClaim")?.is_some() {
            let claim = required(volume, "persistentVolumeClaim.claimName")?;
            return Ok(self.last(Source::Claim, None, claim));
        }
        if tree::object(volume, "dataVolume")?.is_some() {
            let data_volume = required(volume, "dataVolume.name")?;
            let templates = tree::items(machine, "spec.dataVolumeTemplates")?;
            let own = templates.iter().find(|template| template["metadata"]["name"] == data_volume);
            // The labels of a template do not count: they are those of the machine's author, not of the image.
            return match own {
                Some(template) => self.data_volume_spec(template),
                None => Ok(Next::Lookup(self.at(Source::DataVolume, None, data_volume), Place::Between)),
            };
        }
        Err(InferenceError::Unsupported(format!("the type of volume {name:?}")))
    }

    /// From an object that was looked up.
    pub(super) fn object(&self, lookup: &Lookup, place: Place, object: Option<&Value>) -> Found {
        let Some(object) = object else {
            // A claim outlives its DataVolume, which may be deleted when the import has ended.
            return match lookup.source {
                Source::DataVolume => Ok(self.last(Source::Claim, Some(&lookup.namespace), &lookup.name)),
                _ if lookup.namespace != self.namespace => {
                    let from = self.namespace.clone();
                    Err(InferenceError::NotAvailable { lookup: lookup.clone(), from })
                }
                _ => Err(InferenceError::NotFound(lookup.clone())),
            };
        };
        match (self.labels(lookup, object), place) {
            (Err(InferenceError::NoLabel { .. }), Place::Between) => match lookup.source {
                Source::DataVolume => self.data_volume_spec(object),
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
        if tree::object(data_volume, "spec.sourceRef")?.is_none() {
            return Err(InferenceError::Unsupported("the source of the DataVolume".to_owned()));
        }
        if tree::text(data_volume, "spec.sourceRef.kind")? != Some("DataSource") {
            return Err(InferenceError::Unsupported("the kind of sourceRef of the DataVolume".to_owned()));
        }
        let namespace = tree::text(data_volume, "spec.sourceRef.namespace")?;
        let name = required(data_volume, "spec.sourceRef.name")?;
        Ok(Next::Lookup(self.at(Source::DataSource, namespace, name), Place::Between))
    }

    /// From the source of a DataSource.
    fn data_source(&self, data_source: &Value) -> Found {
        let unsupported =
            || InferenceError::Unsupported("a DataSource without claim and snapshot".to_owned());
        self.claim_or_snapshot(data_source)?.ok_or_else(unsupported)
    }

    /// The claim or the snapshot in `spec.source`.
    fn claim_or_snapshot(&self, object: &Value) -> Result<Option<Next>, Malformed> {
        for (path, source) in [("spec.source.pvc", Source::Claim), ("spec.source.snapshot", Source::Snapshot)]
        {
            if tree::object(object, path)?.is_some() {
                let namespace = tree::text(object, &format!("{path}.namespace"))?;
                let name = required(object, &format!("{path}.name"))?;
                return Ok(Some(self.last(source, namespace, name)));
            }
        }
        Ok(None)
    }

    /// The names in an object's labels.
    fn labels(&self, lookup: &Lookup, object: &Value) -> Found {
        let (name_label, kind_label) = match self.family {
            Family::Instancetype => (
                "instancetype.kubevirt.io/default-instancetype",
                "instancetype.kubevirt.io/default-instancetype-kind",
            ),
            Family::Preference => (
                "instancetype.kubevirt.io/default-preference",
                "instancetype.kubevirt.io/default-preference-kind",
            ),
        };
        let mut labels = tree::texts(object, "metadata.labels")?.unwrap_or_default();
        match labels.remove(name_label).filter(|name| !name.is_empty()) {
            Some(name) => Ok(Next::Labels { name, kind: labels.remove(kind_label).unwrap_or_default() }),
            None => Err(InferenceError::NoLabel {
                object: format!("{} {}/{}", lookup.source.as_str(), lookup.namespace, lookup.name),
                label: name_label,
            }),
        }
    }

    fn last(&self, source: Source, namespace: Option<&str>, name: &str) -> Next {
        Next::Lookup(self.at(source, namespace, name), Place::Last)
    }

    /// An object; its namespace defaults to that of the machine.
    fn at(&self, source: Source, namespace: Option<&str>, name: &str) -> Lookup {
        // CDI takes an empty namespace for an omitted one.
        let namespace = namespace.filter(|name| !name.is_empty()).unwrap_or(&self.namespace).to_owned();
        Lookup { source, namespace, name: name.to_owned() }
    }
}

/// A text without which an object cannot be looked up.
fn required<'a>(object: &'a Value, path: &str) -> Result<&'a str, Malformed> {
    tree::text(object, path)?.ok_or_else(|| Malformed::new(path, "set"))
}
