//! Lists, whole and in pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::answer::Refusal;
use crate::call::Call;
use crate::resource::Resource;
use crate::selector::Selector;
use crate::store::Store;
use crate::write::remove;

/// Lists in pages: what was listed for the first page.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    open: BTreeMap<String, (u64, Vec<Arc<Value>>)>,
    tokens: u64,
    /// Most objects of a page, whatever was asked for.
    pub(crate) most: Option<usize>,
    /// By how many changes a list is behind whose sender takes any.
    pub(crate) behind: usize,
}

impl Pages {
    /// One page, consistent with the first.
    pub(crate) fn list(&mut self, store: &Store, resource: &Resource, call: &Call) -> Result<Value, Refusal> {
        let selector = Selector::of(call)?;
        let token = call.parameter("continue").filter(|token| !token.is_empty());
        let (version, objects) = if let Some(token) = token {
            // A token is good for as long as the history is, however often it was used.
            self.open.get(token).cloned().ok_or_else(|| {
                Refusal::new(
                    410,
                    "Expired",
                    "The provided continue parameter is too old to display a consistent list result",
                )
            })?
        } else {
            // Without a version a list is as of now; with version 0 it is what some cache happens to have.
            let behind = if call.parameter("resourceVersion") == Some("0") { self.behind } else { 0 };
            store.as_of(&resource.full_name(), &call.namespace, behind)
        };
        let limit = call.parameter("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0);
        let limit = limit.into_iter().chain(self.most).min().unwrap_or(usize::MAX);
        let mut objects = objects.into_iter();
        let items: Vec<_> = objects.by_ref().filter(|object| selector.matches(object)).take(limit).collect();
        // A page that is full does not know whether the selector lets anything through of what is left.
        let rest: Vec<_> = objects.collect();
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if !rest.is_empty() {
            self.tokens += 1;
            let token = format!("page-{}", self.tokens);
            metadata["continue"] = json!(token);
            if selector.is_empty() {
                metadata["remainingItemCount"] = json!(rest.len());
            }
            self.open.insert(token, (version, rest));
        }
        let items: Vec<Value> = items
            .iter()
            .map(|item| {
                let mut item = (**item).clone();
                if !resource.typed_items {
                    remove(&mut item, "apiVersion");
                    remove(&mut item, "kind");
                }
                item
            })
            .collect();
        let kind = format!("{}List", resource.kind);
        Ok(
            json!({ "kind": kind, "apiVersion": resource.api_version(), "metadata": metadata, "items": items }),
        )
    }

    /// Whoever is in the middle of a list has to begin again.
    pub(crate) fn expire(&mut self) {
        self.open.clear();
    }
}
