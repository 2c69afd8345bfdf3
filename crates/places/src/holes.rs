//! The parts of a file that hold data, where its extents are not known (`SEEK_DATA`, `SEEK_HOLE`).

use crate::map::EXTENTS_PER_FILE;
use foreseek_units::{ByteOffset, ByteSpan, PageSpan, Span};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// The pages of these runs, which are ascending, that hold data. Where the file system does not show holes, and
/// behind the first [`EXTENTS_PER_FILE`] parts, all of them. The file position of `fd` changes.
#[must_use]
pub fn data_in(fd: BorrowedFd<'_>, runs: &[PageSpan]) -> Vec<PageSpan> {
    let Some(last) = runs.last() else { return Vec::new() };
    let end = last.end.offset();
    let mut data = Vec::new();
    let mut at = ByteOffset::ZERO;
    while at < end {
        let rest = ByteSpan::new(at, end);
        let part =
            if data.len() < EXTENTS_PER_FILE { next(fd, at).unwrap_or(Some(rest)) } else { Some(rest) };
        let Some(part) = part.filter(|part| part.end > at) else { break };
        data.push(part.pages());
        at = part.end;
    }
    intersection(runs, &data)
}

/// The first part with data from an offset on.
fn next(fd: BorrowedFd<'_>, at: ByteOffset) -> Result<Option<ByteSpan>, Errno> {
    match seek(fd, SeekFrom::Data(at.get())) {
        Ok(start) => Ok(Some(ByteSpan::new(ByteOffset(start), ByteOffset(seek(fd, SeekFrom::Hole(start))?)))),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The pages in both lists, which are ascending. Parts of one list may share a page.
fn intersection(a: &[PageSpan], b: &[PageSpan]) -> Vec<PageSpan> {
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    let mut both: Vec<PageSpan> = Vec::new();
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        let run = x.intersection(*y);
        match both.last_mut() {
            Some(last) if run.start <= last.end && !run.is_empty() => *last = Span::new(last.start, run.end),
            _ if run.is_empty() => {}
            _ => both.push(run),
        }
        if x.end < y.end {
            a.next();
        } else {
            b.next();
        }
    }
    both
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;
    use foreseek_units::{Bytes, PageIndex, Pages};
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::os::fd::AsFd;
    use std::os::unix::fs::{FileExt, MetadataExt};

    fn span(start: u64, end: u64) -> PageSpan {
        Span::new(PageIndex(start), PageIndex(end))
    }

    proptest! {
        #[test]
        fn pages_in_both_lists_are_in_the_intersection_once(
            a in prop::collection::vec((1..5u64, 1..6u64), 0..10), b in prop::collection::vec((0..5u64, 1..6u64), 0..10),
        ) {
            let runs = |list: &[(u64, u64)], overlap: u64| -> Vec<PageSpan> {
                let mut at = 1;
                list.iter().map(|(gap, length)| {
                    let start = (at + gap).saturating_sub(overlap);
                    at = start + length;
                    span(start, at)
                }).collect()
            };
            // Parts with data may share a page.
            let (a, b) = (runs(&a, 0), runs(&b, 1));
            let pages = |runs: &[PageSpan]| runs.iter().flat_map(|run| run.iter()).collect::<BTreeSet<PageIndex>>();
            let both = intersection(&a, &b);
            let expected: Vec<PageIndex> = pages(&a).intersection(&pages(&b)).copied().collect();
            prop_assert_eq!(both.iter().flat_map(|run| run.iter()).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn holes_are_left_out() {
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        let part = Bytes::mib(8);
        for n in [1, 3] {
            file.write_all_at(&[1; 5000], part.get() * n).unwrap();
        }
        file.set_len(Bytes::gib(64).get()).unwrap();
        if file.metadata().unwrap().blocks() * 512 > Bytes::mib(1).get() {
            println!("SKIPPED: /var/tmp keeps no holes");
            return;
        }
        let whole = PageSpan::at(PageIndex::ZERO, Bytes::gib(64).pages_ceil());
        let data = data_in(file.as_fd(), &[whole]);
        assert!(data.iter().map(|run| run.len()).sum::<Pages>() <= Pages(64), "{data:?}");
        for n in [1, 3] {
            let pages = PageSpan::at(PageIndex(part.pages_ceil().get() * n), Pages(2));
            assert!(data.iter().any(|run| run.covers(pages)), "{data:?}");
        }
        // Of a page in memory nothing is missing.
        let page = part.pages_ceil().get();
        assert_eq!(
            data_in(file.as_fd(), &[span(0, page), span(page + 1, page + 2)]),
            [span(page + 1, page + 2)]
        );
        assert_eq!(data_in(file.as_fd(), &[]), []);
    }
}
