//! Who is calling: whom the API server's front proxy says, if it is the front proxy.
//!
//! The aggregation layer of kube-apiserver connects with a client certificate and names the caller in headers. Which
//! certificates and headers these are is published in the ConfigMap `kube-system/extension-apiserver-authentication`,
//! and may change at any time; [`follow`] keeps up. Nobody else is served: a bearer token has no business here, since
//! the aggregation layer never passes one on.

mod follow;
mod requestheader;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use parking_lot::RwLock;
use vmpool_runtime::https::Peer;

use crate::error::Error;

pub(crate) use follow::follow;
pub(crate) use requestheader::RequestHeaders;

/// Everybody whom somebody has vouched for.
const AUTHENTICATED: &str = "system:authenticated";
/// Everybody else.
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of everybody else.
const ANONYMOUS: &str = "system:anonymous";

/// A caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

/// Tells callers apart. Clones follow the same configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Authenticator(Arc<RwLock<Option<Arc<RequestHeaders>>>>);

impl Authenticator {
    /// The caller behind a request.
    ///
    /// # Errors
    /// [`Error::Unauthorized`] if the connection is not the front proxy's, or names nobody.
    pub(crate) fn authenticate(&self, peer: Option<&Peer>, headers: &HeaderMap) -> Result<User, Error> {
        let config = self.0.read().clone().ok_or(Error::Unauthorized)?;
        let certificate = peer.and_then(|peer| peer.certificate.as_ref()).ok_or(Error::Unauthorized)?;
        if !config.admits(certificate.common_name.as_deref()) {
            return Err(Error::Unauthorized);
        }
        let mut user = config.user(headers).ok_or(Error::Unauthorized)?;
        // The aggregation layer leaves the group out for its own requests, such as those for OpenAPI documents.
        let told = user.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
        if !told && user.name != ANONYMOUS {
            user.groups.push(AUTHENTICATED.to_owned());
        }
        Ok(user)
    }

    /// Fails until the configuration was read once.
    pub(crate) fn check(&self) -> Result<(), String> {
        match *self.0.read() {
            Some(_) => Ok(()),
            None => Err("the front proxy's configuration was not read yet".to_owned()),
        }
    }

    pub(crate) fn replace(&self, config: Arc<RequestHeaders>) {
        *self.0.write() = Some(config);
    }
}

#[cfg(test)]
mod tests;
