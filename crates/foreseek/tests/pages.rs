//! The commands that pages show.
//!
//! - Blocks of README and `docs/use`: each line is run as it stands there, page by page and in their order, on an emulated disk in place
//!   of a disk and in folders of the test's own in place of /data and /mnt. What is not run is listed with its reason. This needs root, FUSE
//!   and loop devices, and skips loudly without them.
//! - Commands within sentences and tables of every page: the program must know the command and each option.
#![allow(clippy::print_stdout, reason = "tests that are skipped say so")]

#[allow(dead_code, reason = "another test uses the rest")]
#[path = "disk/lab.rs"]
mod lab;

use lab::{Ended, Lab};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{PoisonError, RwLock};

/// What is not run: how a command begins, and why.
const NOT_RUN: [(&str, &str); 7] = [
    ("make ", "tests/install.rs and scripts/deb-test install and remove; the gate runs the rest"),
    ("apt install", "scripts/deb-test installs the packages in a clean chroot"),
    ("sync; echo 3", "drops the caches of the whole machine"),
    ("systemctl ", "tests/contrib.rs checks the units; there is no service manager in a test"),
    ("qemu-system", "the emulator goes on until it is ended; scripts/guest uses such a disk"),
    ("foreseek lab ", "minutes to hours; tests/reproduce.rs, simulate.rs, trace.rs and bench.rs run parts"),
    ("foreseek disk detach /dev/loopN", "a placeholder; docs/use/emulated-disk.md names its disk"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A page, from the root of the repository.
fn text(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// The code blocks of a page: the language that each names, and its lines.
fn blocks(page: &str) -> impl Iterator<Item = (&str, impl Iterator<Item = &str>)> {
    page.split("\n```").skip(1).step_by(2).map(|block| {
        let (language, lines) = block.split_once('\n').unwrap_or((block, ""));
        (language, lines.lines())
    })
}

/// The lines of a page's blocks of shell, with what is said behind them.
fn commands(page: &str) -> Vec<String> {
    let lines = blocks(page).filter(|(language, _)| *language == "sh").flat_map(|(_, lines)| lines);
    let lines = lines.map(|line| line.trim_start_matches("sudo "));
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// A text with what each name stands for, in one pass: what stands for one may be the name of another. The longest
/// name counts, and of equal ones the last.
fn with_names(text: &str, named: &[(String, String)]) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let names = named.iter().filter(|(name, _)| rest.starts_with(name.as_str()));
        if let Some((name, meant)) = names.max_by_key(|(name, _)| name.len()) {
            done.push_str(meant);
            rest = &rest[name.len()..];
        } else {
            done.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    done
}

/// A place that has what the pages speak of.
struct World {
    lab: Lab,
    /// What stands for the devices and names that a command has printed on the page.
    named: Vec<(String, String)>,
}

impl World {
    fn new() -> Option<Self> {
        let lab = Lab::new()?;
        for tool in ["sqlite3", "python3", "mkfs.ext4"] {
            if Command::new(tool).arg("-V").output().is_err() {
                println!("SKIPPED: {tool} is not installed");
                return None;
            }
        }
        let node =
            lab.attach(&["--profile", "barracuda-500g", "--size", "1G", "--no-delays", "--name", "data"]);
        let node = node.to_str().expect("plain");
        lab.tool("mkfs.ext4", &["-q", "-F", node]);
        lab.tool("mount", &[node, lab.mount_point().to_str().expect("plain")]);
        let disk = lab.attach(&[
            "--profile",
            "barracuda-500g",
            "--size",
            "8G",
            "--time-scale",
            "0.05",
            "--name",
            "sdb",
        ]);
        let data = lab.mount_point().join("data/project");
        fs::create_dir_all(&data).expect("made");
        for number in 0..200 {
            fs::write(data.join(format!("{number}.c")), format!("pattern {number}\n").repeat(100))
                .expect("written");
        }
        for folder in ["at/data", "work"] {
            fs::create_dir_all(lab.path(folder)).expect("made");
        }
        let rows = "CREATE TABLE customer(id INTEGER PRIMARY KEY, c_zip INT, zip INT); INSERT INTO customer(c_zip, zip) VALUES (2, 1), (1, 2);
            CREATE INDEX by_zip ON customer(c_zip); CREATE INDEX by_other ON customer(zip)";
        lab.tool("sqlite3", &[lab.path("work/my.db").to_str().expect("plain"), rows]);
        let report = "import sqlite3\nprint(sqlite3.connect('my.db').execute('SELECT count(*) FROM customer').fetchone())\n";
        fs::write(lab.path("work/report.py"), report).expect("written");
        // An emulated array announces no strips, as md does: its profile tells them.
        let array =
            lab.attach(&["--profile", "raid5-5x-15k", "--size", "1G", "--no-delays", "--name", "md0"]);
        lab.tool("mkfs.ext4", &["-q", "-F", array.to_str().expect("plain")]);
        let named = vec![
            ("/dev/sdb".to_owned(), disk.display().to_string()),
            ("/dev/md0 --member sdb.toml".to_owned(), format!("{} --profile raid5-5x-15k", array.display())),
            ("/dev/md0".to_owned(), format!("{} --profile raid5-5x-15k", array.display())),
            ("/run/array.socket".to_owned(), lab.path("array.socket").display().to_string()),
        ];
        Some(Self { lab, named })
    }

    /// Makes what `make install` puts where pkg-config looks, and an example's source; whether that can be had.
    fn has_library_for_c(&self) -> bool {
        let built = Path::new(env!("CARGO_BIN_EXE_foreseek")).parent().expect("a folder");
        let can_run = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
        if !(built.join("libprefetch.so").is_file() && can_run("cc") && can_run("pkg-config")) {
            return false;
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../libprefetch-c");
        fs::copy(source.join("examples/scan.c"), self.lab.path("work/scan.c")).expect("copied");
        let description = fs::read_to_string(source.join("libprefetch.pc.in")).expect("it is there");
        let description = description
            .replace("@PREFIX@", &source.display().to_string())
            .replace("@LIBDIR@", &built.display().to_string())
            .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        fs::write(self.lab.path("work/libprefetch.pc"), description).expect("written");
        true
    }

    /// A command with what there is here in place of what the page names.
    fn here(&self, command: &str) -> String {
        let path = |name: &str| self.lab.path(name).display().to_string();
        let built =
            Path::new(env!("CARGO_BIN_EXE_foreseek")).parent().expect("a folder").display().to_string();
        let here = command
            .replace("/mnt/data", "\u{1}")
            .replace("/data", &path("mnt/data"))
            .replace(" /mnt", &format!(" {}", path("at")))
            .replace('\u{1}', &path("at/data"))
            .replace("target/release/", &format!("{built}/"))
            .replace("/usr/local/lib/", &format!("{built}/"))
            .replace("mkfs.ext4 ", "mkfs.ext4 -q -F ");
        with_names(&here, &self.named)
    }

    fn run(&mut self, command: &str) -> Ended {
        let built = PathBuf::from(env!("CARGO_BIN_EXE_foreseek"));
        let built = built.parent().expect("a folder");
        let line = self.here(command);
        let mut shell = Command::new("bash");
        shell.args(["-o", "pipefail", "-c", &line]).current_dir(self.lab.path("work"));
        shell.env("PATH", format!("{}:{}", built.display(), std::env::var("PATH").unwrap_or_default()));
        shell.env("LD_LIBRARY_PATH", built).env("FORESEEK_RUN", self.lab.path("run"));
        shell.env("PKG_CONFIG_PATH", self.lab.path("work"));
        let ended = in_turn(command, || self.lab.run(&mut shell));
        // "prints /dev/loop0 disk0": what it has printed goes by these names from here on.
        if let Some((_, said)) = command.split_once("# prints") {
            let printed = ended.out.split_whitespace().map(str::to_owned);
            let words = said.trim_start_matches(':').split_whitespace();
            let pairs = words.map(|word| word.trim_end_matches([',', '.']).to_owned()).zip(printed);
            // Devices and numbered names, and no words of a sentence.
            self.named.extend(
                pairs.filter(|(word, _)| {
                    word.contains('/') || word.ends_with(|end: char| end.is_ascii_digit())
                }),
            );
        }
        ended
    }
}

/// Runs a command: one that measures a device alone, others side by side. Beside load the revolution of a disk, here of
/// 0.4 ms, may not be seen, and the program says so with the remedy: to measure again.
fn in_turn(command: &str, mut run: impl FnMut() -> Ended) -> Ended {
    static TURN: RwLock<()> = RwLock::new(());
    /// How often it measures at most.
    const TRIALS: usize = 4;
    if !command.starts_with("foreseek profile /dev/") {
        let _beside = TURN.read().unwrap_or_else(PoisonError::into_inner);
        return run();
    }
    let _alone = TURN.write().unwrap_or_else(PoisonError::into_inner);
    let is_seen = |ended: &Ended| !ended.err.contains("too busy; measure again");
    let mut ended = run();
    for _ in 1..TRIALS {
        if is_seen(&ended) {
            break;
        }
        ended = run();
    }
    ended
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.lab.run(Command::new("umount").arg("-l").arg(self.lab.path("mnt/data")));
        let list = r#"foreseek array list --format json | grep -o '"name": *"[^"]*"' | cut -d'"' -f4 | xargs -rn1 foreseek array detach --force"#;
        self.run(list);
        self.run("foreseek watch --stop");
        for point in ["at/data", "mnt/data"] {
            let mut unmount = Command::new(env!("CARGO_BIN_EXE_foreseek"));
            unmount
                .args(["mount", "--unmount"])
                .arg(self.lab.path(point))
                .env("FORESEEK_RUN", self.lab.path("run"));
            let _ = self.lab.run(&mut unmount);
        }
        let _ = self.lab.run(Command::new("umount").arg("-l").arg(self.lab.path("at")));
    }
}

fn has_libraries() -> bool {
    let program = Path::new(env!("CARGO_BIN_EXE_foreseek"));
    program.with_file_name("libforeseek_sqlite.so").is_file()
        && program.with_file_name("libforeseek_sqlite_preload.so").is_file()
}

/// Runs the commands of a page; how many.
fn follow(page: &str) -> usize {
    let Some(mut world) = World::new() else { return 0 };
    let mut run = 0;
    for command in commands(&text(page)) {
        if let Some((_, why)) = NOT_RUN.iter().find(|(begins, _)| command.starts_with(begins)) {
            println!("not run: {command}: {why}");
            continue;
        }
        if command.contains("libforeseek_sqlite") && !has_libraries() {
            println!("SKIPPED: {command}: 'cargo build' makes the libraries");
            continue;
        }
        if command.contains("pkg-config") && !world.has_library_for_c() {
            println!(
                "SKIPPED: {command}: it needs cc, pkg-config and libprefetch.so, which 'cargo build' makes"
            );
            continue;
        }
        let ended = world.run(&command);
        assert_eq!(ended.status, Some(0), "{page}: {command}\nas: {}\n{ended:?}", world.here(&command));
        run += 1;
    }
    run
}

/// The same, where so many commands must have been run at least; without root and FUSE none can be.
fn follow_all(page: &str, least: usize) {
    let run = follow(page);
    assert!(run == 0 || run >= least, "{page}: {run}");
}

#[test]
fn the_commands_of_the_page_on_walks_run() {
    follow_all("docs/use/walks.md", 5);
}

#[test]
fn the_commands_of_the_page_on_the_mount_run() {
    follow_all("docs/use/mount.md", 5);
}

#[test]
fn the_commands_of_the_page_on_sqlite_run() {
    follow_all("docs/use/sqlite.md", if has_libraries() { 3 } else { 1 });
}

#[test]
fn the_commands_of_the_pages_on_disks_run() {
    follow_all("docs/use/emulated-disk.md", 6);
    follow_all("docs/use/profiler.md", 5);
}

#[test]
fn the_commands_of_the_page_on_arrays_run() {
    follow_all("docs/use/array.md", 6);
}

#[test]
fn the_commands_of_the_other_pages_run() {
    for page in ["docs/use/tuning.md", "docs/use/install.md", "docs/use/libprefetch.md"] {
        follow(page);
    }
    follow_all("README.md", 6);
}

/// The help of commands, each asked for once.
#[derive(Default)]
struct Helps(HashMap<String, Option<String>>);

impl Helps {
    /// The help of a command; `None` where the program does not know it.
    fn of(&mut self, command: &[&str]) -> Option<&str> {
        let ask = || {
            let output = Command::new(env!("CARGO_BIN_EXE_foreseek")).args(command).arg("--help").output();
            let output = output.expect("the program runs");
            output.status.success().then(|| String::from_utf8(output.stdout).expect("UTF-8"))
        };
        self.0.entry(command.join(" ")).or_insert_with(ask).as_deref()
    }

    /// Whether a command's first argument is a command again, by its usage.
    fn is_group(&mut self, command: &[&str]) -> bool {
        let usage = self.of(command).and_then(|help| help.lines().find(|line| line.starts_with("Usage:")));
        usage.is_some_and(|usage| usage.ends_with(" <COMMAND>"))
    }
}

/// What is wrong with a command line that begins with `foreseek`: a command or an option that the program does not know.
fn unknown(line: &str, helps: &mut Helps) -> Vec<String> {
    let mut words = line
        .split_whitespace()
        .skip(1)
        .take_while(|word| !["--", "#", "|", "&&", "2>"].contains(word))
        .peekable();
    let mut command: Vec<&str> = Vec::new();
    while helps.is_group(&command) {
        let Some(word) = words.next_if(|word| word.starts_with(|c: char| c.is_ascii_lowercase())) else {
            break;
        };
        command.push(word.trim_end_matches([',', '.']));
    }
    let Some(help) = helps.of(&command) else { return vec![format!("no command {}", command.join(" "))] };
    let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
    let options = words.filter_map(|word| word.find("--").map(|at| &word[at..]));
    let options = options.map(|word| word.split(|c| !is_name(c)).next().unwrap_or_default());
    let known = |option: &str| {
        help.match_indices(option).any(|(at, _)| !help[at + option.len()..].starts_with(is_name))
    };
    options.filter(|option| !known(option)).map(|option| format!("no option {option}")).collect()
}

#[test]
fn the_program_knows_every_command_and_option_of_every_page() {
    let folders = ["docs/use", "docs/internals", "docs/lab"].map(|folder| root().join(folder));
    let listed = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder of pages"));
    let listed = listed.map(|entry| entry.expect("readable").path());
    let pages = listed.chain(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|page| root().join(page)));
    let (mut lines, mut wrong, mut helps) = (0, Vec::new(), Helps::default());
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        let outside: Vec<&str> = text.split("\n```").step_by(2).collect();
        let spans = outside.iter().flat_map(|part| part.split('`').skip(1).step_by(2));
        for line in spans.chain(blocks(&text).flat_map(|(_, lines)| lines)) {
            if line.starts_with("foreseek ") {
                lines += 1;
                wrong.extend(
                    unknown(line, &mut helps).iter().map(|why| format!("{}: {line}: {why}", page.display())),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(lines > 150, "{lines} lines");
}

/// A block of commands says `sh`, so that it is run.
#[test]
fn every_block_of_commands_for_users_is_run() {
    let listed = fs::read_dir(root().join("docs/use")).expect("the pages for users");
    let pages = listed.map(|entry| entry.expect("readable").path()).chain([root().join("README.md")]);
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        for (language, mut lines) in blocks(&text) {
            let looks_so =
                lines.any(|line| ["foreseek ", "make ", "sudo "].iter().any(|it| line.starts_with(it)));
            assert!(
                language == "sh" || !looks_so,
                "{}: a block of '{language}' has commands",
                page.display()
            );
        }
    }
}

#[test]
fn names_are_replaced_in_one_pass() {
    let named = [("/dev/md0", "/dev/loop3"), ("/dev/md0 -m", "x"), ("/dev/loop3", "/dev/loop4")];
    let named = named.map(|(name, meant)| (name.to_owned(), meant.to_owned()));
    assert_eq!(with_names("a /dev/md0 /dev/loop3 /dev/md0 -m", &named), "a /dev/loop3 /dev/loop4 x");
}

#[test]
fn unknown_commands_and_options_are_found() {
    let mut helps = Helps::default();
    let mut unknown = |line| unknown(line, &mut helps);
    assert_eq!(unknown("foreseek warm --metadata DIR --then -- grep --no-such"), [""; 0]);
    assert_eq!(unknown("foreseek watch [OPTIONS] PATH...|--all"), [""; 0]);
    assert_eq!(unknown("foreseek lab reproduce --no-such=3"), ["no option --no-such"]);
    assert_eq!(unknown("foreseek warm --meta"), ["no option --meta"]);
    assert_eq!(unknown("foreseek disk burn"), ["no command disk burn"]);
}
