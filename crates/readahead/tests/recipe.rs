//! `docs/internals/adding-a-policy.md` is correct: in a copy of the workspace its steps are carried out
//! literally, its commands are run, and the files that it names exist.
//!
//! The copy is in the target directory and has its own target directory below. Cargo names its outputs by
//! paths within a workspace, and would otherwise confuse the copy's crates with this workspace's. A second
//! run builds nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PAGE: &str = "docs/internals/adding-a-policy.md";
/// The longest time of a command: minutes on an idle machine; a command that hangs ends eventually.
const LIMIT: Duration = Duration::from_secs(1200);

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two below the root").into()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The changes of a step of the page, and its commands.
#[derive(Default)]
struct Steps {
    /// The new texts of files.
    files: BTreeMap<PathBuf, String>,
    commands: Vec<String>,
}

impl Steps {
    /// The steps: each is a block of text after a sentence with its instruction.
    fn of(page: &str) -> Self {
        let mut steps = Self::default();
        let mut lines = page.lines();
        let mut sentence = String::new();
        while let Some(line) = lines.next() {
            let Some(kind) = line.strip_prefix("```") else {
                sentence = if line.starts_with('#') {
                    String::new()
                } else {
                    format!("{sentence} {line}").trim().to_owned()
                };
                continue;
            };
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            match kind {
                "rust" => steps.change(&sentence, &(block.join("\n") + "\n")),
                "sh" => steps.commands.extend(block.into_iter().map(str::to_owned)),
                _ => {}
            }
            sentence.clear();
        }
        steps
    }

    /// "Make `file`:" or "In `file`, below `line`, add:".
    fn change(&mut self, sentence: &str, block: &str) {
        let (at, make) = match (sentence.rfind("Make `"), sentence.rfind("In `")) {
            (Some(make), None) => (make, true),
            (_, Some(add)) if sentence.ends_with("add:") => (add, false),
            _ => panic!("what to do with this?{sentence}\n{block}"),
        };
        let names: Vec<&str> = sentence[at..].split('`').skip(1).step_by(2).collect();
        if make {
            assert!(!root().join(names[0]).exists(), "{} is there already", names[0]);
            self.files.insert(names[0].into(), block.to_owned());
            return;
        }
        let text = self.files.entry(names[0].into()).or_insert_with(|| read(names[0]));
        let mut found = text.match_indices(names[1]);
        let (place, _) = found.next().unwrap_or_else(|| panic!("{} has no {}", names[0], names[1]));
        assert!(found.next().is_none(), "{} has {} twice", names[0], names[1]);
        let end = text[place..].find('\n').map_or(text.len(), |end| place + end + 1);
        text.insert_str(end, block);
    }
}

/// Copies a file or a directory with its times: unchanged files are not built again.
fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).expect("a directory");
        for entry in fs::read_dir(from).expect("listed") {
            let name = entry.expect("an entry").file_name();
            copy(&from.join(&name), &to.join(&name));
        }
        return;
    }
    fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    date(to, &[from]);
}

/// Gives a file the latest time of other files.
fn date(file: &Path, like: &[&Path]) {
    let times = like.iter().filter_map(|path| fs::metadata(path).ok()?.modified().ok());
    let time = times.max().expect("one is there");
    File::options().write(true).open(file).and_then(|file| file.set_modified(time)).expect("dated");
}

/// A copy of the workspace's manifests and members, changed by the steps.
fn workspace(steps: &Steps) -> PathBuf {
    let copied = Path::new(env!("CARGO_TARGET_TMPDIR")).join("adding-a-policy");
    let _ = fs::remove_dir_all(&copied);
    fs::create_dir_all(&copied).expect("a directory");
    let manifest: toml::Table = read("Cargo.toml").parse().expect("a manifest");
    let members = manifest["workspace"]["members"].as_array().expect("members").iter();
    let folders = members.filter_map(|member| member.as_str()?.split('/').next());
    for name in folders.chain(["Cargo.toml", "Cargo.lock"]).collect::<BTreeSet<_>>() {
        copy(&root().join(name), &copied.join(name));
    }
    for (path, text) in &steps.files {
        fs::write(copied.join(path), text).expect("written");
        date(&copied.join(path), &[&root().join(PAGE), &root().join(path)]);
    }
    copied
}

/// Runs a command of the page in the copy; returns its output.
fn run(command: &str, folder: &Path) -> String {
    let line = command.split('#').next().unwrap_or_default().trim();
    let words = line.strip_prefix("cargo ").unwrap_or_else(|| panic!("only cargo can be run: {line}"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = folder.join("output");
    let to = || Stdio::from(File::options().append(true).open(&output).expect("opened"));
    File::create(&output).expect("made");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("adding-a-policy-target");
    let mut command = Command::new(cargo);
    command.args(words.split_whitespace()).args(["--offline", "--locked"]);
    let mut child = command
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", target)
        .stdout(to())
        .stderr(to())
        .spawn()
        .expect("started");
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("waited for") {
            break Some(status);
        }
        if begun.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let printed = fs::read_to_string(&output).expect("text");
    assert!(status.is_some_and(|status| status.success()), "{line}: {status:?}\n{printed}");
    printed
}

#[test]
fn its_steps_add_a_policy_that_passes_its_commands() {
    let steps = Steps::of(&read(PAGE));
    assert!(steps.files.len() == 3 && steps.commands.len() >= 3, "a file, its mod, a line; and commands");
    let folder = workspace(&steps);
    for command in &steps.commands {
        let printed = run(command, &folder);
        let passed = printed.lines().find(|line| line.starts_with("test result: ok. "));
        assert!(passed.is_some_and(|line| !line.contains(" 0 passed")), "{command}: no test ran\n{printed}");
    }
}

#[test]
fn the_files_that_it_names_exist() {
    let (page, made) = (read(PAGE), Steps::of(&read(PAGE)).files);
    let named: Vec<&str> = page.split('`').filter(|word| word.starts_with("crates/")).collect();
    assert!(named.len() >= 7, "{named:?}");
    for path in named {
        assert!(root().join(path).exists() || made.contains_key(Path::new(path)), "{path} is not there");
    }
}
