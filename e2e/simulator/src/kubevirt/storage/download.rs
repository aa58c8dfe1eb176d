//! Imports over HTTP from the host that the knob `http-host` names: the only copies with real data.

use crate::{
    kubevirt::{
        events::Download,
        model::KubeVirtModel,
        objects::{DataVolumeView, KubeVirtObjectId, KubeVirtObjectKind},
    },
    objects::NamespacedKey,
    shared::delay_end,
};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Annotation of a DataVolume with the checksum of the downloaded data.
const CONTENT: &str = "simulator.vmpool.dev/content";
/// Annotation of a DataVolume with the number of failed downloads, and the last error.
const FAILURE: &str = "simulator.vmpool.dev/import-failure";

impl Download {
    /// The patch that records the result on the DataVolume: the checksum of the data, or an error.
    pub fn record(&self, result: Result<String, String>) -> Value {
        let annotations = match result {
            Ok(content) => json!({CONTENT: content, FAILURE: null}),
            Err(error) => json!({FAILURE: format!("{} {error}", self.restarts + 1)}),
        };
        json!({"metadata": {"annotations": annotations}})
    }
}

impl KubeVirtModel {
    /// Requests the download of a DataVolume, if it has one and it is due.
    pub(super) fn download(&mut self, key: &NamespacedKey, view: &DataVolumeView, now: Timestamp) {
        let Some(download) = self.wanted_download(key, view) else { return };
        let delay = self.settings.provisioning_delay;
        let id = KubeVirtObjectId::new(KubeVirtObjectKind::DataVolume, key);
        let Some(slot) = self.data_volumes.slot(key) else { return };
        let next = slot.memory.next_fetch;
        if let Some(at) = next.filter(|at| *at > now) {
            return self.agenda.wake(id, at);
        }
        slot.memory.next_fetch = delay_end(now, delay);
        self.fetch(&id, download, now);
    }

    /// Why the copy does not proceed: its data could not be downloaded, or without a reason, it is not there
    /// yet.
    pub(super) fn download_state(
        &self,
        key: &NamespacedKey,
        view: &DataVolumeView,
    ) -> Option<(String, Option<String>)> {
        self.wanted_download(key, view)?;
        Some(match failure(view) {
            Some((_, error)) => ("Error".to_owned(), Some(error.to_owned())),
            None => (String::new(), None),
        })
    }

    /// How often the copy was restarted.
    pub(super) fn restarts(&self, key: &NamespacedKey, view: &DataVolumeView) -> Option<u64> {
        let knob = self.knobs_of_data_volume(key, view).get(|knobs| knobs.import_restarts);
        knob.or_else(|| failure(view).map(|(count, _)| count))
    }

    fn wanted_download(&self, key: &NamespacedKey, view: &DataVolumeView) -> Option<Download> {
        let (host, address) = self.knobs_of_data_volume(key, view).get(|knobs| knobs.http_host.clone())?;
        let source = &view.spec["source"]["http"];
        let (_, rest) = source["url"].as_str()?.split_once("://")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let named = authority.rsplit_once(':').map_or(authority, |(name, _)| name);
        if named != host || view.meta.annotations.contains_key(CONTENT) {
            return None;
        }
        Some(Download {
            address,
            host: authority.to_owned(),
            path: format!("/{path}"),
            checksum: source["checksum"].as_str().map(str::to_owned),
            restarts: failure(view).map_or(0, |(count, _)| count),
        })
    }
}

fn failure(view: &DataVolumeView) -> Option<(u64, &str)> {
    let (count, error) = view.meta.annotations.get(FAILURE)?.split_once(' ')?;
    Some((count.parse().ok()?, error))
}
