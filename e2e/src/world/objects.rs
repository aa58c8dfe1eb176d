//! Reads and writes objects as a user does.

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use serde_json::Value;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_test_cluster::error::{Error, Result};

use super::state::ScenarioWorld;

/// Field manager of writes by scenarios.
pub(super) const MANAGER: &str = "vmpool-e2e-user";

impl ScenarioWorld {
    /// Runs kubectl in the scenario's namespace and returns its output.
    ///
    /// # Errors
    /// As [`Access::kubectl`](vmpool_test_cluster::access::Access::kubectl).
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let namespace = format!("--namespace={}", self.namespace);
        let all: Vec<&str> = std::iter::once(namespace.as_str()).chain(arguments.iter().copied()).collect();
        self.access.kubectl(&all).await
    }

    /// The stored object.
    ///
    /// # Errors
    /// [`Error::Api`], also if the object does not exist.
    pub async fn get(&self, kind: TestedKind, name: &str) -> Result<JsonObject> {
        let doing = format!("reading {} {name}", kind.name());
        let object = self.api(kind).get(name).await.map_err(Error::api(doing.clone()))?;
        JsonObject::try_from(object).map_err(Error::json(doing))
    }

    /// Creates an object as a user does, and returns the stored object.
    ///
    /// # Errors
    /// [`Error::Api`], and the errors of
    /// [`Recorder::until_shown`](vmpool_invariants::recorder::Recorder::until_shown).
    pub async fn post(&self, kind: TestedKind, object: &Value) -> Result<JsonObject> {
        let doing = format!("creating {} {}", kind.name(), object["metadata"]["name"]);
        let typed = serde_json::from_value(object.clone()).map_err(Error::json(doing.clone()))?;
        let created =
            self.api(kind).create(&PostParams::default(), &typed).await.map_err(Error::api(doing.clone()))?;
        self.written(kind, created, doing).await
    }

    /// Changes an object with a merge patch as a user does, and returns the stored object.
    ///
    /// # Errors
    /// As [`ScenarioWorld::post`].
    pub async fn patch(&self, kind: TestedKind, name: &str, patch: &Value) -> Result<JsonObject> {
        let doing = format!("patching {} {name}", kind.name());
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let patched = self.api(kind).patch(name, &params, &Patch::Merge(patch)).await;
        let patched = patched.map_err(Error::api(doing.clone()))?;
        self.written(kind, patched, doing).await
    }

    /// The object in the response to a write, once the recorder has observed it.
    async fn written(&self, kind: TestedKind, answer: DynamicObject, doing: String) -> Result<JsonObject> {
        let object = JsonObject::try_from(answer).map_err(Error::json(doing))?;
        self.recorder.until_shown(kind, &object).await?;
        Ok(object)
    }

    /// Deletes a machine or a disk as a user does, and records that for the invariants.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Violations`].
    pub async fn delete(&self, object: &JsonObject) -> Result<()> {
        let kind = if object.text("/kind") == TestedKind::Disk.name() {
            TestedKind::Disk
        } else {
            TestedKind::Machine
        };
        self.user_actions().deleted.insert(object.uid().to_owned());
        let uid = Some(object.uid().to_owned());
        let params = DeleteParams::background().preconditions(Preconditions { uid, ..Default::default() });
        self.api(kind).delete(object.name(), &params).await.map_err(Error::api(format!(
            "deleting {} {}",
            kind.name(),
            object.name()
        )))?;
        self.check().await
    }
}
