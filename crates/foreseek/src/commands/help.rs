//! The list of commands that `foreseek --help` shows, by what they are for. The parser's own list has
//! no groups.

use clap::builder::Styles;

/// Commands by what they are for, in the order in which they are shown. One that is not in the program
/// is left out of the list.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Make reads faster", &["mount", "order", "warm", "watch", "sqlite", "array", "tune", "run", "advise"]),
    ("Measure a device", &["profile"]),
    ("Try it without a slow disk", &["demo", "disk"]),
    ("Research and benchmarks", &["lab"]),
];

/// Help is no wider than the narrowest terminal in use, also where there is none.
const WIDTH: usize = 80;

/// What is said after the options.
const AFTER: &str = "\
Examples:
  foreseek sqlite -- python3 report.py     a program's SQLite queries
  foreseek watch /data                     every program that walks trees there
  foreseek mount /data /mnt/data           read /data faster, through /mnt/data
  foreseek profile /dev/sdb -o sdb.toml    measure what seeks on a disk cost
  foreseek demo --output demo-out          see what it does for a database

'foreseek COMMAND --help' explains a command.
Exit status: 0 success; 1 finished with a negative or incomplete result (a check
failed, a file could not be read); 2 error or wrong usage. 'warm --then' and
'sqlite' return the command's status.";

/// The parser with its commands listed in groups.
pub(super) fn grouped(parser: clap::Command) -> clap::Command {
    let header = *Styles::styled().get_header();
    let literal = *Styles::styled().get_literal();
    let mut list = String::new();
    for (title, names) in GROUPS {
        let commands: Vec<_> = names.iter().filter_map(|name| parser.find_subcommand(name)).collect();
        if commands.is_empty() {
            continue;
        }
        list.push_str(&format!("{header}{title}:{header:#}\n"));
        for command in commands {
            let name = command.get_name();
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            list.push_str(&format!("  {literal}{name:<8}{literal:#} {about}\n"));
        }
        list.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{header}Options:{header:#}\n{{options}}{{after-help}}"
    );
    parser.help_template(template).after_help(AFTER).max_term_width(WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn each_command_is_in_one_group() {
        let parser = crate::commands::Cli::command();
        for command in parser.get_subcommands().filter(|command| !command.is_hide_set()) {
            let listed = GROUPS.iter().flat_map(|(_, names)| *names);
            assert_eq!(
                listed.filter(|name| **name == command.get_name()).count(),
                1,
                "{}",
                command.get_name()
            );
        }
    }
}
