use http::Method;
use rstest::rstest;
use serde_json::json;

use super::RequestSelectors;
use crate::call::Call;

fn selector(query: &str) -> Result<RequestSelectors, u16> {
    let uri = format!("/apis/apps/v1/namespaces/team/controllerrevisions?{query}");
    let (parts, ()) = http::Request::builder().method(Method::GET).uri(uri).body(()).unwrap().into_parts();
    RequestSelectors::of(&Call::parse("user", &parts, b"").unwrap()).map_err(|refusal| refusal.code.as_u16())
}

#[rstest]
#[case::equality("labelSelector=app%3Dweb", true)]
#[case::equality_with_another_value("labelSelector=app%3D%3Ddb", false)]
#[case::inequality("labelSelector=app!%3Ddb", true)]
#[case::inequality_of_a_missing_label("labelSelector=tier!%3Dfront", true)]
#[case::presence("labelSelector=app", true)]
#[case::absence("labelSelector=!app", false)]
#[case::a_set("labelSelector=app%20in%20(db,%20web)", true)]
#[case::none_of_a_set("labelSelector=app%20notin%20(db,web)", false)]
#[case::all_of_several("labelSelector=app%20in%20(db,web),!tier", true)]
#[case::one_of_several("labelSelector=app%3Dweb,tier", false)]
#[case::a_name("fieldSelector=metadata.name%3Da", true)]
#[case::another_name("fieldSelector=metadata.name!%3Da", false)]
#[case::a_namespace("fieldSelector=metadata.namespace%3Dteam,metadata.name%3Da", true)]
fn selects(#[case] query: &str, #[case] expected: bool) {
    let object = json!({ "metadata": { "name": "a", "namespace": "team", "labels": { "app": "web" } } });
    assert_eq!(selector(query).map(|selector| selector.matches(&object)), Ok(expected));
}

#[rstest]
#[case::an_unknown_field("fieldSelector=spec.phase%3Dx")]
#[case::a_field_without_a_value("fieldSelector=metadata.name")]
#[case::two_words("labelSelector=app%20web")]
#[case::an_unterminated_set("labelSelector=app%20in%20(web")]
fn refuses(#[case] query: &str) {
    assert_eq!(selector(query).map(|_| ()), Err(400));
}
