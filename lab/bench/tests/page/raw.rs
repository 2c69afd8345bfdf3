//! Raw results as rows of named values.
//!
//! Rows come from tables in text files (as the commands, `scripts/bench-sqlite` and `scripts/sweep-walks` print
//! them), from lines of JSON, from Criterion's output ([`benchmarks`]), from the report of `foreseek lab reproduce --adaptive`, from lists of levels
//! ([`levels`]), of claims ([`claims`]) and of disk requests ([`disk_requests`]), and from measurements of the
//! mount, which are judged anew from their runs.

use super::marks;
use flate2::read::MultiGzDecoder;
use foreseek_bench::{Outcome, array, walk};
use serde_json::Value;
use std::fs;
use std::io::Read as _;
use std::ops::Range;

/// A policy's name in older raw files, and its present name.
const RENAMED: [&str; 2] = ["adaptive-told", "adaptive-known-lengths"];

/// A row: its values by column, and where it stands.
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
        of.iter_mut().flat_map(|row| &mut row.values).for_each(rename);
        rows.extend(of);
    }
    Ok(rows)
}

/// Replaces a policy's older name, in columns and values.
fn rename((column, value): &mut (String, String)) {
    let [old, today] = RENAMED;
    for text in [column, value] {
        if text.contains(old) {
            *text = text.replace(old, today);
        }
    }
}

/// The rows of a text. Runs below a plan are judged anew; the plan shows which measurement they belong to.
fn rows_of(text: &str) -> Result<Vec<Row>, String> {
    let said = |error: foreseek_bench::Error| error.to_string();
    let plan = text.lines().next().unwrap_or_default();
    let has = |field: &str| plan.starts_with('{') && plan.contains(&format!("\"{field}\":"));
    Ok(if has("server_memory_bytes") {
        judged(&Outcome::of_rows(text).map_err(said)?)
    } else if has("file_system") {
        walked(&walk::Report::of_rows(text).map_err(said)?).map_err(|error| error.to_string())?
    } else if has("size_bytes") {
        tables(&array::Report::of_rows(text).map_err(said)?.to_table())
    } else if plan.starts_with('{') {
        objects(text).map_err(|error| error.to_string())?
    } else {
        let mut rows = tables(text);
        rows.extend(figures(text));
        rows.extend(levels(text));
        rows.extend(claims(text));
        rows.extend(disk_requests(text));
        rows.extend(benchmarks(text));
        rows.extend(rounds(text));
        rows
    })
}

/// Criterion's benchmarks: below the name `GROUP/PART, PART ...` a line `thrpt: [LOW UNIT MIDDLE UNIT HIGH UNIT]`. A row for each, with the
/// middle in millions a second.
fn benchmarks(text: &str) -> Vec<Row> {
    let (mut rows, mut name) = (Vec::new(), None);
    for line in text.lines() {
        let before = line.split("time:").next().unwrap_or_default();
        if !line.starts_with(' ') && before.contains('/') {
            name = Some(before.trim());
        }
        let Some(throughput) = line.trim().strip_prefix("thrpt:") else { continue };
        let words: Vec<&str> = throughput.trim().trim_matches(['[', ']']).split(' ').collect();
        // The first one below a name: a second is of a comparison.
        let (Some((group, parts)), [_, _, middle, unit, ..]) =
            (name.take().and_then(|name: &str| name.split_once('/')), &words[..])
        else {
            continue;
        };
        let scale = match *unit {
            "Kelem/s" => 1e-3,
            "Melem/s" => 1.0,
            _ => continue,
        };
        let Ok(middle) = middle.parse::<f64>() else { continue };
        let mut values: Vec<(String, String)> =
            parts.split(", ").zip(0..).map(|(part, at)| (format!("part {at}"), part.to_owned())).collect();
        values.push(("millions a second".to_owned(), format!("{:.4}", middle * scale)));
        rows.push(Row { heading: group.to_owned(), values });
    }
    rows
}

