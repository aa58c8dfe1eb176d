//! DataSources: ready if their source is.

use super::source::Source;
use crate::{
    kubevirt::{
        model::World,
        objects::{Condition, DataSourceStatus, Id, Kind, condition},
    },
    objects::{Key, seconds},
    shared::outbox::difference,
};
use jiff::Timestamp;

impl World {
    /// One pass over a DataSource.
    pub(in crate::kubevirt) fn plan_data_source(&mut self, key: &Key, now: Timestamp) {
        let Some(view) = self.data_sources.view(key).cloned().filter(|view| !view.meta.deleting()) else {
            return;
        };
        let resolved = self.resolved_source(key, &view.source);
        let ready = match resolved.as_ref().and_then(|source| Source::read(key, source)) {
            None => Err("DataSource has no source".to_owned()),
            Some(source) => self.source_ready(&source),
        };
        let (status, reason) = if ready.is_ok() { ("True", "Ready") } else { ("False", "NotFound") };
        let known = condition(&view.status.conditions, "Ready").filter(|known| known.status == status);
        let since = known.map_or_else(|| Some(seconds(now)), |known| known.last_transition_time.clone());
        let desired = DataSourceStatus {
            conditions: vec![Condition {
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
        if let Some(status) = difference(&view.status, &desired) {
            self.patch_status(&Id::new(Kind::DataSource, key), &status, now);
        }
    }
}
