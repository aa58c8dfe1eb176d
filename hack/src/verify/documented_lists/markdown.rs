//! Lists in Markdown and in the documentation of a module.

/// The cells of the table whose first column has this title, without the heading. Empty if there is no such
/// table.
pub(super) fn table_rows(page: &str, title: &str) -> Vec<Vec<String>> {
    let heading = format!("| {title} |");
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with(&heading))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// The texts between backticks in the first column of a table.
pub(super) fn first_column_names(page: &str, title: &str) -> Vec<String> {
    table_rows(page, title).iter().filter_map(|row| row.first()).flat_map(|cell| code_spans(cell)).collect()
}

/// The texts between backticks in a line.
pub(super) fn code_spans(line: &str) -> Vec<String> {
    line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The names between arrows on the line of a drawing that contains this text, after the text.
pub(super) fn arrow_list(page: &str, start: &str) -> Vec<String> {
    let list = page.lines().find_map(|line| line.split_once(start)).map_or("", |(_, list)| list);
    list.split("─>").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// The names with which the numbered items in the documentation of a module begin. Each name is in backticks.
pub(super) fn numbered_doc_items(source: &str) -> Vec<String> {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let items = lines.filter_map(|line| {
        let (number, item) = line.trim().split_once(". `")?;
        number.parse::<u32>().ok()?;
        item.split_once('`')
    });
    items.map(|(name, _)| name.to_owned()).collect()
}