/// Lines `POLICY  LEVEL: a/b/c KEY=VALUE ...  LEVEL: ...` below a line `-- HEADING`: a row for each level, with the keys as columns.
fn levels(text: &str) -> Vec<Row> {
    let (mut rows, mut heading) = (Vec::new(), "");
    for line in text.lines() {
        if let Some(begins) = line.strip_prefix("-- ") {
            heading = begins;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_level = |word: &str| word.strip_suffix(':').is_some_and(|level| level.parse::<u32>().is_ok());
        let [policy, first, ..] = words[..] else { continue };
        if !is_level(first) {
            continue;
        }
        for word in &words[1..] {
            if is_level(word) {
                let named = [("policy", policy), ("level", word.trim_end_matches(':'))];
                let values = named.map(|(name, value)| (name.to_owned(), value.to_owned()));
                rows.push(Row { heading: heading.to_owned(), values: values.to_vec() });
            } else if let (Some(row), Some((key, value))) = (rows.last_mut(), word.split_once('=')) {
                row.values.push((key.to_owned(), value.to_owned()));
            }
        }
    }
    rows
}

/// Lists of claims: below `claim  COLUMN  COLUMN ...` or `HEADING: claim, COLUMN, COLUMN ...`, a line for each claim, to an empty line.
/// Cells are two spaces apart. Columns that are missing at a line's end have no value.
fn claims(text: &str) -> Vec<Row> {
    let (mut rows, mut header) = (Vec::new(), None);
    for line in text.lines() {
        if line.trim().is_empty() {
            header = None;
        } else if let Some((heading, columns)) = &header {
            let (claim, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
            let names: &Vec<String> = columns;
            let values = [claim.to_owned()].into_iter().chain(cells_of(rest));
            rows.push(Row {
                heading: String::clone(heading),
                values: names.iter().cloned().zip(values).collect(),
            });
        } else if line.starts_with("claim  ") {
            header = Some((String::new(), cells_of(line)));
        } else if let Some((heading, columns)) = line.split_once(": claim, ") {
            let columns = ["claim"].into_iter().chain(columns.split(", ")).map(str::to_owned);
            header = Some((heading.to_owned(), columns.collect()));
        }
    }
    rows
}

/// Lists of `PROGRAM WAY WINDOW REQUESTS SEEKS MIB`, the program in its first line alone. Each list has a heading with a colon above it;
/// that of the first also names the columns.
fn disk_requests(text: &str) -> Vec<Row> {
    const COLUMNS: [&str; 6] = ["program", "way", "window", "requests", "seeks", "MiB"];
    let (mut rows, mut heading, mut program, mut is_list) = (Vec::new(), "", "", false);
    for line in text.lines() {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        is_list |= words.len() == COLUMNS.len() && words[1..] == COLUMNS[1..];
        if line.ends_with(':') {
            heading = line;
        }
        if words.len() == COLUMNS.len() {
            program = words[0];
        } else if words.len() + 1 == COLUMNS.len() {
            words.insert(0, program);
        }
        let is_row =
            words.len() == COLUMNS.len() && words[3..].iter().all(|word| word.parse::<u64>().is_ok());
        if is_list && is_row {
            let values =
                COLUMNS.iter().zip(&words).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            rows.push(Row { heading: heading.to_owned(), values: values.collect() });
        }
    }
    rows
}

/// Lines `CELL ROUND HOW SECONDS READS SEEKS ...` of `scripts/bench-watch`: a row for each cell and round, with the seconds of `stock`
/// and `watched`. The heading is the command above them.
fn rounds(text: &str) -> Vec<Row> {
    let (mut rows, mut heading) = (Vec::<Row>::new(), "");
    for line in text.lines() {
        heading = line.strip_prefix("command: ").unwrap_or(heading);
        let words: Vec<&str> = line.split_whitespace().collect();
        let [cell, round, how, numbers @ ..] = &words[..] else { continue };
        let is_number = |at: usize| numbers.get(at).is_some_and(|word: &&str| word.parse::<f64>().is_ok());
        let known = ["stock", "watched"].contains(how) && round.parse::<u32>().is_ok();
        if !known || !(0..3).all(is_number) {
            continue;
        }
        let is_same = |row: &&mut Row| {
            row.heading == heading && row.get("cell") == Some(cell) && row.get("round") == Some(round)
        };
        let value = ((*how).to_owned(), numbers[0].to_owned());
        match rows.iter_mut().find(is_same) {
            Some(row) => row.values.push(value),
            None => {
                let named = [("cell", *cell), ("round", *round)]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()));
                rows.push(Row {
                    heading: heading.to_owned(),
                    values: named.into_iter().chain([value]).collect(),
                });
            }
        }
    }
    rows
}

/// Lines `NAME KIND COLUMN NUMBER COLUMN NUMBER ... in SECONDS s`: a row each. The text above them, back to the
/// previous such lines, is the heading.
fn figures(text: &str) -> Vec<Row> {
    let (mut rows, mut above, mut heading) = (Vec::new(), String::new(), String::new());
    for line in text.lines() {
        let Some(values) = figures_of(line) else {
            above += &format!("{line}\n");
            continue;
        };
        if !above.is_empty() {
            heading = std::mem::take(&mut above);
        }
        rows.push(Row { heading: heading.clone(), values });
    }
    rows
}

