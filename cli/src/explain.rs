//! Errors of requests, as a user reads them: what failed, on which object, why, and what to do.

use anyhow::anyhow;
use kube::core::Status;
use vmpool_controller::ReadError;

/// What the names of the webhooks of vmpool end with.
const OWN_WEBHOOKS: &str = ".webhook.vmpool.dev\"";

/// The attempt of a request, for example `listing virtualmachines in namespace team-a`.
#[derive(Clone, Debug)]
pub(crate) struct RequestAttempt {
    /// The verb of the right that it needs.
    pub(crate) verb: &'static str,
    /// Plural name and group of the resource, for example `virtualmachines.example.com`.
    pub(crate) resource: String,
    /// Name of the object; empty for all.
    pub(crate) name: String,
    /// The namespace; empty for an object without one.
    pub(crate) namespace: String,
}

impl std::fmt::Display for RequestAttempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.name.is_empty() {
            write!(f, " {}", self.name)?;
        }
        if !self.namespace.is_empty() {
            write!(f, " in namespace {}", self.namespace)?;
        }
        Ok(())
    }
}

/// Whether the cluster does not serve the resource, in contrast to an object that does not exist.
pub(crate) fn is_unserved(error: &kube::Error) -> bool {
    let names_object =
        |status: &Status| status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    matches!(error, kube::Error::Api(status) if status.code == 404 && !names_object(status))
}

/// The error for the user.
pub(crate) fn explain_request_error(attempt: &RequestAttempt, error: &kube::Error) -> anyhow::Error {
    match error {
        // The refusal of a webhook does not name the resource, in contrast to that of the API server. An
        // admission policy or a quota does, so the advice has a condition.
        kube::Error::Api(status) if is_missing_right(status) => anyhow!(
            "you may not {attempt}: {}\nif you lack the right, ask an administrator for a role with the verb {:?} on {}; \
             `kubectl vmpool doctor` lists your rights",
            refusal_sentence(status),
            attempt.verb,
            attempt.resource
        ),
        kube::Error::Api(_) if is_unserved(error) => anyhow!(
            "cannot {attempt}: the cluster does not serve {}; `kubectl vmpool doctor` says what is missing",
            attempt.resource
        ),
        other => anyhow!("cannot {attempt}: {}", describe_kube_error(other)),
    }
}

/// Whether the API server has refused a request because the user lacks a right. The refusal of a webhook
/// names no resource.
pub(crate) fn is_missing_right(status: &Status) -> bool {
    status.code == 403 && status.details.is_some() && !is_denied_by_webhook(status)
}

/// Whether a webhook has refused a request.
fn is_denied_by_webhook(status: &Status) -> bool {
    status.message.starts_with("admission webhook ")
}

/// Whether a webhook of vmpool has refused a request. The API server writes its name only into the message.
pub(crate) fn is_denied_by_own_webhook(status: &Status) -> bool {
    is_denied_by_webhook(status) && status.message.contains(OWN_WEBHOOKS)
}

/// An error of a request in words, each message once.
pub(crate) fn describe_kube_error(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => refusal_sentence(status),
        // The names of these variants are those of libraries, and their causes say everything.
        kube::Error::Service(cause) => with_causes(&**cause),
        kube::Error::HyperError(cause) => with_causes(cause),
        other => with_causes(other),
    }
}

/// What a server says about its refusal, without the words around it that repeat the request.
fn refusal_sentence(status: &Status) -> String {
    let message = status.message.trim();
    if message.is_empty() {
        return format!("the server responded with code {} and without a message", status.code);
    }
    // `Operation cannot be fulfilled on RESOURCE "NAME": SENTENCE`
    let conflict = message.strip_prefix("Operation cannot be fulfilled on ");
    let conflict = conflict.and_then(|rest| rest.split_once("\": "));
    // `RESOURCE is forbidden: SENTENCE`
    let forbidden = message.split_once(" is forbidden: ").filter(|_| is_missing_right(status));
    conflict.or(forbidden).map_or(message, |(_, sentence)| sentence).to_owned()
}

/// An error and its causes, each text once.
pub(crate) fn describe_chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let next = cause.to_string();
        if text.is_empty() {
            text = next;
        } else if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
    }
    text
}

/// The error of a preview for the user.
pub(crate) fn explain_read_error(error: &ReadError) -> String {
    match error {
        ReadError::Failed { kind, source, .. } => match &**source {
            kube::Error::Api(status) if status.code == 403 => {
                format!("you may not list objects of kind {kind}: {}", refusal_sentence(status))
            }
            other => format!("cannot list objects of kind {kind}: {}", describe_kube_error(other)),
        },
        other => with_causes(other),
    }
}

fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: u16, message: &str, name: &str) -> kube::Error {
        let mut status = Status::failure(message, "Reason").with_code(code);
        if !name.is_empty() {
            let details = serde_json::json!({ "name": name });
            status = status.with_details(serde_json::from_value(details).unwrap());
        }
        kube::Error::Api(Box::new(status))
    }

    fn attempt() -> RequestAttempt {
        RequestAttempt {
            verb: "patch",
            resource: "pools.example.com".into(),
            name: "web".into(),
            namespace: "team-a".into(),
        }
    }

    #[test]
    fn a_missing_right_names_verb_and_resource() {
        let error = refusal(403, "user \"ed\" cannot patch resource", "web");
        let text = explain_request_error(&attempt(), &error).to_string();
        assert!(
            text.starts_with("you may not patch pools.example.com web in namespace team-a: user"),
            "{text}"
        );
        assert!(text.contains("a role with the verb \"patch\" on pools.example.com"), "{text}");
    }

    #[test]
    fn a_refusal_of_admission_is_no_missing_right() {
        let error = refusal(403, "admission webhook \"v\" denied the request: replicas", "");
        let text = explain_request_error(&attempt(), &error).to_string();
        assert!(text.starts_with("cannot patch pools.example.com web"), "{text}");
        assert!(!text.contains("role"), "{text}");
    }

    #[test]
    fn a_refusal_is_one_sentence_in_words() {
        let conflict =
            "Operation cannot be fulfilled on virtualmachinepools.example.com \"web\": no machine is free";
        let text = explain_request_error(&attempt(), &refusal(409, conflict, "web")).to_string();
        assert_eq!(text, "cannot patch pools.example.com web in namespace team-a: no machine is free");
        let unreadable = Status::failure("", "Failed to parse error data").with_code(502);
        let text = describe_kube_error(&kube::Error::Api(Box::new(unreadable)));
        assert_eq!(text, "the server responded with code 502 and without a message");
        // The words of the library are not those of users.
        for text in [text, describe_kube_error(&refusal(500, "etcd is down", ""))] {
            assert!(!text.contains("ApiError") && !text.contains("Status {"), "{text}");
        }
    }

    #[test]
    fn a_missing_right_is_said_once() {
        let message = "pools.example.com is forbidden: User \"ed\" cannot patch resource \"pools\"";
        let text = explain_request_error(&attempt(), &refusal(403, message, "web")).to_string();
        let expected =
            "you may not patch pools.example.com web in namespace team-a: User \"ed\" cannot patch";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn causes_that_repeat_each_other_are_one_text() {
        let io = std::io::Error::other("no such file");
        let error = anyhow::Error::new(io).context("reading a: no such file").context("connecting");
        assert_eq!(describe_chain(&error), "connecting: reading a: no such file");
    }

    #[test]
    fn an_unserved_resource_is_no_missing_object() {
        assert!(is_unserved(&refusal(404, "the server could not find the requested resource", "")));
        assert!(!is_unserved(&refusal(404, "pools \"web\" not found", "web")));
    }
}
