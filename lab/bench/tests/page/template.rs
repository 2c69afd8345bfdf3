//! A table with placeholders for values.
//!
//! `{HEADING / KEY, KEY: COLUMN | FORMAT ...}` is the value of a column in the row whose heading contains the
//! text before ` / ` (which may be left out) and whose values include each key. A key that ends with `...` is
//! the beginning of a value, `not KEY` excludes a value, and `COLUMN=KEY` looks in this column only, for
//! numbers that other columns have, too. Where several rows match, the last one is used: a repeated measurement
//! stands below the first. Formats:
//!
//! | format | |
//! |---|---|
//! | `.1` | this many decimals; of an interval `a..b` or `a-b`, of both ends, as "a to b" |
//! | `~2` | this many significant digits |
//! | `1/` | the inverse, of an interval with its ends exchanged |
//! | `/COLUMN` | divided by another column of the same row |
//! | `MiB` | bytes as MiB |
//! | `,` | thousands apart |
//! | `median`, `range` | over all rows that match |
//! | `span` | a range, and one number where its ends are written alike |
//! | `most`, `farthest` | of all rows that match the largest, the one farthest from 1 |
//! | `off` | how far from 1, in per cent |
//! | `least N` | of an interval, `a..b` or `x (a to b)`: "met" where all of it is at least that, "not met" where none is, else "not certain" |
//! | `or TEXT` | where the row has no such value: this text |
//! | `*best` | in italics in rows whose column `best` is not empty |
//!
//! A line `|= PATTERN` is a pattern for the lines after it that begin with `|* `: their parts, apart by `;`, take the places `$1`, `$2` and
//! so on. With `|=least` the least number of each such line is bold.

use super::raw::Row;
use std::fmt;

/// The template with its values.
pub(crate) fn filled(template: &str, rows: &[Row]) -> Result<String, String> {
    let (mut text, mut pattern, mut least) = (String::new(), None, false);
    for line in template.lines() {
        if let Some(rest) = line.strip_prefix("|=") {
            let (mode, rest) = rest.split_once(' ').ok_or("a pattern follows a space")?;
            (pattern, least) = (Some(rest), mode == "least");
            continue;
        }
        let Some(parts) = line.strip_prefix("|* ") else {
            text += &(places(line, rows)? + "\n");
            continue;
        };
        let pattern = pattern.ok_or("no pattern above")?;
        let parts = parts.split(';').zip(1..);
        let line =
            parts.fold(pattern.to_owned(), |line, (part, at)| line.replace(&format!("${at}"), part.trim()));
        let line = places(&line, rows)?;
        text += &(if least { with_least_bold(&line) } else { line } + "\n");
    }
    Ok(text)
}

/// A line with its values.
fn places(line: &str, rows: &[Row]) -> Result<String, String> {
    let (mut text, mut rest) = (String::new(), line);
    while let Some((before, after)) = rest.split_once('{') {
        let (place, after) = after.split_once('}').ok_or_else(|| format!("no end: {line}"))?;
        text += &(before.to_owned() + &value(place, rows).map_err(|why| format!("{{{place}}}: {why}"))?);
        rest = after;
    }
    Ok(text + rest)
}

fn value(place: &str, rows: &[Row]) -> Result<String, String> {
    let (place, formats) = place.split_once(" | ").unwrap_or((place, ""));
    let formats: Vec<&str> = formats.split(" | ").collect();
    let (keys, column) = place.rsplit_once(": ").ok_or("no column")?;
    let (heading, keys) = keys.split_once(" / ").unwrap_or(("", keys));
    // A name may contain commas itself.
    let has = |row: &Row, key: &str| row.values.iter().any(|(_, value)| is(value, key));
    let of_column = |row: &Row, key: &str| {
        let (column, key) = key.split_once('=')?;
        Some(is(row.get(column)?, key))
    };
    let fits = |row: &Row, key: &str| match key.strip_prefix("not ") {
        Some(key) => !has(row, key),
        None => of_column(row, key).unwrap_or_else(|| has(row, key)),
    };
    let is_meant = |row: &&Row| {
        let is_named = has(row, keys) || keys.split(", ").all(|key| fits(row, key.trim()));
        row.heading.contains(heading) && is_named && row.get(column).is_some()
    };
    let meant: Vec<&Row> = rows.iter().filter(is_meant).collect();
    let instead = formats.iter().find_map(|format| format.strip_prefix("or "));
    let Some(last) = meant.last() else { return instead.map(str::to_owned).ok_or("no such row".to_owned()) };
    let Some(value) = last.get(column).filter(|value| !value.is_empty()) else {
        return instead.map(str::to_owned).ok_or("no such value".to_owned());
    };
    let mut applied =
        formats.into_iter().filter(|format| !format.is_empty() && !format.starts_with("or ")).peekable();
    if applied.peek().is_none() {
        return Ok(value.to_owned());
    }
    let value = ends(value).ok_or_else(|| format!("{value} is not a number"))?;
    let shown = Shown {
        value,
        by: None,
        digits: Digits::All,
        italic: false,
        thousands: false,
        once: false,
        verdict: None,
    };
    Ok(applied.try_fold(shown, |shown, format| shown.with(format, &meant, column))?.to_string())
}

