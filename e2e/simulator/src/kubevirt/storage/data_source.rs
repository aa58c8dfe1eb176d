//! DataSources: ready if their source is.

use super::source::CloneSource;
use crate::{
    kubevirt::{
        model::KubeVirtModel,
        objects::{
            KubeVirtObjectId, KubeVirtObjectKind, SimulatedDataSourceStatus, SimulatedKubeVirtCondition,
            find_condition,
        },
    },
    objects::{NamespacedKey, format_seconds},
    shared::outbox::status_merge_patch,
};
use jiff::Timestamp;

impl KubeVirtModel {
    /// One pass over a DataSource.
    pub(crate) fn plan_data_source(&mut self, key: &NamespacedKey, now: Timestamp) {
        let Some(view) = self.data_sources.view(key).cloned().filter(|view| !view.meta.deleting()) else {
            return;
        };
        let resolved = self.resolved_source(key, &view.source);
        let ready = match resolved.as_ref().and_then(|source| CloneSource::read(key, source)) {
            None => Err("DataSource has no source".to_owned()),
            Some(source) => self.source_ready(&source),
        };
        let (status, reason) = if ready.is_ok() { ("True", "Ready") } else { ("False", "NotFound") };
        let known = find_condition(&view.status.conditions, "Ready").filter(|known| known.status == status);
        let since =
            known.map_or_else(|| Some(format_seconds(now)), |known| known.last_transition_time.clone());
        let desired = SimulatedDataSourceStatus {
            conditions: vec![SimulatedKubeVirtCondition {
                type_: "Ready".to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(ready.err().unwrap_or_else(|| "DataSource is ready to be consumed".to_owned())),
                last_probe_time: None,
                last_heartbeat_time: None,
                last_transition_time: since,
            }],
            source: resolved.unwrap_or_default(),
        };
        if let Some(status) = status_merge_patch(&view.status, &desired) {
            self.patch_status(&KubeVirtObjectId::new(KubeVirtObjectKind::DataSource, key), &status, now);
        }
    }
}
