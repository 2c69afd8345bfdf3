//! A `.seek` file: measured seek times.
//!
//! A heading, then a line for each distance: cylinders, milliseconds; some tools add the standard
//! deviation and the time before a write. Distances ascend.

use super::error::ExtractedError;
use foreseek_device::spec::limits::{LONGEST_MS, TABLE_POINTS_LIMIT};

/// Longest text: twice what the most points take.
const TEXT_LIMIT: usize = 64 * 2 * TABLE_POINTS_LIMIT;

/// Measured seek times.
#[derive(Clone, Debug, PartialEq)]
pub struct SeekFile {
    pub(super) distances: Vec<u32>,
    pub(super) times_ms: Vec<f64>,
    /// By how much a seek before a write took longer, on average, where both were measured.
    pub(super) write_extra_ms: Option<f64>,
}

impl SeekFile {
    /// Reads a seek file. `file` names the text in errors.
    ///
    /// # Errors
    /// Lines that are no pairs of numbers, distances that do not ascend, no distances, too many.
    pub fn parse(file: &str, text: &str) -> Result<Self, ExtractedError> {
        let wrong =
            |line: usize, reason: String| ExtractedError::Syntax { file: file.to_owned(), line, reason };
        if text.len() > TEXT_LIMIT {
            return Err(wrong(
                1,
                format!("the text has {} bytes, a seek file has at most {TEXT_LIMIT}", text.len()),
            ));
        }
        let mut seek = Self { distances: Vec::new(), times_ms: Vec::new(), write_extra_ms: None };
        let mut extra = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let fields: Vec<&str> = line.split([',', ' ', '\t']).filter(|field| !field.is_empty()).collect();
            // A heading gives the number of distances; the lines themselves show it as well.
            let heading = fields.first().is_none_or(|field| !field.starts_with(|c: char| c.is_ascii_digit()));
            if heading {
                if seek.distances.is_empty() {
                    continue;
                }
                if fields.is_empty() {
                    continue;
                }
            }
            let number = |field: usize| fields.get(field).and_then(|field| field.parse::<f64>().ok());
            let (Some(distance), Some(time)) = (number(0), number(1)) else {
                return Err(wrong(
                    at + 1,
                    "must be a distance in cylinders and a time in ms: 10, 2.352".to_owned(),
                ));
            };
            if distance.fract() != 0.0 || !(1.0..=f64::from(u32::MAX)).contains(&distance) {
                return Err(wrong(
                    at + 1,
                    format!("the distance {distance} is not a number of cylinders from 1 on"),
                ));
            }
            if !(0.0..=LONGEST_MS).contains(&time) {
                return Err(wrong(at + 1, format!("the time is {time} ms, must be from 0 to {LONGEST_MS}")));
            }
            let distance = distance as u32;
            if seek.distances.last().is_some_and(|last| *last >= distance) {
                return Err(wrong(at + 1, format!("the distance {distance} must be above the one before")));
            }
            if seek.distances.len() == TABLE_POINTS_LIMIT {
                return Err(wrong(at + 1, format!("there may be {TABLE_POINTS_LIMIT} distances")));
            }
            seek.distances.push(distance);
            seek.times_ms.push(time);
            extra.extend(number(3).map(|write| write - time));
        }
        if seek.distances.is_empty() {
            return Err(wrong(
                1,
                "holds no distance: a line for each is wanted, such as 10, 2.352".to_owned(),
            ));
        }
        if extra.len() == seek.distances.len() {
            seek.write_extra_ms = Some(extra.iter().sum::<f64>() / extra.len() as f64);
        }
        Ok(seek)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_behind_a_heading_and_longer_lines() {
        let seek =
            SeekFile::parse("f", "Seek distances measured: 2\n1,\t1.5\n20,\t3.25\n").expect("a seek file");
        assert_eq!((seek.distances, seek.times_ms), (vec![1, 20], vec![1.5, 3.25]));
        assert_eq!(seek.write_extra_ms, None);
        let dual = SeekFile::parse("f", "1, 0.5, 0.02, 0.75\n2, 0.6, 0.03, 0.85\n").expect("a seek file");
        assert!((dual.write_extra_ms.expect("both measured") - 0.25).abs() < 1e-9);
    }

    #[test]
    fn complaints_name_the_line() {
        for (text, line, what) in [
            ("", 1, "holds no distance"),
            ("Seek distances measured: 1\n1,\tx\n", 2, "must be a distance"),
            ("1, 1.0\n1, 2.0\n", 2, "must be above"),
            ("0, 1.0\n", 1, "not a number of cylinders"),
            ("1.5, 1.0\n", 1, "not a number of cylinders"),
            ("1, 1000\n", 1, "must be from 0 to"),
            ("1, NaN\n", 1, "must be from 0 to"),
            ("1, 1.0\nrubbish\n", 2, "must be a distance"),
        ] {
            let error = SeekFile::parse("f.seek", text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("f.seek: line {line}: ")) && error.contains(what), "{error}");
        }
    }
}
