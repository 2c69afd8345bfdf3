//! What `foreseek` and `foreseek lab` list, and what becomes of names that they do not have.

use std::process::{Command, Output};

/// The commands in the help, in this order.
const COMMANDS: [&str; 10] =
    ["mount", "order", "warm", "watch", "sqlite", "array", "profile", "demo", "disk", "lab"];
/// The laboratory.
const LAB: [&str; 5] = ["reproduce", "simulate", "trace", "device", "bench"];
/// The widest terminal that everybody has.
const WIDTH: usize = 80;

fn foreseek(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_foreseek")).args(args).output().expect("the program runs")
}

/// What was said on standard output and on standard error.
fn said(output: &Output) -> [String; 2] {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8(text.clone()).expect("UTF-8"))
}

/// The help of a command.
fn help(command: &[&str]) -> String {
    let output = foreseek(&[command, &["--help"]].concat());
    let [help, errors] = said(&output);
    assert_eq!((output.status.code(), errors.as_str()), (Some(0), ""), "{command:?}");
    help
}

/// The commands that a help lists: the first words of the lines between the usage and the options.
fn listed(help: &str) -> Vec<&str> {
    let (_, list) = help.split_once("\n\n").and_then(|(_, rest)| rest.split_once("\n\n")).expect("a usage");
    let (list, _) = list.split_once("Options:").expect("options");
    let indented =
        list.lines().filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    indented.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

#[test]
fn the_help_shows_what_users_need_in_groups_and_the_laboratory_apart() {
    let text = help(&[]);
    assert_eq!(listed(&text), COMMANDS);
    assert!(
        text.lines().filter(|line| line.ends_with(':')).count() >= 6,
        "groups, options, examples: {text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    let lab = help(&["lab"]);
    assert_eq!(listed(&lab), LAB);
    assert!(lab.contains("None of it is needed to use Foreseek"), "{lab}");
    // Without a command both say what there is, and that nothing was done.
    for (args, text) in [(&[][..], &text), (&["lab"], &lab)] {
        let output = foreseek(args);
        assert_eq!((output.status.code(), &said(&output)[1]), (Some(2), text));
    }
}

#[test]
fn the_help_of_each_command_for_users_has_examples() {
    for command in COMMANDS {
        let help = help(&[command]);
        let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{help}"));
        let first = examples.lines().next().unwrap_or_default();
        assert!(first.starts_with(&format!("  foreseek {command}")), "{help}");
        assert!(examples.lines().all(|line| line.chars().count() <= WIDTH), "{examples}");
    }
}

/// The help of a command and of all below it.
fn all_help(command: &[&str], known: &mut Vec<(Vec<String>, String)>) {
    let text = help(command);
    // What has no commands below lists its arguments there.
    let has_commands = command.is_empty() || text.contains("\nCommands:\n");
    let below: Vec<String> =
        if has_commands { listed(&text).into_iter().map(str::to_owned).collect() } else { Vec::new() };
    known.push((command.iter().map(|&it| it.to_owned()).collect(), text));
    for name in &below {
        all_help(&[command, &[name.as_str()]].concat(), known);
    }
}

#[test]
fn no_help_is_wider_than_a_terminal() {
    let mut all = Vec::new();
    all_help(&[], &mut all);
    assert!(all.len() > 30, "{}", all.len());
    for (command, text) in all {
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "foreseek {}: {line}", command.join(" "));
        }
    }
}

#[test]
fn an_old_name_does_the_same_and_says_the_new_one_once() {
    for (old, new, now) in [
        (&["devices"][..], &["profile", "--list"][..], "profile --list"),
        (&["devices", "--format", "json"], &["profile", "--list", "--format", "json"], "profile --list"),
        (&["devices", "wd-500g"], &["profile", "--show", "wd-500g"], "profile --show"),
        (&["reproduce", "--help"], &["lab", "reproduce", "--help"], "lab reproduce"),
        (
            &["reproduce", "--quick", "--only", "TR-depth-*", "--format", "json"],
            &["lab", "reproduce", "--quick", "--only", "TR-depth-*", "--format", "json"],
            "lab reproduce",
        ),
        (&["simulate", "/nowhere.toml"], &["lab", "simulate", "/nowhere.toml"], "lab simulate"),
        (&["trace", "info", "/nowhere"], &["lab", "trace", "info", "/nowhere"], "lab trace"),
        (&["device", "import", "/nowhere"], &["lab", "device", "import", "/nowhere"], "lab device"),
        (&["bench", "mount", "--help"], &["lab", "bench", "mount", "--help"], "lab bench"),
        (&["help", "simulate"], &["help", "lab", "simulate"], "lab simulate"),
    ] {
        let (was, is) = (foreseek(old), foreseek(new));
        let ([was_out, was_err], [is_out, is_err]) = (said(&was), said(&is));
        assert_eq!((was.status.code(), was_out), (is.status.code(), is_out), "{old:?}");
        let name = if old[0] == "help" { old[1] } else { old[0] };
        let hint = format!(
            "foreseek: 'foreseek {name}' is now 'foreseek {now}'; the old name will go in the next release\n"
        );
        assert_eq!(was_err, hint + &is_err, "{old:?}");
    }
}

#[test]
fn out_is_understood_as_output() {
    for command in [&["demo"][..], &["lab", "bench", "mount"], &["lab", "bench", "walk"]] {
        assert!(help(command).contains("--output <DIR>"), "{command:?}");
        // An option that is not known would be refused before help is shown.
        help(&[command, &["--out", "folder"]].concat());
    }
}

#[test]
fn options_of_a_new_mount_are_refused_where_none_is_made() {
    for other in [&["--status", "/nowhere"][..], &["--unmount", "/nowhere"], &["--list"]] {
        let output = foreseek(&[&["mount", "--forget"], other].concat());
        assert_eq!(output.status.code(), Some(2), "{other:?}");
        assert!(said(&output)[1].contains("cannot be used with"), "{output:?}");
    }
}

#[test]
fn an_unknown_command_is_refused_with_the_one_that_was_meant() {
    for (args, meant) in [
        (&["mout"][..], "'mount'"),
        (&["profil"], "'profile'"),
        (&["simulat"], "'lab simulate'"),
        (&["lab", "reproduced"], "'reproduce'"),
        (&["disk", "stat"], "'stats'"),
    ] {
        let output = foreseek(args);
        let [out, errors] = said(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(2), ""), "{args:?}");
        assert!(errors.contains("similar subcommand") && errors.contains(meant), "{args:?}: {errors}");
    }
    let [_, errors] = said(&foreseek(&["xyzzy"]));
    assert!(errors.contains("unrecognized") && !errors.contains("similar"), "{errors}");
}
