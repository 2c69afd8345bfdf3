//! Sizes as users write them: `8G`, `512 MiB`, `4096`. The units are binary, as in fio and the kernel.

use crate::{Bytes, Pages, Sectors};
use std::fmt;
use std::str::FromStr;

const UNITS: [(&str, u32); 5] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("PiB", 50)];

/// A size that cannot be parsed. The message quotes the input and lists the accepted forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseSizeError {
    given: String,
}

impl fmt::Display for ParseSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let negative = self.given.trim_start().strip_prefix('-');
        if negative.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
            return write!(f, "'{}' is negative: give a size such as 512M", self.given);
        }
        write!(f, "'{}' is not a size: give a number and K, M, G, T or KiB, MiB, GiB, TiB", self.given)
    }
}

impl std::error::Error for ParseSizeError {}

impl FromStr for Bytes {
    type Err = ParseSizeError;

    fn from_str(text: &str) -> Result<Self, ParseSizeError> {
        let error = || ParseSizeError { given: text.to_owned() };
        let trimmed = text.trim();
        let digits_end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits_end);
        let unit = unit.trim();
        let shift = match unit {
            "" | "B" => 0,
            _ => UNITS
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(unit) || name[..1].eq_ignore_ascii_case(unit))
                .map(|(_, shift)| *shift)
                .ok_or_else(error)?,
        };
        let bytes = match number.parse::<u64>() {
            Ok(whole) => whole.checked_mul(1 << shift).ok_or_else(error)?,
            Err(_) => {
                let fraction = number.parse::<f64>().map_err(|_| error())?;
                let bytes = fraction * (1u64 << shift) as f64;
                // Less than a byte is left out of a fraction of a unit, and there is no fraction of a byte.
                if bytes >= u64::MAX as f64 || (shift == 0 && bytes.fract() != 0.0) {
                    return Err(error());
                }
                bytes as u64
            }
        };
        Ok(Self(bytes))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().rev().find(|(_, shift)| self.0 >> shift > 0);
        let text = match unit {
            None => format!("{} B", self.0),
            Some((name, shift)) if self.0.is_multiple_of(1 << shift) => format!("{} {name}", self.0 >> shift),
            Some((name, shift)) => format!("{:.1} {name}", self.0 as f64 / (1u64 << shift) as f64),
        };
        f.pad(&text)
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} pages", self.0))
    }
}

impl fmt::Display for Sectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} sectors", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_users_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("1B", 1),
            ("8G", 8 << 30),
            ("512 MiB", 512 << 20),
            ("512m", 512 << 20),
            ("1.5K", 1536),
            ("3.9M", 4_089_446),
            ("0.0001K", 0),
            (" 2TiB ", 2 << 40),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn an_invalid_size_is_refused_with_its_text() {
        for text in ["", "G", "8X", "-1", "1.2.3K", "8 GB", "99999999999P", "0.3", "1.5B", "1e3"] {
            let error = text.parse::<Bytes>().expect_err(text).to_string();
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
    }

    #[test]
    fn a_negative_size_is_named_as_one() {
        for (text, negative) in [("-5M", true), (" -1", true), ("5M-1", false), ("--policy", false)] {
            let error = text.parse::<Bytes>().expect_err(text).to_string();
            assert_eq!(error.contains("negative"), negative, "{error}");
        }
    }

    #[test]
    fn sizes_are_shown_in_binary_units() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (8 << 30, "8 GiB")]
        {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
