//! The text that `blkparse` prints without options (blkparse(1), "Output description"):
//! `major,minor cpu sequence seconds pid action rwbs sector + sectors [process]`.
//!
//! A request is what a process queued: an action `Q`. The others (remaps, merges, plugs, issues, completions,
//! messages) describe its further course and are not requests. Discards are not traffic that a disk would see,
//! and are ignored, too. The summary at the end of the output (from `CPU` or `Total` on) is not part of the
//! trace. Device numbers are `major << 20 | minor`.

use super::super::field::{field, number, shown, time};
use super::super::record::{Record, TraceTarget, When};
use super::parser::{LineParser, nothing, sectors};
use foreseek_device::Op;
use foreseek_seam::ProcessId;
use foreseek_units::{Instant, Nanos};

#[derive(Default)]
pub(super) struct Blkparse {
    /// The summary has begun.
    summary: bool,
}

/// Whether this is a device as blkparse prints it: `8,16`.
pub(in super::super) fn is_device(word: &str) -> bool {
    device(word).is_some()
}

fn device(word: &str) -> Option<u32> {
    let (major, minor) = word.split_once(',')?;
    let (major, minor) = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

impl LineParser for Blkparse {
    fn parse(&mut self, line: &str) -> Result<Option<Record>, String> {
        self.summary |= line.starts_with("CPU") || line.starts_with("Total");
        if self.summary {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let first = field(&mut words, "device")?;
        let device = device(first)
            .ok_or_else(|| format!("its device '{}' is not of the form major,minor", shown(first)))?;
        number::<u32>(field(&mut words, "processor")?, "processor")?;
        number::<u64>(field(&mut words, "sequence number")?, "sequence number")?;
        let at = time(field(&mut words, "time")?, Nanos::from_secs(1), "time")?;
        let pid = number(field(&mut words, "process id")?, "process id")?;
        if field(&mut words, "action")? != "Q" {
            return Ok(None);
        }
        let rwbs = field(&mut words, "kind of request (rwbs)")?;
        let Some(op) = kind(rwbs)? else { return Ok(None) };
        // A flush alone has no sectors: the process follows at once. If there are some nevertheless, nothing is
        // transferred.
        let word = field(&mut words, "sector")?;
        let (op, range) = match word.starts_with('[') {
            true if rwbs.contains('F') => (Op::Flush, nothing()),
            true => return Ok(None),
            false => {
                let lba = number(word, "sector")?;
                match field(&mut words, "'+'")? {
                    "+" => {}
                    other => return Err(format!("has '{}' where '+' should be", shown(other))),
                }
                let count = number(field(&mut words, "number of sectors")?, "number of sectors")?;
                let range = sectors(lba, count)?;
                (op, if op == Op::Flush { nothing() } else { range })
            }
        };
        Ok(Some(Record {
            at: When::At(Instant(at.get())),
            op,
            target: TraceTarget::Device(device),
            range,
            pid: Some(ProcessId(pid)),
            response: None,
        }))
    }
}

/// The operation of a request by its letters; `None` for a discard or one without data.
fn kind(rwbs: &str) -> Result<Option<Op>, String> {
    let has = |letter| rwbs.contains(letter);
    if !rwbs.bytes().all(|letter| b"RWDFNASMBEV".contains(&letter)) {
        return Err(format!("its kind of request '{}' has letters that blkparse does not use", shown(rwbs)));
    }
    Ok(match () {
        () if has('D') || has('E') => None,
        () if has('R') => Some(Op::Read),
        () if has('W') => Some(Op::Write),
        () if has('F') => Some(Op::Flush),
        () => None,
    })
}
