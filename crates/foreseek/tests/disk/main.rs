//! System tests of `foreseek disk`: real FUSE, loop devices, file systems and crashes.
//!
//! They need root and skip loudly without it. Each works in a [`lab::Lab`] of its own.
#![allow(clippy::print_stdout, reason = "tests that are skipped say so")]

#[allow(dead_code, reason = "another test uses the rest")]
mod lab;
mod profile;

use lab::{LIMIT, Lab, read_direct, until, wait};
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn a_disk_lives_and_leaves_nothing_behind() {
    let Some(lab) = Lab::new() else { return };
    let device = lab.attach(&["--profile", "barracuda-500g", "--size", "256M", "--name", "life"]);
    let size = fs::read_to_string(format!("/sys/block/{}/size", name_of(&device))).expect("sysfs");
    assert_eq!(size.trim(), (256 << 11).to_string());
    let queue = |file: &str| {
        let path = format!("/sys/block/{}/queue/{file}", name_of(&device));
        fs::read_to_string(path).expect("sysfs").trim().to_owned()
    };
    assert_eq!((queue("rotational"), queue("read_ahead_kb")), ("1".to_owned(), "128".to_owned()));
    let dio = fs::read_to_string(format!("/sys/block/{}/loop/dio", name_of(&device))).expect("sysfs");
    assert_eq!(dio.trim(), "1", "the loop device does direct I/O");

    let listed = lab.list();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["health"], "ready");
    assert_eq!(listed[0]["device"], device.to_str().expect("plain"));
    assert_eq!(listed[0]["size_bytes"], 256 << 20);
    // Who walks through /run meets no error.
    let folder = fs::read_dir(lab.path("run/disks/life/mount")).expect("a folder");
    let names: Vec<_> = folder.map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names, ["disk"]);

    lab.must(&["stats", "life", "--reset"]);
    for page in 0..20 {
        let data = read_direct(&device, page * 7 * 1_048_576).expect("reads");
        assert!(data.iter().all(|byte| *byte == 0));
    }
    let stats = lab.stats(device.to_str().expect("plain"));
    assert!(stats["reads"].as_u64() >= Some(20), "{stats}");
    assert!(stats["seeks"].as_u64() >= Some(19), "{stats}");
    assert!(stats["busy_seconds"].as_f64() > Some(0.02), "{stats}");
    assert!(stats["path"]["base_us"].as_f64() > Some(0.0), "{stats}");
    assert!(lab.must(&["stats", "life"]).contains("software overhead"));

    lab.must(&["set", "life", "--time-scale", "0.1", "--delays", "off"]);
    let stats = lab.stats("life");
    assert_eq!((&stats["time_scale"], &stats["delays"]), (&Value::from(0.1), &Value::from(false)));
    lab.must(&["detach", device.to_str().expect("plain")]);
    assert!(lab.list().is_empty());
    lab.assert_clean();
}

#[test]
fn data_survive_a_detach_with_a_backing_file() {
    let Some(lab) = Lab::new() else { return };
    let image = lab.path("image");
    let options = ["--profile", "barracuda-500g", "--backing", "image", "--no-delays"];
    let mut first = options.to_vec();
    first.extend(["--size", "128M"]);
    let device = lab.attach(&first);
    let (node, mount_point) = (device.to_str().expect("plain"), lab.mount_point());
    let mount_point = mount_point.to_str().expect("plain");
    lab.tool("mkfs.ext4", &["-q", node]);
    lab.tool("mount", &[node, mount_point]);
    let content: Vec<u8> =
        (0..5_000_000u32).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for number in 0..5 {
        fs::write(lab.mount_point().join(format!("file{number}")), &content).expect("written");
    }
    let busy = lab.disk(&["detach", node]);
    assert_eq!(busy.status, Some(2));
    assert!(busy.err.contains("busy") && busy.err.contains(mount_point), "{busy:?}");
    lab.unmount(Path::new(mount_point));
    lab.must(&["detach", node]);
    lab.assert_clean();
    assert_eq!(fs::metadata(&image).expect("it is kept").len(), 128 << 20);

    // Its size is the file's now, and another disk cannot have it at the same time.
    let device = lab.attach(&options);
    let node = device.to_str().expect("plain");
    let taken = lab.disk(&["attach", "--profile", "none", "--backing", "image"]);
    assert_eq!(taken.status, Some(2));
    assert!(taken.err.contains("locked"), "{taken:?}");
    lab.tool("e2fsck", &["-fn", node]);
    lab.tool("mount", &["-o", "ro", node, mount_point]);
    for number in 0..5 {
        let read = fs::read(lab.mount_point().join(format!("file{number}"))).expect("read");
        assert!(read == content, "file {number} differs");
    }
    lab.unmount(Path::new(mount_point));
    lab.must(&["detach", "--all"]);
    lab.assert_clean();
}

