//! On an array of Linux md: strips are where the kernel reports them, for its volumes too, and prefetching
//! pauses while md works.
//!
//! They need mdadm and a kernel with md, and are skipped with a message without them: `scripts/guest` has
//! one.

use crate::lab::{LIMIT, Lab, read_direct, until};
use crate::{Arrays, Laid, aligned, direct, nbd, text};
use foreseek_units::{Lba, Level, Sectors, Stripes};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const STRIP: u64 = 64 << 10;
const MEMBER: u64 = 48 << 20;

/// An array of md over loop devices; stopped when dropped.
struct Md<'a> {
    lab: &'a Lab,
    node: PathBuf,
    members: Vec<Laid<'a>>,
}

impl<'a> Md<'a> {
    /// With strips of [`STRIP`]; `None`, with a message, without md.
    fn create(lab: &'a Lab, level: &str, layout: &str, members: usize) -> Option<Self> {
        Self::with_strips(lab, level, layout, members, STRIP)
    }

    fn with_strips(lab: &'a Lab, level: &str, layout: &str, members: usize, strip: u64) -> Option<Self> {
        if !Self::may_be_had() {
            return None;
        }
        let members: Vec<_> = (0..members).map(|number| Self::member(lab, number)).collect();
        let nodes: Vec<PathBuf> = members.iter().map(|member| member.1.clone()).collect();
        Self::over(lab, (level, layout, strip), members, &nodes)
    }

    /// Whether there is md; without it this is said.
    fn may_be_had() -> bool {
        let has_mdadm = Command::new("mdadm").arg("--version").output().is_ok();
        let has_md = has_mdadm && Path::new("/proc/mdstat").exists();
        if !has_md {
            println!("SKIPPED: md needs mdadm and a kernel with md; scripts/guest has both");
        }
        has_md
    }

    /// Of these devices, which are the members or lie above them.
    fn over(
        lab: &'a Lab,
        (level, layout, strip): (&str, &str, u64),
        members: Vec<Laid<'a>>,
        nodes: &[PathBuf],
    ) -> Option<Self> {
        let node = (90..).map(|number| format!("/dev/md{number}")).find(|node| !Path::new(node).exists())?;
        let (count, chunk) = (nodes.len().to_string(), (strip >> 10).to_string());
        let mut arguments =
            vec!["--create", &node, "--run", "--level", level, "--chunk", &chunk, "--raid-devices", &count];
        if level != "raid0" {
            arguments.extend(["--assume-clean", "--layout", layout]);
        }
        arguments.extend(nodes.iter().map(|node| text(node)));
        lab.tool("mdadm", &arguments);
        Some(Self { lab, node: node.into(), members })
    }

    /// A RAID-5 of which each request of one member takes longer, and that member's volume, which has to outlive it.
    fn with_a_slow_member(
        lab: &'a Lab,
        members: usize,
        slow: usize,
        by: Duration,
    ) -> Option<(Volume<'a>, Self)> {
        if !Self::may_be_had() {
            return None;
        }
        let members: Vec<_> = (0..members).map(|number| Self::member(lab, number)).collect();
        let (sectors, by) = (MEMBER / 512, by.as_millis());
        let table = format!("0 {sectors} delay {} 0 {by}", text(&members[slow].1));
        let volume = Volume::create(lab, "slow", &table)?;
        let mut nodes: Vec<PathBuf> = members.iter().map(|member| member.1.clone()).collect();
        nodes[slow] = volume.node();
        let md = Self::over(lab, ("raid5", "left-symmetric", STRIP), members, &nodes)?;
        Some((volume, md))
    }

    fn member(lab: &'a Lab, number: usize) -> Laid<'a> {
        let file = lab.path(&format!("member-{number}.img"));
        File::create(&file).and_then(|file| file.set_len(MEMBER)).expect("room");
        Laid::over(lab, &file, "512")
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::new("/sys/class/block").join(self.node.file_name().expect("a node")).join("md").join(name)
    }

    fn says(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default().trim().to_owned()
    }

    fn set(&self, name: &str, value: &str) {
        fs::write(self.file(name), value).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// Sectors that each member has read.
    fn read_sectors(&self) -> Vec<u64> {
        let read = |member: &Laid<'_>| {
            let stat = Path::new("/sys/class/block").join(member.1.file_name().expect("a node")).join("stat");
            let stat = fs::read_to_string(stat).expect("sysfs");
            stat.split_whitespace().nth(2).and_then(|sectors| sectors.parse().ok()).expect("a number")
        };
        self.members.iter().map(read).collect()
    }
}

impl Drop for Md<'_> {
    fn drop(&mut self) {
        let _ = self.lab.run(Command::new("mdadm").args(["--stop", text(&self.node)]));
    }
}

