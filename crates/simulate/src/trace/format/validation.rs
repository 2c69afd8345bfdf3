//! DiskSim's validation traces: requests to a real drive and how long it took for each.
//! `R|W Hit|Miss LBA blocks response gap`; times in microseconds, the gap from the completion of the
//! request before to the making of this one. Whether it hit the drive's own buffer is not used.

use super::super::field::{field, number, shown, time};
use super::super::{Place, Record, When};
use super::{LineParser, sectors};
use foreseek_device::Op;
use foreseek_units::Nanos;

pub(super) struct Validation;

impl LineParser for Validation {
    fn parse(&mut self, line: &str) -> Result<Option<Record>, String> {
        let mut words = line.split_whitespace();
        let op = match field(&mut words, "R or W")? {
            "R" => Op::Read,
            "W" => Op::Write,
            other => return Err(format!("begins with '{}' instead of R or W", shown(other))),
        };
        match field(&mut words, "Hit or Miss")? {
            "Hit" | "Miss" => {}
            other => return Err(format!("has '{}' instead of Hit or Miss", shown(other))),
        }
        let lba = number(field(&mut words, "LBA")?, "LBA")?;
        let blocks = number(field(&mut words, "number of blocks")?, "number of blocks")?;
        let micros = Nanos::from_micros(1);
        let response = time(field(&mut words, "response time")?, micros, "response time")?;
        let gap = time(field(&mut words, "gap")?, micros, "gap")?;
        Ok(Some(Record {
            at: When::After(gap),
            op,
            place: Place::Device(0),
            range: sectors(lba, blocks)?,
            who: None,
            response: Some(response),
        }))
    }
}