#[test]
fn a_failing_sector_is_an_i_o_error_to_its_reader() {
    let Some(lab) = Lab::new() else { return };
    let device =
        lab.attach(&["--profile", "wd-500g", "--size", "64M", "--fail-lba", "803..804", "--name", "bad"]);
    for round in 0..2 {
        let error = read_direct(&device, 800 * 512).expect_err("a bad sector");
        assert_eq!(error.raw_os_error(), Some(5), "EIO, not {error}");
        read_direct(&device, 808 * 512).expect("the next page is sound");
        read_direct(&device, 792 * 512).expect("so is the one before");
        if round == 0 {
            lab.must(&["set", "bad", "--delays", "off"]);
        }
    }
    assert!(lab.stats("bad")["failed"].as_u64() >= Some(2));
    lab.must(&["set", "bad", "--fail-lba", "0..1", "--fail-lba", "9..10"]);
    let stats = lab.stats("bad");
    assert_eq!(stats["fail_lba"].as_array().map(Vec::len), Some(2), "{stats}");
    assert!(lab.must(&["stats", "bad"]).contains("0..1, 9..10"));
    read_direct(&device, 800 * 512).expect("it is sound now");
    assert_eq!(read_direct(&device, 0).expect_err("a bad sector").kind(), read_error());
    assert_eq!(read_direct(&device, 4096).expect_err("a bad sector").kind(), read_error());
    lab.must(&["set", "bad", "--fail-none"]);
    read_direct(&device, 0).expect("all is sound");
    lab.must(&["set", "bad", "--power", "off"]);
    assert_eq!((&lab.stats("bad")["power_off"], &lab.list()[0]["power_off"]), (&true.into(), &true.into()));
    assert!(lab.must(&["list"]).contains("ready, power off"));
    assert!(lab.must(&["stats", "bad"]).contains("disk set bad --power on"));
    lab.must(&["set", "bad", "--power", "on"]);
    // A name that is given twice is detached once.
    lab.must(&["detach", "bad", "bad", device.to_str().expect("plain")]);
    lab.assert_clean();
}

#[test]
fn a_killed_server_is_seen_and_cleaned_up_after() {
    let Some(lab) = Lab::new() else { return };
    let device =
        lab.attach(&["--profile", "barracuda-500g", "--size", "128M", "--name", "dead", "--no-delays"]);
    let (node, mount_point) = (device.to_str().expect("plain"), lab.mount_point());
    lab.tool("mkfs.ext4", &["-q", node]);
    lab.tool("mount", &[node, mount_point.to_str().expect("plain")]);
    fs::write(mount_point.join("file"), vec![1; 3_000_000]).expect("written");
    kill(&lab, "dead", "KILL");
    assert!(until(LIMIT, || lab.list()[0]["health"] == "dead"), "{:?}", lab.list());
    let dead = lab.disk(&["stats", "dead"]);
    assert_eq!(dead.status, Some(2));
    assert!(dead.err.contains("dead") && dead.err.contains("detach"), "{dead:?}");
    // Mounted and with unwritten data: nothing that waits for the server may wait for ever.
    lab.must(&["detach", "dead"]);
    assert!(lab.list().is_empty());
    lab.assert_clean();
    // Its name and number are free again.
    lab.attach(&["--profile", "none", "--size", "16M", "--name", "dead"]);
    lab.must(&["detach", "dead"]);
    lab.assert_clean();
}

