//! The writes, each tried once: the model decides whether and when to try again.

use super::{download, read};
use crate::{
    kubevirt::{
        Outcome, Review, Write,
        objects::{Id, Kind, Object},
        review_body,
    },
    objects::Stored,
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
pub(super) async fn perform(client: &Client, id: &Id, write: Write) -> Outcome {
    let ended = async {
        let write = match write {
            Write::CreateClone { body, review } => {
                permitted(client, &review).await?;
                Write::Create(body)
            }
            Write::Fetch(download) => Write::Patch(download::fetch(&download).await),
            other => other,
        };
        match id.kind {
            Kind::Machine => request(client, id, write, |stored| Some(read::machine(stored))).await,
            Kind::Instance => request(client, id, write, |stored| Some(read::instance(stored))).await,
            Kind::DataVolume => request(client, id, write, |stored| Some(read::data_volume(stored))).await,
            Kind::Claim => request(client, id, write, |stored| Some(read::claim(stored))).await,
            Kind::Pod => request(client, id, write, read::pod).await,
            Kind::DataSource => request(client, id, write, |stored| Some(read::data_source(stored))).await,
            Kind::Snapshot => request(client, id, write, |stored| Some(read::snapshot(stored))).await,
            Kind::Content => request(client, id, write, |stored| Some(read::content(stored))).await,
            Kind::Revision => request(client, id, write, |stored| Some(read::revision(stored))).await,
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

/// Asks the API server whether a user may clone a source.
async fn permitted(client: &Client, review: &Review) -> Result<(), kube::Error> {
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
    id: &Id,
    write: Write,
    read: fn(Stored<S, T>) -> Option<Object>,
) -> Result<Option<Object>, kube::Error>
where
    S: Default + Clone + Debug + DeserializeOwned,
    T: Default + Clone + Debug + DeserializeOwned,
{
    let resource = id.kind.resource();
    let api: Api<Stored<S, T>> = match &*id.key.namespace {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let name = &*id.key.name;
    let patch = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match write {
        Write::Patch(body) => Ok(read(api.patch(name, &patch, &Patch::Merge(body)).await?)),
        Write::PatchStatus(body) => Ok(read(api.patch_status(name, &patch, &Patch::Merge(body)).await?)),
        Write::Create(body) => {
            let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
            let body = serde_json::to_vec(&body).map_err(kube::Error::SerdeError)?;
            let request = kube::core::Request::new(api.resource_url())
                .create(&parameters, body)
                .map_err(kube::Error::BuildRequest)?;
            match client.request::<Stored<S, T>>(request).await {
                Ok(stored) => Ok(read(stored)),
                // An earlier try of the simulator, or a different client: the model looks at the owner.
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(read(api.get(name).await?)),
                Err(error) => Err(error),
            }
        }
        Write::CreateClone { .. } | Write::Fetch(_) => unreachable!("the caller replaces these writes"),
        Write::Delete { uid, now } => {
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
