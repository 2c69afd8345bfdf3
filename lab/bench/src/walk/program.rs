//! Programs that read trees: unmodified, as Debian packages them.
//!
//! Each is a line for [`SHELL`]: `$1` is the tree, `$2` a folder for its output. That folder is empty before each run
//! and in memory, or it lies on another disk and holds what was prepared once (for backups a first one, so that
//! each run is a second one that reads everything).

use super::beside::Beside;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What runs the lines: a pipe ends with the status of what failed in it.
pub(crate) const SHELL: [&str; 4] = ["bash", "-o", "pipefail", "-c"];

/// What a program reads of contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Contents {
    /// Nothing: names, sizes and times alone.
    None,
    /// The beginnings of files whose size occurs more than once. More of them only where these are equal as well: of two
    /// longer files of a tree that is a chance of one in a million.
    OfEqualSizes,
    /// All of them.
    All,
}

/// A program and how it is run.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// The file that is run.
    pub binary: &'static str,
    /// Debian's package, or how to get it.
    pub package: &'static str,
    /// What is run once for each tree, without delays.
    prepare: Option<&'static str>,
    /// What is timed.
    line: &'static str,
    /// Its exit status of success: searches that find nothing end with 1.
    pub(crate) status: i32,
    /// What it reads of contents.
    pub(crate) contents: Contents,
    /// Whether it is run on trees other than the fresh one.
    everywhere: bool,
    /// The load beside it.
    pub(crate) beside: Option<Beside>,
    /// Whether it reads ext2, ext3 and ext4 only.
    pub(crate) only_ext: bool,
    /// Whether it counts in the means of the aims.
    pub(crate) counts: bool,
}

const fn reads(name: &'static str, package: &'static str, line: &'static str) -> Program {
    let binary = name;
    let (prepare, status, contents, everywhere) = (None, 0, Contents::All, false);
    let (beside, only_ext, counts) = (None, false, true);
    Program { name, binary, package, prepare, line, status, contents, everywhere, beside, only_ext, counts }
}

/// With it jdupes after `warm` is compared.
pub(crate) const FCLONES: &str = "fclones";

/// All of them.
pub static ALL: [Program; 19] = [
    Program { everywhere: true, ..reads("tar", "tar", "tar cf - -C \"$1\" . | cat > /dev/null") },
    reads("cp", "coreutils", "cp -a \"$1\" \"$2/copy\""),
    Program { status: 1, everywhere: true, ..reads("grep", "grep", "grep -r 'no such text' \"$1\"") },
    Program { status: 1, ..reads("rg", "ripgrep", "rg -uuu 'no such text' \"$1\"") },
    Program {
        name: "rsync-checksum",
        prepare: Some("cp -a \"$1/.\" \"$2/copy\""),
        everywhere: true,
        ..reads("rsync", "rsync", "rsync -a --checksum --dry-run \"$1/\" \"$2/copy/\"")
    },
    Program {
        name: "rsync-dry-run",
        prepare: Some("cp -a \"$1/.\" \"$2/copy\""),
        contents: Contents::None,
        ..reads("rsync", "rsync", "rsync -a --dry-run \"$1/\" \"$2/copy/\"")
    },
    Program { contents: Contents::None, ..reads("find", "findutils", "find \"$1\" -size +1G") },
    Program { contents: Contents::None, ..reads("du", "coreutils", "du -s \"$1\"") },
    reads("sha256sum", "coreutils", "find \"$1\" -type f -print0 | xargs -0 sha256sum"),
    Program { contents: Contents::OfEqualSizes, ..reads("jdupes", "jdupes", "jdupes -q -r \"$1\"") },
    // Lists all, and then opens files in random order, as a training job does.
    Program {
        name: "shuffled",
        everywhere: true,
        counts: false,
        ..reads("shuf", "coreutils", "find \"$1\" -type f -print0 | shuf -z | xargs -0 cat > /dev/null")
    },
    Program {
        everywhere: true,
        prepare: Some(
            "BORG_BASE_DIR=\"$2\" borg init -e none \"$2/repository\" && \
             BORG_BASE_DIR=\"$2\" borg create \"$2/repository::first\" \"$1\"",
        ),
        ..reads(
            "borg",
            "borgbackup",
            "BORG_BASE_DIR=\"$2\" borg create --files-cache disabled \"$2/repository::$(date +%s%N)\" \"$1\"",
        )
    },
    Program {
        prepare: Some(
            "RESTIC_PASSWORD=x restic -q -r \"$2/repository\" init && \
             RESTIC_PASSWORD=x restic -q -r \"$2/repository\" --no-cache backup \"$1\"",
        ),
        ..reads(
            "restic",
            "restic",
            "RESTIC_PASSWORD=x restic -q -r \"$2/repository\" --no-cache backup --force \"$1\"",
        )
    },
    Program {
        name: "git-status",
        prepare: Some(GIT_PREPARE),
        contents: Contents::None,
        ..reads("git", "git", "git --git-dir=\"$2/git\" --work-tree=\"$1\" status --short")
    },
    Program {
        name: "git-grep",
        prepare: Some(GIT_PREPARE),
        status: 1,
        ..reads("git", "git", "cd \"$1\" && git --git-dir=\"$2/git\" --work-tree=. grep 'no such text'")
    },
    // Peers, which read in an order of their own: the others are compared with them.
    Program {
        counts: false,
        contents: Contents::OfEqualSizes,
        ..reads(FCLONES, "cargo install fclones", "fclones group \"$1\"")
    },
    // Reads inodes and contents through the block device, in the order of inodes.
    Program {
        only_ext: true,
        counts: false,
        ..reads("dump", "dump", "dump -0 -f - \"$1\" | cat > /dev/null")
    },
    Program {
        name: "two-tars",
        beside: Some(Beside::Program),
        ..reads(
            "tar",
            "tar",
            "(tar cf - -C \"$1\" part5 part6 part7 part8 part9 | cat > /dev/null && date +%s.%N > \"$2/other\") & \
             tar cf - -C \"$1\" part0 part1 part2 part3 part4 | cat > /dev/null && date +%s.%N > \"$2/this\"; \
             status=$?; wait $! && exit $status",
        )
    },
    Program {
        name: "grep-and-reader",
        status: 1,
        beside: Some(Beside::Reader),
        ..reads("grep", "grep", "grep -r 'no such text' \"$1\"")
    },
];

