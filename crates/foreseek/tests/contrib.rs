//! What lies in `contrib`: the helpers of mount(8) and umount(8), as /etc/fstab uses them, and the units of systemd.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_foreseek");

fn contrib() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").canonicalize().expect("it is there")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Calls the helper as mount(8) does, with a program that prints its arguments.
fn helper(args: &[&str]) -> Output {
    Command::new(contrib().join("mount.foreseek"))
        .args(args)
        .env("FORESEEK", "echo")
        .output()
        .expect("it runs")
}

#[test]
fn the_helper_hands_on_what_foreseek_mount_knows() {
    for (options, told) in [
        ("rw", "mount -- /a b /c\n"),
        ("ro,nofail,x-systemd.requires-mounts-for=/a", "mount --read-only -- /a b /c\n"),
        ("memory=1G,policy=competitive,_netdev", "mount --memory=1G --policy=competitive -- /a b /c\n"),
        (
            "no-walks,no-passthrough,rho=2.5,request-timeout=60",
            "mount --no-walks --no-passthrough --rho=2.5 --request-timeout=60 -- /a b /c\n",
        ),
        ("profile=/x y$(id).toml", "mount --profile=/x y$(id).toml -- /a b /c\n"),
    ] {
        let output = helper(&["/a b", "/c", "-n", "-t", "foreseek", "-o", options]);
        assert!(output.status.success(), "{options}: {}", said(&output));
        assert_eq!(said(&output), told);
    }
    assert_eq!(said(&helper(&["/a", "/c", "-f"])), "", "only as if");
    for (args, word) in [
        (&["/a"][..], "mount point"),
        (&["/a", "/c", "-o", "memroy=1G"], "memroy"),
        (&["/a", "/c", "-o", "remount,ro"], "remounted"),
    ] {
        let output = helper(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(said(&output).contains(word), "{args:?}: {}", said(&output));
    }
    assert!(helper(&["/a", "/c", "-s", "-o", "memroy=1G"]).status.success(), "sloppy");
}

/// In a mount namespace of its own, in which the helpers lie in /usr/sbin: nothing of this machine is changed.
#[test]
fn a_line_of_fstab_is_mounted_and_unmounted() {
    const SCRIPT: &str = r#"
set -eu
cp "$HELPERS/mount.foreseek" helpers/
cp "$HELPERS/umount.foreseek" helpers/umount.fuse.foreseek
mount -t overlay overlay -o "lowerdir=$PWD/helpers:/usr/sbin" /usr/sbin
trap '"$FORESEEK" mount --unmount "$PWD/mount" 2>/dev/null || true' EXIT
echo "$PWD/source $PWD/mount foreseek ro,memory=64M,policy=plain,nofail 0 0" > fstab
mount -T fstab -a
cat mount/a
touch mount/b 2>/dev/null && echo "it can be written"
mount -T fstab -a
server=$("$FORESEEK" mount --list --format json | grep -o '"pid":[0-9]*' | cut -d : -f 2)
[ -e "/proc/$server" ]
umount mount
[ ! -e "/proc/$server" ] || echo "its server has not ended"
ls mount
echo unmounted
"#;
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return println!("SKIPPED: a mount needs root and /dev/fuse");
    }
    let place = tempfile::tempdir_in("/var/tmp").expect("a place");
    let apart = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-m", "timeout", "120", "sh", "-c", script]).current_dir(place.path());
        command
    };
    let overlay = "mkdir l && mount -t overlay overlay -o lowerdir=l:/usr/sbin /usr/sbin";
    if !apart(overlay).output().is_ok_and(|output| output.status.success()) {
        return println!("SKIPPED: this needs unshare and overlayfs");
    }
    for name in ["source", "mount", "helpers"] {
        fs::create_dir(place.path().join(name)).expect("made");
    }
    fs::write(place.path().join("source/a"), "text\n").expect("written");
    let output = apart(SCRIPT)
        .env("HELPERS", contrib())
        .env("FORESEEK", PROGRAM)
        .env("FORESEEK_RUN", place.path().join("run"))
        .env("FORESEEK_STATE", "")
        .output()
        .expect("it runs");
    assert!(output.status.success() && said(&output).ends_with("text\nunmounted\n"), "{}", said(&output));
}

