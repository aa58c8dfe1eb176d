//! The API server's request counters.

use std::collections::BTreeMap;
use std::fmt;

use super::accounts::get_text;
use super::running::ControlPlane;
use crate::error::Result;

/// The counter of requests by verb, resource and response code.
const COUNTER: &str = "apiserver_request_total";

/// The labels of one counter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey {
    /// The verb as the API server writes it: `POST`, `PATCH`, `APPLY`, `DELETE`, `GET`, `LIST`, `WATCH` ...
    pub verb: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Plural name of the resource, such as `virtualmachines`.
    pub resource: String,
    /// The subresource, such as `status` or `scale`, or empty.
    pub subresource: String,
    /// HTTP status code of the response.
    pub code: u16,
}

impl RequestKey {
    /// Whether the request is a write.
    pub fn is_write(&self) -> bool {
        ["POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"].contains(&self.verb.as_str())
    }

    /// Whether the response was a success.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

impl fmt::Display for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, subresource, code } = self;
        let slash = if subresource.is_empty() { "" } else { "/" };
        write!(f, "{verb} {group}/{resource}{slash}{subresource} {code}")
    }
}

/// Numbers of requests since the start of the API server, or between two marks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestCounts {
    counts: BTreeMap<RequestKey, u64>,
}

impl RequestCounts {
    /// Parses the counters from the Prometheus text format.
    ///
    /// Dry runs, scopes and versions are summed.
    pub fn parse(text: &str) -> Self {
        let mut counts = BTreeMap::new();
        for line in text.lines() {
            let Some((labels, value)) = line
                .strip_prefix(COUNTER)
                .and_then(|rest| rest.strip_prefix('{'))
                .and_then(|rest| rest.rsplit_once("} "))
            else {
                continue;
            };
            let labels = parse_labels(labels);
            let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
            let key = RequestKey {
                verb: label("verb"),
                group: label("group"),
                resource: label("resource"),
                subresource: label("subresource"),
                code: label("code").parse().unwrap_or_default(),
            };
            *counts.entry(key).or_default() += whole(value);
        }
        Self { counts }
    }

    /// The increase since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let added = self.counts.iter().map(|(key, &count)| {
            let before = earlier.counts.get(key).copied().unwrap_or_default();
            // A restarted API server counts from zero, so the whole value is new.
            (key.clone(), count.checked_sub(before).unwrap_or(count))
        });
        Self { counts: added.filter(|&(_, count)| count > 0).collect() }
    }

    /// The counters that `wanted` selects.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(&RequestKey) -> bool) -> Self {
        let kept = self.counts.iter().filter(|(key, _)| wanted(key));
        Self { counts: kept.map(|(key, &count)| (key.clone(), count)).collect() }
    }

    /// The counters of writes.
    #[must_use]
    pub fn writes(&self) -> Self {
        self.only(RequestKey::is_write)
    }

    /// The sum of all counters.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The number of requests with this verb for the resource, without its subresources and regardless of the
    /// response.
    pub fn of(&self, verb: &str, resource: &str) -> u64 {
        self.only(|key| key.verb == verb && key.resource == resource && key.subresource.is_empty()).total()
    }

    /// All counters, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&RequestKey, u64)> {
        self.counts.iter().map(|(key, &count)| (key, count))
    }
}

impl fmt::Display for RequestCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|(key, count)| writeln!(f, "{count:>7} {key}"))
    }
}

/// Parses `name="value",...`. The values of this counter contain no escapes.
fn parse_labels(text: &str) -> BTreeMap<&str, String> {
    text.split("\",")
        .filter_map(|pair| pair.split_once("=\""))
        .map(|(name, value)| (name, value.trim_end_matches('"').to_owned()))
        .collect()
}

/// Parses a counter. The text format uses floats (`1.5e+06`), but the value is whole.
fn whole(value: &str) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a counter of requests is a whole number far below 2^53"
    )]
    value.trim().parse::<f64>().map_or(0, |value| value as u64)
}

impl ControlPlane {
    /// The API server's current counters. Reading them is a non-resource request.
    ///
    /// # Errors
    /// [`Error::Api`](crate::error::Error::Api).
    pub async fn metrics(&self) -> Result<RequestCounts> {
        get_text(&self.admin, "/metrics").await.map(|text| RequestCounts::parse(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = r#"
# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="virtualization.deckhouse.io",resource="virtualmachines",scope="resource",subresource="",verb="POST",version="v1alpha2"} 3
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 1.5e+06
apiserver_request_duration_seconds_count{verb="POST"} 9
"#;
    const AFTER: &str = r#"
apiserver_request_total{code="201",component="apiserver",dry_run="",group="virtualization.deckhouse.io",resource="virtualmachines",scope="resource",subresource="",verb="POST",version="v1alpha2"} 5
apiserver_request_total{code="409",component="apiserver",dry_run="",group="virtualization.deckhouse.io",resource="virtualmachines",scope="resource",subresource="",verb="POST",version="v1alpha2"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="virtualization.deckhouse.io",resource="virtualmachinepools",scope="resource",subresource="status",verb="PATCH",version="v1alpha2"} 2
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 1.5e+06
"#;

    #[test]
    fn since_gives_the_increase() {
        let added = RequestCounts::parse(AFTER).since(&RequestCounts::parse(BEFORE));
        assert_eq!(
            added.to_string(),
            "      2 PATCH virtualization.deckhouse.io/virtualmachinepools/status 200\n      \
             2 POST virtualization.deckhouse.io/virtualmachines 201\n      \
             1 POST virtualization.deckhouse.io/virtualmachines 409\n"
        );
        assert_eq!(added.of("POST", "virtualmachines"), 3);
        assert_eq!(added.of("PATCH", "virtualmachinepools"), 0, "requests for a subresource do not count");
        assert_eq!(added.writes().total(), 5);
    }

    #[test]
    fn counters_of_a_restarted_server_count_from_zero() {
        let added = RequestCounts::parse(BEFORE).since(&RequestCounts::parse(AFTER));
        assert_eq!(added.of("POST", "virtualmachines"), 3);
    }

    #[test]
    fn large_counters_are_parsed_from_floats() {
        assert_eq!(RequestCounts::parse(BEFORE).of("LIST", "pods"), 1_500_000);
    }
}
