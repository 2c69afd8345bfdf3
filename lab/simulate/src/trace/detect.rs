//! The format of a trace, from its first line.

use super::TraceError;
use super::field::shown;
use super::format::{Format, blktrace, is_device};

/// How many bytes of a trace are examined: several lines of any format.
pub const HEAD: usize = 4096;

/// Finds the format of a trace that begins like this.
pub(super) fn detect(file: &str, head: &[u8]) -> Result<Format, TraceError> {
    if head.is_empty() {
        return Err(TraceError::Empty { file: file.to_owned() });
    }
    if blktrace::begins(head) {
        return Ok(Format::Blktrace);
    }
    let text = String::from_utf8_lossy(head);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    if line.starts_with("$$TR_IOREC") {
        return Err(TraceError::Unsupported {
            file: file.to_owned(),
            format: "HP SRT",
            reason: "the form of their binary records is not published; convert it (DataSeries' srt2ds) and export text",
        });
    }
    of_line(line).ok_or_else(|| TraceError::Unknown {
        file: file.to_owned(),
        head: format!("'{}'", shown(line)),
        known: Format::names().collect(),
    })
}

fn of_line(line: &str) -> Option<Format> {
    if line.starts_with("fio version 2 iolog") || line.starts_with("fio version 3 iolog") {
        return Some(Format::Fio);
    }
    if line.replace(' ', "").starts_with("version,time,op,size,lbn") {
        return Some(Format::LibCacheSim);
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let columns: Vec<&str> = line.split(',').map(str::trim).collect();
    let is = |text: &str, known: &[&str]| known.iter().any(|known| known.eq_ignore_ascii_case(text));
    let is_number = |text: &&str| text.parse::<f64>().is_ok();
    match (&words[..], &columns[..]) {
        ([op, found, ..], _) if is(op, &["R", "W"]) && is(found, &["Hit", "Miss"]) => {
            Some(Format::Validation)
        }
        (_, [_, _, _, op, _, _, _, ..]) if is(op, &["Read", "Write"]) => Some(Format::Msr),
        (_, [asu, lba, size, op, at, ..])
            if is(op, &["R", "W"]) && [asu, lba, size, at].into_iter().all(is_number) =>
        {
            Some(Format::Spc)
        }
        ([device, _, _, _, _, _, ..], _) if is_device(device) => Some(Format::Blkparse),
        ([_, _, _, _, _], _) if words.iter().all(is_number) => Some(Format::DiskSim),
        _ => None,
    }
}
