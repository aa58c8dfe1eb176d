//! Performs writes, each without retries: the model decides whether and when to retry.

use crate::{
    objects::{
        AttachmentView, DiskView, Id, ImageView, Kind, MachineView, OperationView, PodView, Stored,
        StoredAttachment, StoredDisk, StoredImage, StoredMachine, StoredOperation, StoredPod,
    },
    world::{Object, Outcome, Write},
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
pub(super) struct Writer {
    pub(super) client: Client,
}

impl Writer {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Performs one write, without retries.
    pub(super) async fn perform(&self, id: &Id, write: Write) -> Outcome {
        let kind = id.kind;
        let ended = async {
            match kind {
                Kind::Machine => {
                    let read =
                        |stored: StoredMachine| Some(Object::Machine(Box::new(MachineView::read(stored))));
                    self.patch(id, write, read).await
                }
                Kind::Disk => {
                    let read = |stored: StoredDisk| Some(Object::Disk(Box::new(DiskView::read(stored))));
                    self.patch(id, write, read).await
                }
                Kind::Image | Kind::ClusterImage => {
                    let read = |stored: StoredImage| Some(Object::Image(kind, ImageView::read(&stored)));
                    self.patch(id, write, read).await
                }
                Kind::Operation => {
                    let read = |stored: StoredOperation| Some(Object::Operation(OperationView::read(stored)));
                    self.patch(id, write, read).await
                }
                Kind::Attachment => {
                    let read =
                        |stored: StoredAttachment| Some(Object::Attachment(AttachmentView::read(stored)));
                    self.patch(id, write, read).await
                }
                Kind::Pod => self.pod(id, write).await,
            }
        };
        match tokio::time::timeout(DEADLINE, ended).await {
            Ok(Ok(object)) => Outcome::Done(object),
            Ok(Err(kube::Error::Api(status))) if status.is_not_found() => Outcome::NotFound,
            Ok(Err(kube::Error::Api(status))) if status.is_conflict() => Outcome::Conflict,
            Ok(Err(kube::Error::Api(status))) => Outcome::Failed(status.message.clone()),
            Ok(Err(error)) => Outcome::Failed(error.to_string()),
            Err(_) => Outcome::Failed(format!("no response within {DEADLINE:?}")),
        }
    }

    async fn patch<S, T>(
        &self,
        id: &Id,
        write: Write,
        read: impl FnOnce(Stored<S, T>) -> Option<Object>,
    ) -> Result<Option<Object>, kube::Error>
    where
        S: Default + Clone + Debug + DeserializeOwned,
        T: Default + Clone + Debug + DeserializeOwned,
    {
        let api = self.api::<Stored<S, T>>(id);
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let stored = match write {
            Write::Patch(body) => api.patch(&id.key.name, &parameters, &Patch::Merge(body)).await?,
            Write::PatchStatus(body) => {
                api.patch_status(&id.key.name, &parameters, &Patch::Merge(body)).await?
            }
            Write::Create(_) | Write::Delete(_) => unreachable!("only Pods are created and deleted"),
        };
        Ok(read(stored))
    }

    async fn pod(&self, id: &Id, write: Write) -> Result<Option<Object>, kube::Error> {
        let read = |stored: StoredPod| PodView::read(stored).map(|view| Object::Pod(Box::new(view)));
        let api = self.api::<StoredPod>(id);
        match write {
            Write::Patch(_) | Write::PatchStatus(_) => self.patch(id, write, read).await,
            Write::Create(body) => {
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
            Write::Delete(uid) => {
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

    fn api<K>(&self, id: &Id) -> Api<K>
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
