//! C programs compiled against the library as it is installed.
#![allow(clippy::print_stdout)]

mod common;

use common::*;
use serde_json::Value;

/// The compiler, without which there is nothing to test.
fn has_compiler() -> bool {
    has("cc")
}

fn counters(path: &std::path::Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn the_header_compiles_as_strict_c_and_as_cplusplus() {
    if !has_compiler() {
        return;
    }
    let prefix = folder();
    install(prefix.path());
    for (compiler, language, standard) in
        [("cc", "c", "c11"), ("cc", "c", "gnu17"), ("cc", "c", "c99"), ("c++", "c++", "c++17")]
    {
        if !has(compiler) {
            continue;
        }
        let file = prefix.path().join("empty");
        std::fs::write(
            &file,
            "#include <libprefetch.h>\nint main(void) { return sizeof(struct access_entry) != 16; }\n",
        )
        .unwrap();
        let output = std::process::Command::new(compiler)
            .args(["-x", language, &format!("-std={standard}"), "-pedantic", "-Wall", "-Wextra", "-Werror"])
            .arg(format!("-I{}", prefix.path().join("include").display()))
            .arg(&file)
            .arg("-o")
            .arg(prefix.path().join("empty.out"))
            .output()
            .unwrap();
        succeed(&output);
        succeed(&std::process::Command::new(prefix.path().join("empty.out")).output().unwrap());
    }
}

#[test]
fn the_example_reads_the_same_with_and_without() {
    if !has_compiler() {
        return;
    }
    let prefix = folder();
    install(prefix.path());
    let program = compile(prefix.path(), "examples/scan.c", &["-std=c11", "-D_DEFAULT_SOURCE"]);
    let file = numbered_file(prefix.path(), 3000);
    let file = file.to_str().unwrap();
    let stats = prefix.path().join("stats.json");
    let environment = [("FORESEEK_STATS", stats.to_str().unwrap()), ("FORESEEK_MEMORY", "4M")];
    let with = succeed(&run(prefix.path(), &program, &[file, "7"], &environment));
    let without = succeed(&run(prefix.path(), &program, &[file, "7"], &[("FORESEEK_DISABLE", "1")]));
    assert_eq!(with, without);
    assert!(with.starts_with("3000 pages, sum "), "{with}");
    let counters = &counters(&stats)["clients"][0];
    assert_eq!(counters["reads"], 3000);
    if counters["misses"] == 0 {
        println!("SKIPPED in part: the file stays in memory, nothing can be fetched");
    } else {
        // 4 MiB, of which 60 % at first and 95 % at most: the file of 12 MiB takes four rounds or more.
        assert!(counters["rounds"].as_u64().unwrap() >= 4, "{counters}");
        assert!(counters["used_pages"].as_u64().unwrap() >= 2900, "{counters}");
    }
    // Nothing was done, nothing is written.
    let none = prefix.path().join("none.json");
    let environment = [("FORESEEK_STATS", none.to_str().unwrap()), ("FORESEEK_DISABLE", "1")];
    succeed(&run(prefix.path(), &program, &[file], &environment));
    assert!(!none.exists());
    // A missing file is the program's own error.
    let output = run(prefix.path(), &program, &["/no/such/file"], &[]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn unusable_settings_are_reported_and_the_program_goes_on() {
    if !has_compiler() {
        return;
    }
    let prefix = folder();
    install(prefix.path());
    let program = compile(prefix.path(), "examples/scan.c", &[]);
    let file = numbered_file(prefix.path(), 100);
    let file = file.to_str().unwrap();
    let right = succeed(&run(prefix.path(), &program, &[file], &[("FORESEEK_DISABLE", "1")]));
    let wrong = [("FORESEEK_PROFILE", "no-such-disk")];
    let output = run(prefix.path(), &program, &[file], &wrong);
    assert_eq!(succeed(&output), right);
    let output_text = String::from_utf8(output.stderr).unwrap();
    assert!(
        output_text.starts_with("libprefetch: FORESEEK_PROFILE=no-such-disk")
            && output_text.lines().count() == 1,
        "{output_text}"
    );
    let quiet = run(prefix.path(), &program, &[file], &[wrong[0], ("FORESEEK_QUIET", "1")]);
    assert_eq!((succeed(&quiet), quiet.stderr.len()), (right, 0));
}

/// A program with more rights than its user must not write files named by its user's environment.
#[test]
fn a_set_user_id_program_writes_no_files_for_its_user() {
    use std::os::unix::fs::{PermissionsExt, chown};
    if !has_compiler() {
        return;
    }
    let prefix = folder();
    install(prefix.path());
    let run_path = format!("-Wl,-rpath,{}", prefix.path().join("lib").display());
    let program = compile(prefix.path(), "tests/c/secure.c", &[&run_path]);
    let mode = |path: &std::path::Path, bits| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).unwrap();
    };
    mode(prefix.path(), 0o777);
    if chown(&program, Some(65534), None).is_err() {
        println!("SKIPPED: not root: cannot make a program another user's");
        return;
    }
    mode(&program, 0o4755);
    let (stats, recording) = (prefix.path().join("stats"), prefix.path().join("recording"));
    let environment =
        [("FORESEEK_STATS", stats.to_str().unwrap()), ("FORESEEK_RECORD", recording.to_str().unwrap())];
    let output = std::process::Command::new(&program).envs(environment).output();
    match output.map(|output| succeed(&output)) {
        Ok(output_text) if output_text == "secure\n" => assert!(!stats.exists() && !recording.exists()),
        other => println!("SKIPPED: set-user-id has no effect here: {other:?}"),
    }
    // The same program without the bit does write them: the test can fail.
    mode(&program, 0o755);
    assert_eq!(succeed(&std::process::Command::new(&program).envs(environment).output().unwrap()), "plain\n");
    assert!(stats.exists() && recording.exists());
}

#[test]
fn every_read_is_seen_and_leaves_errno_alone() {
    if !has_compiler() {
        return;
    }
    let prefix = folder();
    install(prefix.path());
    let program = compile(prefix.path(), "tests/c/reads.c", &[]);
    let file = numbered_file(prefix.path(), 64);
    let file = file.to_str().unwrap();
    let stats = prefix.path().join("stats.json");
    let environment = [("FORESEEK_STATS", stats.to_str().unwrap())];
    let linked = succeed(&run(prefix.path(), &program, &[file], &environment));
    assert_eq!(counters(&stats)["clients"][0]["reads"].to_string(), linked.trim());
    // The same with the library preloaded.
    let library = library();
    let environment = [environment[0], ("LD_PRELOAD", library.to_str().unwrap())];
    std::fs::remove_file(&stats).unwrap();
    assert_eq!(succeed(&run(prefix.path(), &program, &[file], &environment)), linked);
    assert_eq!(counters(&stats)["clients"][0]["reads"].to_string(), linked.trim());
    // Switched off, it behaves the same and sees nothing.
    succeed(&run(prefix.path(), &program, &[file], &[("FORESEEK_DISABLE", "1")]));
}

#[test]
fn it_is_a_good_guest() {
    if !has_compiler() {
        return;
    }
    let prefix = folder();
    install(prefix.path());
    let program = compile(prefix.path(), "tests/c/guest.c", &[]);
    let file = numbered_file(prefix.path(), 64);
    for test in ["signal", "cancel", "fork", "locks", "closes", "callback", "mistakes", "threads"] {
        for environment in [&[][..], &[("FORESEEK_MEMORY", "100K"), ("FORESEEK_ORDER", "file")]] {
            let output = run(prefix.path(), &program, &[test, file.to_str().unwrap()], environment);
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success() && out.trim() == "done", "{test}: {}\n{out}{err}", output.status);
            assert_eq!(err, "", "{test}");
        }
    }
}
