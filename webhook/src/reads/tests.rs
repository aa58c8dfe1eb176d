use rstest::rstest;

use super::resource_path;

#[rstest]
#[case::cluster_scoped(None, Some("small"), Some("/apis/a/v1/things/small"))]
#[case::namespaced(Some("team-a"), Some("x.y-1"), Some("/apis/a/v1/namespaces/team-a/things/x.y-1"))]
#[case::the_collection(None, None, Some("/apis/a/v1/things"))]
#[case::an_empty_name(None, Some(""), None)]
#[case::the_parent(None, Some(".."), None)]
#[case::a_path_outside(None, Some("../../secrets/key"), None)]
#[case::a_query(None, Some("a?watch=true"), None)]
#[case::an_escape(None, Some("a%2fb"), None)]
#[case::capitals(None, Some("Small"), None)]
#[case::another_namespace(Some("a/../b"), Some("x"), None)]
#[case::no_namespace(Some(""), Some("x"), None)]
#[case::a_dash_at_the_end(None, Some("a-"), None)]
fn names_cannot_change_the_path(
    #[case] namespace: Option<&str>,
    #[case] name: Option<&str>,
    #[case] expected: Option<&str>,
) {
    assert_eq!(resource_path("a/v1", namespace, "things", name).as_deref(), expected);
}

#[test]
fn names_have_a_maximum_length() {
    assert!(resource_path("a/v1", None, "things", Some(&"a".repeat(253))).is_some());
    assert!(resource_path("a/v1", None, "things", Some(&"a".repeat(254))).is_none());
}
