//! Which requests the dashboard answers.
//!
//! The printed address contains a token that works once. The browser that uses it gets a cookie, and only
//! requests with this cookie are answered. A page of another site cannot use the cookie, because it is
//! `SameSite=Strict`. It cannot use a name of its own for this address either, because the header `Host` is
//! checked.

use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{COOKIE, HOST};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use vmpool_runtime::Env;

/// The header in which a browser says which site caused a request.
const FETCH_SITE: &str = "sec-fetch-site";

/// The secrets of one run of the dashboard.
pub(super) struct DashboardSession {
    port: u16,
    token: String,
    is_token_used: AtomicBool,
    secret: String,
}

/// Whether a request is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VisitorAdmission {
    /// It is.
    Admitted,
    /// It has the token. The response sets this cookie.
    Entered { cookie: String },
    /// It is not.
    Refused(VisitRefusal),
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VisitRefusal {
    /// The dashboard changes nothing, so it answers GET only.
    Method,
    /// The request is for another name than that of this computer.
    Host,
    /// A page of another site or port caused it.
    Site,
    /// The token is wrong or was used.
    Token,
    /// The browser has not used the token.
    Cookie,
}

impl VisitRefusal {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Site | Self::Token | Self::Cookie => StatusCode::FORBIDDEN,
        }
    }

    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Method => "The dashboard answers GET only.",
            Self::Host => "The dashboard answers requests for 127.0.0.1 and localhost only.",
            Self::Site => "A page of another site requested this. Open the address yourself.",
            Self::Token => {
                "The token is wrong or was used. If you did not use it, another program did: stop the \
                 dashboard. Start `kubectl vmpool dashboard` again for a new address."
            }
            Self::Cookie => "Open the address that `kubectl vmpool dashboard` printed.",
        }
    }
}

impl DashboardSession {
    /// New secrets for the server on this port.
    pub(super) fn new(env: &Env, port: u16) -> Self {
        let (token, secret) = (random_secret(env), random_secret(env));
        Self { port, token, is_token_used: AtomicBool::new(false), secret }
    }

    /// The address that works once.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    /// Whether to answer a request. Only one request with the token enters.
    pub(super) fn admit(&self, request: &Parts) -> VisitorAdmission {
        if request.method != Method::GET {
            return VisitorAdmission::Refused(VisitRefusal::Method);
        }
        if !self.is_own_host(request) {
            return VisitorAdmission::Refused(VisitRefusal::Host);
        }
        if self.has_cookie(&request.headers) {
            return if is_of_other_site(&request.headers) {
                VisitorAdmission::Refused(VisitRefusal::Site)
            } else {
                VisitorAdmission::Admitted
            };
        }
        match find_token(request) {
            None => VisitorAdmission::Refused(VisitRefusal::Cookie),
            Some(token) if self.uses_token(token) => VisitorAdmission::Entered { cookie: self.cookie() },
            Some(_) => VisitorAdmission::Refused(VisitRefusal::Token),
        }
    }

    /// Compares the names in the request with those of this server. Another name for the same address would
    /// make a page of that name one of this site.
    fn is_own_host(&self, request: &Parts) -> bool {
        let own = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        let is_own = |name: &str| own.iter().any(|own| own.eq_ignore_ascii_case(name));
        let mut hosts = request.headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let target = request.uri.authority();
        host.is_some_and(is_own)
            && hosts.next().is_none()
            && target.is_none_or(|target| is_own(target.as_str()))
    }

    fn uses_token(&self, token: &str) -> bool {
        equals_secret(token, &self.token) && !self.is_token_used.swap(true, Ordering::AcqRel)
    }

    /// Cookies are the same for all ports of a computer, so the name contains the port.
    fn cookie_name(&self) -> String {
        format!("vmpool-dashboard-{}", self.port)
    }

    fn cookie(&self) -> String {
        format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie_name(), self.secret)
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie_name();
        let values = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut pairs = values.flat_map(|cookies| cookies.split(';'));
        pairs.any(|pair| {
            let pair = pair.trim().split_once('=');
            pair.is_some_and(|(known, value)| known == name && equals_secret(value, &self.secret))
        })
    }
}

/// A request of a page of another site or port. A request that a user caused has no site.
fn is_of_other_site(headers: &HeaderMap) -> bool {
    headers.get(FETCH_SITE).is_some_and(|site| site != "none" && site != "same-origin")
}

fn find_token(request: &Parts) -> Option<&str> {
    let query = request.uri.query().filter(|_| request.uri.path() == "/")?;
    query.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// 256 random bits as text.
fn random_secret(env: &Env) -> String {
    let [a, b, c, d] = std::array::from_fn(|_| env.random());
    format!("{a:016x}{b:016x}{c:016x}{d:016x}")
}

/// Whether the texts are equal. The duration does not depend on where they differ.
fn equals_secret(text: &str, secret: &str) -> bool {
    let differences = text.bytes().zip(secret.bytes()).fold(0, |found, (a, b)| found | (a ^ b));
    text.len() == secret.len() && differences == 0
}

#[cfg(test)]
mod tests;
