use rstest::rstest;

use super::{Paragraph, split_paragraphs};

#[rstest]
#[case::two_paragraphs("one two\nthree\n\nfour\n", &[(1, 3), (4, 1)])]
#[case::a_heading("# Title of page\none\n## Part\ntwo three\n", &[(2, 1), (4, 2)])]
#[case::items("Text:\n- one two\n  three\n- four\n", &[(1, 1), (2, 4), (4, 2)])]
#[case::a_paragraph_of_an_item("1. one\n\n   two three\n2. four\n", &[(1, 2), (3, 2), (4, 2)])]
#[case::code("one\n```sh\ntwo three\n\nfour\n```\nfive six\n", &[(1, 1), (7, 2)])]
#[case::a_table("| a | b |\n| --- | --- |\none\n", &[(3, 1)])]
#[case::a_line_with_a_number("one\n1999 was\n", &[(1, 3)])]
fn paragraphs_are_counted(#[case] page: &str, #[case] expected: &[(usize, usize)]) {
    let expected: Vec<Paragraph> =
        expected.iter().map(|(line, words)| Paragraph { line: *line, words: *words }).collect();
    assert_eq!(split_paragraphs(page), expected);
}
