//! The records that the kernel's block tracing writes (`include/uapi/linux/blktrace_api.h`).
//!
//! A record has 48 bytes: magic and version, sequence, time (ns), sector, bytes, action, pid, device, cpu,
//! error, length of what follows. It is in the byte order of the machine that wrote it, which the magic shows.
//! As in blkparse's text, a queued request (`Q`) is a request; discards, notes and everything else are not.
//! `blktrace` writes a file for each processor: `blkparse -d` makes one of them, in order of time.

use super::super::record::{Record, TraceTarget, When};
use super::parser::{Binary, nothing, span};
use foreseek_device::Op;
use foreseek_seam::ProcessId;
use foreseek_units::{Instant, SECTOR_SIZE};

/// `BLK_IO_TRACE_MAGIC | BLK_IO_TRACE_VERSION`.
const MAGIC: u32 = 0x6561_7407;
/// `sizeof(struct blk_io_trace)`.
const HEADER: usize = 48;

/// Categories, in the upper 16 bits of an action (`BLK_TC_*`).
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const NOTIFY: u32 = 1 << 10;
const DISCARD: u32 = 1 << 13;
/// `__BLK_TA_QUEUE`, and the flag that says that a control group's number follows.
const QUEUE: u32 = 1;
const CGROUP: u32 = 1 << 8;

pub(super) struct Blktrace;

/// Whether a file begins with a record.
pub(in super::super) fn begins(head: &[u8]) -> bool {
    matches!(head.first_chunk(), Some(&magic) if u32::from_le_bytes(magic) == MAGIC || u32::from_be_bytes(magic) == MAGIC)
}

/// Numbers out of a header, in its byte order.
struct Numbers<'a> {
    header: &'a [u8],
    little: bool,
}

impl Numbers<'_> {
    fn u16(&self, at: usize) -> u16 {
        let bytes = [self.header[at], self.header[at + 1]];
        if self.little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
    }

    fn u32(&self, at: usize) -> u32 {
        let (first, second) = (u32::from(self.u16(at)), u32::from(self.u16(at + 2)));
        if self.little { second << 16 | first } else { first << 16 | second }
    }

    fn u64(&self, at: usize) -> u64 {
        let (first, second) = (u64::from(self.u32(at)), u64::from(self.u32(at + 4)));
        if self.little { second << 32 | first } else { first << 32 | second }
    }
}

impl Binary for Blktrace {
    fn header(&self) -> usize {
        HEADER
    }

    fn parse(&mut self, header: &[u8]) -> Result<(Option<Record>, u64), String> {
        if !begins(header) {
            let found = Numbers { header, little: true }.u32(0);
            return Err(format!("has no blktrace record: magic {found:#010x} instead of {MAGIC:#010x}"));
        }
        let numbers = Numbers { header, little: header[0] == MAGIC.to_le_bytes()[0] };
        let (at, sector, bytes) = (numbers.u64(8), numbers.u64(16), numbers.u32(24));
        let (action, pid, device) = (numbers.u32(28), numbers.u32(32), numbers.u32(36));
        let payload = u64::from(numbers.u16(46));
        let (act, category) = (action & 0xffff & !CGROUP, action >> 16);
        if act != QUEUE || category & (NOTIFY | DISCARD) != 0 {
            return Ok((None, payload));
        }
        let (op, range) = match bytes {
            0 if category & FLUSH != 0 => (Op::Flush, nothing()),
            0 => return Ok((None, payload)),
            _ => {
                let start = sector.checked_mul(SECTOR_SIZE);
                let start = start.ok_or_else(|| format!("sector {sector} lies beyond any device"))?;
                let op = if category & WRITE != 0 { Op::Write } else { Op::Read };
                (op, span(start, u64::from(bytes))?)
            }
        };
        let at = When::At(Instant(at));
        let record = Record {
            at,
            op,
            target: TraceTarget::Device(device),
            range,
            pid: Some(ProcessId(pid)),
            response: None,
        };
        Ok((Some(record), payload))
    }
}
