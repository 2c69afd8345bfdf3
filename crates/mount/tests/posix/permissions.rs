//! Permissions: other users, groups, sticky and set-group-ID directories, access lists.

use crate::common::without_forks;
use crate::record::Record;
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, Uid, access, chownat,
    mknodat, open, utimensat,
};
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

const USER: u32 = 12_345;
const OTHER: u32 = 23_456;
const GROUP: u32 = 34_567;

fn make(path: &Path, mode: u32, uid: u32, gid: u32) {
    if !path.exists() {
        fs::write(path, "text").expect("written");
    }
    chown(path, uid, gid).expect("given");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
}

fn make_directory(path: &Path, mode: u32, uid: u32, gid: u32) {
    fs::create_dir(path).expect("made");
    make(path, mode, uid, gid);
}

fn chown(path: &Path, uid: u32, gid: u32) -> rustix::io::Result<()> {
    chownat(CWD, path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), AtFlags::SYMLINK_NOFOLLOW)
}

fn reported(path: &Path) -> std::io::Result<String> {
    fs::symlink_metadata(path).map(|found| format!("{:o} {}:{}", found.mode(), found.uid(), found.gid()))
}

fn set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

pub(crate) fn of_other_users(record: &mut Record, at: &Path) {
    set_mode(at, 0o755).expect("set");
    make_directory(&at.join("own"), 0o700, USER, USER);
    make_directory(&at.join("closed"), 0o700, 0, 0);
    make(&at.join("closed/in"), 0o666, 0, 0);
    make_directory(&at.join("searchable"), 0o711, 0, 0);
    make(&at.join("searchable/in"), 0o644, 0, 0);
    make_directory(&at.join("open"), 0o777, 0, 0);
    make(&at.join("readable"), 0o644, 0, 0);
    make(&at.join("writable"), 0o622, 0, 0);
    make(&at.join("secret"), 0o600, 0, 0);
    make(&at.join("mine"), 0o600, USER, USER);
    make(&at.join("mine_closed"), 0o000, USER, USER);
    // What a child of another test has open for writing cannot be run.
    let forks = without_forks();
    fs::copy("/bin/true", at.join("program")).expect("copied");
    make(&at.join("program"), 0o755, 0, 0);
    fs::copy("/bin/true", at.join("no_program")).expect("copied");
    make(&at.join("no_program"), 0o644, 0, 0);
    drop(forks);
    record.child("as_other", at, USER, &[USER]);
    record.note("made by the other", reported(&at.join("open/made")));
    record.note("root may all the same", fs::read_to_string(at.join("mine_closed")));
    let _forks = without_forks();
    record.note(
        "but run nothing",
        std::process::Command::new(at.join("no_program")).status().map(|status| status.success()),
    );
}

pub(crate) fn as_other(record: &mut Record, at: &Path) {
    for name in ["closed/in", "searchable/in", "readable", "writable", "secret", "mine", "mine_closed"] {
        let path = at.join(name);
        record.note(&format!("read {name}"), fs::read_to_string(&path));
        record.have(&format!("write {name}"), File::options().write(true).open(&path));
        for may in [Access::READ_OK, Access::WRITE_OK, Access::EXEC_OK] {
            record.note(&format!("access {name} {may:?}"), access(&path, may));
        }
        record.note("chmod", set_mode(&path, 0o666));
        record.note("chown", chown(&path, USER, USER));
        record.note("give away", chown(&path, OTHER, OTHER));
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let then = Timespec { tv_sec: 5, tv_nsec: 0 };
        for time in [now, then] {
            let times = Timestamps { last_access: time, last_modification: time };
            record.note("utimens", utimensat(CWD, &path, &times, AtFlags::empty()));
        }
        record.note("rename", fs::rename(&path, at.join("open/moved")));
        record.note("unlink", fs::remove_file(&path));
        record.note("setxattr", rustix::fs::setxattr(&path, "user.x", b"x", rustix::fs::XattrFlags::empty()));
        record.note("truncate", File::options().write(true).truncate(true).open(&path).map(drop));
    }
    for name in ["own", "closed", "searchable", "open"] {
        let path = at.join(name);
        record.note(&format!("list {name}"), fs::read_dir(&path).map(Iterator::count));
        record.note("make", fs::write(path.join("made"), "x"));
        record.note("it is", reported(&path.join("made")));
        record.note("mkdir", fs::create_dir(path.join("made_too")));
        record.note("symlink", std::os::unix::fs::symlink("x", path.join("s")));
        record.note("fifo", mknodat(CWD, path.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0));
        record.note(
            "device",
            mknodat(CWD, path.join("null"), FileType::CharacterDevice, Mode::from_raw_mode(0o600), 259),
        );
        record.note("link", fs::hard_link(at.join("secret"), path.join("link")));
        for made in ["made_too", "s", "fifo"] {
            record.note(made, reported(&path.join(made)));
        }
    }
    for name in ["program", "no_program"] {
        let run = std::process::Command::new(at.join(name)).status();
        record.note(name, run.map(|status| status.success()));
    }
    rustix::process::umask(Mode::from_raw_mode(0o027));
    record.have(
        "with a mask",
        open(at.join("own/masked"), OFlags::WRONLY | OFlags::CREATE, Mode::from_raw_mode(0o777)),
    );
    record.note("it is", reported(&at.join("own/masked")));
    record.have("closed at once", open(at.join("own/zero"), OFlags::RDWR | OFlags::CREATE, Mode::empty()));
    record.have("closed for good", open(at.join("own/zero"), OFlags::RDWR, Mode::empty()));
    record.note(
        "trusted",
        rustix::fs::setxattr(at.join("own/masked"), "trusted.x", b"x", rustix::fs::XattrFlags::empty()),
    );
}

