//! MSR Cambridge traces (Narayanan, Donnelly and Rowstron, FAST 2008; SNIA IOTTA):
//! `timestamp,host,disk,type,offset,size,response`. Times are Windows file times (100 ns since
//! 1601), offsets and sizes bytes, types Read or Write. A host's disk counts as a device: hosts are
//! distinguished by the order in which they appear, the disk is the low byte of the number.

use super::super::field::{field, number, time};
use super::super::record::{Record, TraceTarget, When};
use super::parser::{LineParser, span};
use foreseek_device::Op;
use foreseek_units::{Instant, Nanos};

/// A file time's unit.
const TICK: Nanos = Nanos(100);
/// The most hosts: the whole collection has 13.
const HOSTS_LIMIT: usize = 256;

#[derive(Default)]
pub(super) struct Msr {
    hosts: Vec<String>,
}

impl Msr {
    fn host(&mut self, name: &str) -> Result<u32, String> {
        let known = self.hosts.iter().position(|host| host == name);
        let at = match known {
            Some(at) => at,
            None if self.hosts.len() == HOSTS_LIMIT => {
                return Err(format!("names more than {HOSTS_LIMIT} hosts"));
            }
            None => {
                self.hosts.push(name.to_owned());
                self.hosts.len() - 1
            }
        };
        Ok(at as u32)
    }
}

impl LineParser for Msr {
    fn parse(&mut self, line: &str) -> Result<Option<Record>, String> {
        let mut fields = line.split(',');
        let at = field(&mut fields, "timestamp")?;
        if at.eq_ignore_ascii_case("Timestamp") {
            return Ok(None);
        }
        let at = time(at, TICK, "timestamp")?;
        let host = self.host(field(&mut fields, "host name")?)?;
        let disk: u8 = number(field(&mut fields, "disk number")?, "disk number")?;
        let op = match field(&mut fields, "type")? {
            op if op.eq_ignore_ascii_case("Read") => Op::Read,
            op if op.eq_ignore_ascii_case("Write") => Op::Write,
            other => return Err(format!("its type '{}' is neither Read nor Write", other.escape_debug())),
        };
        let offset = number(field(&mut fields, "offset")?, "offset")?;
        let size = number(field(&mut fields, "size")?, "size")?;
        let response = time(field(&mut fields, "response time")?, TICK, "response time")?;
        Ok(Some(Record {
            at: When::At(Instant(at.get())),
            op,
            target: TraceTarget::Device(host << 8 | u32::from(disk)),
            range: span(offset, size)?,
            pid: None,
            response: Some(response),
        }))
    }
}
