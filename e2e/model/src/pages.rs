//! Lists and pagination.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::api_error::ApiError;
use crate::call::Call;
use crate::resource::Resource;
use crate::selector::RequestSelectors;
use crate::store::ApiObjectStore;
use crate::write::remove_field;

/// The state of paginated lists.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    open: BTreeMap<String, (u64, Vec<Arc<Value>>)>,
    tokens: u64,
    /// Maximum number of objects per page, regardless of the requested limit.
    pub(crate) most: Option<usize>,
    /// By how many changes a list with `resourceVersion=0` is behind.
    pub(crate) behind: usize,
}

impl Pages {
    /// One page, from the same state as the first page.
    pub(crate) fn list(
        &mut self,
        store: &ApiObjectStore,
        resource: &Resource,
        call: &Call,
    ) -> Result<Value, ApiError> {
        let selector = RequestSelectors::of(call)?;
        let token = call.parameter("continue").filter(|token| !token.is_empty());
        let (version, objects) = if let Some(token) = token {
            // A token stays valid until the history is compacted, even if it was used before.
            self.open.get(token).cloned().ok_or_else(|| {
                ApiError::new(
                    410,
                    "Expired",
                    "The provided continue parameter is too old to display a consistent list result",
                )
            })?
        } else {
            // Without a version a list is current. With version 0 it comes from a cache, which may be behind.
            let behind = if call.parameter("resourceVersion") == Some("0") { self.behind } else { 0 };
            store.as_of(&resource.full_name(), &call.namespace, behind)
        };
        let limit = call.parameter("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0);
        let limit = limit.into_iter().chain(self.most).min().unwrap_or(usize::MAX);
        let mut objects = objects.into_iter();
        let items: Vec<_> = objects.by_ref().filter(|object| selector.matches(object)).take(limit).collect();
        // A full page is followed by a token even if the selector matches none of the remaining objects.
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
                    remove_field(&mut item, "apiVersion");
                    remove_field(&mut item, "kind");
                }
                item
            })
            .collect();
        let kind = format!("{}List", resource.kind);
        Ok(
            json!({ "kind": kind, "apiVersion": resource.api_version(), "metadata": metadata, "items": items }),
        )
    }

    /// Expires all tokens: clients must start their lists again.
    pub(crate) fn expire(&mut self) {
        self.open.clear();
    }
}
