//! Arbitrary bytes as a trace of any text format, given by the first byte or found out: reading
//! never panics, ends, and every record that comes out keeps what its type promises.
#![no_main]

use foreseek_device::Op;
use foreseek_simulate::trace::{Format, Reader, Summary};
use libfuzzer_sys::fuzz_target;

const TEXT: [&str; 7] = ["spc", "msr", "blkparse", "fio", "disksim", "disksim-validation", "libcachesim"];

fuzz_target!(|input: &[u8]| {
    let Some((&first, text)) = input.split_first() else { return };
    // Beyond the formats: let it be found out.
    let format = TEXT.get(usize::from(first % 10)).map(|name| Format::by_name(name).expect("a format"));
    let Ok(reader) = Reader::new("fuzz", text, format) else { return };
    let mut records = 0u64;
    for record in reader {
        let Ok(record) = record else { break };
        records += 1;
        assert_eq!(record.range.is_empty(), record.op == Op::Flush);
        assert!(record.range.end.get() <= 1 << 63);
    }
    assert!(records <= text.len() as u64);
    let reader = Reader::new("fuzz", text, format).expect("as before");
    if let Ok(summary) = Summary::of(reader, &mut |_| {}) {
        assert_eq!(summary.requests(), records);
    }
});
