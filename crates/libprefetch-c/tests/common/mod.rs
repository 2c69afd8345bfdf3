//! Building C programs against the library as it is installed, and running programs with it.
#![allow(dead_code, unreachable_pub, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The shared object that cargo has just built: it is beside the test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().join("libprefetch.so");
    assert!(path.exists(), "{} is not built", path.display());
    path
}

pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Whether a program is installed; otherwise prints that the test is skipped.
pub fn has(program: &str) -> bool {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|folder| folder.join(program).is_file());
    if !found {
        println!("SKIPPED: no {program}");
    }
    found
}

/// A folder on the disk that holds the build: a tmpfs ignores advice.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Installs the library under a folder as `make install` does.
pub fn install(prefix: &Path) {
    let lib = prefix.join("lib");
    std::fs::create_dir_all(lib.join("pkgconfig")).unwrap();
    std::fs::create_dir_all(prefix.join("include")).unwrap();
    std::fs::copy(library(), lib.join("libprefetch.so.0")).unwrap();
    std::os::unix::fs::symlink("libprefetch.so.0", lib.join("libprefetch.so")).unwrap();
    std::fs::copy(source("include/libprefetch.h"), prefix.join("include/libprefetch.h")).unwrap();
    let template = std::fs::read_to_string(source("libprefetch.pc.in")).unwrap();
    let text = template
        .replace("@PREFIX@", prefix.to_str().unwrap())
        .replace("@LIBDIR@", lib.to_str().unwrap())
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    assert!(!text.contains('@'), "{text}");
    std::fs::write(lib.join("pkgconfig/libprefetch.pc"), text).unwrap();
}

/// The compiler's options for the installed library: by pkg-config if it is installed.
pub fn flags(prefix: &Path) -> Vec<String> {
    if !has("pkg-config") {
        let (include, lib) = (prefix.join("include"), prefix.join("lib"));
        return vec![format!("-I{}", include.display()), format!("-L{}", lib.display()), "-lprefetch".into()];
    }
    let output = Command::new("pkg-config")
        .args(["--cflags", "--libs", "libprefetch"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output()
        .unwrap();
    assert!(output.status.success(), "pkg-config: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

/// Compiles a C program against the library installed in `prefix`, with warnings as errors.
pub fn compile(prefix: &Path, file: &str, options: &[&str]) -> PathBuf {
    let program = prefix.join(Path::new(file).file_stem().unwrap());
    let output = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .args(options)
        .arg(source(file))
        .arg("-o")
        .arg(&program)
        .args(flags(prefix))
        .output()
        .unwrap();
    assert!(output.status.success(), "cc {file}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Runs a program that finds the library installed in `prefix`.
pub fn run(prefix: &Path, program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", prefix.join("lib"))
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

pub fn succeed(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    out.into_owned()
}

/// A file whose page `i` is filled with the byte `i`, none of it in memory.
pub fn numbered_file(folder: &Path, pages: usize) -> PathBuf {
    let path = folder.join("numbered");
    let bytes: Vec<u8> = (0..pages).flat_map(|page| [page as u8; 4096]).collect();
    std::fs::write(&path, bytes).unwrap();
    std::fs::File::open(&path).unwrap().sync_all().unwrap();
    drop_from_memory(&path);
    path
}

/// Evicts a whole file from memory, if the file system allows it.
pub fn drop_from_memory(file: &Path) {
    let input = format!("if={}", file.display());
    let output = Command::new("dd").arg(input).args(["iflag=nocache", "count=0", "status=none"]).output();
    succeed(&output.unwrap());
}
