//! A process on its processor: the steps of its program, one page at a time.

use super::names::FileNo;
use super::process::{Doing, LookUp, OpenStream, Process, Wait};
use super::processors::Turn;
use super::{Machine, MachineError};
use crate::machine::events::Event;
use crate::machine::files::OPENINGS;
use crate::program::{FileNumber, Handle, Step};
use foreseek_device::Op;
use foreseek_readahead::stream::Opened;
use foreseek_seam::{ObjectId, StreamId};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Nanos};

/// The longest part of a computation that runs without a check of the clock: a tenth of the time slice, so that
/// a slice ends on time.
const COMPUTE_PIECE: Nanos = Nanos::from_millis(1);

impl Machine {
    /// Runs the next part of a process's work; its cost is billed.
    pub(super) fn step(&mut self, process: u32) -> Result<Turn, MachineError> {
        let doing = match self.processes.get(process as usize) {
            Some(one) => one.doing,
            None => return Ok(Turn::Ended),
        };
        if self.has_to_touch(process) {
            return self.touch_private(process);
        }
        match doing {
            Doing::Next => self.ask(process),
            Doing::Read { .. } => self.read_page(process),
            Doing::Direct { stream, left, op } => self.transfer_direct(process, stream, left, op),
            Doing::Sync { stream } => Ok(self.sync(process, stream)),
            Doing::Touch { .. } => self.touch_page(process),
            Doing::Write { .. } => self.write_page(process),
            Doing::Advise { stream, first, left } => self.advise(process, stream, first, left),
            Doing::Forget { stream, pages } => Ok(self.forget(process, stream, pages)),
            Doing::LookUp { of, at } => self.look_up(process, of, at),
            Doing::Ask { stream, question } => Ok(self.answer(process, stream, question)),
            Doing::Compute(left) => {
                let piece = left.min(COMPUTE_PIECE);
                self.bill += piece;
                let rest = left - piece;
                self.set_doing(process, if rest.is_zero() { Doing::Next } else { Doing::Compute(rest) });
                Ok(Turn::GoesOn)
            }
        }
    }

    pub(super) fn set_doing(&mut self, process: u32, doing: Doing) {
        if let Some(one) = self.processes.get_mut(process as usize) {
            one.doing = doing;
        }
    }

    /// Gets a program's next step and begins it.
    fn ask(&mut self, process: u32) -> Result<Turn, MachineError> {
        let Some(one) = self.processes.get_mut(process as usize) else { return Ok(Turn::Ended) };
        let step = one.program.next(self.now, &mut one.random);
        self.hand_out_work();
        let Some(one) = self.processes.get_mut(process as usize) else { return Ok(Turn::Ended) };
        let costs = self.settings.costs;
        match step {
            Step::Open { handle, file, announced } => {
                self.bill += costs.system_call;
                if self.tables.is_some() {
                    let of = LookUp::Open { handle, file, announced };
                    self.set_doing(process, Doing::LookUp { of, at: 0 });
                } else {
                    self.open(process, handle, file, announced)?;
                }
            }
            Step::Read { handle, range } => {
                self.bill += costs.system_call;
                let (stream, range) = self.within(process, handle, range)?;
                if !range.is_empty() {
                    self.fill(process, range.pages().len());
                    let doing = Doing::Read { stream, at: range.start, end: range.end, first: true };
                    self.set_doing(process, doing);
                }
            }
            Step::Direct { handle, pages } => {
                self.bill += costs.system_call;
                let (stream, range) = self.within(process, handle, pages.bytes())?;
                if !range.is_empty() {
                    self.set_doing(process, Doing::Direct { stream, left: range.pages(), op: Op::Read });
                }
            }
            Step::DirectWrite { handle, pages } => {
                self.bill += costs.system_call;
                let (stream, range) = self.within(process, handle, pages.bytes())?;
                if !range.is_empty() {
                    self.set_doing(process, Doing::Direct { stream, left: range.pages(), op: Op::Write });
                }
            }
            Step::Sync { handle } => {
                self.bill += costs.system_call;
                let stream = self.stream(process, handle)?;
                self.set_doing(process, Doing::Sync { stream });
            }
            Step::Unlink { file } => {
                self.bill += costs.system_call;
                self.set_doing(process, Doing::LookUp { of: LookUp::Unlink(file), at: 0 });
            }
            Step::Touch { handle, page } => {
                let (stream, _) = self.within(process, handle, ByteSpan::default())?;
                self.set_doing(process, Doing::Touch { stream, page });
            }
            Step::Write { handle, range } => {
                self.bill += costs.system_call;
                let stream = self.stream(process, handle)?;
                if !range.is_empty() {
                    self.grow(stream, range.end)?;
                    self.set_doing(process, Doing::Write { stream, at: range.start, end: range.end });
                }
            }
            Step::Advise { handle, pages } => {
                self.bill += costs.system_call;
                let stream = self.stream(process, handle)?;
                self.set_doing(process, Doing::Advise { stream, first: pages.start, left: pages });
            }
            Step::Forget { handle, pages } => {
                self.bill += costs.system_call;
                let (stream, range) = self.within(process, handle, pages.bytes())?;
                self.set_doing(process, Doing::Forget { stream, pages: range.pages() });
            }
            Step::Ask { handle, question } => {
                self.bill += costs.system_call;
                let stream = self.stream(process, handle)?;
                self.set_doing(process, Doing::Ask { stream, question });
            }
            Step::Stat { file } => {
                self.bill += costs.system_call;
                self.set_doing(process, Doing::LookUp { of: LookUp::Stat(file), at: 0 });
            }
            Step::List { directory } => {
                self.bill += costs.system_call;
                self.set_doing(process, Doing::LookUp { of: LookUp::List(directory), at: 0 });
            }
            Step::Await => return Ok(self.await_work(process)),
            Step::Hold(memory) => {
                let memory = memory.pages_ceil();
                let held = std::mem::replace(&mut one.memory, memory);
                self.give_back(held);
                self.take(process, memory)?;
            }
            Step::Close { handle } => {
                self.bill += costs.system_call;
                self.close(process, handle)?;
            }
            Step::Compute(time) => self.set_doing(process, Doing::Compute(time)),
            Step::Sleep(time) => return Ok(self.sleep(process, time)),
            Step::Begun => one.began = self.now,
            Step::Finished => self.finished(process),
            Step::Exit => {
                self.exit(process);
                return Ok(Turn::Ended);
            }
        }
        Ok(Turn::GoesOn)
    }

