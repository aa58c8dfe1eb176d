//! Authentication: accepts callers that the front proxy of kube-apiserver has authenticated.
//!
//! The aggregation layer of kube-apiserver connects with a client certificate and passes the caller in headers. The
//! ConfigMap `kube-system/extension-apiserver-authentication` contains the certificate authorities and header names. They
//! can change at any time, and [`follow`] reads them periodically. All other clients are refused. Bearer tokens are not
//! supported, because the aggregation layer does not forward them.

mod authenticator;
mod follow;
mod requestheader;
mod user;

pub(crate) use authenticator::Authenticator;
pub(crate) use follow::follow;
#[cfg(test)]
pub(crate) use requestheader::RequestHeaders;
pub(crate) use user::User;

#[cfg(test)]
mod tests;
