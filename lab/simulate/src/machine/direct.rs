//! Reads and writes past the page cache (`O_DIRECT`): they go to the block layer as they are, and the process
//! waits for all of it. Limits: pages in memory are read nevertheless, dirty ones are not written first, and a
//! write leaves them as they are; a page that is in flight into the cache counts as arrived with a direct
//! access to it; a mount does not see these accesses.

use super::fetch::Pending;
use super::process::{Doing, Wait};
use super::processors::Turn;
use super::{Machine, MachineError};
use foreseek_device::Op;
use foreseek_seam::ProcessId;
use foreseek_units::{PageSpan, Span};

impl Machine {
    /// Reads or writes the next contiguous piece.
    pub(super) fn transfer_direct(
        &mut self,
        process: u32,
        stream: u32,
        left: PageSpan,
        op: Op,
    ) -> Result<Turn, MachineError> {
        let Some(file) = self.file_of(stream) else { return Ok(Turn::GoesOn) };
        let (_, piece) = self.address(file, left.start)?;
        let run = Span::at(left.start, piece.min(left.len()));
        let rest = PageSpan::new(run.end, left.end);
        let next = if rest.is_empty() { Doing::Next } else { Doing::Direct { stream, left: rest, op } };
        self.set_doing(process, next);
        self.wait(process, Wait::Direct);
        let pid = self.processes.get(process as usize).map_or(ProcessId(0), |one| one.pid);
        if op == Op::Read {
            self.metrics.submitted(run.len());
            self.metrics.counters.direct += run.len();
        }
        let at = self.hand_over(op, file, run, pid, true);
        if let Some(pending) = at.and_then(|at| self.flight.pending.get_mut(at)) {
            pending.reader = Some(process);
        }
        self.block.unplug(self.now);
        self.look_at_block();
        Ok(Turn::Waits)
    }

    /// A process's read or write past the page cache is complete.
    pub(super) fn direct_came(
        &mut self,
        reader: u32,
        pending: Pending,
        failed: bool,
    ) -> Result<(), MachineError> {
        let Pending { op, file, pages, .. } = pending;
        if failed {
            let (first, end) = (pages.start.get(), pages.end.get());
            return Err(MachineError::Device { file: file.0, first, end });
        }
        let counters = &mut self.metrics.counters;
        *if op == Op::Read { &mut counters.read } else { &mut counters.written } += pages.len().bytes();
        self.ready(reader);
        Ok(())
    }
}
