//! Authentication: accepts callers that the front proxy of kube-apiserver has authenticated.
//!
//! The aggregation layer of kube-apiserver connects with a client certificate and passes the caller in
//! headers. The ConfigMap `kube-system/extension-apiserver-authentication` contains the certificate
//! authorities and header names. They can change at any time, and [`follow_front_proxy_config`] reads them
//! periodically. All other clients are refused. Bearer tokens are not supported, because the aggregation
//! layer does not forward them.

mod authenticator;
mod follow;
mod requestheader;
mod user;

pub(crate) use authenticator::Authenticator;
pub(crate) use follow::follow_front_proxy_config;
#[cfg(test)]
pub(crate) use requestheader::RequestHeaders;
pub(crate) use user::AuthenticatedUser;

#[cfg(test)]
mod tests;
