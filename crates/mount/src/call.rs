//! The system call of which a read is a part.

use foreseek_seam::ProcessId;
use foreseek_storage::{ThreadState, thread_state};
use foreseek_units::ByteSpan;

/// How often a reader is inspected while it is still running: it has just issued the request, and is about to
/// wait.
const LOOKS: u32 = 8;

/// The call in which a reader waits, of which a read of these bytes is a part or all; `None` where it is
/// unknown. Finding it takes some microseconds.
pub(crate) fn call_of(pid: ProcessId, range: ByteSpan) -> Option<ByteSpan> {
    if pid.0 == 0 {
        return None;
    }
    for _ in 0..LOOKS {
        match thread_state(pid.0) {
            ThreadState::Running => std::thread::yield_now(),
            ThreadState::Reads(call) => return Some(call).filter(|call| holds(*call, range)),
            ThreadState::Other => return None,
        }
    }
    None
}

/// Whether a read begins within a call, or in the page in which the call begins.
fn holds(call: ByteSpan, range: ByteSpan) -> bool {
    range.pages().start >= call.pages().start && range.start < call.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::{ByteOffset, Span};

    #[test]
    fn a_call_holds_the_reads_that_begin_in_it() {
        let span = |start, end| Span::new(ByteOffset(start), ByteOffset(end));
        let read = span(8192, 139_264);
        assert!(holds(span(8192, 1_000_000), read) && holds(span(9000, 1_000_000), read));
        assert!(holds(span(0, 1_000_000), read), "a later part of it");
        assert!(holds(span(9000, 130_000), read), "it is all of it");
        assert!(!holds(span(500_000, 1_000_000), read) && !holds(span(0, 8192), read), "another call");
    }
}
