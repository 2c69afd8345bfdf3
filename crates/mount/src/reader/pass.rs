//! A read that the engine passes: it is made as it is, into a buffer of its own.

use super::token::Token;
use foreseek_seam::RequestId;
use foreseek_storage::Buffer;
use foreseek_storage::reads::{self, ReadFile, Target};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Span};
use std::sync::Arc;

/// Memory for reads that are passed: sixteen of the longest that FUSE sends at a time. It is taken
/// as it is used.
pub(super) const PASSING: Bytes = Bytes::mib(16);

/// A read that is made as it is.
pub(super) struct Pass {
    request: RequestId,
    file: Arc<ReadFile>,
    /// What is read: the range, outward to the file's alignment.
    aligned: ByteSpan,
}

impl Pass {
    /// A read of these bytes; `None` where no buffer is that long.
    pub(super) fn new(request: RequestId, range: ByteSpan, file: Arc<ReadFile>) -> Option<Self> {
        let unit = file.alignment().get();
        let start = ByteOffset(range.start.get() / unit * unit);
        let aligned = Span::new(start, ByteOffset(range.end.get().next_multiple_of(unit)));
        (aligned.len() <= PASSING).then_some(Self { request, file, aligned })
    }

    /// Bytes to be read.
    pub(super) fn length(&self) -> usize {
        self.aligned.len().get() as usize
    }

    pub(super) fn into_read(self, buffer: Buffer) -> reads::DiskRead {
        let (token, offset) = (Token::of_pass(self.request), self.aligned.start);
        reads::DiskRead {
            token,
            file: self.file,
            offset,
            into: Target::Buffer(buffer),
            urgent: true,
            apart: false,
        }
    }
}
