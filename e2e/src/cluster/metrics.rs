//! The API server's own count of the requests it served.

use std::collections::BTreeMap;
use std::fmt;

use super::Cluster;
use super::accounts::get_text;
use crate::error::Result;

/// The counter that has every request by what it was for.
const COUNTER: &str = "apiserver_request_total";

/// What one counter counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey {
    /// As the API server writes it: `POST`, `PATCH`, `APPLY`, `DELETE`, `GET`, `LIST`, `WATCH` ...
    pub verb: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Resource in the plural, such as `virtualmachines`.
    pub resource: String,
    /// `status`, `scale` ... or empty.
    pub subresource: String,
    /// HTTP code of the answer.
    pub code: u16,
}

impl RequestKey {
    /// Whether it asks for a change.
    pub fn is_write(&self) -> bool {
        ["POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"].contains(&self.verb.as_str())
    }

    /// Whether it was answered with a success.
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

/// Requests by what they were for, since the API server started or between two marks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestCounts {
    counts: BTreeMap<RequestKey, u64>,
}

impl RequestCounts {
    /// Reads the counters out of the text format.
    ///
    /// Dry runs, scopes and versions are summed up.
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

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let added = self.counts.iter().map(|(key, &count)| {
            let before = earlier.counts.get(key).copied().unwrap_or_default();
            // A restarted API server counts from zero: then all of it is new.
            (key.clone(), count.checked_sub(before).unwrap_or(count))
        });
        Self { counts: added.filter(|&(_, count)| count > 0).collect() }
    }

    /// Only what `wanted` selects.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(&RequestKey) -> bool) -> Self {
        let kept = self.counts.iter().filter(|(key, _)| wanted(key));
        Self { counts: kept.map(|(key, &count)| (key.clone(), count)).collect() }
    }

    /// Only requests that ask for a change.
    #[must_use]
    pub fn writes(&self) -> Self {
        self.only(RequestKey::is_write)
    }

    /// All of them together.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// How many requests `verb` the resource (not its subresources) had, whatever the answer.
    pub fn of(&self, verb: &str, resource: &str) -> u64 {
        self.only(|key| key.verb == verb && key.resource == resource && key.subresource.is_empty()).total()
    }

    /// The single counters, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&RequestKey, u64)> {
        self.counts.iter().map(|(key, &count)| (key, count))
    }
}

impl fmt::Display for RequestCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|(key, count)| writeln!(f, "{count:>7} {key}"))
    }
}

/// Reads `name="value",...`. Values of this counter have no escapes.
fn parse_labels(text: &str) -> BTreeMap<&str, String> {
    text.split("\",")
        .filter_map(|pair| pair.split_once("=\""))
        .map(|(name, value)| (name, value.trim_end_matches('"').to_owned()))
        .collect()
}

/// A counter is a float in the text format (`1.5e+06`), and whole in what it means.
fn whole(value: &str) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a counter of requests is a whole number far below 2^53"
    )]
    value.trim().parse::<f64>().map_or(0, |value| value as u64)
}

impl Cluster {
    /// The API server's request counters as they are now. Asking is itself a request, for no resource.
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
    fn the_difference_has_what_was_added() {
        let added = RequestCounts::parse(AFTER).since(&RequestCounts::parse(BEFORE));
        assert_eq!(
            added.to_string(),
            "      2 PATCH virtualization.deckhouse.io/virtualmachinepools/status 200\n      \
             2 POST virtualization.deckhouse.io/virtualmachines 201\n      \
             1 POST virtualization.deckhouse.io/virtualmachines 409\n"
        );
        assert_eq!(added.of("POST", "virtualmachines"), 3);
        assert_eq!(added.of("PATCH", "virtualmachinepools"), 0, "a subresource is not the resource");
        assert_eq!(added.writes().total(), 5);
    }

    #[test]
    fn counters_of_a_restarted_server_are_all_new() {
        let added = RequestCounts::parse(BEFORE).since(&RequestCounts::parse(AFTER));
        assert_eq!(added.of("POST", "virtualmachines"), 3);
    }

    #[test]
    fn big_counters_are_floats() {
        assert_eq!(RequestCounts::parse(BEFORE).of("LIST", "pods"), 1_500_000);
    }
}
