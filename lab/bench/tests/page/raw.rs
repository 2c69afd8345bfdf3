//! Raw results as rows of named values.
//!
//! Rows come from tables in text files (with lines as the commands print them, or those of `scripts/bench-sqlite`), from lines of JSON,
//! and from measurements of the mount, which are judged anew from their runs.

use super::marks;
use flate2::read::MultiGzDecoder;
use foreseek_bench::{Outcome, array, walk};
use serde_json::Value;
use std::fs;
use std::io::Read as _;

/// A row: what it is called by column, and where it stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// The file, the paragraph above the table, and the table's first column.
    pub(crate) heading: String,
    /// Columns and values, in order.
    pub(crate) values: Vec<(String, String)>,
}

impl Row {
    /// A column's value.
    pub(crate) fn get(&self, column: &str) -> Option<&str> {
        self.values.iter().find(|(name, _)| name == column).map(|(_, value)| value.as_str())
    }
}

/// A file's text.
pub(crate) fn text(source: &str) -> Result<String, String> {
    let path = marks::file(source)?;
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    let bytes = fs::read(&path).map_err(wrong)?;
    let mut text = String::new();
    if path.extension().is_some_and(|kind| kind == "gz") {
        MultiGzDecoder::new(&bytes[..]).read_to_string(&mut text).map_err(wrong)?;
        return Ok(text);
    }
    String::from_utf8(bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// All rows of some files.
pub(crate) fn rows(sources: &[&str]) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for source in sources {
        let text = text(source)?;
        let mut of = rows_of(&text).map_err(|error| format!("{source}: {error}"))?;
        of.iter_mut().for_each(|row| row.heading = format!("{source} {}", row.heading));
        rows.extend(of);
    }
    Ok(rows)
}

/// The rows of a text. Runs below a plan are judged anew; which measurement's they are shows by the plan.
fn rows_of(text: &str) -> Result<Vec<Row>, String> {
    let said = |error: foreseek_bench::Error| error.to_string();
    let plan = text.lines().next().unwrap_or_default();
    let has = |field: &str| plan.starts_with('{') && plan.contains(&format!("\"{field}\":"));
    Ok(if has("server_memory_bytes") {
        judged(&Outcome::of_rows(text).map_err(said)?)
    } else if has("file_system") {
        tables(&walk::Report::of_rows(text).map_err(said)?.to_table())
    } else if has("size_bytes") {
        tables(&array::Report::of_rows(text).map_err(said)?.to_table())
    } else if plan.starts_with('{') {
        objects(text).map_err(|error| error.to_string())?
    } else {
        tables(text)
    })
}

/// Points and claims of a measurement of the mount.
fn judged(outcome: &Outcome) -> Vec<Row> {
    let mut rows = Vec::new();
    let named = |values: Vec<(&str, String)>| Row {
        heading: String::new(),
        values: values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    };
    for cell in &outcome.cells {
        for entry in &cell.entries {
            let best = if cell.best_static.as_ref() == Some(&entry.policy) { "best" } else { "" };
            let over = |value: &Option<_>| value.as_ref().map_or(String::new(), interval);
            let mean = entry.over_best_static.as_ref().map_or(String::new(), |over| over.mean.to_string());
            rows.push(named(vec![
                ("point", cell.cell.to_string()),
                ("policy", entry.policy.to_string()),
                ("best", best.to_owned()),
                ("MB/s", entry.mb_per_s.mean.to_string()),
                ("x best static", mean),
                ("x best static, 95 %", over(&entry.over_best_static)),
                ("x default, 95 %", over(&entry.over_default)),
                ("median us", entry.read_median_us.as_ref().map_or(String::new(), |us| us.mean.to_string())),
            ]));
        }
    }
    for claim in &outcome.claims {
        let (holds, inconclusive, fails) = claim.counts;
        rows.push(named(vec![
            ("policy", claim.policy.to_string()),
            ("claim", claim.claim.to_owned()),
            ("verdict", claim.verdict.to_string().to_lowercase()),
            ("worst", claim.value.mean.to_string()),
            ("95 %", interval(&claim.value)),
            ("where", claim.place.clone()),
            ("holds", holds.to_string()),
            ("inconclusive", inconclusive.to_string()),
            ("fails", fails.to_string()),
        ]));
    }
    rows
}

fn interval(value: &foreseek_simulate::experiment::Summary) -> String {
    format!("{}..{}", value.low, value.high)
}

/// A row for each object, or for each of its `runs`; what lies deeper is named `outer.inner`.
fn objects(text: &str) -> Result<Vec<Row>, serde_json::Error> {
    let mut rows = Vec::new();
    for object in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let object = object?;
        let runs = object["runs"].as_array().cloned();
        for run in runs.unwrap_or_else(|| vec![object]) {
            let mut row = Row::default();
            flatten("", &run, &mut row.values);
            rows.push(row);
        }
    }
    Ok(rows)
}

fn flatten(name: &str, value: &Value, into: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(field, value)| {
            flatten(&if name.is_empty() { field.clone() } else { format!("{name}.{field}") }, value, into);
        }),
        Value::String(text) => into.push((name.to_owned(), text.clone())),
        other => into.push((name.to_owned(), other.to_string())),
    }
}