/// A number, or the ends of an interval, with its format.
struct Shown {
    value: Vec<f64>,
    /// The column by which it was divided.
    by: Option<String>,
    digits: Digits,
    italic: bool,
    thousands: bool,
    /// Whether ends that are written alike become one number.
    once: bool,
    /// The text in place of the number.
    verdict: Option<&'static str>,
}

enum Digits {
    All,
    Decimals(usize),
    Significant(usize),
}

impl Shown {
    /// With one more format.
    fn with(mut self, format: &str, meant: &[&Row], column: &str) -> Result<Self, String> {
        let last = meant.last().ok_or("no such row")?;
        let digits = |count: &str| count.parse::<usize>().map_err(|error| format!("{format}: {error}"));
        let sorted = || {
            let of = |row: &&Row| {
                let by = self.by.as_ref().map_or(Some(1.0), |by| Some(ends(row.get(by)?)?[0]));
                Some(ends(row.get(column)?)?[0] / by?)
            };
            let mut all = meant.iter().map(of).collect::<Option<Vec<f64>>>().ok_or("not all are numbers")?;
            all.sort_by(f64::total_cmp);
            Ok::<_, String>(all)
        };
        match (format, format.split_at(1)) {
            (_, (".", count)) => self.digits = Digits::Decimals(digits(count)?),
            (_, ("~", count)) => self.digits = Digits::Significant(digits(count)?),
            (_, ("/", other)) => {
                let by = last.get(other).and_then(ends).ok_or_else(|| format!("no number in {other}"))?;
                self.value.iter_mut().for_each(|value| *value /= by[0]);
                self.by = Some(other.to_owned());
            }
            ("1/", _) => {
                self.value.iter_mut().for_each(|value| *value = 1.0 / *value);
                self.value.reverse();
            }
            ("MiB", _) => self.value.iter_mut().for_each(|value| *value /= f64::from(1 << 20)),
            (",", _) => self.thousands = true,
            ("median", _) => {
                let all = sorted()?;
                self.value = vec![f64::midpoint(all[(all.len() - 1) / 2], all[all.len() / 2])];
            }
            ("range" | "span", _) => {
                let all = sorted()?;
                self.value = vec![all[0], all[all.len() - 1]];
                self.once = format == "span";
            }
            ("most", _) => self.value = sorted()?.last().map(|most| vec![*most]).unwrap_or_default(),
            ("farthest", _) => {
                let far = |value: &f64| (value - 1.0).abs();
                let farthest = sorted()?.into_iter().max_by(|one, other| far(one).total_cmp(&far(other)));
                self.value = farthest.map(|farthest| vec![farthest]).unwrap_or_default();
            }
            ("off", _) => self.value.iter_mut().for_each(|value| *value = (*value - 1.0).abs() * 100.0),
            ("*best", _) => self.italic = last.get("best").is_some_and(|best| !best.is_empty()),
            (other, _) => {
                let least = other.strip_prefix("least ").ok_or_else(|| format!("no such format: {other}"))?;
                let least: f64 = least.parse().map_err(|error| format!("{format}: {error}"))?;
                let interval = last.get(column).and_then(interval).ok_or("no interval")?;
                self.verdict = Some(match interval.map(|end| end >= least) {
                    [true, true] => "met",
                    [false, false] => "not met",
                    _ => "not certain",
                });
            }
        }
        Ok(self)
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(verdict) = self.verdict {
            return f.write_str(verdict);
        }
        let number = |value: &f64| {
            let number = match self.digits {
                Digits::All => value.to_string(),
                Digits::Decimals(count) => format!("{value:.count$}"),
                Digits::Significant(count) => to_digits(*value, count),
            };
            if self.thousands { apart(&number) } else { number }
        };
        let mut ends = self.value.iter().map(number).collect::<Vec<_>>();
        if self.once {
            ends.dedup();
        }
        let text = ends.join(" to ");
        if self.italic { write!(f, "*{text}*") } else { f.write_str(&text) }
    }
}

/// Whether a value matches a key.
fn is(value: &str, key: &str) -> bool {
    key.strip_suffix("...").map_or(value == key, |begin| value.starts_with(begin))
}

/// A number, or the two ends of an interval. Text after them does not count.
fn ends(value: &str) -> Option<Vec<f64>> {
    let end =
        value.find(|of: char| !of.is_ascii_digit() && !['.', ',', '-'].contains(&of)).unwrap_or(value.len());
    let value = &value[..end].replace(',', "");
    let parts = value.split_once("..").or_else(|| value.split_once('-').filter(|(low, _)| !low.is_empty()));
    match parts {
        Some((low, high)) => Some(vec![low.parse().ok()?, high.parse().ok()?]),
        None => Some(vec![value.parse().ok()?]),
    }
}

/// The ends of an interval `a..b`, or of one in brackets, `x (a to b)`.
fn interval(value: &str) -> Option<[f64; 2]> {
    let inner = value.split_once('(').map_or(value, |(_, rest)| rest.trim_end_matches(')'));
    let (low, high) = inner.split_once("..").or_else(|| inner.split_once(" to "))?;
    Some([low.trim().parse().ok()?, high.trim().parse().ok()?])
}