/// One page of each of some strips is read: the whole strip comes from a member that holds it, and no other
/// member reads.
fn strips_lie_where_md_has_them(
    level: &str,
    layout: &str,
    members: usize,
    holders: impl Fn(u64) -> Vec<u64>,
) {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let Some(md) = Md::create(&lab, level, layout, members) else { return };
    let device = arrays.attach(&md.node, &["--policy", "sp", "--name", "md"]);
    let status = arrays.status(&device);
    assert_eq!(status["strip_bytes"], STRIP);
    for strip in 0..24 {
        read_one_strip(&md, &device, strip, &holders(strip));
    }
    arrays.must(&["detach", "md"]);
    arrays.assert_clean();
}

/// Reads a page of a strip through this device, whose strips are md's: the strip comes from one of these
/// members.
fn read_one_strip(md: &Md<'_>, device: &Path, strip: u64, holders: &[u64]) {
    let before = md.read_sectors();
    read_direct(device, strip * STRIP + 8192).expect("it reads");
    let read: Vec<u64> = md.read_sectors().iter().zip(before).map(|(now, before)| now - before).collect();
    let from: Vec<u64> =
        (0..).zip(&read).filter(|(_, sectors)| **sectors > 0).map(|(member, _)| member).collect();
    assert_eq!(read.iter().sum::<u64>(), STRIP / 512, "strip {strip}: {read:?}");
    assert!(from.len() == 1 && holders.contains(&from[0]), "strip {strip}: {read:?}, not of {holders:?}");
}

/// The member that holds a strip, by our layout.
pub(crate) fn holder(level: Level, members: u64) -> impl Fn(u64) -> Vec<u64> {
    let stripes = Stripes { level, members, strip: Sectors(STRIP / 512) };
    move |strip| {
        let located = stripes.locate(Lba(strip * STRIP / 512));
        vec![stripes.member(located.row, located.slot)]
    }
}

#[test]
fn strips_lie_where_md_has_them_in_a_raid5() {
    strips_lie_where_md_has_them("raid5", "left-symmetric", 4, holder(Level::Raid5, 4));
}

#[test]
fn strips_lie_where_md_has_them_in_a_raid6() {
    strips_lie_where_md_has_them("raid6", "left-symmetric", 5, holder(Level::Raid6, 5));
}

#[test]
fn strips_lie_where_md_has_them_in_a_raid0() {
    strips_lie_where_md_has_them("raid0", "", 3, holder(Level::Raid0, 3));
}

#[test]
fn strips_lie_on_the_pairs_of_a_raid10() {
    strips_lie_where_md_has_them("raid10", "n2", 4, |strip| vec![strip % 2 * 2, strip % 2 * 2 + 1]);
}

#[test]
fn strips_lie_as_on_a_raid0_in_a_raid10_with_far_copies() {
    // The copies are on the next member.
    strips_lie_where_md_has_them("raid10", "f2", 4, |strip| vec![strip % 4, (strip + 1) % 4]);
}

#[test]
fn an_array_of_copies_is_refused() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    // md reports no layout of a raid1.
    let Some(md) = Md::create(&lab, "raid10", "n2", 2) else { return };
    let why = arrays.refused(&["attach", text(&md.node)]);
    assert!(why.contains("copies, which have no strips"), "{why}");
    arrays.assert_clean();
}

/// A volume of device-mapper; removed when dropped.
struct Volume<'a>(&'a Lab, &'static str);

impl<'a> Volume<'a> {
    fn create(lab: &'a Lab, name: &'static str, table: &str) -> Option<Self> {
        if Command::new("dmsetup").arg("targets").output().is_ok_and(|output| output.status.success()) {
            lab.tool("dmsetup", &["create", name, "--noudevsync", "--table", table]);
            return Some(Self(lab, name));
        }
        println!("SKIPPED: volumes need dmsetup and a kernel with device-mapper; scripts/guest has both");
        None
    }

