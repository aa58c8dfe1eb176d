//! The clients that the webhook accepts.
//!
//! A Pod in any namespace may be able to connect to the webhook. If the webhook read objects for every
//! client, a Pod could find out whether an object exists that it has no permission to read. Therefore the
//! webhook reads objects of namespaces and images only for an API server that has authenticated itself. For
//! other clients it uses only the review and the machine classes.

use std::collections::BTreeSet;

use http::StatusCode;
use vmpool_runtime::https::Peer;

/// Whether the client has authenticated itself as the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The client has an accepted certificate.
    ApiServer,
    /// The webhook does not require certificates.
    Unauthenticated,
}

/// The accepted clients.
#[derive(Clone, Debug, Default)]
pub enum Callers {
    /// All clients, because the API server has no client certificate for the webhook.
    #[default]
    Any,
    /// Clients with a verified certificate and one of these common names. If there are none, every common
    /// name is accepted.
    Certified(BTreeSet<String>),
}

impl Callers {
    /// Authenticates the client of a request.
    ///
    /// # Errors
    /// The status and text of an HTTP error if the client is not accepted.
    pub(crate) fn authenticate(&self, peer: Option<&Peer>) -> Result<Caller, (StatusCode, String)> {
        let Self::Certified(names) = self else { return Ok(Caller::Unauthenticated) };
        let certificate = peer.and_then(|peer| peer.certificate.as_ref()).ok_or_else(|| {
            (StatusCode::UNAUTHORIZED, "a client certificate is required for reviews".to_owned())
        })?;
        let name = certificate.common_name.as_deref();
        if names.is_empty() || name.is_some_and(|name| names.contains(name)) {
            Ok(Caller::ApiServer)
        } else {
            let message = "the common name of the client certificate is not in --client-names";
            Err((StatusCode::FORBIDDEN, message.to_owned()))
        }
    }
}
