//! Golden lines of each format, and the errors of invalid ones.

use super::*;
use crate::trace::{TraceTarget, When};
use foreseek_device::Op;
use foreseek_seam::ProcessId;
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Instant, Nanos};
use proptest::prelude::*;

fn read(text: &[u8]) -> Result<(Format, Vec<Record>), TraceError> {
    let reader = Reader::new("trace", text, None)?;
    let format = reader.format();
    Ok((format, reader.collect::<Result<_, _>>()?))
}

fn record(at: When, op: Op, target: TraceTarget, start: u64, length: u64) -> Record {
    let range = ByteSpan::at(ByteOffset(start), Bytes(length));
    Record { at, op, target, range, pid: None, response: None }
}

fn at(nanos: u64) -> When {
    When::At(Instant(nanos))
}

#[test]
fn spc() {
    let (format, records) = read(b"0,20941264,8192,W,0.551706\n1,20939840,4096,r,0.554041\n").expect("valid");
    assert_eq!(format, Format::Spc);
    assert_eq!(
        records,
        [
            record(at(551_706_000), Op::Write, TraceTarget::Device(0), 20_941_264 * 512, 8192),
            record(at(554_041_000), Op::Read, TraceTarget::Device(1), 20_939_840 * 512, 4096),
        ]
    );
}

#[test]
fn msr() {
    let text = b"128166372003061629,hm,1,Read,383496192,32768,413\n128166372016382155,src,0,Write,310720,4096,1221\n";
    let (format, records) = read(text).expect("valid");
    assert_eq!(format, Format::Msr);
    let first = record(at(12_816_637_200_306_162_900), Op::Read, TraceTarget::Device(1), 383_496_192, 32_768);
    assert_eq!(records[0], Record { response: Some(Nanos(41_300)), ..first });
    assert_eq!(records[1].target, TraceTarget::Device(1 << 8));
}

#[test]
fn blkparse_text() {
    let text = b"  8,16   5        1     0.000000000 18615  A   R 1444645666 + 256 <- (8,17) 1444645632\n\
        \x20 8,16   5        2     0.000001850 18615  Q   R 1444645666 + 256 [java]\n\
        \x20 8,16   5        4     0.000008750 18615  P   N [java]\n\
        \x20 8,16   2        5     0.100000000 16766  Q  WS 3428327186 + 8 [flush-8:16]\n\
        \x20 8,0    0        0     0.200000000     0  m   N cfq16766S / alloced\n\
        \x20 8,16   2        6     0.300000000 16766  Q   D 100 + 8 [fstrim]\n\
        \x20 8,16   2        7     0.400000000 16766  Q FWS [sync me]\n\
        \x20 8,16   2        8     0.500000000 16766  Q FMS 645666 + 256 [java]\n\
        CPU0 (8,16):\n Reads Queued:           1,      128KiB\n";
    let (format, records) = read(text).expect("valid");
    assert_eq!(format, Format::Blkparse);
    let target = TraceTarget::Device(8 << 20 | 16);
    let by = |pid, record| Record { pid: Some(ProcessId(pid)), ..record };
    assert_eq!(records.len(), 4);
    assert_eq!(records[0], by(18_615, record(at(1850), Op::Read, target, 1_444_645_666 * 512, 131_072)));
    assert_eq!(records[1], by(16_766, record(at(100_000_000), Op::Write, target, 3_428_327_186 * 512, 4096)));
    assert_eq!(records[2], by(16_766, record(at(400_000_000), Op::Flush, target, 0, 0)));
    assert_eq!(records[3], by(16_766, record(at(500_000_000), Op::Flush, target, 0, 0)));
}

/// A record as the kernel writes it, in one byte order or the other.
fn blktrace_record(little: bool, action: u32, sector: u64, bytes: u32, payload: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    let mut put = |bytes: &[u8]| {
        // Given in little order.
        record.extend(bytes.iter());
        if !little {
            let from = record.len() - bytes.len();
            record[from..].reverse();
        }
    };
    put(&0x6561_7407u32.to_le_bytes());
    put(&1u32.to_le_bytes());
    put(&5_000u64.to_le_bytes());
    put(&sector.to_le_bytes());
    put(&bytes.to_le_bytes());
    put(&action.to_le_bytes());
    put(&77u32.to_le_bytes());
    put(&(8u32 << 20 | 16).to_le_bytes());
    put(&0u32.to_le_bytes());
    put(&0u16.to_le_bytes());
    put(&(payload.len() as u16).to_le_bytes());
    record.extend_from_slice(payload);
    record
}

