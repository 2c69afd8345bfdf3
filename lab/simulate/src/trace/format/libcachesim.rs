//! The CSV in which libCacheSim distributes CloudPhysics' traces: a header line
//! `version,time,op,size,lbn`, then a SCSI command a line. Times are in seconds, the op is the
//! command's code in hexadecimal, the size is in bytes, the lbn counts sectors of a virtual disk.
//! Commands without data are not requests.

use super::super::field::{field, number, shown, time};
use super::super::record::{Record, TraceTarget, When};
use super::parser::{LineParser, nothing, sectors, span};
use foreseek_device::Op;
use foreseek_units::{Instant, Nanos};

pub(super) struct LibCacheSim;

/// The virtual disk: a trace has one.
const DISK: TraceTarget = TraceTarget::File(0);

impl LineParser for LibCacheSim {
    fn parse(&mut self, line: &str) -> Result<Option<Record>, String> {
        let mut fields = line.split(',');
        let version = field(&mut fields, "version")?;
        if version == "version" {
            return Ok(None);
        }
        number::<u32>(version, "version")?;
        let at = time(field(&mut fields, "time")?, Nanos::from_secs(1), "time")?;
        let op = field(&mut fields, "op")?;
        let code = u8::from_str_radix(op.trim_start_matches("0x"), 16)
            .map_err(|_| format!("its op '{}' is not a SCSI code in hexadecimal", shown(op)))?;
        let size = field(&mut fields, "size")?;
        let lbn = field(&mut fields, "lbn")?;
        let op = match code {
            // READ and WRITE of 6, 10, 12 and 16 bytes.
            0x08 | 0x28 | 0xa8 | 0x88 => Op::Read,
            0x0a | 0x2a | 0xaa | 0x8a => Op::Write,
            // SYNCHRONIZE CACHE of 10 and 16.
            0x35 | 0x91 => Op::Flush,
            _ => return Ok(None),
        };
        let range = match op {
            Op::Flush => nothing(),
            _ => {
                let start = sectors(number(lbn, "lbn")?, 1)?.start;
                span(start.get(), number(size, "size")?)?
            }
        };
        let at = When::At(Instant(at.get()));
        Ok(Some(Record { at, op, target: DISK, range, pid: None, response: None }))
    }
}