/// The units, as files are named in systemd's directory: of a template also a device whose path is escaped.
const UNITS: [(&str, &str); 4] = [
    ("foreseek-mount.service", "foreseek-mount.service"),
    ("foreseek-watch.service", "foreseek-watch.service"),
    ("foreseek-array@.service", "foreseek-array@dev-md0.service"),
    ("foreseek-array@.service", r"foreseek-array@dev-mapper-group\x2dvolume.service"),
];

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    let place = tempfile::tempdir().expect("a place");
    for (file, name) in UNITS {
        let unit = fs::read_to_string(contrib().join(file)).expect("there");
        let path = place.path().join(name);
        // It wants to find the program.
        fs::write(&path, unit.replace("/usr/local/bin/foreseek", PROGRAM)).expect("written");
        let Ok(output) = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output()
        else {
            return println!("SKIPPED: systemd-analyze is not here");
        };
        let about_it: Vec<String> =
            said(&output).lines().filter(|line| line.contains(name)).map(str::to_owned).collect();
        assert!(output.status.success() && about_it.is_empty(), "{name}: {}", said(&output));
    }
}

#[test]
fn the_program_knows_every_command_line_of_the_units() {
    let mut lines = 0;
    for (file, _) in UNITS {
        let unit = fs::read_to_string(contrib().join(file)).expect("there");
        let ours = |line: &&str| line.starts_with("Exec") && !line.contains("udevadm");
        for line in unit.lines().filter(ours) {
            let (_, command) = line.split_once('=').expect("a setting");
            let command = command.replace("/%I", "/dev/md0").replace("$OPTIONS", "--memory 2G --name data");
            let mut words = command.trim_start_matches('-').split_whitespace();
            assert_eq!(words.next(), Some("/usr/local/bin/foreseek"), "{file}: {line}");
            // Behind a word that it does not know it prints no help.
            let output = Command::new(PROGRAM).args(words).arg("--help").output().expect("it runs");
            assert!(output.status.success() && !command.contains('%'), "{file}: {line}: {}", said(&output));
            lines += 1;
        }
    }
    assert_eq!(lines, 8, "each unit has a line that starts and one that ends");
}

/// What a setting of the mount's unit runs, with this source and mount point.
fn unit_command(setting: &str, source: &Path, point: &Path) -> Command {
    let unit = fs::read_to_string(contrib().join("foreseek-mount.service")).expect("there");
    let of_setting = |line: &str| line.strip_prefix(setting)?.strip_prefix('=').map(str::to_owned);
    let line = unit.lines().find_map(of_setting).expect("the setting");
    let mut words = line.trim_start_matches('-').split_whitespace();
    assert_eq!(words.next(), Some("/usr/local/bin/foreseek"), "{line}");
    let mut command = Command::new(PROGRAM);
    for word in words {
        match word {
            "/data" => command.arg(source),
            "/mnt/data" => command.arg(point),
            _ => command.arg(word),
        };
    }
    command
}

/// A service under way. It is ended, and its mount taken away, whatever becomes of the test.
struct Service {
    server: Child,
    point: PathBuf,
}

impl Service {
    /// Waits until it has ended.
    fn ended(&mut self) {
        let begun = Instant::now();
        while self.server.try_wait().expect("a child").is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        if is_mounted(&self.point) {
            let _ = Command::new("umount").arg("-l").arg(&self.point).output();
        }
    }
}

fn is_mounted(point: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("readable");
    mounts.lines().any(|line| line.split(' ').nth(4) == point.to_str())
}

/// What systemd does with the unit: start it, stop it by SIGTERM or find it dead, and run what follows.
#[test]
fn the_mount_unit_is_started_and_leaves_nothing_when_it_is_stopped_or_dies() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return println!("SKIPPED: a mount needs root and /dev/fuse");
    }
    let place = tempfile::tempdir_in("/var/tmp").expect("a place");
    let (source, point) = (place.path().join("source"), place.path().join("mount"));
    let run = place.path().join("run");
    for path in [&source, &point] {
        fs::create_dir(path).expect("made");
    }
    fs::write(source.join("a"), "text\n").expect("written");
    let command = |setting| {
        let mut command = unit_command(setting, &source, &point);
        command.env("FORESEEK_RUN", &run).env("FORESEEK_STATE", "");
        command
    };
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::KILL] {
        let server = command("ExecStart").spawn().expect("it starts");
        let mut service = Service { server, point: point.clone() };
        let begun = Instant::now();
        while !is_mounted(&point) {
            let ended = service.server.try_wait().expect("a child");
            assert!(ended.is_none() && begun.elapsed() < Duration::from_secs(60), "no mount: {ended:?}");
            sleep(Duration::from_millis(20));
        }
        assert_eq!(fs::read_to_string(point.join("a")).expect("read"), "text\n", "{signal:?}");
        let server = rustix::process::Pid::from_child(&service.server);
        rustix::process::kill_process(server, signal).expect("a child");
        service.ended();
        // The unit has a '-' before it: after an end in order there is nothing to free.
        let freed = command("ExecStopPost").output().expect("it runs");
        assert!(!is_mounted(&point), "{signal:?}: {}", said(&freed));
        assert_eq!(fs::read_dir(&point).expect("a directory").count(), 0, "{signal:?}");
    }
}