#[test]
fn blktrace_records() {
    const READ: u32 = 1 << 16;
    const WRITE: u32 = 1 << 17;
    for little in [true, false] {
        let mut trace = blktrace_record(little, 1 << 26 | 2, 0, 0, b"a note");
        trace.extend(blktrace_record(little, READ | 1, 1000, 4096, b""));
        trace.extend(blktrace_record(little, READ | 15, 1000, 4096, b"0123456789ab"));
        trace.extend(blktrace_record(little, WRITE | 1 << 8 | 1, 2000, 8192, b"cgroup"));
        trace.extend(blktrace_record(little, 1 << 29 | WRITE | 1, 2000, 8192, b""));
        let (format, records) = read(&trace).expect("valid");
        assert_eq!(format, Format::Blktrace);
        let target = TraceTarget::Device(8 << 20 | 16);
        let by = |record| Record { pid: Some(ProcessId(77)), ..record };
        assert_eq!(
            records,
            [
                by(record(at(5000), Op::Read, target, 512_000, 4096)),
                by(record(at(5000), Op::Write, target, 1_024_000, 8192)),
            ]
        );
        // Cut anywhere, the error says where the incomplete record begins.
        let text = read(&trace[..trace.len() - 3]).expect_err("cut").to_string();
        assert!(text.contains("trace: byte 216: ends within a record"), "{text}");
    }
}

#[test]
fn fio_version_2() {
    let text = b"fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 4096 8192\n\
        /dev/sda wait 1500 0\n/dev/sda wait 500 0\nb write 0 512\n/dev/sda sync 0 0\n/dev/sda trim 0 4096\n/dev/sda close\n";
    let mut reader = Reader::new("trace", &text[..], None).expect("valid");
    let records: Vec<Record> = reader.by_ref().collect::<Result<_, _>>().expect("valid");
    let after = |micros| When::After(Nanos::from_micros(micros));
    assert_eq!(
        records,
        [
            record(after(0), Op::Read, TraceTarget::File(0), 4096, 8192),
            record(after(2000), Op::Write, TraceTarget::File(1), 0, 512),
            record(after(0), Op::Flush, TraceTarget::File(0), 0, 0),
        ]
    );
    assert_eq!((reader.name(0), reader.name(1), reader.name(2)), (Some("/dev/sda"), Some("b"), None));
}

#[test]
fn fio_version_3() {
    let text =
        b"fio version 3 iolog\n2 nvme add\n872 nvme open\n878 nvme write 0 16384\n10001677 nvme close\n";
    let (format, records) = read(text).expect("valid");
    assert_eq!(format, Format::Fio);
    assert_eq!(records, [record(at(878_000), Op::Write, TraceTarget::File(0), 0, 16_384)]);
}

#[test]
fn disksim_and_its_validation_traces() {
    let (format, records) = read(b"7.500000 0 1000 8 1\n8.25 1 2000 16 0\n").expect("valid");
    assert_eq!(format, Format::DiskSim);
    assert_eq!(
        records,
        [
            record(at(7_500_000), Op::Read, TraceTarget::Device(0), 512_000, 4096),
            record(at(8_250_000), Op::Write, TraceTarget::Device(1), 1_024_000, 8192),
        ]
    );
    let (format, records) = read(b"W Hit   11392096  12   1686.00000  40961.00000\n").expect("valid");
    assert_eq!(format, Format::Validation);
    let expected =
        record(When::After(Nanos(40_961_000)), Op::Write, TraceTarget::Device(0), 11_392_096 * 512, 6144);
    assert_eq!(records, [Record { response: Some(Nanos(1_686_000)), ..expected }]);
}

#[test]
fn libcachesim() {
    let text = b"version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633899,28,6656,40409911\n1,5633900,12,0,0\n";
    let (format, records) = read(text).expect("valid");
    assert_eq!(format, Format::LibCacheSim);
    assert_eq!(
        records,
        [
            record(at(5_633_898_000_000_000), Op::Write, TraceTarget::File(0), 42_932_745 * 512, 512),
            record(at(5_633_899_000_000_000), Op::Read, TraceTarget::File(0), 40_409_911 * 512, 6656),
        ]
    );
}