#[test]
fn a_server_killed_while_it_starts_leaves_nothing() {
    let Some(lab) = Lab::new() else { return };
    for (number, wait_ms) in [2, 10, 20, 30, 50, 80, 150].into_iter().enumerate() {
        let name = format!("early{number}");
        let mut attach = lab.command();
        attach.args(["attach", "--profile", "wd-500g", "--size", "64M", "--name", &name]);
        let said = lab.path("said");
        let err = fs::File::create(&said).expect("a file");
        let mut attach = attach.stdout(Stdio::null()).stderr(err).spawn().expect("it runs");
        let record = lab.path(&format!("run/disks/{name}/record.json"));
        let mut pid = None;
        until(LIMIT, || {
            let text = fs::read_to_string(&record).unwrap_or_default();
            pid = serde_json::from_str::<Value>(&text).ok().and_then(|record| record["pid"].as_u64());
            pid.is_some()
        });
        std::thread::sleep(Duration::from_millis(wait_ms));
        lab.tool("kill", &["-s", "KILL", &pid.expect("a server").to_string()]);
        let status = wait(&mut attach, LIMIT).expect("attach ends");
        if status.success() {
            // It was faster, and is killed as a disk that is ready.
            assert!(until(LIMIT, || lab.list()[0]["health"] == "dead"), "{:?}", lab.list());
            lab.must(&["detach", &name]);
        } else {
            let said = fs::read_to_string(&said).expect("text");
            assert!(said.contains("ended before it was ready (signal: 9 (SIGKILL))"), "{said}");
            assert!(lab.list().is_empty(), "{:?}", lab.list());
        }
        let left = lab.path(&format!("run/disks/{name}"));
        assert!(!left.exists());
    }
    lab.assert_clean();
}

#[test]
fn a_disk_whose_attaching_program_was_killed_can_be_detached() {
    let Some(lab) = Lab::new() else { return };
    for (number, wait_ms) in [0, 20, 60, 120, 200].into_iter().enumerate() {
        let name = format!("orphan{number}");
        let mut attach = lab.command();
        attach.args(["attach", "--profile", "wd-500g", "--size", "64M", "--name", &name]);
        let mut attach = attach.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
        let record = lab.path(&format!("run/disks/{name}/record.json"));
        assert!(until(LIMIT, || record.exists()), "it begins");
        std::thread::sleep(Duration::from_millis(wait_ms));
        attach.kill().expect("it is ours");
        attach.wait().expect("it ended");
        // It was ready, is given up, or has been: never is it busy.
        let ended = lab.disk(&["detach", &name]);
        let gone = ended.err.contains("no emulated disk");
        assert!(ended.status == Some(0) || gone, "{ended:?}");
        lab.assert_clean();
    }
}

#[test]
fn a_disk_of_which_nobody_could_be_told_is_detached_again() {
    let Some(lab) = Lab::new() else { return };
    let command = |arguments: &[&str], out: Stdio| {
        let mut command = lab.command();
        let child = command.args(arguments).stdin(Stdio::null()).stdout(out).stderr(Stdio::piped());
        let mut child = child.spawn().expect("it runs");
        let status = wait(&mut child, LIMIT).expect("it ends").code();
        // The server has given its copy of the pipe up.
        let said = std::io::read_to_string(child.stderr.take().expect("piped")).expect("text");
        (status, said)
    };
    let full = || Stdio::from(fs::File::options().write(true).open("/dev/full").expect("Linux has it"));
    let broken = || Stdio::from(std::io::pipe().expect("a pipe").1);
    let attach = ["attach", "--profile", "none", "--size", "16M", "--thin", "--name", "untold"];
    for out in [full(), broken()] {
        let (status, said) = command(&attach, out);
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains("detached again") && !said.contains("panicked"), "{said}");
        lab.assert_clean();
    }
    lab.must(&attach);
    for arguments in [vec!["list"], vec!["stats", "untold"]] {
        let (status, said) = command(&arguments, full());
        assert_eq!(status, Some(2), "{arguments:?}: {said}");
        assert_eq!(said.matches("No space left").count(), 1, "{said}");
        assert_eq!(command(&arguments, broken()), (Some(0), String::new()), "{arguments:?}");
    }
    lab.must(&["detach", "untold"]);
    lab.assert_clean();
}