/// The rows of the tables in a text: those with lines between columns, and those whose columns are two spaces apart or more. An empty
/// first cell repeats the one above it, as the commands print groups.
fn tables(text: &str) -> Vec<Row> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut rows, mut heading, mut paragraph) = (Vec::new(), String::new(), String::new());
    let mut at = 0;
    while at < lines.len() {
        let (columns, cells) = table_at(&lines[at..]);
        if !cells.is_empty() {
            rows.extend(named(&heading, &columns, cells));
            paragraph.clear();
            // The table's lines: from the header, which may have borders around it.
            at += 1;
            while at < lines.len() && is_of_table(lines[at], columns.len()) {
                at += 1;
            }
            continue;
        }
        if lines[at].trim().is_empty() {
            paragraph.clear();
        } else {
            paragraph += lines[at];
            paragraph.push('\n');
            heading.clone_from(&paragraph);
        }
        at += 1;
    }
    rows
}

/// Whether a line is one of a table with so many columns.
fn is_of_table(line: &str, columns: usize) -> bool {
    line.starts_with(BORDERS) || cells_of(line).len() == columns
}

/// What begins a line of a table that has lines.
const BORDERS: [char; 5] = ['│', '┌', '╞', '└', '├'];

/// The columns and cells of a table whose header is the first line, or stands below it as a border; nothing where there is none.
fn table_at(lines: &[&str]) -> (Vec<String>, Vec<Vec<String>>) {
    let bordered = lines[0].starts_with('┌');
    let mut columns = cells_of(lines.get(usize::from(bordered)).copied().unwrap_or_default());
    let below = &lines[1 + usize::from(bordered)..];
    let is_border = |line: &&str| line.starts_with(&BORDERS[1..]);
    let wide = below.iter().find(|line| !is_border(line)).map_or(0, |line| cells_of(line).len());
    if !bordered && columns.len() + 1 == wide && lines[0].starts_with(' ') {
        // The column of names has no name.
        columns.insert(0, String::new());
    } else if columns.len() == wide + 1 && columns.last().is_some_and(|last| last.starts_with('(')) {
        // What stands behind in brackets is no column.
        columns.pop();
    }
    let rows = below.iter().take_while(|line| is_of_table(line, columns.len()) && !line.starts_with('┌'));
    let cells: Vec<Vec<String>> = rows.filter(|line| !is_border(line)).map(|line| cells_of(line)).collect();
    let is_table = columns.len() > 2
        && cells.first().and_then(|row| row.last()).is_some_and(|cell| bordered || is_number(cell));
    if is_table { (columns, cells) } else { (Vec::new(), Vec::new()) }
}

fn is_number(cell: &str) -> bool {
    cell.starts_with(|first: char| first.is_ascii_digit())
}

/// The cells of a line of a table.
fn cells_of(line: &str) -> Vec<String> {
    let line = line.trim_matches('│');
    if line.contains('┆') {
        return line.split('┆').map(|cell| cell.trim().to_owned()).collect();
    }
    let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
    cells.map(str::to_owned).collect()
}

/// Rows with the names of their columns.
fn named(heading: &str, columns: &[String], cells: Vec<Vec<String>>) -> Vec<Row> {
    let mut above: Vec<String> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for column in columns {
        let again = names.iter().filter(|name| name.split('#').next() == Some(column)).count();
        names.push(if again == 0 { column.clone() } else { format!("{column}#{}", again + 1) });
    }
    let row = |mut cells: Vec<String>| {
        for (at, above) in above.iter().enumerate() {
            // Groups go by leading cells.
            if !cells[at].is_empty() {
                break;
            }
            cells[at].clone_from(above);
        }
        above.clone_from(&cells);
        Row {
            heading: format!("{heading}{}", columns[0]),
            values: names.iter().cloned().zip(cells).collect(),
        }
    };
    cells.into_iter().map(row).collect()
}

#[test]
fn tables_are_read_with_their_groups_and_paragraphs() {
    let text = "command: x\n\n┌──┐\n│ load ┆ way ┆ MB/s ┆ 95 % ┆ 95 % │\n╞══╡\n│ a    ┆ raw ┆ 1.0  ┆ 1..1 ┆ 2..2 │\n\
                │      ┆ b   ┆ 3.0  ┆      ┆ 4..4 │\n└──┘\n\n== the other\n\
                statement                 stock s   with s   ratio          ratios    reads     with   busy s     with\n\
                10 rows, 8 places           0.997    0.990    1.01    0.99-1.02         197      199    0.957    0.941\n\nend";
    let rows = tables(text);
    assert_eq!(rows.len(), 3);
    assert_eq!(
        (rows[1].get("load"), rows[1].get("MB/s"), rows[1].get("95 %#2")),
        (Some("a"), Some("3.0"), Some("4..4"))
    );
    assert!(rows[1].heading.contains("command: x") && rows[1].get("95 %") == Some(""));
    assert!(rows[2].heading.contains("the other") && rows[2].get("with#2") == Some("0.941"));
    assert_eq!(rows[2].get("statement"), Some("10 rows, 8 places"));
}

#[test]
fn objects_are_read_with_what_lies_within() {
    let rows =
        objects("{\"a\": 1, \"b\": {\"c\": \"x\"}}\n{\"runs\": [{\"name\": \"main\"}]}").expect("JSON");
    assert_eq!(
        (rows[0].get("a"), rows[0].get("b.c"), rows[1].get("name")),
        (Some("1"), Some("x"), Some("main"))
    );
}
