//! Addresses of inodes by their numbers, compared with the inodes that lie there on file systems made by
//! `mkfs.xfs`: since version 5 each inode on the disk has its own number.
//!
//! It needs root and a loop device; without them it prints a message.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

use foreseek_places::xfs::Geometry;
use foreseek_storage::XfsGeometry;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Blocks and inodes of several lengths, and groups of several lengths.
const KINDS: [&[&str]; 5] = [
    &[],
    &["-d", "agcount=7"],
    &["-b", "size=1024", "-d", "agcount=3"],
    &["-i", "size=1024"],
    &["-i", "size=2048,sparse=0"],
];
/// Where an inode has its number (`di_ino`), and its first bytes.
const NUMBER: usize = 152;
const MAGIC: &[u8] = b"IN";

fn tool(name: &str, arguments: &[&str]) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(name);
    command.args(arguments).env("PATH", format!("{path}:/usr/sbin:/sbin")).stdin(Stdio::null());
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A mounted image; it is unmounted at the end of the test.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        tool("umount", &[self.0.to_str().expect("plain")]);
    }
}

fn fill(tree: &Path) -> Vec<u64> {
    let mut inodes = Vec::new();
    for directory in 0..12 {
        let directory = tree.join(format!("d{directory}"));
        std::fs::create_dir(&directory).expect("made");
        inodes.push(directory.metadata().expect("there").ino());
        for file in 0..100 {
            let file = directory.join(format!("f{file}"));
            std::fs::write(&file, "text").expect("written");
            inodes.push(file.metadata().expect("there").ino());
        }
    }
    inodes
}

#[test]
fn inodes_lie_where_their_numbers_say() {
    if !rustix::process::geteuid().is_root() || tool("mkfs.xfs", &["-V"]).is_none() {
        println!("SKIPPED: needs root and mkfs.xfs (xfsprogs)");
        return;
    }
    for kind in KINDS {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let (image, point) = (place.path().join("image"), place.path().join("point"));
        File::create(&image).and_then(|file| file.set_len(1 << 30)).expect("a sparse file");
        std::fs::create_dir(&point).expect("made");
        let [image_name, point_name] = [&image, &point].map(|path| path.to_str().expect("plain"));
        if tool("mkfs.xfs", &[&["-q"], kind, &[image_name]].concat()).is_none() {
            println!("SKIPPED: this mkfs.xfs does not know {kind:?}");
            continue;
        }
        if tool("mount", &["-o", "loop", image_name, point_name]).is_none() {
            println!("SKIPPED: {kind:?} cannot be mounted: no loop device, or a kernel without it");
            continue;
        }
        let mounted = Mounted(point.clone());
        let inodes = fill(&point);
        let found =
            XfsGeometry::of(File::open(&point).expect("there").as_fd()).expect("the kernel's geometry");
        let geometry = Geometry::new(found).expect("possible");
        drop(mounted);
        let image = File::open(&image).expect("there");
        for inode in inodes {
            let span = geometry.cluster_of(inode).expect("on the device");
            let mut cluster = vec![0; span.len().get() as usize];
            image.read_exact_at(&mut cluster, span.start.get()).expect("within the image");
            let one = &cluster[inode as usize % 32 * found.inode_bytes as usize..];
            let number = u64::from_be_bytes(one[NUMBER..NUMBER + 8].try_into().expect("eight"));
            assert_eq!((&one[..2], number), (MAGIC, inode), "{kind:?}");
        }
    }
}
