//! The resources that a server has.

use std::sync::Arc;

use serde_json::{Map, Value, json};

/// One resource in one version.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties, as a definition has them")]
pub struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    /// Whether `/status` is a place of its own.
    pub(crate) status: bool,
    /// Where `/scale` finds the wish, the fact and the selector, as JSON pointers.
    pub(crate) scale: Option<[String; 3]>,
    /// Whether the server counts generations: for everything but metadata and status.
    pub(crate) generations: bool,
    /// Whether an update without a version is refused.
    pub(crate) demands_version: bool,
    /// Whether an update of what there is not makes it.
    pub(crate) creates_on_update: bool,
    /// Whether the garbage collector looks after it, and deletions have a policy.
    pub(crate) collected: bool,
    /// Whether items of a list say what they are: those of Kubernetes' own kinds do not.
    pub(crate) typed_items: bool,
    /// The parts of the schema that have defaults.
    pub(crate) defaults: Arc<Value>,
}

impl Resource {
    /// A resource that Kubernetes has by itself: no defaults, no status of its own.
    pub fn builtin(group: &str, version: &str, plural: &str, kind: &str) -> Self {
        // Each kind decides for itself; these decide otherwise than most.
        let leases = (group, plural) == ("coordination.k8s.io", "leases");
        let events = plural == "events";
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            kind: kind.to_owned(),
            namespaced: true,
            status: false,
            scale: None,
            generations: false,
            demands_version: leases,
            creates_on_update: leases || events,
            collected: !events,
            typed_items: false,
            defaults: Arc::default(),
        }
    }

    /// The same, but with a status and generations.
    #[must_use]
    pub fn with_status(mut self) -> Self {
        self.status = true;
        self.generations = true;
        self
    }

    /// The same, but outside of namespaces.
    #[must_use]
    pub fn of_cluster(mut self) -> Self {
        self.namespaced = false;
        self
    }

    /// The resource that a CustomResourceDefinition defines, in the version that it stores; `None` if that says too
    /// little.
    pub fn custom(definition: &Value) -> Option<Self> {
        let spec = &definition["spec"];
        let version = spec["versions"].as_array()?.iter().find(|version| version["storage"] == true)?;
        let subresources = &version["subresources"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let scale = &subresources["scale"];
        let path = |key: &str| {
            text(&scale[key]).map(|path| {
                path.trim_start_matches('.').split('.').fold(String::new(), |all, part| all + "/" + part)
            })
        };
        Some(Self {
            group: text(&spec["group"])?,
            version: text(&version["name"])?,
            plural: text(&spec["names"]["plural"])?,
            kind: text(&spec["names"]["kind"])?,
            namespaced: spec["scope"] == "Namespaced",
            status: subresources["status"].is_object(),
            scale: path("specReplicasPath")
                .zip(path("statusReplicasPath"))
                .map(|(wish, fact)| [wish, fact, path("labelSelectorPath").unwrap_or_default()]),
            generations: true,
            demands_version: true,
            creates_on_update: false,
            collected: true,
            typed_items: true,
            defaults: Arc::new(with_defaults(&version["schema"]["openAPIV3Schema"])),
        })
    }

    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The name of the resource with its group, as messages have it.
    pub(crate) fn full_name(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Fills in what the schema has defaults for.
    pub(crate) fn fill(&self, object: &mut Value) {
        fill(&self.defaults, object);
    }
}

/// The parts of a schema that have defaults: every write goes through them, and most of a schema has none.
fn with_defaults(schema: &Value) -> Value {
    let mut kept = Map::new();
    for key in ["default", "nullable"] {
        kept.extend(schema.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    let bare = |value: &Value| value.as_object().is_none_or(|map| map.keys().all(|key| key == "nullable"));
    let properties: Map<String, Value> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, inner)| (key.clone(), with_defaults(inner)))
        .filter(|(_, inner)| !bare(inner))
        .collect();
    if !properties.is_empty() {
        kept.insert("properties".to_owned(), Value::Object(properties));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(key).map(with_defaults).filter(|inner| !bare(inner)) {
            kept.insert(key.to_owned(), inner);
        }
    }
    Value::Object(kept)
}

/// A default applies where the object around it is there.
fn fill(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
                if let Some(default) = inner.get("default")
                    && map.get(key).is_none_or(|value| value.is_null() && inner["nullable"] != json!(true))
                {
                    map.insert(key.clone(), default.clone());
                }
                if let Some(value) = map.get_mut(key) {
                    fill(inner, value);
                }
            }
            let rest = &schema["additionalProperties"];
            if rest.is_object() {
                map.values_mut().for_each(|value| fill(rest, value));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(&schema["items"], item)),
        _ => {}
    }
}
