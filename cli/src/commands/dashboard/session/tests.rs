use http::Request;
use rstest::rstest;

use super::*;

const OWN: &str = "127.0.0.1:4000";
const COOKIE_PAIR: &str = "vmpool-dashboard-4000=abcd";

fn session() -> DashboardSession {
    DashboardSession {
        port: 4000,
        token: "1234".into(),
        is_token_used: AtomicBool::new(false),
        secret: "abcd".into(),
    }
}

fn request(method: &str, target: &str, headers: &[(&str, &str)]) -> Parts {
    let request = Request::builder().method(method).uri(target);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(()).unwrap().into_parts().0
}

fn get(target: &str, headers: &[(&str, &str)]) -> Parts {
    request("GET", target, headers)
}

#[test]
fn the_token_is_exchanged_for_a_cookie_once() {
    let session = session();
    let with_token = get("/?token=1234", &[("host", OWN)]);
    let VisitorAdmission::Entered { cookie } = session.admit(&with_token) else { panic!("not entered") };
    assert_eq!(cookie, "vmpool-dashboard-4000=abcd; Path=/; HttpOnly; SameSite=Strict");
    assert_eq!(session.admit(&with_token), VisitorAdmission::Refused(VisitRefusal::Token));
    // The browser that has the cookie may load the address again.
    let again = get("/?token=1234", &[("host", OWN), ("cookie", COOKIE_PAIR)]);
    assert_eq!(session.admit(&again), VisitorAdmission::Admitted);
}

#[rstest]
#[case::no_cookie(get("/", &[("host", OWN)]), VisitRefusal::Cookie)]
#[case::wrong_token(get("/?token=1235", &[("host", OWN)]), VisitRefusal::Token)]
#[case::shorter_token(get("/?token=123", &[("host", OWN)]), VisitRefusal::Token)]
#[case::token_for_another_path(get("/api/board?token=1234", &[("host", OWN)]), VisitRefusal::Cookie)]
#[case::wrong_cookie(get("/", &[("host", OWN), ("cookie", "vmpool-dashboard-4000=abce")]), VisitRefusal::Cookie)]
#[case::cookie_of_another_port(get("/", &[("host", OWN), ("cookie", "vmpool-dashboard-4001=abcd")]), VisitRefusal::Cookie)]
#[case::rebound_name(get("/?token=1234", &[("host", "evil.example:4000")]), VisitRefusal::Host)]
#[case::rebound_name_with_the_cookie(get("/", &[("host", "evil.example:4000"), ("cookie", COOKIE_PAIR)]), VisitRefusal::Host)]
#[case::other_port(get("/", &[("host", "127.0.0.1:4001"), ("cookie", COOKIE_PAIR)]), VisitRefusal::Host)]
#[case::no_host(get("/", &[("cookie", COOKIE_PAIR)]), VisitRefusal::Host)]
#[case::two_hosts(get("/", &[("host", OWN), ("host", "evil.example"), ("cookie", COOKIE_PAIR)]), VisitRefusal::Host)]
#[case::absolute_target(get("http://evil.example/", &[("host", OWN), ("cookie", COOKIE_PAIR)]), VisitRefusal::Host)]
#[case::other_site(get("/", &[("host", OWN), ("cookie", COOKIE_PAIR), ("sec-fetch-site", "cross-site")]), VisitRefusal::Site)]
#[case::other_port_of_the_site(get("/", &[("host", OWN), ("cookie", COOKIE_PAIR), ("sec-fetch-site", "same-site")]), VisitRefusal::Site)]
#[case::write(request("POST", "/", &[("host", OWN), ("cookie", COOKIE_PAIR)]), VisitRefusal::Method)]
#[case::preflight(request("OPTIONS", "/", &[("host", OWN)]), VisitRefusal::Method)]
fn other_requests_are_refused(#[case] request: Parts, #[case] refusal: VisitRefusal) {
    let session = session();
    assert_eq!(session.admit(&request), VisitorAdmission::Refused(refusal));
    // A refused request does not use the token.
    assert!(matches!(
        session.admit(&get("/?token=1234", &[("host", OWN)])),
        VisitorAdmission::Entered { .. }
    ));
}

#[rstest]
#[case::address(&[("host", OWN), ("cookie", COOKIE_PAIR)])]
#[case::name(&[("host", "localhost:4000"), ("cookie", COOKIE_PAIR)])]
#[case::among_other_cookies(&[("host", OWN), ("cookie", "a=b; vmpool-dashboard-4000=abcd; c=d")])]
#[case::of_the_page(&[("host", OWN), ("cookie", COOKIE_PAIR), ("sec-fetch-site", "same-origin")])]
#[case::of_the_user(&[("host", OWN), ("cookie", COOKIE_PAIR), ("sec-fetch-site", "none")])]
fn requests_with_the_cookie_are_admitted(#[case] headers: &[(&str, &str)]) {
    assert_eq!(session().admit(&get("/api/board", headers)), VisitorAdmission::Admitted);
}

#[test]
fn each_run_has_other_secrets() {
    let env = Env::system();
    let (first, second) = (DashboardSession::new(&env, 4000), DashboardSession::new(&env, 4000));
    assert_eq!((first.token.len(), first.secret.len()), (64, 64));
    assert!(first.token != second.token && first.secret != second.secret && first.token != first.secret);
    assert!(first.address().starts_with("http://127.0.0.1:4000/?token="));
}