/// The columns of such a line, with their values.
fn figures_of(line: &str) -> Option<Vec<(String, String)>> {
    let words: Vec<&str> = line.strip_suffix(" s")?.split_whitespace().collect();
    let (kinds, figures) = words.split_at_checked(2)?;
    let figure = |pair: &[&str]| {
        let name = if pair[0] == "in" { "seconds" } else { pair[0] };
        // A number that is too far off has a mark.
        let number: f64 = pair.get(1)?.trim_end_matches('!').parse().ok()?;
        Some((name.to_owned(), number.to_string()))
    };
    let named = ["name", "kind"]
        .into_iter()
        .zip(kinds)
        .map(|(name, kind)| Some((name.to_owned(), (*kind).to_owned())));
    named.chain(figures.chunks(2).map(figure)).collect()
}

/// The tables and the aims of `foreseek lab reproduce --adaptive`. The names of a table's rows are in the
/// column `where`, and in `device` and `level` if they have both.
fn adaptive(report: &Value) -> Vec<Row> {
    let list = |of: &Value, field: &str| of[field].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut rows = Vec::new();
    for table in list(report, "tables") {
        let heads = list(&table, "heads");
        for row in list(&table, "rows") {
            let (place, numbers) = (text(&row[0]), list_at(&row, 1));
            let mut values = vec![("where".to_owned(), place.clone())];
            if let Some((device, level)) = place.split_once(", ") {
                values.extend(
                    [("device", device), ("level", level)].map(|(of, is)| (of.to_owned(), is.to_owned())),
                );
            }
            let known = heads.iter().zip(numbers).filter(|(_, number)| !number.is_null());
            values.extend(known.map(|(head, number)| (text(head), number.to_string())));
            rows.push(Row { heading: text(&table["title"]), values });
        }
    }
    for aim in list(report, "aims") {
        let mut row = Row { heading: "aims".to_owned(), values: Vec::new() };
        let Value::Object(mut fields) = aim else { continue };
        fields.remove("places");
        let verdict = if fields.get("holds") == Some(&Value::Bool(true)) { "holds" } else { "**missed**" };
        fields.insert("verdict".to_owned(), verdict.into());
        if fields["ceiling"].is_null() {
            fields.remove("ceiling_reached_95");
        }
        fields.retain(|_, value| !value.is_null());
        flatten("", &Value::Object(fields), &mut row.values);
        rows.push(row);
    }
    rows
}

