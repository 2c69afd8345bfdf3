//! Reads past the page cache (`O_DIRECT`): what is asked for goes to the block layer as it is, and its reader waits for
//! all of it. Limits: pages that are in memory are read all the same, and dirty ones are not written first; a page
//! that is on its way into the cache counts as come with a direct read of it; a mount does not see these reads.

use super::fetch::Pending;
use super::process::{Doing, Wait};
use super::processors::Turn;
use super::{Machine, MachineError};
use foreseek_device::Op;
use foreseek_seam::Who;
use foreseek_units::{PageSpan, Span};

impl Machine {
    /// Reads the next piece that lies together.
    pub(super) fn read_direct(
        &mut self,
        process: u32,
        stream: u32,
        left: PageSpan,
    ) -> Result<Turn, MachineError> {
        let Some(file) = self.file_of(stream) else { return Ok(Turn::GoesOn) };
        let (_, piece) = self.place(file, left.start)?;
        let run = Span::at(left.start, piece.min(left.len()));
        let rest = PageSpan::new(run.end, left.end);
        let next = if rest.is_empty() { Doing::Next } else { Doing::Direct { stream, left: rest } };
        self.set_doing(process, next);
        self.wait(process, Wait::Direct);
        let who = self.processes.get(process as usize).map_or(Who(0), |one| one.who);
        self.metrics.submitted(run.len());
        self.metrics.counters.direct += run.len();
        let at = self.hand_over(Op::Read, file, run, who, true);
        if let Some(pending) = at.and_then(|at| self.flight.pending.get_mut(at)) {
            pending.reader = Some(process);
        }
        self.block.unplug(self.now);
        self.look_at_block();
        Ok(Turn::Waits)
    }

    /// What a process reads past the page cache has come.
    pub(super) fn direct_came(
        &mut self,
        reader: u32,
        pending: Pending,
        failed: bool,
    ) -> Result<(), MachineError> {
        let Pending { file, pages, .. } = pending;
        if failed {
            let (first, end) = (pages.start.get(), pages.end.get());
            return Err(MachineError::Device { file: file.0, first, end });
        }
        self.metrics.counters.read += pages.len().bytes();
        self.ready(reader);
        Ok(())
    }
}
