//! Performs writes, each without retries: the model decides whether and when to retry.

use crate::{
    objects::{
        AttachmentView, DiskView, DvpMachineView, DvpObjectId, DvpObjectKind, ImageView, OperationView,
        PodView, StoredAttachment, StoredDvpDisk, StoredDvpMachine, StoredImage, StoredObject,
        StoredOperation, StoredPod,
    },
    world::{DvpWrite, DvpWriteOutcome, ObservedDvpObject},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, time::Duration};

/// The field manager of the writes.
pub(super) const FIELD_MANAGER: &str = "vmpool-simulator";
/// Timeout of a write. Whether it took effect is then seen in the watch.
pub(super) const DEADLINE: Duration = Duration::from_secs(15);

/// Performs writes with one client.
#[derive(Clone)]
pub(super) struct DvpWriter {
    pub(super) client: Client,
}

impl DvpWriter {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Performs one write, without retries.
    pub(super) async fn perform(&self, id: &DvpObjectId, write: DvpWrite) -> DvpWriteOutcome {
        let kind = id.kind;
        let ended = async {
            match kind {
                DvpObjectKind::Machine => {
                    let read = |stored: StoredDvpMachine| {
                        Some(ObservedDvpObject::Machine(Box::new(DvpMachineView::read(stored))))
                    };
                    self.patch(id, write, read).await
                }
                DvpObjectKind::Disk => {
                    let read = |stored: StoredDvpDisk| {
                        Some(ObservedDvpObject::Disk(Box::new(DiskView::read(stored))))
                    };
                    self.patch(id, write, read).await
                }
                DvpObjectKind::Image | DvpObjectKind::ClusterImage => {
                    let read =
                        |stored: StoredImage| Some(ObservedDvpObject::Image(kind, ImageView::read(&stored)));
                    self.patch(id, write, read).await
                }
                DvpObjectKind::Operation => {
                    let read = |stored: StoredOperation| {
                        Some(ObservedDvpObject::Operation(OperationView::read(stored)))
                    };
                    self.patch(id, write, read).await
                }
                DvpObjectKind::Attachment => {
                    let read = |stored: StoredAttachment| {
                        Some(ObservedDvpObject::Attachment(AttachmentView::read(stored)))
                    };
                    self.patch(id, write, read).await
                }
                DvpObjectKind::Pod => self.pod(id, write).await,
            }
        };
        match tokio::time::timeout(DEADLINE, ended).await {
            Ok(Ok(object)) => DvpWriteOutcome::Done(object),
            Ok(Err(kube::Error::Api(status))) if status.is_not_found() => DvpWriteOutcome::NotFound,
            Ok(Err(kube::Error::Api(status))) if status.is_conflict() => DvpWriteOutcome::Conflict,
            Ok(Err(kube::Error::Api(status))) => DvpWriteOutcome::Failed(status.message.clone()),
            Ok(Err(error)) => DvpWriteOutcome::Failed(error.to_string()),
            Err(_) => DvpWriteOutcome::Failed(format!("no response within {DEADLINE:?}")),
        }
    }

    async fn patch<S, T>(
        &self,
        id: &DvpObjectId,
        write: DvpWrite,
        read: impl FnOnce(StoredObject<S, T>) -> Option<ObservedDvpObject>,
    ) -> Result<Option<ObservedDvpObject>, kube::Error>
    where
        S: Default + Clone + Debug + DeserializeOwned,
        T: Default + Clone + Debug + DeserializeOwned,
    {
        let api = self.api::<StoredObject<S, T>>(id);
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let stored = match write {
            DvpWrite::Patch(body) => api.patch(&id.key.name, &parameters, &Patch::Merge(body)).await?,
            DvpWrite::PatchStatus(body) => {
                api.patch_status(&id.key.name, &parameters, &Patch::Merge(body)).await?
            }
            DvpWrite::Create(_) | DvpWrite::Delete(_) => unreachable!("only Pods are created and deleted"),
        };
        Ok(read(stored))
    }

    async fn pod(&self, id: &DvpObjectId, write: DvpWrite) -> Result<Option<ObservedDvpObject>, kube::Error> {
        let read =
            |stored: StoredPod| PodView::read(stored).map(|view| ObservedDvpObject::Pod(Box::new(view)));
        let api = self.api::<StoredPod>(id);
        match write {
            DvpWrite::Patch(_) | DvpWrite::PatchStatus(_) => self.patch(id, write, read).await,
            DvpWrite::Create(body) => {
                let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
                let body = serde_json::to_vec(&body).map_err(kube::Error::SerdeError)?;
                let request = kube::core::Request::new(api.resource_url())
                    .create(&parameters, body)
                    .map_err(kube::Error::BuildRequest)?;
                match self.client.request::<StoredPod>(request).await {
                    Ok(stored) => Ok(read(stored)),
                    // Its name contains the machine's UID, so that an earlier attempt has created it.
                    Err(kube::Error::Api(status)) if status.is_already_exists() => {
                        Ok(read(api.get(&id.key.name).await?))
                    }
                    Err(error) => Err(error),
                }
            }
            DvpWrite::Delete(uid) => {
                let parameters = DeleteParams::default()
                    .grace_period(0)
                    .preconditions(Preconditions { uid: Some(uid.to_string()), resource_version: None });
                match api.delete(&id.key.name, &parameters).await {
                    Ok(_) => Ok(None),
                    Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
                    Err(error) => Err(error),
                }
            }
        }
    }

    fn api<K>(&self, id: &DvpObjectId) -> Api<K>
    where
        K: kube::Resource<DynamicType = kube::api::ApiResource, Scope = kube::core::DynamicResourceScope>,
    {
        let resource = id.kind.resource();
        if id.key.namespace.is_empty() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), &id.key.namespace, &resource)
        }
    }
}
