//! DiskSim's validation traces: requests to a real drive with their response times. `R|W Hit|Miss LBA blocks
//! response gap`; times in microseconds, the gap from the completion of the request before to the start of this
//! one. Whether it hit the drive's own buffer is not used.

use super::super::record::{Record, TraceTarget, When};
use super::parser::{LineParser, sectors};
use foreseek_drives::validation::parse_request;

pub(super) struct Validation;

impl LineParser for Validation {
    fn parse(&mut self, line: &str) -> Result<Option<Record>, String> {
        let request = parse_request(line)?;
        Ok(Some(Record {
            at: When::After(request.gap),
            op: request.op,
            target: TraceTarget::Device(0),
            range: sectors(request.range.start.get(), request.range.len().get())?,
            pid: None,
            response: Some(request.response),
        }))
    }
}
