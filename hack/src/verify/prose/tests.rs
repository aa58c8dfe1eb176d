use std::path::Path;

use rstest::rstest;

use super::text::{Syntax, extract_prose};
use super::{REFUSED, refused};

fn lines(name: &str, text: &str) -> Vec<usize> {
    let syntax = Syntax::of(Path::new(name)).unwrap();
    refused(&extract_prose(syntax, text, || Ok(text.parse().unwrap())).unwrap())
        .into_iter()
        .map(|(line, _)| line)
        .collect()
}

#[rstest]
#[case::markdown("page.md", "# Title\n\nNobody creates it.\n", &[3])]
#[case::a_diagram("page.md", "```text\nfree ──> somebody has it\n```\n", &[2])]
#[case::a_rust_comment("a.rs", "fn f() {\n    // whoever calls it\n}\n", &[2])]
#[case::a_doc_comment("a.rs", "/// What somebody's disk is.\nstruct A;\n//! For everybody.\n", &[1, 3])]
#[case::a_comment_after_code("a.rs", "let a = \"//\"; // nobody\n", &[1])]
#[case::a_comment_after_quotes("a.rs", "let a = ['\\'', '\"', 'a'];\nlet b: &'a str = r#\"\"\"#; // whom\n", &[2])]
#[case::a_block_comment("a.rs", "/* one\n * whom */\n", &[2])]
#[case::a_yaml_comment("a.yaml", "a: 1\n# anybody\nb: 2\n", &[2])]
#[case::a_yaml_value("a.yaml", "description: >-\n  Everybody may\n  read it\n", &[2])]
#[case::a_template("a.tpl", "{{/* whoever */}}\n", &[1])]
#[case::notes("NOTES.txt", "See to it that nobody may\n", &[1])]
#[case::a_phrase_over_two_lines("a.rs", "// everything\n// that is there\n", &[1])]
fn a_refused_word_is_found(#[case] name: &str, #[case] text: &str, #[case] found: &[usize]) {
    assert_eq!(lines(name, text), found);
}

#[rstest]
#[case::a_code_span("page.md", "the test `nobody_leaves`, or `nobody`\n")]
#[case::a_code_span_over_two_lines("page.md", "the command `run\nnobody` works\n")]
#[case::a_fence("page.md", "```sh\nsu nobody\n```\n")]
#[case::an_identifier("a.rs", "// nobody_leaves is a test\n")]
#[case::a_string("a.rs", "let user = \"nobody // nobody\";\nlet raw = r\"// nobody\";\n")]
#[case::a_name("a.rs", "fn nobody() {}\n")]
#[case::a_doc_example("a.rs", "/// ```\n/// nobody();\n/// ```\n")]
#[case::two_sentences("page.md", "It deletes everything. That is all.\n")]
fn code_is_not_prose(#[case] name: &str, #[case] text: &str) {
    assert_eq!(lines(name, text), [0_usize; 0]);
}

#[test]
fn every_refused_word_is_found_in_any_case() {
    for word in REFUSED {
        assert_eq!(refused(word), [(1, *word)]);
        assert_eq!(refused(&word.to_uppercase()), [(1, *word)]);
    }
}

#[rstest]
#[case("Makefile", Some(Syntax::Plain))]
#[case("a/main.rs", Some(Syntax::Rust))]
#[case("go.sum", None)]
fn the_name_of_a_file_decides_about_its_syntax(#[case] name: &str, #[case] syntax: Option<Syntax>) {
    assert_eq!(Syntax::of(Path::new(name)), syntax);
}
