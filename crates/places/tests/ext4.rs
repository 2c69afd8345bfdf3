//! The parser of superblocks and group descriptors, compared with `debugfs` on file systems made by
//! `mkfs.ext4`.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

use foreseek_places::ext4::{Geometry, SUPERBLOCK};
use foreseek_units::ByteSpan;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Sets of features that place inode tables and descriptors differently.
const KINDS: [&[&str]; 11] = [
    &[],
    &["-O", "^64bit"],
    &["-O", "^flex_bg"],
    &["-O", "meta_bg,^resize_inode"],
    &["-O", "meta_bg,^resize_inode,^64bit,^flex_bg"],
    &["-b", "1024"],
    &["-b", "1024", "-O", "meta_bg,^resize_inode,^flex_bg"],
    &["-b", "2048", "-I", "128"],
    &["-O", "sparse_super2,^resize_inode"],
    &["-O", "bigalloc", "-C", "65536"],
    &["-t", "ext2", "-O", "^sparse_super,^resize_inode"],
];

/// Programs for administrators may be missing in a user's path.
fn tool(name: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(name);
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).stdin(Stdio::null());
    command
}

fn bytes(image: &File, span: ByteSpan) -> Vec<u8> {
    let mut bytes = vec![0; span.len().get() as usize];
    image.read_exact_at(&mut bytes, span.start.get()).expect("within the image");
    bytes
}

/// The block of each inode, from debugfs.
fn reported(image: &Path, inodes: &[u64]) -> Vec<u64> {
    let requests: String = inodes.iter().map(|inode| format!("imap <{inode}>\n")).collect();
    let script = image.with_extension("requests");
    std::fs::write(&script, requests).expect("written");
    let output = tool("debugfs").arg("-f").arg(&script).arg(image).output().expect("debugfs runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let blocks = text.lines().filter_map(|line| line.trim().strip_prefix("located at block "));
    blocks.map(|line| line.split(',').next().and_then(|block| block.parse().ok()).expect("a block")).collect()
}

#[test]
fn inodes_are_found_where_debugfs_finds_them() {
    if tool("mkfs.ext4").arg("-V").stderr(Stdio::null()).status().is_err() {
        println!("SKIPPED: mkfs.ext4 and debugfs are not installed (e2fsprogs)");
        return;
    }
    for kind in KINDS {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let path = directory.path().join("image");
        // Large enough for several sets of groups with one block of descriptors each.
        File::create(&path).and_then(|file| file.set_len(20 << 30)).expect("a sparse file");
        let options = ["-q", "-F", "-E", "lazy_itable_init=1,nodiscard", "-N", "400000"];
        let made = tool("mkfs.ext4").args(options).args(kind).arg(&path).output().expect("mkfs runs");
        if !made.status.success() {
            println!("SKIPPED: this mkfs.ext4 does not know {kind:?}");
            continue;
        }
        let image = File::open(&path).expect("there");
        let geometry = Geometry::parse(&bytes(&image, SUPERBLOCK)).expect("a superblock");
        let block = geometry.block_size().get();
        let last = (1..=500_000).rev().find(|inode| geometry.group_of(*inode).is_some()).expect("inodes");
        let inodes: Vec<u64> = (0..300).map(|n| 2 + n * (last - 2) / 300).chain([1, 11, last]).collect();
        let found: Vec<u64> = inodes
            .iter()
            .map(|inode| {
                let group = geometry.group_of(*inode).expect("a group");
                let (place, within) = geometry.descriptor_of(group).expect("a descriptor");
                let table = geometry.table_in(&bytes(&image, place), within).expect("a table");
                geometry.inode_block(*inode, table).expect("a place").start.get() / block
            })
            .collect();
        let reported = reported(&path, &inodes);
        assert_eq!(reported.len(), inodes.len(), "{kind:?}");
        for ((inode, found), reported) in inodes.iter().zip(&found).zip(&reported) {
            assert_eq!(found, reported, "inode {inode} of {kind:?}");
        }
    }
}
