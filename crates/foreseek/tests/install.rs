//! What `make install` installs, `make uninstall` removes: nothing is left. It needs neither cargo nor apt, and what it installs is stripped.
#![allow(clippy::print_stdout, reason = "tests that are skipped say so")]

mod markdown;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const LIBRARIES: [&str; 3] = ["libprefetch.so", "libforeseek_sqlite.so", "libforeseek_sqlite_preload.so"];

/// A directory with what this build has made.
fn built(place: &Path) -> Option<PathBuf> {
    let test = std::env::current_exe().expect("a path");
    let directory = place.join("built");
    fs::create_dir(&directory).expect("a directory");
    symlink(env!("CARGO_BIN_EXE_foreseek"), directory.join("foreseek")).expect("a link");
    for library in LIBRARIES {
        let path = test.parent().expect("a directory").join(library);
        if !path.exists() {
            println!("SKIPPED: {library} is not built: run the tests of the whole workspace");
            return None;
        }
        symlink(path, directory.join(library)).expect("a link");
    }
    Some(directory)
}

fn files(directory: &Path) -> BTreeSet<String> {
    let listed = Command::new("find")
        .arg(directory)
        .args(["(", "-type", "f", "-o", "-type", "l", ")", "-printf", "%P\n"])
        .output();
    String::from_utf8(listed.expect("find runs").stdout).expect("text").lines().map(str::to_owned).collect()
}

/// The sections of a program or library; `None` without binutils.
fn sections(file: &Path) -> Option<String> {
    let read = Command::new("readelf").args(["--wide", "--section-headers", "--dynamic"]).arg(file).output();
    read.ok().map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn debug_information_lies_apart(staged: &Path) {
    for file in ["bin/foreseek", "lib/here/libforeseek_sqlite.so", "lib/here/libprefetch.so.0"] {
        let Some(sections) = sections(&staged.join("usr").join(file)) else {
            println!("SKIPPED in part: binutils is not installed");
            return;
        };
        assert!(sections.contains(".gnu_debuglink"), "{file}: {sections}");
        assert!(!sections.contains(".debug_line"), "{file} keeps its debug information");
        if file.contains("libprefetch") {
            assert!(sections.contains("Library soname: [libprefetch.so.0]"), "{sections}");
        }
    }
    let apart = sections(&staged.join("usr/bin/.debug/foreseek.debug")).expect("as above");
    assert!(apart.contains(".debug_line"), "{apart}");
}

fn links_between_pages_lead_somewhere(manual: &Path) {
    let pages: Vec<String> = files(manual).into_iter().filter(|file| file.ends_with(".md")).collect();
    let mut followed = 0;
    for page in &pages {
        let path = manual.join(page);
        let text = fs::read_to_string(&path).expect("text");
        for link in markdown::links(&text).filter_map(markdown::file_of) {
            let target = path.parent().expect("a directory").join(link);
            assert!(target.exists(), "{page} links to {link}, which is not installed");
            followed += 1;
        }
    }
    assert!(
        pages.iter().any(|page| page == "internals/mount.md") && followed > 100,
        "{followed} links: {pages:?}"
    );
}

#[test]
fn what_is_installed_is_removed() {
    let place = tempfile::tempdir().expect("a directory");
    let Some(built) = built(place.path()) else { return };
    let staged = place.path().join("staged");
    // What it must not use comes first, and fails.
    let forbidden = place.path().join("forbidden");
    fs::create_dir(&forbidden).expect("a directory");
    for name in ["cargo", "rustc", "apt", "apt-get", "sudo"] {
        symlink("/bin/false", forbidden.join(name)).expect("a link");
    }
    let path = format!("{}:{}", forbidden.display(), std::env::var("PATH").unwrap_or_default());
    let install = |arguments: &[&str]| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let ended = Command::new(root.join("scripts/install"))
            .args(arguments)
            .env("BUILT", &built)
            .env("PREFIX", "/usr")
            .env("LIBDIR", "/usr/lib/here")
            .env("DESTDIR", &staged)
            .env("PATH", &path)
            .env_remove("MAKEFLAGS")
            .output()
            .expect("it runs");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    };
    // It was there before, and is empty.
    let there = staged.join("usr/share/man");
    fs::create_dir_all(&there).expect("a directory");
    install(&[]);
    install(&[]);
    let installed = files(&staged);
    let soname = "usr/lib/here/libprefetch.so.0";
    for file in [
        "usr/bin/foreseek",
        "usr/include/libprefetch.h",
        "usr/lib/here/libforeseek_sqlite.so",
        "usr/lib/here/libprefetch.so",
        soname,
        &format!("{soname}.{}", env!("CARGO_PKG_VERSION").strip_prefix("0.").expect("its first number")),
        "usr/lib/here/pkgconfig/libprefetch.pc",
        "usr/lib/systemd/system/foreseek-watch.service",
        "usr/share/bash-completion/completions/foreseek",
        "usr/share/doc/foreseek/walks.md",
        "usr/share/man/man1/foreseek-mount.1",
        "usr/share/man/man1/foreseek-array-attach.1",
    ] {
        assert!(installed.contains(file), "{file}: {installed:?}");
    }
    assert!(installed.iter().all(|file| !file.contains("documents")), "a hidden command has no page");
    let unit =
        fs::read_to_string(staged.join("usr/lib/systemd/system/foreseek-watch.service")).expect("text");
    assert!(unit.contains("ExecStart=/usr/bin/foreseek") && !unit.contains("/usr/local/bin"), "{unit}");
    debug_information_lies_apart(&staged);
    links_between_pages_lead_somewhere(&staged.join("usr/share/doc/foreseek"));
    install(&["--remove"]);
    assert_eq!(files(&staged), BTreeSet::new());
    fs::remove_dir(there).expect("kept, and empty");
    for left in ["usr/share", "usr"] {
        fs::remove_dir(staged.join(left)).expect("nothing else in it");
    }
}
