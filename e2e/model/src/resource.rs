//! The resources that a server provides.

use std::sync::Arc;

use serde_json::{Map, Value, json};

/// One resource in one version.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties of a resource")]
pub struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    /// Whether the resource has a status subresource.
    pub(crate) status: bool,
    /// JSON pointers for the scale subresource: desired replicas, current replicas, selector.
    pub(crate) scale: Option<[String; 3]>,
    /// Whether the server increments the generation for changes outside metadata and status.
    pub(crate) generations: bool,
    /// Whether an update must contain a resource version.
    pub(crate) requires_version: bool,
    /// Whether an update of a missing object creates it.
    pub(crate) creates_on_update: bool,
    /// Whether the garbage collector handles the resource, and deletions have a propagation policy.
    pub(crate) collected: bool,
    /// Whether items of a list contain API version and kind. Those of built-in kinds do not.
    pub(crate) typed_items: bool,
    /// The parts of the schema that contain defaults.
    pub(crate) defaults: Arc<Value>,
}

impl Resource {
    /// A built-in resource: no defaults, no status subresource.
    pub fn builtin(group: &str, version: &str, plural: &str, kind: &str) -> Self {
        // Leases and events differ from the other built-in kinds.
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
            requires_version: leases,
            creates_on_update: leases || events,
            collected: !events,
            typed_items: false,
            defaults: Arc::default(),
        }
    }

    /// Adds a status subresource and generations.
    #[must_use]
    pub fn with_status(mut self) -> Self {
        self.status = true;
        self.generations = true;
        self
    }

    /// Makes the resource cluster-scoped.
    #[must_use]
    pub fn of_cluster(mut self) -> Self {
        self.namespaced = false;
        self
    }

    /// The resource of a CustomResourceDefinition in its storage version; `None` if the definition is
    /// incomplete.
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
            scale: path("specReplicasPath").zip(path("statusReplicasPath")).map(
                |(spec_path, status_path)| {
                    [spec_path, status_path, path("labelSelectorPath").unwrap_or_default()]
                },
            ),
            generations: true,
            requires_version: true,
            creates_on_update: false,
            collected: true,
            typed_items: true,
            defaults: Arc::new(with_defaults(&version["schema"]["openAPIV3Schema"])),
        })
    }

    /// Whether a CustomResourceDefinition defines the resource.
    pub(crate) fn is_custom(&self) -> bool {
        self.typed_items
    }

    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The name of the resource with its group, as in messages.
    pub(crate) fn full_name(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Fills in the defaults of the schema.
    pub(crate) fn fill(&self, object: &mut Value) {
        fill(&self.defaults, object);
    }
}

/// The parts of a schema that contain defaults. Every write traverses them, and most of a schema has none.
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

/// Fills in defaults wherever the surrounding object exists.
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
