//! Names that commands had before the laboratory's got a command of their own. They work for one more
//! release.

use std::ffi::OsString;

/// Commands that `foreseek lab` has now.
const NOW_IN_LAB: [&str; 5] = ["reproduce", "simulate", "trace", "device", "bench"];
/// What listed the built-in device profiles, and showed one that was named.
const DEVICES: &str = "devices";

/// The command line with the name that the command has now, and the warning on that for the user.
pub(super) fn replaced(mut line: Vec<OsString>) -> (Vec<OsString>, Option<String>) {
    // 'foreseek help COMMAND' asks for the help of the same command.
    let at = if line.get(1).is_some_and(|word| word == "help") { 2 } else { 1 };
    let Some(old) = line.get(at).and_then(|word| word.to_str()).map(str::to_owned) else {
        return (line, None);
    };
    let new = if NOW_IN_LAB.contains(&old.as_str()) {
        line.insert(at, "lab".into());
        format!("lab {old}")
    } else if old == DEVICES {
        let option = if at == 2 { None } else { Some(devices(&mut line)) };
        line[at] = "profile".into();
        format!("profile {}", option.unwrap_or("--list"))
    } else {
        return (line, None);
    };
    let hint = format!("'foreseek {old}' is now 'foreseek {new}'; the old name will go in the next release");
    (line, Some(hint))
}

/// Gives the arguments of `devices` the option of `profile` that does the same; answers it.
fn devices(line: &mut Vec<OsString>) -> &'static str {
    let is_name = |at: usize| !line[at].as_encoded_bytes().starts_with(b"-") && line[at - 1] != "--format";
    let (option, at) = match (2..line.len()).find(|at| is_name(*at)) {
        Some(name) => ("--show", name),
        None => ("--list", 2),
    };
    line.insert(at, option.into());
    option
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn an_old_name_becomes_the_new_one_wherever_the_command_stands() {
        for (old, new, named) in [
            ("f simulate x.toml --quick", "f lab simulate x.toml --quick", "lab simulate"),
            ("f help bench mount", "f help lab bench mount", "lab bench"),
            ("f devices", "f profile --list", "profile --list"),
            ("f devices --format json", "f profile --list --format json", "profile --list"),
            ("f devices --format json x", "f profile --format json --show x", "profile --show"),
            ("f devices x --format=json", "f profile --show x --format=json", "profile --show"),
            ("f help devices", "f help profile", "profile --list"),
        ] {
            let (line, hint) = replaced(words(old));
            assert_eq!(line, words(new), "{old}");
            assert!(hint.is_some_and(|hint| hint.contains(&format!("is now 'foreseek {named}'"))), "{old}");
        }
    }

    #[test]
    fn what_is_no_old_name_stays() {
        for line in ["f", "f lab simulate x", "f mount trace bench", "f help", "f --version", "f simulated"] {
            assert_eq!(replaced(words(line)), (words(line), None), "{line}");
        }
    }
}
