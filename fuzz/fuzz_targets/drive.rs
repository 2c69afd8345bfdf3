//! Arbitrary text as the files of an extracted drive: reading never panics, and what is read makes a
//! device that serves requests, or is refused with a reason. The first line tells which file it is; a
//! model may have a list of extents behind a line of five equal signs.
#![no_main]

use foreseek_device::{Build, Profile};
use foreseek_drives::validation::{parse_trace, replay};
use foreseek_drives::{Controller, Drive, SeekFile};
use libfuzzer_sys::fuzz_target;

const SEEK: &str = "1, 1.0\n100, 5.0\n";
const TRACE: &str = "R Hit 0 8 1 0\nW Hit 100 8 1 0\nR Hit 4 300 1 50000\nW Hit 0 1 1 0\n";

fuzz_target!(|text: &str| {
    let (kind, text) = text.split_once('\n').unwrap_or(("", text));
    match kind {
        "seek" => drop(SeekFile::parse("fuzz.seek", text)),
        "trace" => drop(parse_trace("fuzz.trace", text)),
        "controller" => drop(Controller::parse("fuzz.diskspecs", text)),
        "toml" => drop(Controller::parse_toml("fuzz.toml", text)),
        _ => model(text),
    }
});

fn model(text: &str) {
    let (text, map) = text.split_once("\n=====\n").unwrap_or((text, ""));
    let mut linked = |name: &str| Ok(if name.ends_with(".map") { map } else { SEEK }.to_owned());
    let Ok(drive) = Drive::parse("fuzz.model", text, &mut linked) else { return };
    let Ok((profile, _)) = drive.profile(&Controller::typical_of(&drive)) else { return };
    let again = Profile::parse("again.toml", &profile.to_toml()).expect("what was written is a profile");
    assert_eq!(again.to_toml(), profile.to_toml());
    let Ok(mut device) = profile.build(&Build::default()) else { return };
    let trace = parse_trace("trace", TRACE).expect("a trace");
    // It may be too small for the trace; then that is said.
    let _ = replay(&mut *device, &trace);
}
