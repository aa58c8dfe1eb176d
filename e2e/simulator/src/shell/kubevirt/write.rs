//! The writes, each tried once: the model decides whether and when to try again.

use super::{download, read};
use crate::{
    kubevirt::{
        CloneReview, KubeVirtWrite, KubeVirtWriteOutcome,
        objects::{KubeVirtObjectId, KubeVirtObjectKind, ObservedKubeVirtObject},
        review_body,
    },
    objects::StoredObject,
    shell::write::{DEADLINE, FIELD_MANAGER},
};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Performs one write, once.
pub(super) async fn perform_kubevirt_write(
    client: &Client,
    id: &KubeVirtObjectId,
    write: KubeVirtWrite,
) -> KubeVirtWriteOutcome {
    let ended = async {
        let write = match write {
            KubeVirtWrite::CreateClone { body, review } => {
                permitted(client, &review).await?;
                KubeVirtWrite::Create(body)
            }
            KubeVirtWrite::Fetch(download) => {
                KubeVirtWrite::Patch(download::download_image_data(&download).await)
            }
            other => other,
        };
        match id.kind {
            KubeVirtObjectKind::Machine => {
                request(client, id, write, |stored| Some(read::read_machine(stored))).await
            }
            KubeVirtObjectKind::Instance => {
                request(client, id, write, |stored| Some(read::read_instance(stored))).await
            }
            KubeVirtObjectKind::DataVolume => {
                request(client, id, write, |stored| Some(read::read_data_volume(stored))).await
            }
            KubeVirtObjectKind::Claim => {
                request(client, id, write, |stored| Some(read::read_claim(stored))).await
            }
            KubeVirtObjectKind::Pod => request(client, id, write, read::read_pod).await,
            KubeVirtObjectKind::DataSource => {
                request(client, id, write, |stored| Some(read::read_data_source(stored))).await
            }
            KubeVirtObjectKind::Snapshot => {
                request(client, id, write, |stored| Some(read::read_snapshot(stored))).await
            }
            KubeVirtObjectKind::Content => {
                request(client, id, write, |stored| Some(read::read_snapshot_content(stored))).await
            }
            KubeVirtObjectKind::Revision => {
                request(client, id, write, |stored| Some(read::read_revision(stored))).await
            }
        }
    };
    match tokio::time::timeout(DEADLINE, ended).await {
        Ok(Ok(object)) => KubeVirtWriteOutcome::Done(object),
        Ok(Err(kube::Error::Api(status))) if status.is_not_found() => KubeVirtWriteOutcome::NotFound,
        Ok(Err(kube::Error::Api(status))) if status.is_conflict() => KubeVirtWriteOutcome::Conflict,
        Ok(Err(kube::Error::Api(status))) => KubeVirtWriteOutcome::Failed(status.message.clone()),
        Ok(Err(error)) => KubeVirtWriteOutcome::Failed(error.to_string()),
        Err(_) => KubeVirtWriteOutcome::Failed(format!("no response within {DEADLINE:?}")),
    }
}

/// Asks the API server whether a user may clone a source.
async fn permitted(client: &Client, review: &CloneReview) -> Result<(), kube::Error> {
    let api: Api<SubjectAccessReview> = Api::all(client.clone());
    let body = serde_json::from_value(review_body(review)).map_err(kube::Error::SerdeError)?;
    let answer = api.create(&PostParams::default(), &body).await?;
    if answer.status.is_some_and(|status| status.allowed) {
        return Ok(());
    }
    let refusal = kube::core::Status::failure(&review.refusal(), "Forbidden").with_code(403);
    Err(kube::Error::Api(refusal.boxed()))
}

async fn request<S, T>(
    client: &Client,
    id: &KubeVirtObjectId,
    write: KubeVirtWrite,
    read: fn(StoredObject<S, T>) -> Option<ObservedKubeVirtObject>,
) -> Result<Option<ObservedKubeVirtObject>, kube::Error>
where
    S: Default + Clone + Debug + DeserializeOwned,
    T: Default + Clone + Debug + DeserializeOwned,
{
    let resource = id.kind.resource();
    let api: Api<StoredObject<S, T>> = match &*id.key.namespace {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let name = &*id.key.name;
    let patch = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match write {
        KubeVirtWrite::Patch(body) => Ok(read(api.patch(name, &patch, &Patch::Merge(body)).await?)),
        KubeVirtWrite::PatchStatus(body) => {
            Ok(read(api.patch_status(name, &patch, &Patch::Merge(body)).await?))
        }
        KubeVirtWrite::Create(body) => {
            let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
            let body = serde_json::to_vec(&body).map_err(kube::Error::SerdeError)?;
            let request = kube::core::Request::new(api.resource_url())
                .create(&parameters, body)
                .map_err(kube::Error::BuildRequest)?;
            match client.request::<StoredObject<S, T>>(request).await {
                Ok(stored) => Ok(read(stored)),
                // An earlier try of the simulator, or a different client: the model looks at the owner.
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(read(api.get(name).await?)),
                Err(error) => Err(error),
            }
        }
        KubeVirtWrite::CreateClone { .. } | KubeVirtWrite::Fetch(_) => {
            unreachable!("the caller replaces these writes")
        }
        KubeVirtWrite::Delete { uid, now } => {
            let mut parameters = DeleteParams::background()
                .preconditions(Preconditions { uid: Some(uid.to_string()), resource_version: None });
            if now {
                parameters = parameters.grace_period(0);
            }
            match api.delete(name, &parameters).await {
                Ok(_) => Ok(None),
                Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
                Err(error) => Err(error),
            }
        }
    }
}
