//! What the requests for each resource do, after authentication and authorization.

use axum::body::{Body, Bytes};
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use vmpool_platforms::removal::{ExpansionApi, RemovalApi, RevisionToExpand};

use crate::api::CLAIM;
use crate::audit::AuditInfo;
use crate::authentication::AuthenticatedUser;
use crate::body::{self, MAX_LENGTH};
use crate::claims::{read_claim, read_release};
use crate::error::{Error, json_response};
use crate::expansion::{self, ExpansionReader, ExpansionRequest, ExpansionTarget};
use crate::forced;
use crate::negotiation::{accepted_format, check_content_type};
use crate::removal::PoolName;
use crate::request_info::{RequestInfo, ResourceRequest};
use crate::response::{self, removal_success_status};
use crate::routes::Route;
use crate::state::ApiServerState;

/// A request that changes a pool.
pub(crate) struct PoolPost {
    pub(crate) request: ResourceRequest,
    pub(crate) user: AuthenticatedUser,
    /// The id of the request.
    pub(crate) id: String,
    pub(crate) parts: Parts,
}

impl PoolPost {
    /// # Errors
    /// See [`read_request_body`].
    async fn read_body(&self, body: Body) -> Result<Bytes, Error> {
        read_request_body(&self.request, "create", "POST", &self.parts, body).await
    }

    fn query(&self) -> &str {
        self.parts.uri.query().unwrap_or_default()
    }

    /// The pool, and what the log says of the request.
    fn into_audited_pool(self, api: &RemovalApi) -> (PoolName, AuditInfo) {
        let ResourceRequest { namespace, name, .. } = self.request;
        let pool = PoolName { stored: api.stored, namespace, name };
        (pool, AuditInfo { user: self.user, request: self.id })
    }
}

impl ApiServerState {
    /// Returns the metadata of a pool.
    pub(crate) async fn read(
        &self,
        api: &'static RemovalApi,
        request: ResourceRequest,
        parts: &Parts,
    ) -> Result<Response<Body>, Error> {
        // Pools cannot be listed here, so the collection supports no method.
        if request.name.is_empty() {
            return Err(Error::MethodNotAllowed { allowed: "" });
        }
        if request.verb != "get" {
            return Err(Error::MethodNotAllowed { allowed: "GET, HEAD" });
        }
        accepted_format(&parts.headers, false)?;
        let ResourceRequest { namespace, name, .. } = request;
        let pool: Value = match self.cluster.pool(api.stored, &namespace, &name).await {
            Ok(pool) => pool,
            Err(error) if error.is_not_found() => return Err(Route::Pool(api).not_found(&name)),
            Err(error) => return Err(Error::Internal(format!("reading pool \"{name}\": {error}"))),
        };
        let content = json!({
            "kind": api.kind,
            "apiVersion": api.api_version(),
            "metadata": pool["metadata"],
        });
        Ok(json_response(StatusCode::OK, &content))
    }

    /// Returns a machine or a pool with instance type and preference written out.
    pub(crate) async fn expand(
        &self,
        api: &'static ExpansionApi,
        target: ExpansionTarget,
        request: ResourceRequest,
        user: &AuthenticatedUser,
        parts: Parts,
        body: Body,
    ) -> Result<Response<Body>, Error> {
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let form = expansion::parse_expansion_form(&query)?;
        let (mut revision, mut index) = (RevisionToExpand::Current, None);
        let object = if target.is_supplied() {
            let body = read_request_body(&request, "update", "PUT", &parts, body).await?;
            expansion::parse_supplied_object(target, &body, &request.namespace)?
        } else {
            if request.verb != "get" {
                return Err(Error::MethodNotAllowed { allowed: "GET, HEAD" });
            }
            accepted_format(&parts.headers, false)?;
            if target == ExpansionTarget::StoredPool {
                (revision, index) = expansion::parse_expansion_query(&query)?;
            }
            self.stored(api, target, &request).await?
        };
        let reader = ExpansionReader { cluster: &self.cluster, authorizer: &self.authorizer, user };
        let requested = ExpansionRequest {
            target,
            object: &object,
            namespace: &request.namespace,
            form,
            revision: &revision,
            index,
        };
        let expanded = expansion::expand_object(reader, api, requested).await?;
        Ok(json_response(StatusCode::OK, &expanded))
    }

