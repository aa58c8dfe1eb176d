//! Who calls: the API server, if clients have to show a certificate, or any client of the network.
//!
//! A Pod of any namespace may reach the webhook. Were every review believed, it could ask whether an object exists that
//! it may not read. So a client that is unknown learns nothing but what its own review says, and the classes of the
//! cluster; objects of namespaces are read for the API server alone.

use std::collections::BTreeSet;

use http::StatusCode;
use vmpool_runtime::https::Peer;

/// Whether a client is the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// It has proved it.
    ApiServer,
    /// Clients are not asked for a proof.
    Unknown,
}

/// Which clients are answered.
#[derive(Clone, Debug, Default)]
pub enum Callers {
    /// All of them, since the API server has no certificate to show.
    #[default]
    Anyone,
    /// Those with a verified certificate of one of these common names; no names mean any.
    Certified(BTreeSet<String>),
}

impl Callers {
    /// Who it is that sends a request.
    ///
    /// # Errors
    /// The status and the text of an HTTP error for a client that is not answered.
    pub(crate) fn caller(&self, peer: Option<&Peer>) -> Result<Caller, (StatusCode, String)> {
        let Self::Certified(names) = self else { return Ok(Caller::Unknown) };
        let certificate = peer.and_then(|peer| peer.certificate.as_ref()).ok_or_else(|| {
            (StatusCode::UNAUTHORIZED, "reviews are accepted with a client certificate only".to_owned())
        })?;
        let name = certificate.common_name.as_deref();
        if names.is_empty() || name.is_some_and(|name| names.contains(name)) {
            Ok(Caller::ApiServer)
        } else {
            let message = "the common name of the client certificate is not one of --client-names";
            Err((StatusCode::FORBIDDEN, message.to_owned()))
        }
    }
}