    fn node(&self) -> PathBuf {
        // If no udev makes links, its node is the kernel's.
        let names = fs::read_dir("/sys/block").expect("sysfs").flatten().map(|entry| entry.path());
        let is_it = |device: &PathBuf| {
            fs::read_to_string(device.join("dm/name")).is_ok_and(|name| name.trim() == self.1)
        };
        let device = names.into_iter().find(is_it).expect("the volume");
        Path::new("/dev").join(device.file_name().expect("a name"))
    }
}

impl Drop for Volume<'_> {
    fn drop(&mut self) {
        let _ = self.0.run(Command::new("dmsetup").args(["remove", "--noudevsync", self.1]));
    }
}

#[test]
fn a_volume_of_an_array_has_the_arrays_strips() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let Some(md) = Md::create(&lab, "raid5", "left-symmetric", 4) else { return };
    // Like a volume of LVM: it begins within the array's third strip.
    let (begin, sectors) = (2 * STRIP / 512 + 64, 65_536);
    let number = fs::read_to_string(md.file("../dev")).expect("sysfs");
    let table = format!("0 {sectors} linear {} {begin}", number.trim());
    let Some(volume) = Volume::create(&lab, "foreseek-test", &table) else { return };
    let device = arrays.attach(&volume.node(), &["--policy", "sp", "--name", "volume"]);
    let holders = holder(Level::Raid5, 4);
    for strip in 3..12 {
        let before = md.read_sectors();
        // The last page of the array's strip: a strip from a wrong origin would be on two members.
        read_direct(&device, (strip + 1) * STRIP - begin * 512 - 4096).expect("it reads");
        let read: Vec<u64> = md.read_sectors().iter().zip(before).map(|(now, before)| now - before).collect();
        let mut expected = vec![0; 4];
        expected[holders(strip)[0] as usize] = STRIP / 512;
        assert_eq!(read, expected, "strip {strip}");
    }
    arrays.must(&["detach", "volume"]);
    drop(volume);

    let pieces = format!("0 4096 linear {0} 8192\n4096 4096 linear {0} 65536", number.trim());
    let volume = Volume::create(&lab, "foreseek-pieces", &pieces).expect("as before");
    let why = arrays.refused(&["attach", text(&volume.node())]);
    assert!(why.contains("it lies in 2 pieces"), "{why}");
    arrays.assert_clean();
}

#[test]
fn after_a_reshape_the_geometry_is_read_again() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let Some(mut md) = Md::create(&lab, "raid5", "left-symmetric", 3) else { return };
    let device = arrays.attach(&md.node, &["--name", "grown"]);
    let page = |number: u64| vec![(number * 37 % 251) as u8; 4096];
    let content: Vec<u8> = (0..4096).flat_map(page).collect();
    fs::write(&device, &content).expect("written");
    md.members.push(Md::member(&lab, 3));
    lab.tool("mdadm", &["--add", text(&md.node), text(&md.members[3].1)]);
    lab.tool("mdadm", &["--grow", text(&md.node), "--raid-devices", "4"]);
    let rests = || arrays.status(&device)["paused"].as_str().map(str::to_owned);
    assert!(until(LIMIT, || rests().is_some()), "while md reshapes");
    for number in (0..4096).step_by(31) {
        assert!(read_direct(&device, number * 4096).expect("it reads") == page(number), "page {number}");
    }
    assert!(until(LIMIT * 4, || md.says("sync_action") == "idle"), "{}", md.says("sync_action"));
    assert!(
        until(LIMIT, || rests().is_some_and(|why| why.contains("reshaped to 4 members"))),
        "{:?}",
        rests()
    );
    let below = || arrays.status(&device)["backing_bytes"].as_u64();
    assert!(until(LIMIT, || below() > Some(2 * MEMBER)), "{:?}", below());
    arrays.must(&["detach", "grown"]);

    let device = arrays.attach(&md.node, &["--policy", "sp", "--name", "again"]);
    let status = arrays.status(&device);
    assert_eq!((status["members"].as_u64(), status["paused"].as_str()), (Some(4), None), "{status}");
    let holders = holder(Level::Raid5, 4);
    (0..12).for_each(|strip| read_one_strip(&md, &device, strip, &holders(strip)));
    assert!(read_direct(&device, 7 * 4096).expect("it reads") == page(7));
    arrays.must(&["detach", "again"]);
    arrays.assert_clean();
}