#[test]
fn without_the_right_the_remedy_is_said_once() {
    let Some(lab) = Lab::new() else { return };
    lab.attach(&["--profile", "none", "--size", "16M", "--name", "mine"]);
    let program = lab.path("foreseek");
    lab.copy_of_the_program(&program);
    for (arguments, verb) in [
        (&["list"][..], "cannot list"),
        (&["stats", "mine"], "cannot show"),
        (&["set", "mine", "--delays", "off"], "cannot change"),
        (&["detach", "mine"], "cannot detach"),
        (&["detach", "--all"], "cannot detach"),
        (&["attach", "--profile", "none", "--size", "4M"], "cannot attach"),
    ] {
        let mut nobody = Command::new(&program);
        nobody.arg("disk").args(arguments).env("FORESEEK_RUN", lab.path("run")).uid(65534).gid(65534);
        let ended = lab.run(&mut nobody);
        assert_eq!(ended.status, Some(2), "{arguments:?}: {ended:?}");
        assert_eq!(ended.err.matches("as root").count(), 1, "{arguments:?}: {ended:?}");
        assert!(ended.err.lines().count() == 1, "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(verb), "{arguments:?}: {ended:?}");
    }
    lab.must(&["detach", "mine"]);
    lab.assert_clean();
}

#[test]
fn a_program_inside_keeps_a_device_that_is_detached_by_force_and_is_named() {
    let Some(lab) = Lab::new() else { return };
    let device = lab.attach(&["--profile", "none", "--size", "64M", "--name", "held"]);
    let (node, point) = (device.to_str().expect("plain"), lab.mount_point());
    lab.tool("mkfs.ext4", &["-q", node]);
    lab.tool("mount", &[node, point.to_str().expect("plain")]);
    let mut inside = Command::new("sleep").arg("1000").current_dir(&point).spawn().expect("'sleep' exists");
    let ended = lab.disk(&["detach", "held", "--force"]);
    let user = format!("(process {}) works in it; end that, then detach again", inside.id());
    inside.kill().and_then(|()| inside.wait()).expect("ended");
    assert_eq!(ended.status, Some(2), "{ended:?}");
    assert!(ended.err.contains(node) && ended.err.contains(&user), "{ended:?}");
    lab.must(&["detach", "held"]);
    lab.assert_clean();
}

#[test]
fn a_path_that_is_not_utf8_is_refused_by_its_bytes() {
    let Some(lab) = Lab::new() else { return };
    let mut command = lab.command();
    command.args(["attach", "--profile", "none", "--size", "16M", "--backing"]);
    let ended = lab.run(command.arg(std::ffi::OsStr::from_bytes(b"n\xff")));
    assert_eq!((ended.status, ended.err.lines().count()), (Some(2), 1), "{ended:?}");
    assert!(ended.err.contains("/n\\xff: the path is not UTF-8"), "{ended:?}");
    lab.assert_clean();
}

#[test]
fn a_degraded_array_works_and_says_so() {
    let Some(lab) = Lab::new() else { return };
    let failed = ["--failed-member", "1"];
    let attach = |profile, more: &[&str]| {
        lab.attach(&[&["--profile", profile, "--size", "64M", "--name", profile], more].concat())
    };
    let sound = attach("raid5-5x-15k", &[]);
    // All over the disk, so that no member has them in its buffer. For those of the failed member
    // all others are read.
    let read = |device: &Path| {
        for number in 0..100 {
            let data = read_direct(device, number * 37 % 128 * (512 << 10)).expect("reads");
            assert!(data.iter().all(|byte| *byte == 0));
        }
    };
    let work = || {
        let stats = lab.stats("raid5-5x-15k");
        (stats["busy_seconds"].as_f64().expect("a number"), stats["failed_member"].clone())
    };
    lab.must(&["stats", "raid5-5x-15k", "--reset"]);
    read(&sound);
    let (whole, none) = work();
    assert!(none.is_null());
    lab.must(&["detach", "raid5-5x-15k"]);

    let degraded = attach("raid5-5x-15k", &failed);
    lab.must(&["stats", "raid5-5x-15k", "--reset"]);
    read(&degraded);
    let (reconstructing, member) = work();
    assert_eq!(member, 1);
    // Modelled time, summed over the members: 1.6 times as many accesses with one failed.
    assert!(reconstructing > 1.2 * whole, "{reconstructing} s of work, {whole} s with all members");
    for shown in ["list", "stats"] {
        let target: &[&str] = if shown == "stats" { &["raid5-5x-15k"] } else { &[] };
        let text = lab.must(&[&[shown], target].concat());
        assert!(text.contains("member 1 failed"), "{text}");
    }
    lab.must(&["detach", "raid5-5x-15k"]);
    lab.assert_clean();
}

#[test]
fn a_mount_taken_away_by_others_is_noticed() {
    let Some(lab) = Lab::new() else { return };
    let device = lab.attach(&["--profile", "wd-500g", "--size", "64M", "--name", "away"]);
    let text = fs::read_to_string(lab.path("run/disks/away/record.json")).expect("a record");
    let record: Value = serde_json::from_str(&text).expect("JSON");
    lab.tool("umount", &["-l", lab.path("run/disks/away/mount").to_str().expect("plain")]);
    read_direct(&device, 0).expect("the loop device holds on to it");
    // Each attachment of a loop device has a sequence number of its own: another test may be given
    // the number of the device as soon as it is free.
    let attachment = || {
        let sysfs = Path::new("/sys/block").join(name_of(&device));
        let sequence = fs::read_to_string(sysfs.join("diskseq")).expect("sysfs");
        sysfs.join("loop/backing_file").exists().then_some(sequence)
    };
    let ours = attachment();
    assert!(ours.is_some());
    lab.must(&["detach", "away"]);
    assert!(attachment() != ours, "{} is still attached", device.display());
    lab.assert_clean();

    let device = lab.attach(&["--profile", "wd-500g", "--size", "64M", "--name", "away"]);
    let text = fs::read_to_string(lab.path("run/disks/away/record.json")).expect("a record");
    let again: Value = serde_json::from_str(&text).expect("JSON");
    assert!(record["connection"].is_u64() && again["connection"].is_u64());
    let abort = format!("/sys/fs/fuse/connections/{}/abort", again["connection"]);
    if fs::write(&abort, "1").is_err() {
        println!("SKIPPED: fusectl is not mounted, so that nobody can abort");
        return;
    }
    assert_eq!(read_direct(&device, 0).expect_err("aborted").raw_os_error(), Some(5));
    assert!(until(LIMIT, || lab.list()[0]["health"] == "dead"), "{:?}", lab.list());
    lab.must(&["detach", "away"]);
    lab.assert_clean();
}

#[test]
fn a_log_holds_what_was_asked_of_the_disk() {
    let Some(lab) = Lab::new() else { return };
    let device = lab.attach(&["--profile", "wd-500g", "--size", "64M", "--name", "log"]);
    let none = lab.disk(&["log", "log", "--save", "-"]);
    assert_eq!(none.status, Some(2));
    assert!(none.err.contains("no log was started"), "{none:?}");
    for delays in ["on", "off"] {
        lab.must(&["set", "log", "--delays", delays]);
        lab.must(&["log", "log", "--start", "--capacity", "3"]);
        for page in [5, 9, 2, 7] {
            read_direct(&device, page * 4096).expect("reads");
        }
        let saved = lab.must(&["log", "log", "--save", "-"]);
        let lines: Vec<Vec<&str>> = saved.lines().map(|line| line.split(',').collect()).collect();
        let seen: Vec<_> = lines[1..].iter().map(|line| [line[2], line[3], line[4], line[6]]).collect();
        let expected = [40, 72, 16].map(|lba| lba.to_string());
        let expected: Vec<_> = expected.iter().map(|lba| ["read", lba, "8", "false"]).collect();
        assert_eq!(seen, expected, "{saved}");
        assert_eq!((lines[2][5], lines[3][5]), ("24", "-64"), "{saved}");
        for line in &lines[1..] {
            assert!(line[0].parse::<u64>().expect("ns") < line[1].parse::<u64>().expect("ns"), "{saved}");
        }
    }
    lab.must(&["detach", "log"]);
    lab.assert_clean();
}

#[test]
fn a_server_that_hangs_is_cut_off() {
    let Some(lab) = Lab::new() else { return };
    let device = lab.attach(&["--profile", "barracuda-500g", "--size", "64M", "--name", "hung"]);
    lab.stop(&server_of(&lab, "hung"));
    let mut reader = Command::new("dd")
        .args(["bs=4096", "count=1", "iflag=direct", "of=/dev/null"])
        .arg(format!("if={}", device.display()))
        .stderr(Stdio::null())
        .spawn()
        .expect("dd exists");
    assert!(wait(&mut reader, Duration::from_millis(300)).is_none(), "it waits for the server");
    assert_eq!(lab.list()[0]["health"], "silent");
    let busy = lab.disk(&["detach", "hung"]);
    assert_eq!(busy.status, Some(2));
    assert!(busy.err.contains("dd"), "{busy:?}");
    lab.must(&["detach", "--force", "hung"]);
    let status = wait(&mut reader, LIMIT).expect("its read ended");
    assert!(!status.success(), "with an error");
    lab.assert_clean();
}

#[test]
fn a_term_signal_detaches_when_the_disk_is_free() {
    let Some(lab) = Lab::new() else { return };
    let device = lab.attach(&["--profile", "none", "--size", "64M", "--name", "term"]);
    let (node, mount_point) = (device.to_str().expect("plain"), lab.mount_point());
    let mount_point = mount_point.to_str().expect("plain");
    lab.tool("mkfs.ext4", &["-q", node]);
    lab.tool("mount", &[node, mount_point]);
    kill(&lab, "term", "TERM");
    // It goes on serving those who use it.
    fs::write(lab.mount_point().join("file"), vec![1; 1_000_000]).expect("written");
    lab.tool("sync", &["-f", mount_point]);
    assert_eq!(lab.list().len(), 1);
    lab.unmount(Path::new(mount_point));
    assert!(until(LIMIT, || lab.list().is_empty()), "{:?}", lab.list());
    lab.assert_clean();
}

#[test]
fn several_disks_are_attached_at_once() {
    let Some(lab) = Lab::new() else { return };
    let devices: Vec<_> = std::thread::scope(|scope| {
        let attach = |profile: &'static str| {
            let lab = &lab;
            scope.spawn(move || lab.attach(&["--profile", profile, "--size", "64M", "--time-scale", "0.1"]))
        };
        let threads = ["raid0-2x-seagate", "raid5-5x-15k", "none", "wd-500g"].map(attach);
        threads.into_iter().map(|thread| thread.join().expect("attached")).collect()
    });
    for (number, device) in devices.iter().enumerate() {
        let node = format!("of={}", device.display());
        let fill = format!("yes {number} | dd {node} bs=1M count=8 iflag=fullblock oflag=direct");
        lab.tool("sh", &["-c", &fill]);
    }
    for (number, device) in devices.iter().enumerate() {
        let data = read_direct(device, 5 << 20).expect("reads");
        let line = [b'0' + number as u8, b'\n'];
        assert!(data.chunks(2).all(|pair| pair == line), "{} holds another's data", device.display());
    }
    let mut names: Vec<_> = lab.list().iter().map(|disk| disk["name"].clone()).collect();
    names.dedup();
    assert_eq!(names.len(), 4);
    lab.must(&["detach", "--all"]);
    lab.assert_clean();
}