#[test]
fn a_malformed_line_is_named_with_its_number_and_reason() {
    for (text, expected) in [
        ("0,1,8192,W,0.5\n0,1,8192,X,0.6\n", "trace: line 2: its opcode 'X' is neither R nor W"),
        ("0,1,8192,W,0.5\n\n0,1,8192\n", "trace: line 3: ends before its opcode"),
        ("0,1,8192,W,0.5\n0,-1,8192,W,1\n", "line 2: its LBA '-1' is not a whole number"),
        ("0,1,8192,W,0.5\n0,1,0,W,1\n", "line 2: asks for nothing"),
        ("0,1,8192,W,0.5\n0,18446744073709551615,1,W,1\n", "beyond any device"),
        ("128166372003061629,hm,1,Read,0,512,413\nx,hm,1,Read,0,512,413\n", "line 2: its timestamp 'x'"),
        ("1 0 1 8 1\n2 0 1 8 1 junk\n", "line 2: has 'junk' after its flags"),
        ("R Hit 1 4 1.0 2.0\nR Maybe 1 4 1.0 2.0\n", "line 2: has 'Maybe' instead of Hit or Miss"),
        ("fio version 3 iolog\n1 a read 0 512\nnow a read 0 512\n", "line 3: its timestamp 'now'"),
        ("fio version 2 iolog\na reed 0 512\n", "line 2: its action 'reed' is unknown in fio"),
        ("version,time,op,size,lbn\n1,2,zz,512,1\n", "line 2: its op 'zz' is not a SCSI code"),
        ("8,16 0 1 0.1 7 Q R 5 + 8 [x]\n8;16 0 2 0.2 7 Q R 5 + 8 [x]\n", "line 2: its device '8;16'"),
        ("8,16 0 1 0.1 7 Q R 5 + 8 [x]\n8,16 0 2 0.2 7 Q R 5 - 8 [x]\n", "line 2: has '-' where '+'"),
    ] {
        let error = read(text.as_bytes()).expect_err(text).to_string();
        assert!(error.contains(expected), "{text:?} gives {error}");
    }
    let error = read(b"1 0 1 8 1\n\xff\xfe 0 1 8 1\n").expect_err("no text").to_string();
    assert!(error.contains("line 2: is not UTF-8 text"), "{error}");
    let long = format!("1 0 1 8 1\n{}", "7".repeat(LINE_LIMIT + 10));
    assert!(read(long.as_bytes()).expect_err("long").to_string().contains("line 2: is longer than"));
}

#[test]
fn what_is_no_trace_is_refused_with_the_formats() {
    let error = read(b"<html>\x1b[31m\n").expect_err("no trace").to_string();
    assert!(error.contains("<html>") && error.contains("libcachesim") && !error.contains('\x1b'), "{error}");
    assert!(matches!(read(b""), Err(TraceError::Empty { .. })));
    let error = read(b"$$TR_IOREC-1.3 (IOAdaptor Upgrade Version) \0\n").expect_err("SRT").to_string();
    assert!(error.contains("HP SRT") && error.contains("convert"), "{error}");
}

#[test]
fn a_given_format_overrides_the_first_line() {
    let reader = Reader::new("trace", &b"1 0 1 8 1\n"[..], Some(Format::Validation)).expect("given");
    assert_eq!(reader.format(), Format::Validation);
    let error = reader.collect::<Result<Vec<_>, _>>().expect_err("another format").to_string();
    assert!(error.contains("line 1: begins with '1' instead of R or W"), "{error}");
}

#[test]
fn a_limit_counts_records() {
    let text = b"1 0 1 8 1\n\n2 0 1 8 1\nx\n";
    let reader = Reader::new("trace", &text[..], None).expect("valid head").limited(2);
    assert_eq!(reader.map(|record| record.is_ok()).collect::<Vec<_>>(), [true, true]);
}

#[test]
fn nothing_follows_an_error() {
    let mut reader = Reader::new("trace", &b"1 0 1 8 1\nx\n2 0 1 8 1\n"[..], None).expect("valid head");
    assert!(matches!(reader.next(), Some(Ok(_))));
    assert!(matches!(reader.next(), Some(Err(_))));
    assert!(reader.next().is_none());
}

proptest! {
    #[test]
    fn what_spc_says_is_what_is_read(
        requests in prop::collection::vec(
            (0..9u32, 0..1u64 << 40, 1..1u64 << 30, any::<bool>(), 0..1u64 << 40), 1..20),
    ) {
        let line = |(asu, lba, size, read, micros): &(u32, u64, u64, bool, u64)| {
            let op = if *read { 'R' } else { 'w' };
            format!("{asu},{lba},{size},{op},{}.{:06}\n", micros / 1_000_000, micros % 1_000_000)
        };
        let text: String = requests.iter().map(line).collect();
        let (_, records) = read(text.as_bytes()).expect("valid");
        prop_assert_eq!(records.len(), requests.len());
        for (read, (asu, lba, size, is_read, micros)) in records.iter().zip(requests) {
            let op = if is_read { Op::Read } else { Op::Write };
            prop_assert_eq!(*read, record(at(micros * 1000), op, TraceTarget::Device(asu), lba * 512, size));
        }
    }

    #[test]
    fn no_input_is_too_strange(text in prop::collection::vec(any::<u8>(), 0..400), which in 0..8usize) {
        let format = Format::names().nth(which).and_then(Format::by_name);
        if let Ok(reader) = Reader::new("trace", &text[..], format) {
            reader.for_each(drop);
        }
        let _ = read(&text);
    }
}