    fn sleep(&mut self, process: u32, time: Nanos) -> Turn {
        let until = self.now + time;
        self.wait(process, Wait::Sleep(until));
        self.events.arrange(until, Event::Wake(process));
        Turn::Waits
    }

    pub(super) fn wait(&mut self, process: u32, wait: Wait) {
        if let Some(one) = self.processes.get_mut(process as usize) {
            one.wait = wait;
        }
    }

    pub(super) fn open(
        &mut self,
        process: u32,
        handle: Handle,
        file: FileNumber,
        announced: Option<Bytes>,
    ) -> Result<(), MachineError> {
        let length = self.files.get(file.0 as usize).map(super::files::File::pages);
        let Some(one) = self.processes.get_mut(process as usize) else { return Ok(()) };
        let wrong = |reason| MachineError::Program { number: one.number, step: "open", reason };
        let length = length.ok_or_else(|| wrong(format!("there is no file {}", file.0)))?;
        if one.stream(handle).is_some() {
            return Err(wrong(format!("handle {} is open already", handle.0)));
        }
        let opening = self.openings;
        self.openings = (self.openings + 1) % OPENINGS;
        let stream = self.streams.insert(OpenStream { file: FileNo(file.0), opening }) as u32;
        one.open.push((handle, stream));
        let opened = Opened {
            stream: StreamId(u64::from(stream)),
            object: ObjectId(u64::from(file.0)),
            pid: one.pid,
            length,
            announced: announced.map(Bytes::pages_ceil),
        };
        self.seen_opened(process, file);
        self.prefetcher.opened(self.now, opened);
        self.mount_opened(opened);
        Ok(())
    }

    fn stream(&self, process: u32, handle: Handle) -> Result<u32, MachineError> {
        let one = self.processes.get(process as usize);
        one.and_then(|one| one.stream(handle)).ok_or_else(|| MachineError::Program {
            number: one.map_or(0, |one| one.number),
            step: "use",
            reason: format!("handle {} is not open", handle.0),
        })
    }

    /// A range up to the end of the file.
    fn within(&self, process: u32, handle: Handle, range: ByteSpan) -> Result<(u32, ByteSpan), MachineError> {
        let stream = self.stream(process, handle)?;
        let length = self.file_of(stream).map_or(Bytes::ZERO, |file| self.files[file.0 as usize].length);
        let end = range.end.min(ByteOffset(length.get()));
        Ok((stream, ByteSpan::new(range.start.min(end), end)))
    }

    pub(super) fn file_of(&self, stream: u32) -> Option<FileNo> {
        self.streams.get(stream as usize).map(|stream| stream.file)
    }

    fn close(&mut self, process: u32, handle: Handle) -> Result<(), MachineError> {
        let stream = self.stream(process, handle)?;
        if let Some(one) = self.processes.get_mut(process as usize) {
            one.open.retain(|(name, _)| *name != handle);
        }
        self.close_stream(stream);
        Ok(())
    }

    fn close_stream(&mut self, stream: u32) {
        if self.streams.try_remove(stream as usize).is_some() {
            self.prefetcher.closed(self.now, StreamId(u64::from(stream)));
            self.reclaim.closed(self.now, StreamId(u64::from(stream)));
            self.mount_closed(stream);
        }
    }

    /// A request or a query is complete.
    fn finished(&mut self, process: u32) {
        let Some(one) = self.processes.get_mut(process as usize) else { return };
        let took = self.now - one.began;
        one.began = self.now;
        self.metrics.finished(took);
    }

    /// A process ends: its files are closed, its memory is free, its client continues.
    fn exit(&mut self, process: u32) {
        self.disown(process);
        let Some(Process { open, pid, memory, number, born, charged, .. }) =
            self.processes.try_remove(process as usize)
        else {
            return;
        };
        debug_assert!(charged <= self.now - born, "process {number} has had {charged} of processors");
        for (_, stream) in open {
            self.close_stream(stream);
        }
        self.block.exited(self.now, pid);
        self.look_at_block();
        self.reclaim.exited(self.now, pid);
        self.mount_exited(pid);
        self.give_back(memory);
        self.ended(number, born);
    }
}