#[test]
fn writers_short_of_memory_finish() {
    let Some(lab) = Lab::new() else { return };
    let Some(group) = MemoryGroup::new(48 << 20) else {
        println!("SKIPPED: no memory cgroup can be made here");
        return;
    };
    // Attached from within the limited group, which the server must leave.
    let attach = format!(
        "echo $$ > {}/cgroup.procs && exec {} disk attach --profile barracuda-500g --size 1G --thin \
         --time-scale 0.05 --name tight --dir {}",
        group.path.display(),
        env!("CARGO_BIN_EXE_foreseek"),
        lab.directory.display()
    );
    let attached = lab.run(Command::new("sh").args(["-c", &attach]).env("FORESEEK_RUN", lab.path("run")));
    assert_eq!(attached.status, Some(0), "{attached:?}");
    let listed = lab.list();
    let inside = fs::read_to_string(group.path.join("cgroup.procs")).expect("readable");
    let server = listed[0]["pid"].to_string();
    assert!(!inside.lines().any(|pid| pid == server), "the server is inside");

    let (node, mount_point) = (listed[0]["device"].as_str().expect("a device"), lab.mount_point());
    lab.tool("mkfs.ext4", &["-q", node]);
    lab.tool("mount", &[node, mount_point.to_str().expect("plain")]);
    let mut writers: Vec<_> = (0..3)
        .map(|number| {
            let write = format!(
                "echo $$ > {}/cgroup.procs && exec dd if=/dev/zero of={}/file{number} bs=64k count=1600 conv=fsync",
                group.path.display(),
                mount_point.display()
            );
            Command::new("sh").args(["-c", &write]).stderr(Stdio::null()).spawn().expect("sh exists")
        })
        .collect();
    let ended: Vec<_> = writers.iter_mut().map(|writer| wait(writer, LIMIT)).collect();
    for writer in &mut writers {
        let _ = writer.kill();
    }
    assert!(ended.iter().all(|status| status.is_some_and(|status| status.success())), "{ended:?}");
    lab.unmount(&mount_point);
    lab.tool("e2fsck", &["-fn", node]);
    lab.must(&["detach", "tight"]);
    lab.assert_clean();
}