#[test]
fn writes_keep_parity_and_prefetching_pauses_while_md_checks_it() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let Some(md) = Md::create(&lab, "raid5", "left-symmetric", 4) else { return };
    let device = arrays.attach(&md.node, &["--name", "checked"]);
    let rests = || arrays.status(&device)["paused"].as_str().map(str::to_owned);
    assert_eq!(rests(), None);
    lab.tool("mkfs.ext4", &["-q", text(&device)]);
    lab.tool("mount", &[text(&device), text(&lab.mount_point())]);
    let content: Vec<u8> =
        (0..20_000_003u32).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(lab.mount_point().join("file"), &content).expect("written");
    lab.unmount(&lab.mount_point());

    // Slow, so that it is observed.
    md.set("sync_speed_max", "1000");
    md.set("sync_action", "check");
    assert!(until(LIMIT, || rests().is_some_and(|why| why.contains("md does a check"))), "{:?}", rests());
    let before = arrays.status(&device)["strip_blocks"].as_u64();
    (0..40).for_each(|strip| drop(read_direct(&device, (strip * 3 + 200) * STRIP).expect("it reads")));
    assert_eq!(arrays.status(&device)["strip_blocks"].as_u64(), before);
    md.set("sync_speed_max", "200000");
    assert!(until(LIMIT, || md.says("sync_action") == "idle"), "{}", md.says("sync_action"));
    assert_eq!(md.says("mismatch_cnt"), "0");
    assert!(until(LIMIT, || rests().is_none()), "{:?}", rests());

    arrays.must(&["detach", "checked"]);
    lab.tool("e2fsck", &["-fn", text(&md.node)]);
    lab.tool("mount", &["-o", "ro", text(&md.node), text(&lab.mount_point())]);
    assert!(fs::read(lab.mount_point().join("file")).expect("read") == content);
    lab.unmount(&lab.mount_point());
    arrays.assert_clean();
}

/// A write that covers a stripe arrives at md as one, so that md computes parity without reading.
#[test]
fn a_write_of_a_whole_stripe_reads_no_member() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let Some(md) = Md::create(&lab, "raid5", "left-symmetric", 4) else { return };
    let device = arrays.attach(&md.node, &["--name", "whole"]);
    let (open, mut memory) = (direct(&device), aligned());
    memory.0.fill(7);
    let stripe = 3 * STRIP;
    let members_read = |begin: u64, length: u64| {
        let before: u64 = md.read_sectors().iter().sum();
        open.write_all_at(&memory.0[..length as usize], begin).expect("it writes");
        md.read_sectors().iter().sum::<u64>() - before
    };
    for number in 0..16 {
        assert_eq!(members_read(number * stripe, stripe), 0, "stripe {number}");
    }
    assert!(members_read(20 * stripe, STRIP) > 0, "a strip alone needs what is there");
    drop(open);
    arrays.must(&["detach", "whole"]);
    arrays.assert_clean();
}

/// A stripe of 2 MiB is longer than a request of the loop device. Its pieces are joined, as far as they come in
/// time, which they may not in a slow virtual machine. The server counts the stripes that it has joined: each of them
/// is written without a read.
#[test]
fn stripes_in_pieces_are_joined() {
    const STRIPE: usize = 2 << 20;
    /// As many as the array has, and the number of joined ones that are enough.
    const STRIPES: u64 = 90;
    const ENOUGH: usize = 16;
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let Some(md) = Md::with_strips(&lab, "raid5", "left-symmetric", 5, STRIPE as u64 / 4) else { return };
    let memory = vec![7_u8; STRIPE + 4096];
    let stripe = &memory[memory.as_ptr().align_offset(4096)..][..STRIPE];
    // Whether a stripe is written without a read of any member.
    let reads_nothing = |device: &File, number: u64| {
        let before = md.read_sectors();
        device.write_all_at(stripe, number * STRIPE as u64).expect("it writes");
        md.read_sectors() == before
    };
    let itself = direct(&md.node);
    assert!((0..16).all(|number| reads_nothing(&itself, number)), "md itself");
    drop(itself);
    let device = arrays.attach(&md.node, &["--name", "large"]);
    let open = direct(&device);
    let joined = || arrays.status(&device)["joined_stripes"].as_u64().expect("a number");
    let (mut written, mut all) = (Vec::new(), 0);
    while written.len() < STRIPES as usize && all < ENOUGH {
        let before = joined();
        let nothing = reads_nothing(&open, written.len() as u64);
        let joined = joined() - before;
        assert!(joined <= 1, "{joined} of one stripe");
        assert!(nothing || joined == 0, "stripe {} was joined, and md read for it", written.len());
        written.push(nothing);
        all += joined as usize;
    }
    let nothing = written.iter().filter(|nothing| **nothing).count();
    println!("{all} of {} stripes were joined, {nothing} were written without a read", written.len());
    assert!(all > 0, "none of {} stripes was joined", written.len());
    drop(open);
    arrays.must(&["detach", "large"]);
    arrays.assert_clean();
}

