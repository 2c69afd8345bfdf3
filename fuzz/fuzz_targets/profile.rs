//! Arbitrary text as a device profile: parsing never panics, and what parses can be written, read
//! again and built, or is refused with a reason.
#![no_main]

use foreseek_device::{Build, Io, IoId, Op, Profile};
use foreseek_units::{Instant, Lba, SectorSpan, Sectors};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(profile) = Profile::parse("fuzz.toml", text) else { return };
    let again = Profile::parse("again.toml", &profile.to_toml()).expect("what was written is a profile");
    assert_eq!(again.to_toml(), profile.to_toml());
    assert!(profile.competitive_depth().get() > 0);
    let Ok(mut device) = profile.build(&Build::default()) else { return };
    // A request at either end is served in finite time.
    let last = Lba(device.capacity().get() - 8);
    for (id, start) in [Lba(0), last].into_iter().enumerate() {
        let io = Io { id: IoId(id as u64), op: Op::Read, range: SectorSpan::at(start, Sectors(8)) };
        device.submit(Instant(0), io).expect("an idle device has room");
    }
    let mut done = Vec::new();
    while done.len() < 2 {
        let now = device.next().expect("requests are under way");
        device.advance(now, &mut done);
    }
});