fn list_at(value: &Value, at: usize) -> Vec<Value> {
    value[at].as_array().cloned().unwrap_or_default()
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
            let share = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
            let mean = entry.over_best_static.as_ref().map_or(String::new(), |over| over.mean.to_string());
            rows.push(named(vec![
                ("point", cell.cell.to_string()),
                ("policy", entry.policy.to_string()),
                ("best", best.to_owned()),
                ("MB/s", entry.mb_per_s.mean.to_string()),
                ("x best static", mean),
                ("read/used", entry.device_per_read.to_string()),
                ("x best static, 95 %", over(&entry.over_best_static)),
                ("x default, 95 %", over(&entry.over_default)),
                ("x unbounded, 95 %", over(&entry.over_unbounded)),
                ("request KiB", entry.request_kib.to_string()),
                ("fetched again", share(entry.fetched_again)),
                ("thrashed", share(entry.thrashed)),
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

/// Cells of a measurement of walks. Its own table has rounded numbers, which would be rounded twice.
fn walked(report: &walk::Report) -> Result<Vec<Row>, serde_json::Error> {
    let report: Value = serde_json::from_str(&report.to_json())?;
    let mut rows = Vec::new();
    for cell in report["cells"].as_array().into_iter().flatten() {
        for entry in cell["entries"].as_array().into_iter().flatten() {
            let gain = &entry["gain"];
            let known = [
                ("tree", &cell["tree"]),
                ("program", &cell["program"]),
                ("way", &entry["way"]),
                ("seconds", &entry["seconds"]["mean"]),
                ("x stock", &gain["mean"]),
                ("pass s", &cell["pass_seconds"]),
            ];
            let mut row = Row::default();
            known.into_iter().for_each(|(name, value)| flatten(name, value, &mut row.values));
            row.values.push(("95 %".to_owned(), format!("{}..{}", gain["low"], gain["high"])));
            rows.push(row);
        }
    }
    Ok(rows)
}

fn interval(value: &foreseek_simulate::experiment::Summary) -> String {
    format!("{}..{}", value.low, value.high)
}

/// A row for each object, or for each of its `runs`; nested values are named `outer.inner`.
fn objects(text: &str) -> Result<Vec<Row>, serde_json::Error> {
    let mut rows = Vec::new();
    for object in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let object = object?;
        if object["aims"].is_array() {
            rows.extend(adaptive(&object));
            continue;
        }
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

/// The rows of the tables in a text: those with lines between columns, and those whose columns are at least two
/// spaces apart. An empty first cell repeats the one above it, as the commands print groups.
fn tables(text: &str) -> Vec<Row> {
    // A header stands below an empty line.
    let (mut header, mut marked) = (None, Vec::new());
    for line in text.lines() {
        if line.trim().is_empty() {
            header = None;
        }
        marked.push(header.map_or_else(|| line.to_owned(), |header| with_gaps_marked(header, line)));
        header = header.or(Some(line).filter(|line| !line.trim().is_empty()));
    }
    let lines: Vec<&str> = marked.iter().map(String::as_str).collect();
    let (mut rows, mut heading, mut paragraph) = (Vec::new(), String::new(), String::new());
    let (mut at, mut above) = (0, Vec::<String>::new());
    while at < lines.len() {
        let (mut columns, mut cells) = table_at(&lines[at..]);
        if !cells.is_empty() {
            // After an empty line a table continues without a header.
            let numbers = columns.iter().any(|column| is_number(column));
            let goes_on = at.checked_sub(1).is_some_and(|before| lines[before].trim().is_empty());
            if numbers && goes_on && columns.len() == above.len() {
                cells.insert(0, std::mem::replace(&mut columns, above.clone()));
            }
            if !numbers {
                above.clone_from(&columns);
            }
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

/// Whether a line belongs to a table with this many columns.
fn is_of_table(line: &str, columns: usize) -> bool {
    line.starts_with(BORDERS) || cells_of(line).len() == columns
}

/// A line with the mark [`NONE`] below those columns of the header that have no value; columns are at least two
/// spaces apart.
fn with_gaps_marked(header: &str, line: &str) -> String {
    let (heads, cells) = (spans(header), spans(line));
    if cells.len() >= heads.len() || cells.len() < 3 {
        return line.to_owned();
    }
    let below =
        |head: &Range<usize>| cells.iter().find(|cell| cell.start < head.end && head.start < cell.end);
    let found: Vec<Option<&Range<usize>>> = heads.iter().map(below).collect();
    if found.iter().flatten().count() != cells.len() {
        return line.to_owned();
    }
    let texts = found.into_iter().map(|cell| cell.map_or(NONE, |cell| &line[cell.clone()]));
    texts.collect::<Vec<_>>().join("  ")
}

/// The ranges of the cells of a line.
fn spans(line: &str) -> Vec<Range<usize>> {
    if !line.is_ascii() {
        return Vec::new();
    }
    let cells = line.split("  ").filter(|cell| !cell.trim().is_empty());
    cells
        .map(|cell| (cell.trim().as_ptr() as usize - line.as_ptr() as usize, cell.trim().len()))
        .map(|(at, long)| at..at + long)
        .collect()
}

/// The mark of a cell without a value.
const NONE: &str = "-";

/// What begins a line of a table that has lines.
const BORDERS: [char; 5] = ['│', '┌', '╞', '└', '├'];

/// The columns and cells of a table whose header is the first line, or the line below it if that one is a
/// border; empty where there is none.
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
        // Text in brackets at the end is no column.
        columns.pop();
    }
    let rows = below.iter().take_while(|line| is_of_table(line, columns.len()) && !line.starts_with('┌'));
    let cells: Vec<Vec<String>> = rows.filter(|line| !is_border(line)).map(|line| cells_of(line)).collect();
    let is_table = columns.len() > 2
        && cells.first().and_then(|row| row.last()).is_some_and(|cell| bordered || is_number(cell));
    if is_table { (columns, cells) } else { (Vec::new(), Vec::new()) }
}

fn is_number(cell: &str) -> bool {
    cell.trim_start_matches(['+', '-']).starts_with(|first: char| first.is_ascii_digit())
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
            // Leading cells make groups.
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
fn a_cell_without_a_value_is_none_and_levels_are_rows() {
    let rows = tables(
        "date: x\n\nexperiment  device  value  stock s  gain\naged        disk           245.55  6.44\naged        disk    256M   248.30  5.08\n",
    );
    assert_eq!((rows[0].get("value"), rows[0].get("gain")), (Some(NONE), Some("6.44")));
    assert_eq!((rows[1].get("value"), rows[1].get("stock s")), (Some("256M"), Some("248.30")));
    let rows = levels("-- whole, before\nlinux  64: 1/2 mb=43.3 th=0  256: 3/4 mb=41.9 th=7\nelse 3 4\n");
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[1].get("policy"), rows[1].get("level")), (Some("linux"), Some("256")));
    assert_eq!((rows[1].get("th"), rows[0].heading.as_str()), (Some("7"), "whole, before"));
}

#[test]
fn figures_behind_their_names_are_rows() {
    let rows = figures(
        "full\na disk seek 0.9 inner 1.060! in 64.1 s\nload 3\nquick\nb array rate 1.1 in 8 s\nit took 3 s\n",
    );
    assert_eq!(
        (rows[0].get("inner"), rows[0].get("seconds"), rows[1].get("kind")),
        (Some("1.06"), Some("64.1"), Some("array"))
    );
    assert!(rows.len() == 2 && rows[0].heading == "full\n" && rows[1].heading.contains("quick"));
}

#[test]
fn lists_of_claims_and_of_disk_requests_are_rows() {
    let rows = claims(
        "date: x\n\nclaim   paper   share, 1   pages\nA-1     ≥ 0.45 x    0.595 (!)   0.6\nB-two   1 to 2 x   7\n\n\
         A look (one): claim, paper, new\n A-1 ≈ 1.04 x   -  missed: none\n\nA-2  3  4\n",
    );
    assert_eq!(rows.len(), 3);
    assert_eq!((rows[0].get("share, 1"), rows[0].get("pages")), (Some("0.595 (!)"), Some("0.6")));
    assert_eq!((rows[1].get("paper"), rows[1].get("pages")), (Some("1 to 2 x"), None));
    assert_eq!((rows[2].heading.as_str(), rows[2].get("new")), ("A look (one)", Some("-")));
    let rows = disk_requests(
        "a  b  -  1  2  3\nOne:\nsql   way   window  requests  seeks  MiB\n  stock  -  1  2  3\nTwo, kept:\npy  mount  9  4  5  6\n",
    );
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (rows[0].get("program"), rows[0].get("requests"), rows[0].heading.as_str()),
        (Some("sql"), Some("1"), "One:")
    );
    assert_eq!(
        (rows[1].get("program"), rows[1].get("MiB"), rows[1].heading.as_str()),
        (Some("py"), Some("6"), "Two, kept:")
    );
}

#[test]
fn a_report_of_the_adaptive_policy_has_tables_and_aims() {
    let text = "{\"aims\": [{\"what\": \"x\", \"mean\": 1.5, \"ceiling\": null, \"places\": []}],\n\
                \"tables\": [{\"title\": \"t\", \"heads\": [\"a\", \"b\"], \"rows\": [[\"disk, 8\", [1.0, null]]]}]}";
    let rows = rows_of(text).expect("JSON");
    assert_eq!(
        (rows[0].get("device"), rows[0].get("level"), rows[0].get("a"), rows[0].get("b")),
        (Some("disk"), Some("8"), Some("1.0"), None)
    );
    assert_eq!((rows[1].get("mean"), rows[1].get("ceiling")), (Some("1.5"), None));
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

#[test]
fn benchmarks_of_criterion_are_rows() {
    let text = "strips/hits, asp, 500 MiB\n  time:   [1 ms 2 ms 3 ms]\n  thrpt:  [5.6 Melem/s 5.73 Melem/s 5.8 Melem/s]\n\
                  change:\n  thrpt:  [-1% +2% +3%]\nbig/x   time:   [1 s 2 s 3 s]\n  thrpt:  [620.2 Kelem/s 628.3 Kelem/s 636.2 Kelem/s]\n";
    let rows = benchmarks(text);
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].heading.as_str(), rows[0].get("part 2")), ("strips", Some("500 MiB")));
    assert_eq!(
        (rows[0].get("millions a second"), rows[1].get("millions a second")),
        (Some("5.7300"), Some("0.6283"))
    );
}

#[test]
fn rounds_of_a_cell_are_rows() {
    let text = "command: scripts/bench-watch --rounds 2\n\ncell  round how  seconds  reads  seeks  inodes + contents\n\
                fresh-grep   1 stock    34.35   10906   2086  \nfresh-grep   1 watched   3.56   11230   1318  7 + 133 MiB, used 133\n\
                fresh-grep   2 watched   3.60   11230   1318  7 + 133 MiB, used 133\n\nfresh-grep  9.7x (9.7)\n";
    let rows = rounds(text);
    assert_eq!(rows.len(), 2);
    assert!(rows[0].heading.ends_with("--rounds 2"));
    assert_eq!((rows[0].get("stock"), rows[0].get("watched")), (Some("34.35"), Some("3.56")));
    assert_eq!((rows[1].get("round"), rows[1].get("stock")), (Some("2"), None));
}