#[test]
fn bad_input_is_refused_and_leaves_nothing() {
    let Some(lab) = Lab::new() else { return };
    fs::create_dir(lab.path("folder")).expect("made");
    fs::write(lab.path("broken.toml"), "kind = \"disk\"\nspeed = 3\n").expect("written");
    fs::write(lab.path("small"), vec![0; 8192]).expect("written");
    let attach: [(&[&str], &str); 25] = [
        (&["--profile", "no-such-disk", "--size", "64M"], "no-such-disk"),
        (&["--profile", "broken.toml", "--size", "64M"], "broken.toml"),
        (&["--profile", "folder", "--size", "64M"], "folder"),
        (&["--profile", "barracuda-500g"], "--size"),
        (&["--profile", "barracuda-500g", "--size", "0"], "--size"),
        (&["--profile", "barracuda-500g", "--size", "100"], "multiple of 4 KiB"),
        (&["--profile", "barracuda-500g", "--size", "900G", "--thin"], "holds"),
        (&["--profile", "none", "--size", "4000000T"], "--size"),
        (&["--profile", "none", "--size", "900T"], "no space"),
        (&["--profile", "none", "--backing", "folder"], "not a regular file"),
        (&["--profile", "none", "--backing", "missing/file", "--size", "64M"], "--backing"),
        (&["--profile", "none", "--backing", "small", "--size", "4096"], "8 KiB"),
        (&["--profile", "none", "--backing", "small", "--size", "1M"], "truncate -s 1048576"),
        (&["--profile", "none", "--size", "64M", "--dir", "missing"], "--dir"),
        (&["--profile", "wd-500g", "--size", "64M", "--time-scale", "-1"], "--time-scale"),
        (&["--profile", "wd-500g", "--size", "64M", "--queue-depth", "0"], "queue"),
        (&["--profile", "wd-500g", "--size", "64M", "--fail-lba", "5..200000"], "0..131072"),
        (&["--profile", "wd-500g", "--size", "64M", "--name", "../up"], "--name"),
        (&["--profile", "wd-500g", "--size", "64M", "--name=--all"], "--name"),
        (&["--profile", "wd-500g", "--size", "64M", "--failed-member", "0"], "a disk has no members"),
        (&["--profile", "none", "--size", "64M", "--failed-member", "0"], "--failed-member"),
        (&["--profile", "raid5-5x-15k", "--size", "64M", "--failed-member", "5"], "the array has 5"),
        (&["--profile", "raid5-5x-15k", "--size", "64M", "--failed-member", "x"], "give a whole number"),
        (&["--profile", "wd-500g", "--size", "64M", "--time-scale", "abc"], "give a number"),
        (&["--profile", "wd-500g", "--size", "64M", "--name", "loop0"], "--name"),
    ];
    for (options, word) in attach {
        let mut arguments = vec!["attach"];
        arguments.extend(options);
        let ended = lab.disk(&arguments);
        assert_eq!(ended.status, Some(2), "{options:?}: {ended:?}");
        assert!(ended.err.contains(word), "{options:?}: '{word}' is not in {ended:?}");
        assert!(!ended.err.contains("panicked") && ended.out.is_empty(), "{ended:?}");
        lab.assert_clean();
    }
    assert_eq!(fs::read(lab.path("small")).expect("it is still there"), vec![0; 8192]);
    // A limit that is none is not left out in silence.
    for wrong in ["soon", "0"] {
        let mut command = lab.command();
        command.env("FORESEEK_FUSE_TIMEOUT", wrong).args(["attach", "--profile", "none", "--size", "16M"]);
        let ended = lab.run(&mut command);
        assert_eq!(ended.status, Some(2), "{ended:?}");
        assert!(ended.err.contains("FORESEEK_FUSE_TIMEOUT") && ended.err.contains(wrong), "{ended:?}");
        lab.assert_clean();
    }
    lab.attach(&["--profile", "none", "--size", "16M", "--name", "one"]);
    let others: [(&[&str], &str); 9] = [
        (&["attach", "--profile", "none", "--size", "16M", "--name", "one"], "exists"),
        (&["detach", "two"], "two"),
        (&["stats", "/dev/null"], "/dev/null"),
        (&["set", "one"], "--delays"),
        (&["set", "one", "--delays", "on"], "profile"),
        (&["set", "one", "--time-scale", "nan"], "0.001 to 100"),
        (&["set", "one", "--fail-lba", "7..7"], "7..7"),
        (&["set", "one", "--fail-lba", "7..999999"], "0..32768"),
        (&["detach"], "--all"),
    ];
    for (arguments, word) in others {
        let ended = lab.disk(arguments);
        assert_eq!(ended.status, Some(2), "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(word), "{arguments:?}: '{word}' is not in {ended:?}");
    }
    lab.must(&["detach", "one"]);
    lab.assert_clean();
}

#[test]
fn a_backing_file_that_shrinks_gives_errors_not_zeros() {
    let Some(lab) = Lab::new() else { return };
    let device = lab.attach(&["--profile", "none", "--backing", "image", "--size", "16M", "--name", "cut"]);
    let image = fs::File::options().write(true).open(lab.path("image")).expect("opens");
    image.set_len(1 << 20).expect("cut");
    read_direct(&device, 0).expect("still there");
    assert_eq!(read_direct(&device, 8 << 20).expect_err("cut off").raw_os_error(), Some(5));
    lab.must(&["detach", "cut"]);
    lab.assert_clean();
}

/// Sends a signal to a disk's server.
fn kill(lab: &Lab, name: &str, signal: &str) {
    lab.tool("kill", &["-s", signal, &server_of(lab, name)]);
}

/// The process of a disk's server.
fn server_of(lab: &Lab, name: &str) -> String {
    let listed = lab.list();
    listed.iter().find(|disk| disk["name"] == name).expect("listed")["pid"].to_string()
}

fn name_of(device: &Path) -> &str {
    device.file_name().and_then(|name| name.to_str()).expect("a device's name")
}

/// How an I/O error of a device reads.
fn read_error() -> ErrorKind {
    std::io::Error::from_raw_os_error(5).kind()
}

/// A memory cgroup with a limit, below this process's own where it can be.
struct MemoryGroup {
    path: std::path::PathBuf,
}

impl MemoryGroup {
    fn new(limit_bytes: u64) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let name = format!("foreseek-test-{}", std::process::id());
        let v1 = own.lines().find_map(|line| line.split_once(":memory:")).map(|(_, path)| {
            (Path::new("/sys/fs/cgroup/memory").join(path.trim_start_matches('/')), "memory.limit_in_bytes")
        });
        let (parent, limit) = v1.unwrap_or(("/sys/fs/cgroup".into(), "memory.max"));
        let path = parent.join(name);
        fs::create_dir(&path).ok()?;
        let group = Self { path };
        fs::write(group.path.join(limit), limit_bytes.to_string()).ok()?;
        Some(group)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let gone = until(Duration::from_secs(10), || fs::remove_dir(&self.path).is_ok());
        if !gone {
            println!("{} stays behind", self.path.display());
        }
    }
}
