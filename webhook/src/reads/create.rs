//! Creates an object as a dry run. The API server and the webhooks of the platform validate it, and nothing
//! is stored.

use kube::Client;
use kube::client::Body;
use serde_json::Value;
use vmpool_engine::admission::{DryRun, DryRunCause, DryRunResult};

use super::exchange::{ExchangeError, MAX_SIZE, read_response_body, send_request, status_message};
use crate::bounded_json;

/// Creates the object in the collection at a path.
pub(super) async fn send_dry_run(client: &Client, dry_run: &DryRun, path: &str) -> DryRunResult {
    let result = try_send_dry_run(client, dry_run, path).await;
    result.unwrap_or_else(|error| DryRunResult::Failed(error.to_string()))
}

async fn try_send_dry_run(
    client: &Client,
    dry_run: &DryRun,
    path: &str,
) -> Result<DryRunResult, ExchangeError> {
    let object = serde_json::to_vec(&dry_run.object)?;
    let request = http::Request::post(format!("{path}?dryRun=All&fieldValidation=Ignore"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Body::from(object))?;
    let response = send_request(client, request).await?;
    let code = response.status();
    // The object is valid, or its kind does not exist.
    if code.is_success() || code == http::StatusCode::NOT_FOUND {
        return Ok(DryRunResult::Accepted);
    }
    let body = read_response_body(response, MAX_SIZE).await?;
    let status =
        bounded_json::decode_selected_fields(&body, &["reason", "message", "details.causes"], MAX_SIZE);
    Ok(rejected_dry_run_result(code, &status.unwrap_or_default()))
}

/// The result of a rejected request.
fn rejected_dry_run_result(code: http::StatusCode, status: &Value) -> DryRunResult {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match text(&status["reason"]).as_str() {
        // The API server looks for an object with the name after it has validated the new one.
        "AlreadyExists" => DryRunResult::Accepted,
        "Invalid" => {
            let causes = status["details"]["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
            let mut causes: Vec<DryRunCause> = causes
                .iter()
                .map(|cause| DryRunCause { field: text(&cause["field"]), message: text(&cause["message"]) })
                .collect();
            if causes.is_empty() {
                causes.push(DryRunCause { field: String::new(), message: text(&status["message"]) });
            }
            DryRunResult::Invalid(causes)
        }
        // For example an exhausted quota, or a missing permission of the webhook: the pool may still be
        // valid.
        _ => DryRunResult::Failed(status_message(code, status)),
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn invalid(field: &str, message: &str) -> DryRunResult {
        DryRunResult::Invalid(vec![DryRunCause { field: field.to_owned(), message: message.to_owned() }])
    }

    #[rstest]
    #[case::causes(
        422,
        json!({ "reason": "Invalid", "message": "denied", "details": { "causes": [{ "field": "spec.x", "message": "no" }] } }),
        invalid("spec.x", "no")
    )]
    #[case::no_causes(422, json!({ "reason": "Invalid", "message": "denied" }), invalid("", "denied"))]
    #[case::the_name_is_used(409, json!({ "reason": "AlreadyExists", "message": "exists" }), DryRunResult::Accepted)]
    #[case::a_quota(
        403, json!({ "reason": "Forbidden", "message": "exceeded quota" }), DryRunResult::Failed("exceeded quota".into())
    )]
    #[case::no_status(
        500, Value::Null, DryRunResult::Failed("the API server returned 500 Internal Server Error".into())
    )]
    fn a_rejected_request_is(#[case] code: u16, #[case] status: Value, #[case] expected: DryRunResult) {
        assert_eq!(rejected_dry_run_result(StatusCode::from_u16(code).unwrap(), &status), expected);
    }
}
