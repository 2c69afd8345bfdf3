//! How fast measured traces are replayed: requests a second on one core.
//!
//! The drives and traces are those of `../shared/traces/disksim-valid`, which is not part of the
//! repository; where it is missing, that is said and nothing is measured. Each drive's trace is
//! replayed again and again on new devices for two seconds of processor time, the drives in turn;
//! making the device is not counted. Processor time, not elapsed time: what else the machine does
//! counts only by the caches that it takes. `cargo bench -p foreseek-device --bench replay`.

#![allow(clippy::print_stdout, clippy::expect_used, reason = "a benchmark reports what it finds")]

use foreseek_device::extracted::{Controller, Drive};
use foreseek_device::validation::{Measured, parse_trace, replay};
use foreseek_device::{Build, Profile};
use rustix::time::{ClockId, clock_gettime};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DRIVES: [&str; 4] = ["cheetah9LP", "ibm18es", "atlas_III", "barracuda"];
/// For so long each drive's trace is replayed.
const TIME: Duration = Duration::from_secs(2);

struct Case {
    name: &'static str,
    profile: Profile,
    trace: Vec<Measured>,
    rates: Vec<f64>,
    spent: Duration,
}

fn main() {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/device lies two below");
    let folders = ["../shared", "../../shared"].map(|up| root.join(up).join("traces/disksim-valid"));
    let Some(folder) = folders.into_iter().find(|folder| folder.is_dir()) else {
        println!("SKIPPED: ../shared/traces/disksim-valid is not there");
        return;
    };
    let mut cases = DRIVES.map(|name| case(name, &folder));
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

/// What this thread has used of a core.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn case(name: &'static str, folder: &Path) -> Case {
    let read = |path: PathBuf| std::fs::read_to_string(path).map_err(|error| error.to_string());
    let model = read(folder.join(format!("{name}.model"))).expect("a model");
    let drive = Drive::parse(name, &model, &mut |linked| read(folder.join(linked))).expect("a drive");
    let controller = Controller::published(drive.name()).unwrap_or_else(Controller::typical);
    let (profile, _) = drive.profile(&controller).expect("a profile");
    let file = std::fs::File::open(folder.join(format!("{name}.trace.gz"))).expect("a trace");
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("compressed text");
    let trace = parse_trace(name, &text).expect("a trace");
    Case { name, profile, trace, rates: Vec::new(), spent: Duration::ZERO }
}
