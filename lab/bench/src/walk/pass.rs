//! The least time in which a disk reads what a program needs: one ascending pass by direct I/O over contents,
//! directories and, on ext4, blocks of inodes. Ranges that lie less than a gap apart are read in one request.
//!
//! It is no strict lower bound: a drive's scheduler could order rotations better. No prefetching can be
//! expected to reach it, since a tree must be listed before it is known what to read.

use super::tree::each_below;
use crate::{Error, Result};
use foreseek_places::{Metadata, Volumes, blocks_of_directory};
use foreseek_rig::{DirectReader, Interrupt, extents_of};
use foreseek_storage::DeviceNumber;
use foreseek_units::{ByteOffset, ByteSpan, Bytes};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The largest gap that is read: that takes less time than another command.
const GAP: Bytes = Bytes::kib(64);
/// The longest request.
const REQUEST: Bytes = Bytes::mib(1);

/// The ranges of one pass, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass {
    spans: Vec<ByteSpan>,
}

impl Pass {
    /// A pass over a tree on a mounted file system; without contents for programs that read none.
    pub(crate) fn over(root: &Path, contents: bool) -> Result<Self> {
        let mut spans = Vec::new();
        let (mut volumes, mut metadata) = (Volumes::default(), Metadata::default());
        let top = open(root)?;
        each_below(root, &mut |path, found| {
            let device = DeviceNumber::from_raw(found.dev());
            let index = volumes.index_of(top.as_fd(), device);
            if metadata.reads(index, volumes.get(index)) {
                spans.extend(metadata.address_of(index, found.ino()));
            }
            if found.is_dir() {
                spans.extend(blocks_of_directory(open(path)?.as_fd()));
            } else if found.is_file() && contents && found.len() > 0 {
                let extents = extents_of(path)?;
                spans.extend(
                    extents.iter().map(|extent| ByteSpan::at(extent.lba.offset(), extent.pages.bytes())),
                );
            }
            Ok(())
        })?;
        Ok(Self { spans: merged(spans) })
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Bytes {
        self.spans.iter().map(|span| span.len()).sum()
    }

    /// Makes it and returns its time.
    pub(crate) fn time(&self, device: &Path, interrupt: &Interrupt) -> Result<Duration> {
        let mut disk = DirectReader::open(device, REQUEST)?;
        let start = Instant::now();
        for span in &self.spans {
            interrupt.check()?;
            let mut at = span.start.get();
            while at < span.end.get() {
                let read = disk.read(ByteOffset(at), Bytes(span.end.get() - at))?;
                if read.is_zero() {
                    break;
                }
                at += read.get();
            }
        }
        Ok(start.elapsed())
    }
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Error::io("cannot open", path.display(), error))
}

/// In order, with ranges that are close together merged.
fn merged(mut spans: Vec<ByteSpan>) -> Vec<ByteSpan> {
    spans.sort_unstable_by_key(|span| (span.start, span.end));
    let mut merged: Vec<ByteSpan> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start <= ByteOffset(last.end.get() + GAP.get()) => {
                last.end = last.end.max(span.end)
            }
            _ => merged.push(span),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_close_is_read_in_one_and_nothing_is_read_twice() {
        let at = |kib: u64, length: u64| ByteSpan::at(ByteOffset(kib << 10), Bytes::kib(length));
        let spans = merged(vec![at(1000, 8), at(0, 4), at(4, 4), at(40, 4), at(0, 16), at(200, 4)]);
        assert_eq!(spans, [at(0, 44), at(200, 4), at(1000, 8)]);
    }
}
