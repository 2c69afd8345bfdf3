//! The files in `contrib` for arrays at boot: the unit's commands attach and detach one, and the udev rule
//! recognises its device.

use super::lab::{LIMIT, until};
use super::{Arrays, Lab, text};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn contrib(name: &str) -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(name);
    let text = fs::read_to_string(&path).expect("it is there");
    (path.canonicalize().expect("it is there"), text)
}

/// The arguments of this setting of the array's unit, for the device of this path, as systemd would make them.
fn of_unit(setting: &str, device: &Path, options: &str) -> Vec<String> {
    let (_, unit) = contrib("foreseek-array@.service");
    let mut lines = unit.lines().filter_map(|line| line.strip_prefix(setting)?.strip_prefix('='));
    let line = lines.find(|line| line.contains("foreseek array")).expect("a setting");
    let words = line.split_whitespace().map(|word| word.replace("/%I", text(device)));
    let words = words.flat_map(|word| match &*word {
        "$OPTIONS" => options.split_whitespace().map(str::to_owned).collect(),
        _ => vec![word],
    });
    words.skip_while(|word| word != "array").skip(1).collect()
}

/// Whether the pattern, with `*` for any text, matches.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            (0..=text.len()).any(|at| text.is_char_boundary(at) && fits(rest, &text[at..]))
        }),
    }
}

/// The properties that the only rule of the file gives to the device of this name in sysfs, if all its
/// conditions hold.
fn given(rules: &str, kernel: &str) -> Option<Vec<String>> {
    let rule = rules.lines().find(|line| !line.starts_with('#')).expect("a rule");
    let mut gives = Vec::new();
    for term in rule.split(", ") {
        let Some((key, value)) = term.split_once("==") else {
            gives.push(term.to_owned());
            continue;
        };
        let found = match key {
            "SUBSYSTEM" => "block".to_owned(),
            "KERNEL" => kernel.to_owned(),
            _ => {
                let name =
                    key.strip_prefix("ATTR{").and_then(|key| key.strip_suffix('}')).expect("a known key");
                let file = Path::new("/sys/class/block").join(kernel).join(name);
                fs::read_to_string(file).unwrap_or_default().trim().to_owned()
            }
        };
        if !fits(value.trim_matches('"'), &found) {
            return None;
        }
    }
    Some(gives)
}

/// The result of udev itself, in a mount namespace with an empty /run and /dev.
fn ask_udev(lab: &Lab, rules: &Path, device: &Path) {
    const SCRIPT: &str = r#"
set -eu
number=${DEVICE#/dev/loop}
mount -t tmpfs none /run
mkdir -p /run/udev/rules.d
cp "$RULES" /run/udev/rules.d/
if udevadm verify --help >/dev/null 2>&1; then udevadm verify /run/udev/rules.d/*; fi
mount -t tmpfs none /dev
mknod /dev/null c 1 3
mknod "$DEVICE" b 7 "$number"
udevadm test --action=change "/sys/class/block/loop$number" 2>&1
cat /run/udev/data/* 2>/dev/null || true
"#;
    if Command::new("udevadm").arg("--version").output().is_err() {
        return println!("SKIPPED: udevadm is not here: only this test has read the rule");
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "timeout", "60", "sh", "-c", SCRIPT]).env("RULES", rules).env("DEVICE", device);
    let ended = lab.run(&mut command);
    assert_eq!(ended.status, Some(0), "{ended:?}");
    // As in its data base; later versions show it differently.
    let has_priority = ended.out.lines().any(|line| line == "L:100" || line.contains("priority=100"));
    assert!(has_priority, "{}", ended.out);
    let has_link =
        ended.out.lines().any(|line| line == "S:foreseek/data" || line.contains("/dev/foreseek/data"));
    assert!(has_link, "{}", ended.out);
}

#[test]
fn the_units_commands_serve_an_array_whose_links_udev_prefers() {
    let Some(lab) = Lab::new() else { return };
    // The directory of arrays: of the name that the rule requires.
    fs::create_dir(lab.path("foreseek")).expect("a directory");
    symlink("foreseek", lab.path("run")).expect("a link");
    let arrays = Arrays(&lab);
    let file = lab.path("array.img");
    File::create(&file).and_then(|file| file.set_len(16 << 20)).expect("room");
    // Like /dev/mapper/group-volume, whose escaped name no array can have.
    let link = lab.path("group-volume");
    symlink(&file, &link).expect("a link");
    let run = |words: Vec<String>| arrays.must(&words.iter().map(String::as_str).collect::<Vec<_>>());

    let options = "--memory 112M --strip 64K --members 4 --level raid5 --name data";
    let printed = run(of_unit("ExecStart", &link, options));
    let device = printed.split_whitespace().next().expect("a device").to_owned();
    let kernel = device.strip_prefix("/dev/").expect("a node");
    let (rules, text_of_rules) = contrib("90-foreseek-array.rules");
    assert_eq!(given(&text_of_rules, kernel), Some(vec!["OPTIONS+=\"link_priority=100\"".to_owned()]));
    let others = fs::read_dir("/sys/class/block").expect("sysfs").flatten();
    let others = others.filter_map(|entry| entry.file_name().into_string().ok());
    let is_file_of_others = |name: &String| {
        let file = Path::new("/sys/class/block").join(name).join("loop/backing_file");
        !fs::read_to_string(file).unwrap_or_default().contains("/arrays/")
    };
    for other in others.filter(is_file_of_others) {
        assert_eq!(given(&text_of_rules, &other), None, "{other} is no array");
    }
    ask_udev(&lab, &rules, Path::new(&device));

    assert!(arrays.must(&["status", text(&file)]).contains("hit rate"), "by the device below");
    // Its link is removed before the unit is stopped, as when the volume goes.
    fs::remove_file(&link).expect("it was there");
    run(of_unit("ExecStop", &link, ""));
    // Another test may have the device by now.
    let attached = Path::new("/sys/class/block").join(kernel).join("loop/backing_file");
    let is_ours = |file: String| file.trim_end() == "/disk" || file.contains(text(&lab.directory));
    assert!(until(LIMIT, || !fs::read_to_string(&attached).is_ok_and(is_ours)), "{device} stays attached");
    arrays.assert_clean();
}
