//! How fast measured traces are replayed: requests a second on one core.
//!
//! The drives and traces are those of `../shared/traces/disksim-valid`, and a week of a workstation's requests
//! (`hplajw`, 1992) on one of them. They are not part of the repository; where they are missing, the benchmark
//! says so and measures nothing. Each drive's trace is replayed again and again on new devices for two seconds
//! of processor time, the drives in turn; making the device does not count. Processor time is measured, so that
//! other load matters only through the caches. `cargo bench -p foreseek-drives --bench replay`.

#![allow(clippy::print_stdout, clippy::expect_used, reason = "a benchmark reports what it finds")]

use foreseek_device::{Build, Op, Profile};
use foreseek_drives::validation::{Measured, parse_trace, replay};
use foreseek_drives::{Controller, Drive};
use foreseek_units::{Lba, Nanos, SectorSpan, Sectors};
use rustix::time::{ClockId, clock_gettime};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DRIVES: [&str; 4] = ["cheetah9LP", "ibm18es", "atlas_III", "barracuda"];
/// How long each drive's trace is replayed.
const TIME: Duration = Duration::from_secs(2);

struct Case {
    name: &'static str,
    profile: Profile,
    trace: Vec<Measured>,
    rates: Vec<f64>,
    spent: Duration,
}

impl Case {
    fn new(name: &'static str) -> Self {
        let profile = Profile::builtin("barracuda-500g").expect("built in");
        Self { name, profile, trace: Vec::new(), rates: Vec::new(), spent: Duration::ZERO }
    }
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("lab/drives lies two below");
    let folders = ["../shared", "../../shared"].map(|up| root.join(up).join("traces/disksim-valid"));
    let Some(folder) = folders.into_iter().find(|folder| folder.is_dir()) else {
        println!("SKIPPED: ../shared/traces/disksim-valid is not there");
        return;
    };
    let mut cases: Vec<Case> = DRIVES.map(|name| case(name, &folder)).into();
    let week = folder.with_file_name("hplajw.1week.srt.gz");
    if week.is_file() {
        let profile = cases.last().expect("the drives come first").profile.clone();
        cases.push(Case { trace: requests_of(&unpacked(&week)), profile, ..Case::new("hplajw") });
    } else {
        println!("SKIPPED: {} is not there", week.display());
    }
    while cases.iter().any(|case| case.spent < TIME) {
        for case in &mut cases {
            let mut device = case.profile.build(&Build::default()).expect("the drive makes a device");
            let start = processor_time();
            replay(&mut *device, &case.trace).expect("the trace is the drive's");
            let spent = processor_time() - start;
            case.spent += spent;
            case.rates.push(case.trace.len() as f64 / spent.as_secs_f64());
        }
    }
    println!(
        "{:12} {:>8} {:>8} {:>12} {:>12} {:>12}",
        "drive", "requests", "replays", "median/s", "slowest/s", "fastest/s"
    );
    for case in &mut cases {
        case.rates.sort_by(f64::total_cmp);
        let at = |share: f64| case.rates[((case.rates.len() - 1) as f64 * share) as usize];
        let (name, requests, replays) = (case.name, case.trace.len(), case.rates.len());
        println!("{name:12} {requests:8} {replays:8} {:12.0} {:12.0} {:12.0}", at(0.5), at(0.0), at(1.0));
    }
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn case(name: &'static str, folder: &Path) -> Case {
    let read = |path: PathBuf| std::fs::read_to_string(path).map_err(|error| error.to_string());
    let model = read(folder.join(format!("{name}.model"))).expect("a model");
    let drive = Drive::parse(name, &model, &mut |linked| read(folder.join(linked))).expect("a drive");
    let controller = Controller::published(drive.name()).unwrap_or_else(Controller::typical);
    let (profile, _) = drive.profile(&controller).expect("a profile");
    let text = String::from_utf8(unpacked(&folder.join(format!("{name}.trace.gz")))).expect("text");
    let trace = parse_trace(name, &text).expect("a trace");
    Case { profile, trace, ..Case::new(name) }
}

fn unpacked(path: &Path) -> Vec<u8> {
    let file = std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("compressed data");
    bytes
}

/// The requests of HP's trace format SRT 1.3: a heading, then records of 14 big-endian words: length,
/// type, seconds and microseconds of arrival, two times, bytes, address in KiB, and more, with flags in
/// the twelfth of which the lowest says "read". Arrivals count as gaps here.
fn requests_of(bytes: &[u8]) -> Vec<Measured> {
    const RECORD: [u8; 8] = [0, 0, 0, 56, 0, 4, 0, 1];
    let begin = bytes.windows(RECORD.len()).position(|window| window == RECORD).expect("a record");
    let mut before = 0;
    let mut request = |record: &[u8]| {
        let word = |at: usize| {
            let bytes: [u8; 4] = record[at * 4..at * 4 + 4].try_into().expect("four bytes");
            u64::from(u32::from_be_bytes(bytes))
        };
        let arrival = word(2) * 1_000_000 + word(3);
        let gap = Nanos::from_micros(arrival.saturating_sub(before));
        before = arrival;
        let range = SectorSpan::at(Lba(word(7) * 2), Sectors((word(6) / 512).max(1)));
        let op = if word(11) & 1 == 1 { Op::Read } else { Op::Write };
        Measured { op, range, response: Nanos::ZERO, gap }
    };
    bytes[begin..].chunks_exact(56).map(&mut request).collect()
}
