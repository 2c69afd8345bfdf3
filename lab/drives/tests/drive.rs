//! Extracted drives: the profile says what their files say, and no text makes reading panic.

use foreseek_device::{Build, Profile};
use foreseek_drives::validation::{parse_trace, replay};
use foreseek_drives::{Controller, Drive, SeekFile};
use foreseek_units::Nanos;
use proptest::prelude::*;

const MODEL: &str = include_str!("common/drive.model");
const TREE: &str = include_str!("common/tree.model");
/// A drive by a list of its extents.
const EXTENTS: &str = "dm_disk D { Number of data surfaces = 2,
 Layout Model = dm_layout_g2 { Layout Map File = drive.map, Zones = [ dm_layout_g2_zone {
  First cylinder number = 0, Last cylinder number = 99, Blocks per track = 200, Zone skew = 10.0,
  Skew for track switch = 20.0, Skew for cylinder switch = 30.0 } ] },
 Mechanical Model = dm_mech_g1 { Seek type = constant, Constant seek time = 0.5, Rotation speed (in rpms) = 6000 } }";
const SEEK: &str = "Seek distances measured: 4\n1,\t1.5\n2,\t1.25\n20,\t3.0\n299,\t9.0\n";
const TRACE: &str =
    "R Hit 0 8 1 0\nW Hit 100 8 1 0\nR Miss 4 300 1 50000\nW Hit 40000 1 1 0\nR Hit 40001 60 1 7\n";

fn map() -> String {
    let track = |at: u32| {
        let (lbn, cylinder, head) = (at * 200, at / 2, at % 2);
        format!("lbn {lbn} --> cyl {cylinder}, head {head}, sect 0, seqcnt 199\n")
    };
    "drive\nlayout\n100 cylinders, 6000 rot, 2 heads\n".to_owned() + &(0..200).map(track).collect::<String>()
}

fn profile(model: &str, controller: &Controller) -> Result<Profile, String> {
    let mut linked = |name: &str| Ok(if name.ends_with(".map") { map() } else { SEEK.to_owned() });
    let drive = Drive::parse("drive.model", model, &mut linked).map_err(|error| error.to_string())?;
    drive.profile(controller).map(|(profile, _)| profile).map_err(|error| error.to_string())
}