/// With this many significant digits; without decimals where the whole part has as many.
fn to_digits(number: f64, digits: usize) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let decimals = |number: f64| {
        let whole = number.abs().log10().floor() as i64 + 1;
        usize::try_from(digits as i64 - whole).unwrap_or(0)
    };
    // Rounding may add a digit: 9.96 is 10, not 10.0.
    let rounded: f64 = format!("{number:.*}", decimals(number)).parse().unwrap_or(number);
    format!("{rounded:.*}", decimals(rounded))
}

/// Thousands apart by commas.
fn apart(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut text = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text + rest
}

/// A line of a table whose least number is bold.
fn with_least_bold(line: &str) -> String {
    let numbers = line.split('|').filter_map(|cell| Some((cell.trim(), cell.trim().parse::<f64>().ok()?)));
    let Some((least, _)) = numbers.min_by(|a, b| a.1.total_cmp(&b.1)) else { return line.to_owned() };
    let cells = line
        .split('|')
        .map(|cell| if cell.trim() == least { format!(" **{least}** ") } else { cell.to_owned() });
    cells.collect::<Vec<_>>().join("|")
}

#[cfg(test)]
fn row(heading: &str, values: &[(&str, &str)]) -> Row {
    let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Row { heading: heading.to_owned(), values }
}

#[test]
fn values_come_to_their_places() {
    let rows = [
        row(
            "first",
            &[("load", "a"), ("way", "raw"), ("MB/s", "9.96"), ("95 %", "3.31..34.99"), ("seeks", "109534")],
        ),
        row("first", &[("load", "a"), ("way", "new"), ("MB/s", "0.123"), ("best", "best")]),
        row("second", &[("load", "a"), ("way", "raw"), ("MB/s", "20.0"), ("95 %", "0.5-2.0")]),
    ];
    let fill = |template: &str| filled(template, &rows);
    assert_eq!(fill("| {first / a, raw: MB/s | ~2} |").as_deref(), Ok("| 10 |\n"));
    assert_eq!(fill("{a, raw: MB/s | .1}").as_deref(), Ok("20.0\n"), "the last one");
    assert_eq!(fill("{first / a, raw: 95 % | ~2}").as_deref(), Ok("3.3 to 35\n"));
    assert_eq!(fill("{second / raw: 95 % | 1/ | .1}").as_deref(), Ok("0.5 to 2.0\n"));
    assert_eq!(fill("{a: MB/s | median | .2}, {a: MB/s | range | .1}").as_deref(), Ok("9.96, 0.1 to 20.0\n"));
    assert_eq!(fill("{raw: MB/s | /MB/s | median | .1}").as_deref(), Ok("1.0\n"));
    assert_eq!(
        fill("{raw: MB/s | span | .1}, {raw: MB/s | /MB/s | span | .1}").as_deref(),
        Ok("10.0 to 20.0, 1.0\n")
    );
    assert_eq!(
        fill("{a: MB/s | most} {a: MB/s | farthest} {new: MB/s | off | .1} %").as_deref(),
        Ok("20 20 87.7 %\n")
    );
    assert_eq!(fill("{a, not new, not 20.0: MB/s}").as_deref(), Ok("9.96\n"));
    assert_eq!(fill("{way=raw, seeks=109534: MB/s}").as_deref(), Ok("9.96\n"));
    assert!(fill("{load=raw: MB/s}").is_err());
    assert_eq!(
        fill("{new: MB/s | .2 | *best} {raw: way} {first / raw: seeks | ,}").as_deref(),
        Ok("*0.12* raw 109,534\n")
    );
    assert_eq!(
        fill("|=least | {$1 / a, raw: MB/s | .1} | {$2: MB/s | .1} | {no: MB/s | or none} |\n|* first; new")
            .as_deref(),
        Ok("| 10.0 | **0.1** | none |\n")
    );
}

#[test]
fn a_place_without_a_value_is_an_error() {
    let rows = [row("first", &[("load", "a"), ("MB/s", "")])];
    for template in
        ["{b: MB/s}", "{a: MB/s}", "{a: no}", "{other / a: load}", "{a: load | .1}", "{a", "{a: load | best}"]
    {
        assert!(filled(template, &rows).is_err(), "{template}");
    }
}

#[test]
fn a_bound_is_met_by_a_whole_interval() {
    let judged = |value: &str| {
        let values =
            [("load", "x"), ("95 %", value)].map(|(name, value)| (name.to_owned(), value.to_owned()));
        filled("{x: 95 % | least 4}", &[Row { heading: String::new(), values: values.to_vec() }])
    };
    assert_eq!(judged("4.00..9.00").as_deref(), Ok("met\n"));
    assert_eq!(judged("2.21 (0.20 to 24.33)").as_deref(), Ok("not certain\n"));
    assert_eq!(judged("0.1..3.9").as_deref(), Ok("not met\n"));
    assert!(judged("7.0").is_err() && judged("one pair").is_err());
}
