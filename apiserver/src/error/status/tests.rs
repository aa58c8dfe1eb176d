use rstest::rstest;

use vmpool_platforms::removal::{APIS, StoredApi};

use super::*;

const STORED: &StoredApi = APIS.removal[0].stored;

fn pool_not_found() -> Error {
    Error::PoolNotFound { plural: STORED.pools.plural, group: STORED.pools.group, pool: "web".into() }
}

fn status(error: &Error) -> Status {
    Status::from(error)
}

#[rstest]
#[case(Error::Unauthorized, 401, "Unauthorized")]
#[case(Error::Forbidden(String::new()), 403, "Forbidden")]
#[case(Error::UnknownPath, 404, "NotFound")]
#[case(pool_not_found(), 404, "NotFound")]
#[case(Error::MethodNotAllowed { allowed: "GET" }, 405, "MethodNotAllowed")]
#[case(Error::NotAcceptable, 406, "NotAcceptable")]
#[case(Error::Conflict { stored: STORED, pool: "web".into(), why: String::new() }, 409, "Conflict")]
#[case(Error::TooLarge { limit: 1 }, 413, "RequestEntityTooLarge")]
#[case(Error::UnsupportedMediaType, 415, "UnsupportedMediaType")]
#[case(Error::BadRequest(String::new()), 400, "BadRequest")]
#[case(Error::IncompleteBody, 400, "BadRequest")]
#[case(Error::TargetNotFound { stored: STORED, target: "a".into(), namespace: "b".into() }, 400, "BadRequest")]
#[case(Error::TargetNotInPool { stored: STORED, target: "a".into(), pool: "b".into() }, 400, "BadRequest")]
#[case(Error::RecordFull { stored: STORED, pool: "web".into(), why: String::new() }, 429, "TooManyRequests")]
#[case(Error::Unavailable { stored: STORED, pool: "web".into(), why: String::new() }, 503, "ServiceUnavailable")]
#[case(Error::OtherControllerActive { stored: STORED, pool: "web".into(), why: String::new() }, 503, "ServiceUnavailable")]
#[case(Error::Overloaded, 429, "TooManyRequests")]
#[case(Error::Internal(String::new()), 500, "InternalError")]
#[case(Error::Timeout(Duration::from_secs(1)), 504, "Timeout")]
#[case(Error::Forwarded { code: 422, reason: "Invalid".into(), message: String::new() }, 422, "Invalid")]
fn codes_and_reasons(#[case] error: Error, #[case] code: u16, #[case] reason: &str) {
    assert_eq!((error.code().as_u16(), error.reason()), (code, reason));
    let status = status(&error);
    assert_eq!(status.status.as_deref(), Some("Failure"));
    assert_eq!((status.code, status.reason.as_deref()), (Some(code.into()), Some(reason)));
    assert_eq!(Response::from(&error).status().as_u16(), code);
}

#[test]
fn an_error_response_is_a_status_object_in_json() {
    let error = pool_not_found();
    let text = serde_json::to_value(status(&error)).unwrap();
    assert_eq!((&text["kind"], &text["apiVersion"]), (&"Status".into(), &"v1".into()));
    assert_eq!(text["message"], "virtualmachinepools.virtualization.deckhouse.io \"web\" not found");
    assert_eq!(text["details"]["kind"], "virtualmachinepools");
    assert_eq!(text["details"]["group"], "virtualization.deckhouse.io");
    assert_eq!(text["details"]["name"], "web");
    assert_eq!(Response::from(&error).headers()[header::CONTENT_TYPE], "application/json");
}

#[test]
fn a_retriable_error_has_a_retry_after_header() {
    let response = Response::from(&Error::Overloaded);
    assert_eq!(response.headers()[header::RETRY_AFTER], "5");
    assert_eq!(status(&Error::Overloaded).details.unwrap().retry_after_seconds, Some(5));
    assert!(Response::from(&Error::Unauthorized).headers().get(header::RETRY_AFTER).is_none());
}

#[test]
fn a_method_error_lists_the_allowed_methods() {
    let response = Response::from(&Error::MethodNotAllowed { allowed: "POST" });
    assert_eq!(response.headers()[header::ALLOW], "POST");
}

#[test]
fn an_invalid_code_becomes_an_internal_error() {
    let error = Error::Forwarded { code: 0, reason: String::new(), message: String::new() };
    assert_eq!(error.code(), StatusCode::INTERNAL_SERVER_ERROR);
}
