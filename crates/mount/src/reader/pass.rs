//! A read that the engine passes: it is made as it is, into a buffer of its own.

use super::token::Token;
use foreseek_seam::RequestId;
use foreseek_storage::Buffer;
use foreseek_storage::reads::{self, ReadFile, Target};
use foreseek_units::{ByteSpan, Bytes};
use std::sync::Arc;

/// Memory for reads that are passed: sixteen of the longest that FUSE sends at a time. It is taken
/// as it is used.
pub(super) const PASSING: Bytes = Bytes::mib(16);

/// A read that is made as it is.
pub(super) struct Pass {
    pub(super) request: RequestId,
    pub(super) file: Arc<ReadFile>,
    /// What is read: the range, outward to the file's alignment.
    pub(super) aligned: ByteSpan,
}

/// Which bytes of what was read for a pass are the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) skip: usize,
    pub(super) length: usize,
}

impl Pass {
    /// Bytes to be read.
    pub(super) fn length(&self) -> usize {
        self.aligned.len().get() as usize
    }

    pub(super) fn into_read(self, buffer: Buffer) -> reads::Read {
        let (token, offset) = (Token::of_pass(self.request), self.aligned.start);
        reads::Read {
            token,
            file: self.file,
            offset,
            into: Target::Buffer(buffer),
            urgent: true,
            apart: false,
        }
    }
}
