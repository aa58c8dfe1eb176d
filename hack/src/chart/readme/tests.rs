use super::{documented_values, table, with_table};

#[test]
fn the_table_of_values_is_generated_from_comments() {
    let text = "# Not of the first key.\n\na:\n  # A count, or\n  # so.\n  b: 1\n  # A | bar.\n  c: {}\n# As a whole.\nd:\n  e: [x, \"1\", \"\"]\n";
    let made = table(text).unwrap();
    let rows: Vec<&str> = made.lines().skip(2).collect();
    assert_eq!(
        rows,
        [
            "| `a.b` | `1` | A count, or so |",
            "| `a.c` | `{}` | A \\| bar |",
            "| `d` | `{e: [x, \"1\", \"\"]}` | As a whole |"
        ]
    );
    assert_eq!(documented_values(text).unwrap(), ["a.b", "a.c", "d"]);
    let error = table("a:\n  b: 1\n").unwrap_err().to_string();
    assert!(error.contains("no comment above a.b"), "{error}");
}

#[test]
fn only_the_text_between_the_markers_is_replaced() {
    let begin = "<!-- Made of values.yaml by `cargo xtask generate`. -->\n";
    let end = "<!-- End of what is made. -->\n";
    let made = with_table(&format!("a\n{begin}old\n{end}b\n"), "new").unwrap();
    assert_eq!(made, format!("a\n{begin}\nnew\n{end}b\n"));
    assert!(with_table("a\n", "new").is_err());
}