    /// The stored machine or pool that a request names.
    async fn stored(
        &self,
        api: &'static ExpansionApi,
        target: ExpansionTarget,
        request: &ResourceRequest,
    ) -> Result<Value, Error> {
        let ResourceRequest { namespace, name, .. } = request;
        let (read, resource): (Result<Value, _>, _) = if target == ExpansionTarget::StoredMachine {
            (self.cluster.whole_machine(api.stored, namespace, name).await, &api.stored.machines)
        } else {
            (self.cluster.pool(api.stored, namespace, name).await, &api.stored.pools)
        };
        read.map_err(|error| {
            if error.is_not_found() {
                Route::Expansion(api, target).not_found(name)
            } else {
                Error::Internal(format!("reading {} {name:?}: {error}", resource.plural))
            }
        })
    }

    /// Handles a removal request.
    pub(crate) async fn remove(
        &self,
        api: &RemovalApi,
        post: PoolPost,
        body: Body,
    ) -> Result<Response<Body>, Error> {
        let body = post.read_body(body).await?;
        let (namespace, pool) = (&*post.request.namespace, &*post.request.name);
        let removal = body::read_removal_request(&body, post.query(), self.apis.all(), api, namespace, pool)?;
        let (dry_run, force) = (removal.dry_run, removal.force);
        if force {
            let forced = RequestInfo::Resource(ResourceRequest { verb: "force", ..post.request.clone() });
            self.authorizer.authorize(&post.user, &forced).await?;
        }
        let (pool, audit) = post.into_audited_pool(api);
        self.check_other_controller(&pool).await?;
        let accepted = self.remover.remove(pool.clone(), removal, audit.clone()).await?;
        if force && !dry_run {
            forced::report_forced_removal(&self.cluster, &self.env, api, &pool, &accepted, &audit.user.name)
                .await;
        }
        Ok(json_response(StatusCode::CREATED, &removal_success_status(&pool, &accepted, dry_run)))
    }

    /// Refuses a request about a pool that the platform's own controller may serve. After a removal has
    /// lowered the count, that controller would delete another machine in addition, and it knows no claims.
    async fn check_other_controller(&self, pool: &PoolName) -> Result<(), Error> {
        let Some(installations) = pool.stored.installations else { return Ok(()) };
        let why = match self.cluster.find_blocker(pool.stored, installations).await {
            Ok(None) => return Ok(()),
            Ok(Some(why)) => why,
            Err(error) => format!("listing {}.{}: {error}", installations.plural, installations.group),
        };
        Err(Error::OtherControllerActive { stored: pool.stored, pool: pool.name.clone(), why })
    }

    /// Handles a claim of a machine, or the release of a claimed one.
    pub(crate) async fn claim_or_release(
        &self,
        api: &RemovalApi,
        post: PoolPost,
        body: Body,
    ) -> Result<Response<Body>, Error> {
        let body = post.read_body(body).await?;
        let dry_run = body::has_dry_run(post.query())?;
        let is_claim = post.request.subresource == CLAIM;
        let (pool, audit) = post.into_audited_pool(api);
        self.check_other_controller(&pool).await?;
        if is_claim {
            let claimed = self.claims.claim(pool, read_claim(&body, dry_run)?, audit).await?;
            let code = if claimed.renewed { StatusCode::OK } else { StatusCode::CREATED };
            return Ok(json_response(code, &response::claim_response(api, &claimed)));
        }
        let released = self.claims.release(pool, read_release(&body, dry_run)?, audit).await?;
        Ok(json_response(StatusCode::OK, &response::release_response(api, &released)))
    }
}

/// The body of a request with this verb, which a client sends by this HTTP method.
///
/// # Errors
/// The error about the method, the media types or the length.
async fn read_request_body(
    request: &ResourceRequest,
    verb: &str,
    method: &'static str,
    parts: &Parts,
    body: Body,
) -> Result<Bytes, Error> {
    if request.verb != verb {
        return Err(Error::MethodNotAllowed { allowed: method });
    }
    accepted_format(&parts.headers, false)?;
    check_content_type(&parts.headers)?;
    let body = Limited::new(body, MAX_LENGTH).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            Error::TooLarge { limit: MAX_LENGTH }
        } else {
            Error::IncompleteBody
        }
    })?;
    Ok(body.to_bytes())
}