const GIT_PREPARE: &str = "git init -q --bare \"$2/git\" && cd \"$1\" && git --git-dir=\"$2/git\" --work-tree=. add -A && \
                           git --git-dir=\"$2/git\" --work-tree=. -c user.name=x -c user.email=x commit -q -m x && \
                           git --git-dir=\"$2/git\" --work-tree=. status --short";

impl Program {
    /// Whether it is run on this tree.
    #[must_use]
    pub fn reads(&self, tree: super::tree::Tree) -> bool {
        self.everywhere || tree == super::tree::Tree::Fresh
    }

    /// Whether it reads contents, or some of them.
    pub(crate) fn reads_contents(&self) -> bool {
        self.contents != Contents::None
    }

    /// Whether it reads contents, without load beside it.
    pub(crate) fn reads_alone(&self) -> bool {
        self.reads_contents() && self.beside.is_none()
    }

    /// Whether an aim depends on it.
    pub(crate) fn has_aim(&self) -> bool {
        self.counts || self.name == FCLONES
    }

    /// What is run, for [`SHELL`].
    pub(crate) fn line(&self) -> &'static str {
        self.line
    }

    /// What is run once, for [`SHELL`].
    pub(crate) fn prepare(&self) -> Option<&'static str> {
        self.prepare
    }
}

/// A program of [`ALL`], by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct NamedProgram(pub &'static Program);

impl PartialOrd for NamedProgram {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NamedProgram {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.name.cmp(other.0.name)
    }
}

impl fmt::Display for NamedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.name)
    }
}

impl FromStr for NamedProgram {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        ALL.iter().find(|program| program.name == name).map(Self).ok_or_else(|| {
            let known: Vec<&str> = ALL.iter().map(|program| program.name).collect();
            Error::Option {
                what: format!("no program is called '{name}' here: give one of {}", known.join(", ")),
            }
        })
    }
}

impl From<NamedProgram> for String {
    fn from(named: NamedProgram) -> Self {
        named.0.name.to_owned()
    }
}

impl TryFrom<String> for NamedProgram {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::PARTS;
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn names_are_one_each_and_lead_to_their_programs() {
        for program in &ALL {
            let named: NamedProgram = program.name.parse().expect("known");
            assert!(std::ptr::eq(named.0, program), "{named}");
        }
        let error = "emacs".parse::<NamedProgram>().expect_err("unknown").to_string();
        assert!(error.contains("'emacs'") && error.contains("tar"), "{error}");
    }

    #[test]
    fn a_program_fails_wherever_it_stands_in_its_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let (tree, output) = (folder.path().join("tree"), folder.path().join("output"));
        std::fs::create_dir(&output).expect("made");
        let status = |name: &str| {
            let named: NamedProgram = name.parse().expect("known");
            let mut command = Command::new(SHELL[0]);
            command.args(&SHELL[1..]).args([named.0.line(), SHELL[0]]).args([&tree, &output]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("a shell").code()
        };
        let parts: Vec<_> = (0..PARTS).map(|part| tree.join(format!("part{part}"))).collect();
        parts.iter().for_each(|part| std::fs::create_dir_all(part).expect("made"));
        let (names, good) = (["tar", "two-tars"], Some(0));
        assert_eq!(names.map(status), [good; 2]);
        for part in [&parts[0], &parts[PARTS - 1]] {
            std::fs::remove_dir(part).expect("removed");
            assert_ne!(status("two-tars"), good, "each of the two counts: {}", part.display());
            std::fs::create_dir(part).expect("made");
        }
        std::fs::remove_dir_all(&tree).expect("removed");
        for name in names.into_iter().chain(["sha256sum", "shuffled"]) {
            assert_ne!(status(name), good, "{name}");
        }
    }
}
