//! DiskSim's ASCII traces (DiskSim 4.0 manual, "Trace formats"): `ms device block blocks flags`.
//! Blocks have 512 bytes; bit 0 of the flags (hexadecimal) says that it is a read.

use super::super::field::{field, number, shown, time};
use super::super::record::{Record, TraceTarget, When};
use super::parser::{LineParser, sectors};
use foreseek_device::Op;
use foreseek_units::{Instant, Nanos};

pub(super) struct DiskSim;

impl LineParser for DiskSim {
    fn parse(&mut self, line: &str) -> Result<Option<Record>, String> {
        let mut words = line.split_whitespace();
        let at = time(field(&mut words, "time")?, Nanos::from_millis(1), "time")?;
        let device = number(field(&mut words, "device")?, "device")?;
        let block = number(field(&mut words, "block")?, "block")?;
        let blocks = number(field(&mut words, "number of blocks")?, "number of blocks")?;
        let flags = field(&mut words, "flags")?;
        let bits = u32::from_str_radix(flags.trim_start_matches("0x"), 16)
            .map_err(|_| format!("its flags '{}' are not a hexadecimal number", shown(flags)))?;
        if let Some(more) = words.next() {
            return Err(format!("has '{}' after its flags", shown(more)));
        }
        Ok(Some(Record {
            at: When::At(Instant(at.get())),
            op: if bits & 1 == 1 { Op::Read } else { Op::Write },
            target: TraceTarget::Device(device),
            range: sectors(block, blocks)?,
            pid: None,
            response: None,
        }))
    }
}
