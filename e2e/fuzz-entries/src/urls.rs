//! URLs of disk images.

use std::hint::black_box;

use url::{Host, Url};
use vmpool_api::diskimage::values::SourceType;
use vmpool_diskimage::source::{SourceUrl, check_source_url};

/// Checks a URL. If it is allowed, a browser's parser reads a host that is no address of the node either.
pub fn check_url(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let prefixes: Vec<SourceUrl> =
        ["https://images.example.com/a"].iter().filter_map(|url| SourceUrl::parse(url).ok()).collect();
    for source in SourceType::ALL {
        black_box(check_source_url(*source, text, &prefixes).is_ok());
        black_box(check_source_url(*source, text, &[]).is_ok());
    }
    if check_source_url(SourceType::Http, text, &prefixes).is_ok() {
        assert!(
            text.to_ascii_lowercase().starts_with("https://images.example.com"),
            "{text:?} does not begin with the allowed URL"
        );
    }
    if check_source_url(SourceType::Http, text, &[]).is_ok()
        && let Ok(url) = Url::parse(text)
    {
        let is_local = match url.host() {
            Some(Host::Ipv4(address)) => {
                address.is_loopback() || address.is_link_local() || address.is_unspecified()
            }
            Some(Host::Ipv6(address)) => address.is_loopback() || address.is_unspecified(),
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            None => false,
        };
        assert!(!is_local, "{text:?} leads to {:?}", url.host());
        assert!(url.username().is_empty() && url.password().is_none(), "{text:?} has a user");
    }
}
