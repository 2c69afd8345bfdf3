//! Reading metadata: inodes, directories and indirect blocks before the data that they lead to.
//!
//! The device itself is one more file, whose pages hold the metadata and are read as a kernel reads them
//! through the device's page cache: a process waits for a missing page, and an inode's page comes with its
//! neighbours ([`Metadata::around`]). A file can be opened when its directory's inode, the block that names it
//! and its own inode are in memory, and read when its indirect blocks are. Read-ahead beyond the range of an
//! indirect block requests that block and goes on at once, while a kernel's caller would wait for it.
//!
//! Limits: an inode that is in use can be evicted with its page; metadata are not written; a mount does not see
//! them.

use super::files::{File, PageEntry};
use super::names::FileNo;
use super::process::{Doing, LookUp, OpenStream};
use super::processors::Turn;
use super::reading::{Brought, Touched};
use super::reclaim::Why;
use super::{Machine, MachineError};
use crate::program::{FileNumber, ROOT};
use crate::workload::Metadata;
use foreseek_device::Op;
use foreseek_readahead::stream::Ahead;
use foreseek_seam::{Extent, ProcessId};
use foreseek_units::{Lba, PageIndex, PageSpan, Pages};

/// Metadata, and the device as a file.
#[derive(Debug)]
pub(super) struct Tables {
    metadata: Metadata,
    device: FileNo,
    stream: u32,
}

impl Machine {
    /// The same machine, with metadata that are read from its device.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        let device = FileNo(self.files.len() as u32);
        let whole = Extent { page: PageIndex::ZERO, pages: metadata.pages(), lba: Lba::ZERO };
        self.files.push(File::new(metadata.pages().bytes(), vec![whole]));
        let stream = self.streams.insert(OpenStream { file: device, opening: 0 }) as u32;
        self.tables = Some(Box::new(Tables { metadata, device, stream }));
        self
    }

    /// Files that processes have open.
    pub(super) fn open_streams(&self) -> usize {
        self.streams.len() - usize::from(self.tables.is_some())
    }

    /// Whether a file is the device.
    pub(super) fn is_device(&self, file: FileNo) -> bool {
        self.tables.as_ref().is_some_and(|tables| tables.device == file)
    }

    /// The next page that is read for a look-up.
    pub(super) fn look_up(&mut self, process: u32, of: LookUp, at: usize) -> Result<Turn, MachineError> {
        let metadata = self.tables.as_ref().map(|tables| &tables.metadata);
        let pages = metadata.map_or_else(Vec::new, |metadata| match of {
            LookUp::Open { file, .. } | LookUp::Stat(file) | LookUp::Unlink(file) => metadata.path(file),
            LookUp::List(directory) => metadata.listing(directory),
        });
        let Some(page) = pages.get(at) else {
            self.set_doing(process, Doing::Next);
            if of == LookUp::List(ROOT) {
                self.seen_listed(process, ROOT);
            }
            match of {
                LookUp::Open { handle, file, announced } => self.open(process, handle, file, announced)?,
                LookUp::Unlink(file) => self.unlink(process, file)?,
                LookUp::Stat(_) | LookUp::List(_) => {}
            }
            return Ok(Turn::GoesOn);
        };
        let Brought::Here(frame) = self.bring_metadata(process, *page)? else { return Ok(Turn::Waits) };
        self.used(frame, true);
        if let (LookUp::List(directory), 0) = (of, at) {
            self.seen_listed(process, directory);
        }
        self.bill += self.settings.costs.look_up;
        self.set_doing(process, Doing::LookUp { of, at: at + 1 });
        Ok(Turn::GoesOn)
    }

    /// Reads the indirect blocks that are needed to find a missing page; returns whether the process waits for
    /// one of them.
    pub(super) fn find(&mut self, touched: Touched) -> Result<bool, MachineError> {
        if self.tables.is_none() {
            return Ok(false);
        }
        let Touched { process, stream, page, .. } = touched;
        let finding = self.processes.get_mut(process as usize).map(|one| std::mem::take(&mut one.finding));
        if finding == Some(true)
            && let Some(frame) = self.has_arrived(process)
        {
            self.used(frame, true);
        }
        let Some(file) = self.file_of(stream).filter(|file| !self.files[file.0 as usize].cached(page)) else {
            return Ok(false);
        };
        for block in self.mapping(file, page) {
            match self.bring_metadata(process, block)? {
                Brought::Here(frame) => self.used(frame, true),
                Brought::Waits => {
                    if let Some(one) = self.processes.get_mut(process as usize) {
                        one.finding = true;
                    }
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Requests the indirect blocks of a range that is read ahead.
    pub(super) fn ask_for_mapping(&mut self, touched: Touched, file: FileNo, range: PageSpan) {
        let Some((device, stream)) = self.tables.as_ref().map(|tables| (tables.device, tables.stream)) else {
            return;
        };
        let Some(last) = range.end.get().checked_sub(1).filter(|_| !range.is_empty()) else { return };
        for block in self.mapping(file, PageIndex(last)) {
            if !self.files[device.0 as usize].cached(block) && self.room() {
                let touched = Touched { stream, page: block, ..touched };
                self.insert(touched, device, block, Why::Ahead, false);
                let pid = self.processes.get(touched.process as usize).map_or(ProcessId(0), |one| one.pid);
                self.submit(Op::Read, device, PageSpan::at(block, Pages(1)), pid, true);
            }
        }
    }

    fn mapping(&self, file: FileNo, page: PageIndex) -> Vec<PageIndex> {
        let tables = self.tables.as_ref().filter(|tables| tables.device != file);
        tables.map_or_else(Vec::new, |tables| tables.metadata.mapping(FileNumber(file.0), page).to_vec())
    }

    /// Brings a page of metadata into memory, with those that are read together with it.
    fn bring_metadata(&mut self, process: u32, page: PageIndex) -> Result<Brought, MachineError> {
        let Some(tables) = &self.tables else { return Ok(Brought::Waits) };
        let (device, range) = (tables.device, tables.metadata.around(page));
        let stream = tables.stream;
        let touched = Touched { process, stream, page, request: Pages(1), first: true, mapped: false };
        let missing =
            matches!(self.files[device.0 as usize].entry(page), PageEntry::Absent | PageEntry::Evicted(_));
        let waited = self.processes.get(process as usize).is_some_and(|one| one.arrived.is_some());
        if missing && !waited && !self.retrying(process) {
            self.metrics.counters.metadata += Pages(1);
            self.fetch(touched, Ahead { range, marker: None, demand: true })?;
        }
        self.bring_alone(touched)
    }
}
