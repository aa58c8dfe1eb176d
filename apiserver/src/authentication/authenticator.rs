//! Authentication of requests.

use std::sync::Arc;

use http::HeaderMap;
use parking_lot::RwLock;
use vmpool_runtime::health::Unhealthy;
use vmpool_runtime::https::Peer;

use super::requestheader::RequestHeaders;
use super::user::AuthenticatedUser;
use crate::error::Error;

/// The group of authenticated users.
const AUTHENTICATED: &str = "system:authenticated";
/// The group of unauthenticated users.
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of unauthenticated users.
const ANONYMOUS: &str = "system:anonymous";

/// Authenticates callers. Clones share the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Authenticator(Arc<RwLock<Option<Arc<RequestHeaders>>>>);

impl Authenticator {
    /// The caller of a request.
    ///
    /// # Errors
    /// [`Error::Unauthorized`] if the connection does not belong to the front proxy, or if the headers
    /// contain no user.
    pub(crate) fn authenticate(
        &self,
        peer: Option<&Peer>,
        headers: &HeaderMap,
    ) -> Result<AuthenticatedUser, Error> {
        let config = self.0.read().clone().ok_or(Error::Unauthorized)?;
        let certificate = peer.and_then(|peer| peer.certificate.as_ref()).ok_or(Error::Unauthorized)?;
        if !config.accepts(certificate.common_name.as_deref()) {
            return Err(Error::Unauthorized);
        }
        let mut user = config.user(headers).ok_or(Error::Unauthorized)?;
        // The aggregation layer omits the group in its own requests, such as those for OpenAPI documents.
        let has_group = user.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
        if !has_group && user.name != ANONYMOUS {
            user.groups.push(AUTHENTICATED.to_owned());
        }
        Ok(user)
    }

    /// A readiness check: fails until the configuration has been read.
    pub(crate) fn check(&self) -> Result<(), Unhealthy> {
        match *self.0.read() {
            Some(_) => Ok(()),
            None => Err(Unhealthy::new("the configuration of the front proxy has not been read yet")),
        }
    }

    pub(crate) fn replace(&self, config: Arc<RequestHeaders>) {
        *self.0.write() = Some(config);
    }
}
