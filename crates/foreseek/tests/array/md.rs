//! On an array of Linux md: what the kernel says of it is where its strips lie, and prefetching rests while md works.
//!
//! They need mdadm and a kernel with md, and skip loudly where there is none: `scripts/guest` has one.

use crate::lab::{LIMIT, Lab, read_direct, until};
use crate::{Arrays, Laid, text};
use foreseek_units::{Lba, Level, Sectors, Stripes};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const STRIP: u64 = 64 << 10;
const MEMBER: u64 = 48 << 20;

/// An array of md over loop devices; stopped when dropped.
struct Md<'a> {
    lab: &'a Lab,
    node: PathBuf,
    members: Vec<Laid<'a>>,
}

impl<'a> Md<'a> {
    /// `None`, said loudly, where there is no md.
    fn create(lab: &'a Lab, level: &str, members: usize) -> Option<Self> {
        let has_mdadm = Command::new("mdadm").arg("--version").output().is_ok();
        if !has_mdadm || !Path::new("/proc/mdstat").exists() {
            println!("SKIPPED: md needs mdadm and a kernel with md; scripts/guest has both");
            return None;
        }
        let members: Vec<_> = (0..members).map(|number| Self::member(lab, number)).collect();
        let node = (90..).map(|number| format!("/dev/md{number}")).find(|node| !Path::new(node).exists())?;
        let count = members.len().to_string();
        let mut arguments =
            vec!["--create", &node, "--run", "--level", level, "--chunk", "64", "--raid-devices", &count];
        if level == "raid5" {
            arguments.extend(["--assume-clean", "--layout", "left-symmetric"]);
        }
        arguments.extend(members.iter().map(|member| text(&member.1)));
        lab.tool("mdadm", &arguments);
        Some(Self { lab, node: node.into(), members })
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

/// One page of each of some strips is read: the strip comes from the member that the layout says, whole, and no other member reads.
fn strips_lie_where_md_has_them(level: Level, members: usize) {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let Some(md) = Md::create(&lab, level.name(), members) else { return };
    let device = arrays.attach(&md.node, &["--policy", "sp", "--name", "md"]);
    let status = arrays.status(&device);
    assert_eq!(status["strip_bytes"], STRIP);
    assert_eq!(
        (status["level"].as_str(), status["members"].as_u64()),
        (Some(level.name()), Some(members as u64))
    );
    let stripes = Stripes { level, members: members as u64, strip: Sectors(STRIP / 512) };
    for strip in 0..24 {
        let before = md.read_sectors();
        let at = strip * STRIP + 8192;
        read_direct(&device, at).expect("it reads");
        let located = stripes.locate(Lba(at / 512));
        let mut expected = vec![0; members];
        expected[stripes.member(located.row, located.slot) as usize] = STRIP / 512;
        let read: Vec<u64> = md.read_sectors().iter().zip(before).map(|(now, before)| now - before).collect();
        assert_eq!(read, expected, "strip {strip}");
    }
    arrays.must(&["detach", "md"]);
    arrays.assert_clean();
}

#[test]
fn strips_lie_where_md_has_them_in_a_raid5() {
    strips_lie_where_md_has_them(Level::Raid5, 4);
}

#[test]
fn strips_lie_where_md_has_them_in_a_raid0() {
    strips_lie_where_md_has_them(Level::Raid0, 3);
}

#[test]
fn what_is_written_keeps_parity_and_prefetching_rests_while_md_checks_that() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let Some(md) = Md::create(&lab, "raid5", 4) else { return };
    let device = arrays.attach(&md.node, &["--name", "checked"]);
    let rests = || arrays.status(&device)["resting"].as_str().map(str::to_owned);
    assert_eq!(rests(), None);
    lab.tool("mkfs.ext4", &["-q", text(&device)]);
    lab.tool("mount", &[text(&device), text(&lab.mount_point())]);
    let content: Vec<u8> =
        (0..20_000_003u32).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(lab.mount_point().join("file"), &content).expect("written");
    lab.unmount(&lab.mount_point());

    // Slow, so that it is seen.
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

#[test]
fn a_failed_member_changes_no_byte() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let Some(md) = Md::create(&lab, "raid5", 4) else { return };
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
