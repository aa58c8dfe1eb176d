use http::{HeaderValue, Request, Response};
use rstest::rstest;
use tower::{Layer, Service, service_fn};
use vmpool_runtime::testing::{ManualClock, test_env};

use super::*;

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[rstest]
#[case::of_the_api_server("Sun, 29 Nov 2026 16:53:57 GMT", Some(1_795_971_237))]
#[case::empty("", None)]
#[case::no_date("tomorrow", None)]
#[case::no_text("\u{ff}", None)]
#[case::a_day_that_does_not_exist("Sun, 31 Nov 2026 16:53:57 GMT", None)]
#[case::far_away("Sun, 29 Nov 99999 16:53:57 GMT", None)]
fn the_date_of_a_response(#[case] text: &str, #[case] expected: Option<i64>) {
    let mut headers = HeaderMap::new();
    assert_eq!(date_of(&headers), None);
    headers.insert(header::DATE, HeaderValue::from_bytes(text.as_bytes()).expect("it is a header"));
    assert_eq!(date_of(&headers), expected.map(second));
}

#[rstest]
#[case::an_object(Method::GET, StatusCode::OK, true)]
#[case::a_renewed_lease(Method::PUT, StatusCode::OK, true)]
#[case::a_deleted_object(Method::DELETE, StatusCode::OK, true)]
#[case::perhaps_of_an_aggregated_api(Method::POST, StatusCode::CREATED, false)]
#[case::perhaps_of_a_load_balancer(Method::GET, StatusCode::SERVICE_UNAVAILABLE, false)]
#[tokio::test]
async fn a_response_of_the_api_server_shows_its_clock(
    #[case] method: Method,
    #[case] status: StatusCode,
    #[case] is_shown: bool,
) {
    let (clock, env) = (SharedServerClock::default(), test_env(&ManualClock::new(), 0));
    let respond = service_fn(move |_: Request<()>| async move {
        let response = Response::builder().status(status);
        response.header(header::DATE, "Sun, 29 Nov 2026 16:53:57 GMT").body(())
    });
    let mut request = Request::new(());
    *request.method_mut() = method;
    let response = clock.layer(&env).layer(respond).call(request).await.expect("there is a response");
    assert_eq!(response.status(), status);
    let expected = ServerClock::of_response(second(1_795_971_237), env.uptime());
    assert_eq!(clock.get(), is_shown.then_some(expected));
}

#[test]
fn a_slow_response_counts_only_if_it_is_the_first() {
    let clock = SharedServerClock::default();
    clock.observe(second(1000), seconds(10), seconds(40));
    let slow = ServerClock::of_response(second(1000), seconds(10));
    assert_eq!(clock.get(), Some(slow));
    clock.observe(second(2000), seconds(50), seconds(52));
    assert_eq!(clock.get(), Some(slow), "a slow one does not replace it");
    clock.observe(second(1045), seconds(55), seconds(56));
    assert_eq!(clock.get(), Some(ServerClock::of_response(second(1045), seconds(55))));
}
