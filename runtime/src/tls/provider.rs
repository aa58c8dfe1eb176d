//! The cryptography of TLS.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// The cryptography provider of this process. Each use names it, so that the process-wide default is not
/// used.
pub(crate) fn crypto_provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