pub(crate) fn of_sticky_directories(record: &mut Record, at: &Path) {
    set_mode(at, 0o755).expect("set");
    make_directory(&at.join("tmp"), 0o1777, 0, 0);
    for (name, owner) in [("roots", 0), ("others", OTHER), ("users", USER)] {
        make(&at.join("tmp").join(name), 0o666, owner, owner);
        make_directory(&at.join("tmp").join(format!("{name}_directory")), 0o777, owner, owner);
    }
    record.child("in_sticky", at, USER, &[USER]);
}

pub(crate) fn in_sticky(record: &mut Record, at: &Path) {
    let tmp = at.join("tmp");
    for name in ["roots", "others", "users"] {
        record.note(&format!("write {name}"), fs::write(tmp.join(name), "x"));
        record.note(&format!("rename {name}"), fs::rename(tmp.join(name), tmp.join("moved")));
        record.note("back", fs::rename(tmp.join("moved"), tmp.join(name)));
        record.note(
            &format!("over {name}"),
            fs::write(tmp.join("mine"), "y").and_then(|()| fs::rename(tmp.join("mine"), tmp.join(name))),
        );
        record.note(&format!("unlink {name}"), fs::remove_file(tmp.join(name)));
        record.note(&format!("rmdir {name}"), fs::remove_dir(tmp.join(format!("{name}_directory"))));
    }
    record.note("make", fs::write(tmp.join("made"), "x"));
    record.note("unlink", fs::remove_file(tmp.join("made")));
}

pub(crate) fn of_setgid_directories(record: &mut Record, at: &Path) {
    set_mode(at, 0o755).expect("set");
    make_directory(&at.join("shared"), 0o2777, 0, GROUP);
    record.child("in_setgid", at, USER, &[USER]);
    record.child("in_setgid", at, OTHER, &[OTHER, GROUP]);
    fs::write(at.join("shared/roots"), "x").expect("written");
    record.note("root's", reported(&at.join("shared/roots")));
}

pub(crate) fn in_setgid(record: &mut Record, at: &Path) {
    let own = |name: &str| at.join(format!("shared/{name}{}", rustix::process::getuid().as_raw()));
    rustix::process::umask(Mode::empty());
    record.note("file", fs::write(own("file"), "x"));
    record.note("file", reported(&own("file")));
    record.note("directory", fs::create_dir(own("directory")));
    record.note("directory", reported(&own("directory")));
    record
        .have("with the bit", open(own("bit"), OFlags::WRONLY | OFlags::CREATE, Mode::from_raw_mode(0o2775)));
    record.note("with the bit", reported(&own("bit")));
    record.note("set the bit", set_mode(&own("file"), 0o2775));
    record.note("it is", reported(&own("file")));
    record.note("set it on the directory", set_mode(&own("directory"), 0o2755));
    record.note("it is", reported(&own("directory")));
    record
        .note("to its group", chownat(CWD, own("file"), None, Some(Gid::from_raw(GROUP)), AtFlags::empty()));
    record.note("it is", reported(&own("file")));
}

pub(crate) fn of_set_user_id_files(record: &mut Record, at: &Path) {
    set_mode(at, 0o755).expect("set");
    for name in ["written", "truncated", "allocated", "copied", "mapped"] {
        make(&at.join(name), 0o6777, 0, 0);
    }
    make(&at.join("locking"), 0o2767, 0, 0);
    for name in ["given", "roots"] {
        make(&at.join(name), 0o6755, USER, USER);
    }
    record.note(
        "root writes",
        File::options().write(true).open(at.join("roots")).and_then(|mut file| file.write_all(b"x")),
    );
    record.note("it is", reported(&at.join("roots")));
    record.note("root gives away", chown(&at.join("given"), OTHER, OTHER));
    record.note("it is", reported(&at.join("given")));
    record.child("writes_set_user_id", at, USER, &[USER]);
}

