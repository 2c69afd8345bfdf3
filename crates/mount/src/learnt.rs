//! The learnt state of a read path, as text.
//!
//! ```text
//! foreseek-mount-learnt 1
//! source /data
//! device 10500001 51200000
//! foreseek-learnt 1
//! class size=10 start=yes kind=mp4 seen=129
//! cell 8 128.4 127.1
//! end
//! ```
//!
//! The source is there for users. The device's numbers are its positioning time in nanoseconds and its rate
//! in bytes per second; the line is left out if nothing was learnt about it. The rest is the policy's own
//! ([`foreseek_readahead::learn`]), and the last line shows that nothing was cut off. A text may have any
//! source: if one line is invalid, all of it is refused, with the line and the reason.

use foreseek_readahead::learn::{LoadError, TEXT_LIMIT, check};
use foreseek_seam::Measured;
use foreseek_units::{Nanos, Rate};
use std::path::Path;

/// The version of the text that is written, and the only one that is read.
const FORMAT: u32 = 1;
/// The beginning of the first line.
const MAGIC: &str = "foreseek-mount-learnt";
/// The longest text that is read or written: the policy's own and a head with a long path.
pub(crate) const LENGTH_LIMIT: usize = TEXT_LIMIT + (16 << 10);
/// The last line.
const END: &str = "end\n";
/// The most lines of a head.
const HEAD_LINES: usize = 3;

/// The learnt state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LearntState {
    /// The policy's state, as it saves it.
    pub streams: String,
    /// The costs of the device, if they were learnt.
    pub device: Option<Measured>,
}

impl LearntState {
    /// Its text, with this source.
    pub(crate) fn to_text(&self, source: &Path) -> String {
        let device = self.device.map_or(String::new(), |device| {
            format!("device {} {}\n", device.positioning.get(), device.rate.as_bytes_per_second())
        });
        format!("{}{device}{}{END}", Self::head(source), self.streams)
    }

    /// The beginning of the text.
    pub(crate) fn head(source: &Path) -> String {
        let source = source.to_string_lossy().escape_debug().to_string();
        format!("{MAGIC} {FORMAT}\nsource {source}\n")
    }

    /// Parses such a text; returns the state and its number of classes.
    pub(crate) fn parse(text: &str) -> Result<(Self, usize), LoadError> {
        let wrong = |line: usize, reason: String| LoadError { line, reason };
        let mut rest = text;
        let mut device = None;
        for number in 1..=HEAD_LINES {
            let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
            match line.split_once(' ') {
                Some((MAGIC, version)) if number == 1 && version.trim() == FORMAT.to_string() => {}
                Some((MAGIC, version)) if number == 1 => {
                    return Err(wrong(1, format!("its format is '{version}', this version reads {FORMAT}")));
                }
                _ if number == 1 => return Err(wrong(1, format!("it should read '{MAGIC} {FORMAT}'"))),
                Some(("source", _)) => {}
                Some(("device", costs)) => {
                    let costs = measured(costs).ok_or_else(|| "no device is like that".to_owned());
                    device = Some(costs.map_err(|reason| wrong(number, reason))?);
                }
                _ => break,
            }
            rest = after;
        }
        let head = text[..text.len() - rest.len()].lines().count();
        let lines = text.lines().count();
        let rest =
            rest.strip_suffix(END).ok_or_else(|| wrong(lines.max(1), "it ends in the middle".to_owned()))?;
        let loaded = check(rest).map_err(|error| wrong(error.line + head, error.reason))?;
        Ok((Self { streams: rest.to_owned(), device }, loaded.classes))
    }
}

fn measured(costs: &str) -> Option<Measured> {
    let (positioning, rate) = costs.trim().split_once(' ')?;
    Measured::plausible(Nanos(positioning.parse().ok()?), Rate::bytes_per_second(rate.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAMS: &str = "foreseek-learnt 1\nclass seen=3\ncell 0 3 1\n";

    #[test]
    fn what_was_written_is_read() {
        let device =
            Some(Measured { positioning: Nanos(10_500_001), rate: Rate::bytes_per_second(1e8 / 3.0) });
        for device in [None, device] {
            let learnt = LearntState { streams: STREAMS.to_owned(), device };
            let text = learnt.to_text(Path::new("/data\nclass seen=9"));
            assert_eq!(LearntState::parse(&text), Ok((learnt, 1)));
        }
    }

    #[test]
    fn an_error_names_its_line() {
        for (text, line, reason) in [
            (String::new(), 1, "it should read 'foreseek-mount-learnt 1'"),
            (STREAMS.to_owned(), 1, "it should read 'foreseek-mount-learnt 1'"),
            (format!("{MAGIC} 2\nsource /\n{STREAMS}"), 1, "its format is '2', this version reads 1"),
            (format!("{MAGIC} 1\nsource /\ndevice 5 NaN\n{STREAMS}"), 3, "no device is like that"),
            (
                format!("{MAGIC} 1\nsource /\ndevice 5 5e6\n{STREAMS}cell 1\nend\n"),
                7,
                "a cell has three numbers",
            ),
            (format!("{MAGIC} 1\nsource /\nend\n"), 3, "it is empty"),
            (format!("{MAGIC} 1\nsource /\n{STREAMS}"), 5, "it ends in the middle"),
        ] {
            let error = LearntState::parse(&text).expect_err(&text);
            assert_eq!((error.line, error.reason.as_str()), (line, reason), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(
            lines in prop::collection::vec(
                prop_oneof![
                    Just(format!("{MAGIC} 1")), Just("source /a".to_owned()), Just("foreseek-learnt 1".to_owned()),
                    "device [0-9a-z. -]{0,12}", "class( seen=[0-9]{1,22})?", "cell [0-9.]{0,9}", ".{0,12}",
                ], 0..8),
        ) {
            let _ = LearntState::parse(&lines.join("\n"));
        }
    }
}
