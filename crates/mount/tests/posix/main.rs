//! The calls of POSIX and Linux on files, each made in the mount and in a plain directory beside its source.
//! Results, errors and the resulting files must be the same. The differences by design are in `differences`.
//!
//! A check records the result of each call; the two records are compared. The plain file system is the
//! oracle, so that no check can pass by accident on both.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]
#![allow(unsafe_code, reason = "mappings, other users' processes")]

#[path = "../common/mod.rs"]
mod common;

mod contents;
mod differences;
mod directories;
mod limits;
mod locks;
mod names;
mod permissions;
mod record;
mod tree;

use common::mounted_with;
use foreseek_mount::Policy;
use record::Record;
use std::path::Path;

/// Runs a check in both directories and compares: without prefetching, and with prefetching and passthrough
/// of files in memory.
fn same(name: &str, check: fn(&mut Record, &Path)) {
    [Policy::PLAIN, Policy::ADAPTIVE].into_iter().for_each(|policy| same_with(policy, name, check));
}

fn same_with(policy: Policy, name: &str, check: fn(&mut Record, &Path)) {
    let passthrough = policy != Policy::PLAIN;
    let Some(mount) = mounted_with(policy, |options| options.passthrough = passthrough) else { return };
    let run = |directory: &Path| {
        let mut record = Record::default();
        check(&mut record, directory);
        record.lines
    };
    let expected = run(&mount.plain);
    let seen = run(&mount.point);
    assert!(!expected.is_empty(), "{name} writes nothing down");
    for (number, (seen, expected)) in seen.iter().zip(&expected).enumerate() {
        assert_eq!(seen, expected, "{name}, line {number}, {policy:?}");
    }
    assert_eq!(seen.len(), expected.len(), "{name}: lines");
    let plain = tree::of(&mount.plain);
    assert_eq!(tree::of(&mount.point), plain, "{name}: what is left, through the mount");
    assert_eq!(tree::of(&mount.source), plain, "{name}: what is left in the source");
    assert_eq!(tree::numbers(&mount.point), tree::numbers(&mount.source), "{name}: inode numbers");
}

macro_rules! checks {
    ($($module:ident: $($name:ident)*;)*) => {
        $($(
            #[test]
            fn $name() {
                same(stringify!($name), $module::$name);
            }
        )*)*

        /// A check by name, for processes of other users.
        fn check_of(name: &str) -> fn(&mut Record, &Path) {
            record::PARTS.iter().find(|(part, _)| *part == name).map(|(_, check)| *check).expect(name)
        }
    };
}

checks! {
    names: renames renames_with_flags renames_over_open_files unlinks_while_open hard_links symlinks
        names_and_their_limits special_files opens;
    contents: truncates appends appends_of_two_processes extended_attributes mappings direct_io
        sparse_files allocations copies times;
    directories: large_directories deletes_while_reading removed_directories;
    permissions: of_other_users of_sticky_directories of_setgid_directories of_set_user_id_files
        of_access_lists of_supplementary_groups;
    locks: whole_file_locks record_locks waits_for_locks waits_of_processes_for_each_other
        locks_of_descriptions;
    limits: sizes_and_their_limits races_for_a_name running_programs mappings_beyond_the_end
        vectored_calls all_that_statx_tells;
}

/// Runs a part of a check if this program was started for it; otherwise no test.
#[test]
fn child() {
    record::run_as_child(check_of);
}

#[test]
fn on_other_file_systems() {
    let core = [
        "renames_with_flags",
        "unlinks_while_open",
        "hard_links",
        "extended_attributes",
        "mappings",
        "direct_io",
        "sparse_files",
        "allocations",
        "copies",
        "times",
        "large_directories",
        "of_access_lists",
    ];
    common::file_systems::on_each("on_other_file_systems", &core);
}
