//! A trace of requests with the response times that the drive had.
//!
//! A line is `R|W Hit|Miss|Doub|Trip ADDRESS BLOCKS RESPONSE GAP`: blocks of 512 bytes, microseconds. The
//! gap is the time from the completion of the request before to this one's arrival. The second word
//! says what the drive's buffer did where that was measured; most traces say `Hit` throughout, and it
//! is not used.

use foreseek_device::Op;
use foreseek_units::{Lba, Nanos, SectorSpan, Sectors};

/// Most requests of a trace: a thousand times the published ones.
const REQUESTS_LIMIT: usize = 10_000_000;
/// Longest response or gap, in microseconds: an hour.
const LONGEST_US: f64 = 3.6e9;
/// Largest request in blocks. An old SCSI command asks for 65,535 at most, a modern one for more.
const BLOCKS_LIMIT: u64 = 1 << 20;
/// Furthest block: far beyond every disk.
const ADDRESS_LIMIT: u64 = 1 << 48;

/// A request and its response time on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Read or write.
    pub op: Op,
    /// What was asked for.
    pub range: SectorSpan,
    /// From its arrival to its completion.
    pub response: Nanos,
    /// From the completion before to its arrival.
    pub gap: Nanos,
}

/// A line that is no request. Names the file, the line and the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: line {line}: {reason}")]
pub struct TraceError {
    /// Where the text came from.
    pub file: String,
    /// Counted from one.
    pub line: usize,
    /// What is wrong, and what is right.
    pub reason: String,
}

/// Reads a trace. `file` names the text in errors.
///
/// # Errors
/// A line that is no request, none at all, too many.
pub fn parse_trace(file: &str, text: &str) -> Result<Vec<Measured>, TraceError> {
    let mut requests = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |reason: String| TraceError { file: file.to_owned(), line: at + 1, reason };
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if requests.len() == REQUESTS_LIMIT {
            return Err(wrong(format!("there may be {REQUESTS_LIMIT} requests")));
        }
        requests.push(parse_request(line).map_err(wrong)?);
    }
    if requests.is_empty() {
        let reason = format!("holds no request; {FORMAT}");
        return Err(TraceError { file: file.to_owned(), line: 1, reason });
    }
    Ok(requests)
}

/// What a line must be.
const FORMAT: &str = "a line must be: R|W Hit|Miss ADDRESS BLOCKS RESPONSE_US GAP_US";

/// Reads one line of a trace.
///
/// # Errors
/// What is wrong with a line that is no request.
pub fn parse_request(line: &str) -> Result<Measured, String> {
    let mut fields = line.split_ascii_whitespace();
    let mut field = |name: &str| fields.next().ok_or_else(|| format!("{name} is missing; {FORMAT}"));
    let op = match field("R or W")? {
        "R" => Op::Read,
        "W" => Op::Write,
        other => return Err(format!("begins with '{}' instead of R or W; {FORMAT}", quoted(other))),
    };
    match field("Hit or Miss")? {
        "Hit" | "Miss" | "Doub" | "Trip" => {}
        other => return Err(format!("has '{}' instead of Hit or Miss; {FORMAT}", quoted(other))),
    }
    let start = whole(field("the address")?, "the address", 0, ADDRESS_LIMIT)?;
    let blocks = whole(field("the number of blocks")?, "the number of blocks", 1, BLOCKS_LIMIT)?;
    let response = micros(field("the response time")?, "the response time")?;
    let gap = micros(field("the gap")?, "the gap")?;
    if let Some(more) = fields.next() {
        return Err(format!("'{}' is one field too many; {FORMAT}", quoted(more)));
    }
    Ok(Measured { op, range: SectorSpan::at(Lba(start), Sectors(blocks)), response, gap })
}

fn whole(text: &str, name: &str, least: u64, most: u64) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("{name} is '{}', must be a whole number from {least} to {most}", quoted(text))),
    }
}

fn micros(text: &str, name: &str) -> Result<Nanos, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=LONGEST_US).contains(&number) => Ok(Nanos((number * 1e3).round() as u64)),
        _ => Err(format!("{name} is '{}', must be microseconds from 0 to {LONGEST_US}", quoted(text))),
    }
}

/// A field as an error quotes it.
fn quoted(field: &str) -> String {
    field.chars().take(24).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_a_request() {
        let text = "# heading\nW Hit   11392096  12   1686.00000  40961.00000\n\nR Miss 7 1 0.5 0\n";
        let trace = parse_trace("t", text).expect("two requests");
        let first = Measured {
            op: Op::Write,
            range: SectorSpan::at(Lba(11_392_096), Sectors(12)),
            response: Nanos::from_micros(1686),
            gap: Nanos::from_micros(40_961),
        };
        assert_eq!(trace[0], first);
        assert_eq!((trace[1].op, trace[1].response), (Op::Read, Nanos(500)));
    }

    #[test]
    fn complaints_name_file_line_and_field() {
        for (line, what) in [
            ("X Hit 1 1 1 1", "begins with 'X'"),
            ("R Maybe 1 1 1 1", "has 'Maybe' instead of Hit or Miss"),
            ("R Hit -1 1 1 1", "the address is '-1'"),
            ("R Hit 1 0 1 1", "the number of blocks is '0'"),
            ("R Hit 1 1 x 1", "the response time is 'x'"),
            ("R Hit 1 1 NaN 1", "the response time is 'NaN'"),
            ("R Hit 1 1 1 1e99", "the gap is '1e99'"),
            ("R Hit 1 1 1", "the gap is missing"),
            ("R Hit 1 1 1 1 1", "one field too many"),
        ] {
            let error = parse_trace("t.gz", &format!("R Hit 1 1 1 1\n{line}\n")).expect_err(line).to_string();
            assert!(error.starts_with("t.gz: line 2: ") && error.contains(what), "{error}");
        }
        assert!(parse_trace("t", "").is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_read_or_refused(text in "[RWHitMss0-9 .e\n-]{0,120}") {
            let _ = parse_trace("t", &text);
        }
    }
}
