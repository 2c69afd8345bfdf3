//! SPC traces (Storage Performance Council, "Trace File Format Specification", revision 1.0.1):
//! `ASU,LBA,size,opcode,timestamp` and optional further fields, which are ignored. The size is in
//! bytes, an LBA has 512, the opcode is R or W, the time is in seconds from the start. An ASU
//! (application storage unit) counts as a device.

use super::super::field::{field, number, time};
use super::super::record::{Record, TraceTarget, When};
use super::parser::{LineParser, sectors, span};
use foreseek_device::Op;
use foreseek_units::{Instant, Nanos};

pub(super) struct Spc;

impl LineParser for Spc {
    fn parse(&mut self, line: &str) -> Result<Option<Record>, String> {
        let mut fields = line.split(',');
        let asu = number(field(&mut fields, "ASU")?, "ASU")?;
        let lba = number(field(&mut fields, "LBA")?, "LBA")?;
        let size = number(field(&mut fields, "size")?, "size")?;
        let op = match field(&mut fields, "opcode")? {
            "R" | "r" => Op::Read,
            "W" | "w" => Op::Write,
            other => return Err(format!("its opcode '{}' is neither R nor W", other.escape_debug())),
        };
        let at = time(field(&mut fields, "timestamp")?, Nanos::from_secs(1), "timestamp")?;
        let start = sectors(lba, 1)?.start;
        Ok(Some(Record {
            at: When::At(Instant(at.get())),
            op,
            target: TraceTarget::Device(asu),
            range: span(start.get(), size)?,
            pid: None,
            response: None,
        }))
    }
}
