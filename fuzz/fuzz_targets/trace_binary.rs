//! Arbitrary bytes as records of blktrace: reading never panics and ends; a record comes out for at
//! most each header.
#![no_main]

use foreseek_simulate::trace::{Format, Reader};
use libfuzzer_sys::fuzz_target;

/// `sizeof(struct blk_io_trace)`.
const HEADER: usize = 48;

fuzz_target!(|input: &[u8]| {
    let Ok(reader) = Reader::new("fuzz", input, Some(Format::Blktrace)) else { return };
    let records = reader.map_while(Result::ok).count();
    assert!(records <= input.len() / HEADER);
});
