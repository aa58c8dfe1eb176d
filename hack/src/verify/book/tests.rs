use super::*;
use crate::workspace::Workspace;

#[test]
fn the_table_of_contents_has_each_page_and_no_other() {
    let pages = ["a.md", "b/c.md"].map(str::to_owned).into();
    assert_eq!(missing_pages("[A](a.md)\n- [C](b/c.md)", &pages), Vec::<String>::new());
    let found = missing_pages("[A](a.md)\n- [D](d.md)", &pages);
    assert_eq!(found, ["docs/SUMMARY.md lacks b/c.md", "docs/SUMMARY.md has d.md, which does not exist"]);
}

#[test]
fn a_message_must_be_in_the_strings_of_the_programs() {
    let source = r#"fn a() { format!("machine {name} is not ready: {why}, so \
                     the pool waits") }"#;
    let mut strings = Vec::new();
    collect_strings(source.parse().unwrap(), &mut strings);
    let page = "| Message | Cause |\n| --- | --- |\n| `machine ... is not ready: ...` | a |\n\
                | `so the pool waits` | b |\n| `so the pool ends` | c |\n\n\
                | Message of Kubernetes | Cause |\n| --- | --- |\n| `exceeded quota` | d |\n";
    let found = unknown_messages(page, &strings);
    assert_eq!(found, ["docs/troubleshooting.md: no program writes \"so the pool ends\""]);
}

#[test]
fn the_documentation_of_the_tree_is_complete() {
    let workspace = Workspace::locate().unwrap();
    let tree = SourceTree::below(workspace.root());
    assert_eq!(find_problems_of_book(&tree).unwrap(), Vec::<String>::new());
    let messages = tree.text(TROUBLESHOOTING).unwrap();
    assert!(quoted_messages(&messages).len() > 20);
}