/// md's RAID-5 can free no space.
#[test]
fn zeroes_are_written_to_md() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let Some(md) = Md::create(&lab, "raid5", "left-symmetric", 4) else { return };
    let socket = lab.path("socket");
    let address = format!("nbd:unix:{}", text(&socket));
    let device = arrays.attach(&md.node, &["--name", "zeroed", "--export", "loop", "--export", &address]);
    nbd::zeroes_are_written(&device, &socket);
    arrays.must(&["detach", "zeroed"]);
    arrays.assert_clean();
}

#[test]
fn a_failed_member_changes_no_byte() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let Some(md) = Md::create(&lab, "raid5", "left-symmetric", 4) else { return };
    let device = arrays.attach(&md.node, &["--name", "degraded"]);
    let page = |number: u64| vec![(number * 37 % 251) as u8; 4096];
    let content: Vec<u8> = (0..4096).flat_map(page).collect();
    fs::write(&device, &content).expect("written");
    lab.tool("mdadm", &["--fail", text(&md.node), text(&md.members[1].1)]);
    for number in (0..4096).step_by(7) {
        assert!(read_direct(&device, number * 4096).expect("it reads") == page(number), "page {number}");
    }
    arrays.must(&["detach", "degraded"]);
    arrays.assert_clean();
}

/// Each request of one member takes a tenth of a second longer: what lies on it comes later, what lies on others does
/// not, and nothing fails. The policy that measures its members finds the slow one.
#[test]
fn a_slow_member_delays_what_lies_on_it_and_changes_no_byte() {
    const DELAY: Duration = Duration::from_millis(100);
    const SLOW: usize = 1;
    const PAGES: u64 = 2048;
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let Some((slow, md)) = Md::with_a_slow_member(&lab, 4, SLOW, DELAY) else { return };
    let holder = holder(Level::Raid5, 4);
    let page = |number: u64| vec![(number * 37 % 251) as u8; 4096];
    for (policy, others) in [("none", true), ("adaptive", false)] {
        let device = arrays.attach(&md.node, &["--name", "slow", "--policy", policy]);
        let content: Vec<u8> = (0..PAGES).flat_map(page).collect();
        fs::write(&device, &content).expect("written");
        let mut took = [Vec::new(), Vec::new()];
        for number in (0..PAGES).step_by(13) {
            let begun = Instant::now();
            assert!(read_direct(&device, number * 4096).expect("it reads") == page(number), "page {number}");
            let is_slow = holder(number * 4096 / STRIP) == [SLOW as u64];
            took[usize::from(is_slow)].push(begun.elapsed());
        }
        took.iter_mut().for_each(|took| took.sort_unstable());
        let [well, slow] = &took;
        let (half, longest) = (well[well.len() / 2], slow[slow.len() - 1]);
        println!("{policy}: half of the others took less than {half:?}, the slowest of the slow {longest:?}");
        assert!(longest < LIMIT, "{longest:?}");
        if others {
            assert!(slow[0] >= DELAY, "the delay is real: {:?}", slow[0]);
            assert!(half < DELAY, "{half:?}");
        } else {
            let beyond = arrays.status(&device)["beyond_profile_us"].clone();
            let beyond: Vec<i64> = serde_json::from_value(beyond).expect("numbers");
            let most = (0..beyond.len()).max_by_key(|member| beyond[*member]);
            assert_eq!(most, Some(SLOW), "{beyond:?}");
        }
        arrays.must(&["detach", "slow"]);
    }
    drop(md);
    drop(slow);
    arrays.assert_clean();
}