/// Values of the files, and where they appear in the profile.
#[test]
fn what_a_model_says_is_in_the_profile() {
    let text = profile(MODEL, &Controller::typical()).expect("a drive").to_toml();
    for line in [
        "heads = 2",
        "rotation_rpm = 7200.0",
        "head_switch_ms = 0.5",
        "write_settle_ms = 0.2",
        "resettle_ms = 0.75",
        "mapping = \"serpentine-by-zone\"",
        "spares = \"cylinder-end\"",
        "capacity_bytes = 24064000",
        "first_cylinder = 152",
        "track_skew_sectors = 14.0",
        "cylinder_skew_sectors = 30.0",
        "offset_sectors = 5.0",
        "front_sectors = 100",
        "spares = 4",
        "slips = [17, 2000]",
        "remaps = [300, 191]",
        "distance_cylinders = [1.0, 2.0, 20.0, 299.0]",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

#[test]
fn each_kind_of_seek_curve_is_read() {
    let with = |seek: &str| {
        let model = MODEL.replace("Seek type = extracted,\n      Full seek curve = drive.seek,", seek);
        assert_ne!(model, MODEL);
        profile(&model, &Controller::typical())
            .map(|profile| profile.average_seek().expect("an arm").as_millis_f64())
    };
    let three = "Single cylinder seek time = 1.0, Average seek time = 5.0, Full strobe seek time = 9.5,";
    let hpl = "HPL seek equation values = [ 100, 3.0, 0.3, 5.0, 0.01, -1.0 ],";
    let ten = "First ten seek times = [ 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9 ],";
    for (seek, about) in [
        (format!("Seek type = curve, {three}"), 5.0),
        (format!("Seek type = linear, {three}"), 4.4),
        ("Seek type = constant, Constant seek time = 4.0,".to_owned(), 4.0),
        (format!("Seek type = hpl, {hpl}"), 5.5),
        (format!("Seek type = hplplus10, {hpl} {ten}"), 5.3),
    ] {
        let average = with(&seek).unwrap_or_else(|error| panic!("{seek}: {error}"));
        assert!((average - about).abs() < 0.6, "{seek}: {average}");
    }
    for (seek, what) in [
        ("Seek type = hpl, HPL seek equation values = [ 1, 2 ],", "must be a list of 6 numbers"),
        ("Seek type = guess,", "is 'guess', must be extracted"),
        ("Seek type = extracted,", "Full seek curve: is missing"),
        ("Seek type = constant,", "Constant seek time: is missing"),
    ] {
        let error = with(seek).expect_err(seek);
        assert!(error.starts_with("drive.model: line ") && error.contains(what), "{error}");
    }
}

/// A write takes as long as the stated overheads, in the units in which they are stated.
#[test]
fn a_controllers_file_is_followed() {
    let specs = "disksim_disk D {\n Per-request overhead time = 0.1, Time scale for overheads = 2.0,\n Bulk sector transfer time = 0.25,\n\
        Fast write level = 2, Number of buffer segments = 2, Maximum number of write segments = 1, Segment size (in blks) = 64,\n\
        Write hit over. after read = 0.3, Write completion overhead = 0.05 }\n";
    let controller = Controller::parse("d.diskspecs", specs).expect("a controller");
    let profile = profile(MODEL, &controller).expect("a drive");
    let trace = parse_trace("t", "W Hit 1000 8 1 0\n").expect("a trace");
    let mut device = profile.build(&Build::default()).expect("a disk");
    // 0.3 x 2 + 0.1 before, eight sectors of 0.25, 0.05 x 2 after.
    let replayed = replay(&mut *device, &trace).expect("it fits");
    assert_eq!(replayed.responses, [Nanos::from_micros(2800)]);
    let error = Controller::parse("d.diskspecs", &specs.replace("= 0.25", "= fast"))
        .expect_err("no number")
        .to_string();
    assert_eq!(error, "d.diskspecs: line 3: Bulk sector transfer time: is 'fast', must be a number");
}

#[test]
fn a_layout_in_a_file_of_its_own_is_followed_once() {
    let (before, rest) = MODEL.split_once("Layout Model = ").expect("a layout");
    let (layout, after) = rest.split_once(",\n   Mechanical").expect("the layout's end");
    let model = format!("{before}Layout Model = source layout.model,\n   Mechanical{after}");
    let mut asked = Vec::new();
    let drive = Drive::parse("drive.model", &model, &mut |name| {
        asked.push(name.to_owned());
        Ok(if name == "layout.model" { layout.to_owned() } else { SEEK.to_owned() })
    });
    let (one, _) = drive.expect("a drive").profile(&Controller::typical()).expect("a profile");
    assert_eq!(one.to_toml(), profile(MODEL, &Controller::typical()).expect("a profile").to_toml());
    assert_eq!(asked, ["layout.model", "drive.seek"]);
    let error =
        Drive::parse("drive.model", &model, &mut |name| Err(format!("{name} is gone"))).expect_err("gone");
    assert!(error.to_string().contains("layout.model is gone"), "{error}");
}

/// Numbers that files hold and should not.
const NUMBERS: [&str; 16] = [
    "0", "1", "2", "3", "-1", "1.5", "0.001", "71", "150", "152", "299", "5000", "8388607", "16777216",
    "1e18", "NaN",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// A file with other numbers is refused, or makes a drive that serves requests.
    #[test]
    fn other_numbers_make_a_drive_or_a_complaint(
        model in prop::sample::select(&[MODEL, TREE, EXTENTS][..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(&NUMBERS[..])), 1..4),
    ) {
        let mut words: Vec<String> = model.split_inclusive([' ', ',', '\n', ']']).map(str::to_owned).collect();
        let numbers: Vec<usize> = words
            .iter()
            .enumerate()
            .filter(|(_, word)| word.starts_with(|c: char| c.is_ascii_digit()))
            .map(|(at, _)| at)
            .collect();
        for (which, number) in changes {
            let at = *which.get(&numbers);
            let tail: String = words[at].chars().filter(|c| " ,\n]".contains(*c)).collect();
            words[at] = format!("{number}{tail}");
        }
        let model = words.concat();
        match profile(&model, &Controller::typical()) {
            Err(error) => prop_assert!(error.starts_with("drive.model: ") || error.starts_with("drive.map: "), "{error}"),
            Ok(profile) => {
                let again = Profile::parse("again", &profile.to_toml()).map_err(|error| TestCaseError::fail(error.to_string()))?;
                prop_assert_eq!(again.to_toml(), profile.to_toml());
                if let Ok(mut device) = profile.build(&Build::default()) {
                    let _ = replay(&mut *device, &parse_trace("t", TRACE).expect("a trace"));
                }
            }
        }
    }

    /// A file that was cut off or lost a part is refused or read.
    #[test]
    fn damaged_files_are_refused_or_read(
        model in prop::sample::select(&[MODEL, TREE, EXTENTS][..]),
        from in any::<prop::sample::Index>(), length in 0..200usize, byte in any::<char>()) {
        let start = from.index(model.len());
        let end = (start + length).min(model.len());
        let damaged = format!("{}{byte}{}", &model[..start], &model[end..]);
        let _ = profile(&damaged, &Controller::typical());
        let _ = profile(&model[..start], &Controller::typical());
        let _ = SeekFile::parse("s", &SEEK[..start % SEEK.len()]);
    }
}

/// What is assumed of a drive comes from others of its maker or generation, never from its own entry.
#[test]
fn a_typical_controller_goes_by_maker_generation_and_the_drives_own_tracks() {
    let typical = |name: &str, rpm: &str| {
        let model = MODEL.replace("MAKER_DRIVE-7", name).replace("= 7200", &format!("= {rpm}"));
        let drive = Drive::parse("drive.model", &model, &mut |_| Ok(SEEK.to_owned())).expect("a drive");
        Controller::typical_of(&drive)
    };
    let plain = typical("UNKNOWN_1", "7200");
    assert!(plain.source().contains("6 published drives of its generation"), "{}", plain.source());
    assert!(typical("unknown_1", "5400").source().contains("5 published drives of its generation"));
    let seagate = typical("SEAGATE_NEW", "7200");
    assert!(seagate.source().contains("3 published drives of its maker"), "{}", seagate.source());
    // Of a known drive its own entry does not count.
    assert!(typical("SEAGATE_ST39102LW", "7200").source().contains("2 published drives of its maker"));
    assert!(typical("HP_C2249A", "5400").source().contains("3 published drives of its maker"));
    assert_ne!(typical("IBM_DNES-309170W", "7200"), plain);
}

/// A profile with tracks reads back as the same, builds in full, in part and stretched, and serves requests. A
/// sequential pass reads what its tracks hold.
#[test]
fn a_drive_described_track_by_track_is_a_device() {
    for (model, sectors) in [(TREE, 60_000), (EXTENTS, 40_000)] {
        let one = profile(model, &Controller::typical()).expect("a drive");
        assert_eq!(one.capacity().get(), sectors * 512);
        let again = Profile::parse("again", &one.to_toml()).expect("a profile");
        assert_eq!(again.to_toml(), one.to_toml());
        let size = Some(foreseek_units::Bytes::mib(10));
        for build in [
            Build::default(),
            Build { size, ..Build::default() },
            Build { size, fit: true, ..Build::default() },
        ] {
            let mut device = again.build(&build).unwrap_or_else(|error| panic!("{error}"));
            let text: String =
                (0..400).map(|i| format!("R Hit {} 8 1 {}\n", i * 7919 % 20_000, i * 131)).collect();
            let replayed = replay(&mut *device, &parse_trace("t", &text).expect("a trace")).expect("it fits");
            let mean = replayed.responses.iter().map(|time| time.as_millis_f64()).sum::<f64>() / 400.0;
            assert!((3.0..20.0).contains(&mean), "{mean} ms");
        }
    }
}

/// A tree may leave undefined what lies beyond the drive's last block.
#[test]
fn only_addresses_of_blocks_must_be_defined() {
    let beyond = TREE.replace("30280, 140, 0.5, 60560, 280, IDX, 2", "30281, 140, 0.5, 30281, 140, IDX, 2");
    let half = beyond.replace("Block count = 60000", "Block count = 30000");
    assert_eq!(profile(&half, &Controller::typical()).expect("a drive").capacity().get(), 30_000 * 512);
    // With the three sectors that are slipped it has all addresses of the node.
    let blocks = |count: u64| beyond.replace("Block count = 60000", &format!("Block count = {count}"));
    let most = blocks(30_277);
    assert_eq!(profile(&most, &Controller::typical()).expect("a drive").capacity().get(), 30_277 * 512);
    let error = profile(&blocks(30_280), &Controller::typical()).expect_err("it is refused");
    assert!(error.contains("IDX: needs 30281 addresses of node 2, which has 30280"), "{error}");
    let error = profile(&beyond.replace("Block count = 60000,", ""), &Controller::typical())
        .expect_err("it is refused");
    assert!(error.contains("IDX: needs 30281 addresses of node 2, which has 30280"), "{error}");
}

/// Changes that editors and other systems make to a file have no effect.
#[test]
fn case_spaces_comments_and_line_ends_do_not_matter() {
    let plain = profile(MODEL, &Controller::typical()).expect("a drive").to_toml();
    let commented = MODEL.replace(",\n", ", # so it is = { [\n\n");
    let mut lines: Vec<&str> = MODEL.lines().collect();
    lines.swap(1, 2);
    for (what, text) in [
        ("line ends", MODEL.replace('\n', "\r\n")),
        ("a mark", format!("\u{feff}{MODEL}")),
        ("tabs", MODEL.replace("   ", "\t")),
        ("comments", commented),
        (
            "case",
            MODEL
                .replace("Number of data surfaces", "number of  Data Surfaces")
                .replace("dm_disk", "DM_DISK"),
        ),
        ("order", lines.join("\n")),
        ("braces on their own line", MODEL.replace(" = dm_layout_g1 {", " = dm_layout_g1\n{")),
    ] {
        let found = profile(&text, &Controller::typical()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(found.to_toml(), plain, "{what}");
    }
}