pub(crate) fn writes_set_user_id(record: &mut Record, at: &Path) {
    let file = |name: &str| File::options().read(true).write(true).open(at.join(name)).expect("opened");
    record.note("write", file("written").write_at(b"x", 0));
    record.note("truncate", file("truncated").set_len(2));
    record.note(
        "allocate",
        rustix::fs::fallocate(file("allocated"), rustix::fs::FallocateFlags::empty(), 0, 9000),
    );
    record.note("copy", rustix::fs::copy_file_range(file("written"), None, file("copied"), None, 2));
    record.note("write", file("locking").write_at(b"x", 0));
    for name in ["written", "truncated", "allocated", "copied", "locking"] {
        record.note(name, reported(&at.join(name)));
    }
}

/// An access list in the format of `system.posix_acl_access`: version 2, then tag, permissions, id.
fn access_list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, may, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(may.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

pub(crate) fn of_access_lists(record: &mut Record, at: &Path) {
    const NOBODY: u32 = u32::MAX;
    set_mode(at, 0o755).expect("set");
    // The user has the permission, the group does not, although the mask (which the mode shows) would permit
    // it.
    let list = access_list(&[(1, 6, NOBODY), (2, 6, USER), (4, 0, NOBODY), (16, 6, NOBODY), (32, 0, NOBODY)]);
    let none = rustix::fs::XattrFlags::empty();
    make(&at.join("listed"), 0o600, 0, GROUP);
    record.note("set", rustix::fs::setxattr(at.join("listed"), "system.posix_acl_access", &list, none));
    record.note("shown", reported(&at.join("listed")));
    let mut value = [0; 100];
    let got = rustix::fs::getxattr(at.join("listed"), "system.posix_acl_access", &mut value[..]);
    record.note("got", got.map(|length| value[..length] == list));
    make_directory(&at.join("inheriting"), 0o777, 0, 0);
    let default =
        access_list(&[(1, 7, NOBODY), (2, 7, USER), (4, 5, NOBODY), (16, 7, NOBODY), (32, 0, NOBODY)]);
    record.note(
        "set default",
        rustix::fs::setxattr(at.join("inheriting"), "system.posix_acl_default", &default, none),
    );
    record.child("by_access_list", at, USER, &[USER]);
    record.child("by_access_list", at, OTHER, &[OTHER, GROUP]);
    record.note(
        "a broken one",
        rustix::fs::setxattr(at.join("listed"), "system.posix_acl_access", b"nonsense", none),
    );
    record.note("remove", rustix::fs::removexattr(at.join("listed"), "system.posix_acl_access"));
    record.note("shown", reported(&at.join("listed")));
}

pub(crate) fn by_access_list(record: &mut Record, at: &Path) {
    record.note("read", fs::read_to_string(at.join("listed")));
    record.have("write", File::options().write(true).open(at.join("listed")));
    let made = at.join(format!("inheriting/{}", rustix::process::getuid().as_raw()));
    rustix::process::umask(Mode::from_raw_mode(0o077));
    record.have("make", open(&made, OFlags::WRONLY | OFlags::CREATE, Mode::from_raw_mode(0o666)));
    record.note("it is", reported(&made));
    let mut value = [0u8; 100];
    let got = rustix::fs::getxattr(&made, "system.posix_acl_access", &mut value[..]);
    record.note("its list", got.map(|length| value[..length].to_vec()));
}

pub(crate) fn of_supplementary_groups(record: &mut Record, at: &Path) {
    set_mode(at, 0o755).expect("set");
    make_directory(&at.join("groups"), 0o770, 0, GROUP);
    make(&at.join("groups/file"), 0o660, 0, GROUP);
    record.child("in_group", at, USER, &[USER]);
    record.child("in_group", at, USER, &[USER, GROUP]);
}

pub(crate) fn in_group(record: &mut Record, at: &Path) {
    record.note("read", fs::read_to_string(at.join("groups/file")));
    record.note("write", fs::write(at.join("groups/file"), "changed"));
    record.note("make", fs::write(at.join("groups/made"), "x"));
    record.note("it is", reported(&at.join("groups/made")));
    record.note("make a directory", fs::create_dir(at.join("groups/directory")));
    record.note("list", fs::read_dir(at.join("groups")).map(Iterator::count));
    record.note(
        "to its group",
        chownat(CWD, at.join("groups/made"), None, Some(Gid::from_raw(GROUP)), AtFlags::empty()),
    );
    record.note("remove", fs::remove_file(at.join("groups/made")));
}
