//! The data of the jobs: made once, from a seed, without delays.

use super::job::pg;
use crate::{Error, Result};
use foreseek_rig::Interrupt;
use rand::{RngExt, SeedableRng};
use rand_core::Rng;
use rand_distr::{Distribution, LogNormal};
use rand_pcg::Pcg64Mcg;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

/// A data set. A job gets its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Data {
    /// Two files of 256 MiB, `first` and `second`, of the same bytes.
    Large,
    /// Four folders, `part0` to `part3`, each of 16 files of 4 MB.
    Four,
    /// 600 files of 150 KB in the median, in 12 folders.
    Many,
    /// Those as one archive.
    Archive,
    /// A git repository of 400 commits, all objects loose, 300 files in the working tree.
    Git,
    /// A git repository of one commit, 5,000 files of 7 KB in the mean, in 250 folders.
    Tree,
    /// Two Parquet files of six columns, 180 MB each.
    Parquet,
    /// 120 C files with headers, and a makefile.
    Source,
    /// Two films of 100 MB.
    Video,
    /// A PostgreSQL cluster with a table of 240 MB and an index whose order is independent of the table's.
    Postgres,
}

const LARGE: u64 = 256 << 20;
const FOUR: u64 = 4_000_000;
const FOUR_EACH: usize = 16;
const MANY: usize = 600;
const MANY_MEDIAN: f64 = 150e3;
const MANY_LARGEST: f64 = 4e6;
const COMMITS: usize = 400;
const GIT_FILES: usize = 300;
const CHANGED: usize = 3;
const TREE_FILES: usize = 5000;
const SOURCES: usize = 120;
const ROWS: u64 = 3_700_000;
const PG_ROWS: u64 = 400_000;
const VIDEO_SECONDS: u64 = 24;
/// How much is written at a time.
const BLOCK: usize = 1 << 20;

/// Makes data sets.
pub(crate) struct Maker<'a> {
    /// The share of each data set that is made.
    pub(crate) share: f64,
    pub(crate) seed: u64,
    pub(crate) interrupt: &'a Interrupt,
}

impl Data {
    /// The name of its folder.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Large => "large",
            Self::Four => "four",
            Self::Many => "many",
            Self::Archive => "archive",
            Self::Git => "git",
            Self::Tree => "tree",
            Self::Parquet => "parquet",
            Self::Source => "source",
            Self::Video => "video",
            Self::Postgres => "postgres",
        }
    }

    /// The command that makes it, for `sh`, in its folder, with the arguments of a job and the share's number
    /// last.
    const fn line(self) -> Option<&'static str> {
        match self {
            Self::Archive => Some("cd \"$1/files\" && zip -q -1 -r ../archive.zip . && rm -r ../files"),
            Self::Git | Self::Tree => Some(
                "cd \"$1\" && git init -q -b main && git -c fastimport.unpackLimit=1 fast-import --quiet < stream && rm stream && \
                 mkdir packs && mv .git/objects/pack/* packs && cat packs/*.pack | git unpack-objects -q && rm -r packs && \
                 git reset -q --hard main && git status --short",
            ),
            Self::Parquet => Some("\"$3\" \"$4/columns.py\" make \"$1\" \"$5\""),
            Self::Video => Some(
                "for n in 0 1; do ffmpeg -nostdin -v error -f lavfi -i \"testsrc2=size=640x360:rate=12:duration=$5\" \
                 -pix_fmt yuv420p -c:v rawvideo -f nut \"$1/$n.nut\" || exit 1; done",
            ),
            Self::Postgres => Some(pg!("chown postgres \"$1\" \"$2\"; chmod 700 \"$2\"; \
                 runuser -u postgres -- \"$PG/initdb\" -D \"$1/cluster\" -A trust -N > /dev/null && \
                 printf '%s\\n' 'shared_buffers=16MB' 'autovacuum=off' 'max_parallel_workers_per_gather=0' 'jit=off' \
                   >> \"$1/cluster/postgresql.conf\" && \
                 runuser -u postgres -- \"$PG/pg_ctl\" -D \"$1/cluster\" -w -t 300 -l \"$2/log\" \
                   -o \"-k $2 -c listen_addresses='' -c fsync=off\" start > /dev/null && \
                 runuser -u postgres -- psql -qX -h \"$2\" -d postgres -v ON_ERROR_STOP=1 -c \"CREATE TABLE t AS SELECT g AS id, \
                   (g::bigint * 7919) % $5 AS shuffled, 0 AS n, repeat(md5(g::text), 17) AS pad FROM generate_series(1, $5) g\" \
                   -c 'ALTER TABLE t ALTER pad SET STORAGE PLAIN' -c 'CREATE INDEX ON t (shuffled)' -c 'VACUUM ANALYZE t' && \
                 runuser -u postgres -- \"$PG/pg_ctl\" -D \"$1/cluster\" -w -t 300 stop > /dev/null")),
            Self::Large | Self::Four | Self::Many | Self::Source => None,
        }
    }

    /// Makes it in a folder; `run` runs a command with the given number as its last argument.
    pub(crate) fn make(
        self,
        folder: &Path,
        maker: &Maker<'_>,
        run: &dyn Fn(&'static str, u64) -> Result<()>,
    ) -> Result<()> {
        let share = |whole: u64| ((whole as f64 * maker.share) as u64).max(1);
        let count = |whole: usize| share(whole as u64) as usize;
        create(folder)?;
        let mut files = Files::new(maker);
        match self {
            Self::Large => {
                // At least the slice of each of the readers.
                let length = share(LARGE).max(8 << 20) & !0xfff;
                files.write(&folder.join("first"), length)?;
                let copied = fs::copy(folder.join("first"), folder.join("second"));
                copied.map_err(|error| Error::io("cannot copy", folder.join("first").display(), error))?;
            }
            Self::Four => {
                for part in 0..4 {
                    create(&folder.join(format!("part{part}")))?;
                    for number in 0..count(FOUR_EACH) {
                        files.write(&folder.join(format!("part{part}/file{number:03}")), FOUR)?;
                    }
                }
            }
            Self::Many => files.many(folder, count(MANY))?,
            Self::Archive => {
                create(&folder.join("files"))?;
                files.many(&folder.join("files"), count(MANY))?;
            }
            Self::Git => {
                let history =
                    History { commits: count(COMMITS), files: GIT_FILES, folders: 20, lines: (120, 120) };
                files.history(&folder.join("stream"), history)?;
            }
            Self::Tree => {
                let all = count(TREE_FILES);
                let history = History { commits: 1, files: all, folders: all.div_ceil(20), lines: (1, 400) };
                files.history(&folder.join("stream"), history)?;
            }
            Self::Source => files.project(folder, count(SOURCES))?,
            Self::Parquet | Self::Video | Self::Postgres => (),
        }
        let number = match self {
            Self::Parquet => share(ROWS),
            Self::Video => share(VIDEO_SECONDS),
            // A multiple of the factor would leave some numbers out.
            Self::Postgres => share(PG_ROWS).max(4000) | 1,
            _ => 0,
        };
        self.line().map_or(Ok(()), |line| run(line, number))?;
        let root = File::open(folder).map_err(|error| Error::io("cannot open", folder.display(), error))?;
        rustix::fs::syncfs(root).map_err(|error| Error::io("cannot write back", folder.display(), error))
    }
}

/// A history of files of text.
#[derive(Clone, Copy, Debug)]
struct History {
    commits: usize,
    files: usize,
    folders: usize,
    /// The fewest and the most lines of a file at first.
    lines: (usize, usize),
}

/// Draws contents and writes files.
struct Files<'a> {
    random: Pcg64Mcg,
    interrupt: &'a Interrupt,
}

impl<'a> Files<'a> {
    fn new(maker: &Maker<'a>) -> Self {
        Self { random: Pcg64Mcg::seed_from_u64(maker.seed), interrupt: maker.interrupt }
    }

    /// A file of random bytes.
    fn write(&mut self, path: &Path, mut length: u64) -> Result<()> {
        let cannot = |error| Error::io("cannot write", path.display(), error);
        let mut file = File::create(path).map_err(cannot)?;
        let mut block = vec![0; BLOCK];
        while length > 0 {
            self.interrupt.check()?;
            let part = &mut block[..(BLOCK as u64).min(length) as usize];
            self.random.fill_bytes(part);
            file.write_all(part).map_err(cannot)?;
            length -= part.len() as u64;
        }
        Ok(())
    }

    fn many(&mut self, folder: &Path, count: usize) -> Result<()> {
        let sizes = LogNormal::new(MANY_MEDIAN.ln(), 0.8);
        let sizes = sizes.map_err(|error| Error::Option { what: error.to_string() })?;
        for number in 0..count {
            let part = folder.join(format!("part{:02}", number % 12));
            create(&part)?;
            let length = sizes.sample(&mut self.random).clamp(1.0, MANY_LARGEST) as u64;
            self.write(&part.join(format!("file{number:04}")), length)?;
        }
        Ok(())
    }

    /// Lines of text, all different.
    fn text(&mut self, lines: usize) -> String {
        let mut text = String::new();
        for _ in 0..lines {
            let _ =
                writeln!(text, "{:016x} {:016x}", self.random.random::<u64>(), self.random.random::<u64>());
        }
        text
    }

    /// A history for `git fast-import`: one commit of all files, then commits that change a few of them.
    fn history(&mut self, path: &Path, history: History) -> Result<()> {
        let History { commits, files, folders, lines: (fewest, most) } = history;
        let name = |file: usize| format!("dir{:02}/file{file:03}", file % folders);
        let text = |ours: &mut Self| {
            let lines = if fewest < most { ours.random.random_range(fewest..=most) } else { fewest };
            ours.text(lines)
        };
        let mut contents: Vec<String> = (0..files).map(|_| text(self)).collect();
        let mut stream = String::new();
        for commit in 0..commits {
            let changed: Vec<usize> = if commit == 0 {
                (0..files).collect()
            } else {
                (0..CHANGED).map(|_| self.random.random_range(0..files)).collect()
            };
            let _ = write!(
                stream,
                "commit refs/heads/main\ncommitter x <x@example.org> {} +0000\n",
                1_700_000_000 + commit
            );
            let _ = write!(stream, "data 1\nx\n");
            for file in changed {
                if commit > 0 {
                    let line = self.text(1);
                    contents[file].push_str(&line);
                }
                let text = &contents[file];
                let _ = write!(stream, "M 100644 inline {}\ndata {}\n{text}\n", name(file), text.len());
            }
        }
        fs::write(path, stream).map_err(|error| Error::io("cannot write", path.display(), error))
    }

    /// A project in C: each file uses some of the headers.
    fn project(&mut self, folder: &Path, sources: usize) -> Result<()> {
        let put = |name: String, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|error| Error::io("cannot write", path.display(), error))
        };
        let headers = 40;
        for header in 0..headers {
            let mut text = String::from("#pragma once\n");
            for number in 0..200 {
                let value: u32 = self.random.random_range(0..1000);
                let _ =
                    writeln!(text, "static inline int h{header}_{number}(int x) {{ return x + {value}; }}");
            }
            put(format!("h{header}.h"), text)?;
        }
        for source in 0..sources {
            let mut text = String::new();
            let used: Vec<usize> = (0..5).map(|_| self.random.random_range(0..headers)).collect();
            for header in &used {
                let _ = writeln!(text, "#include \"h{header}.h\"");
            }
            let _ = writeln!(text, "int f{source}(int x) {{ return h{}_1(x); }}", used[0]);
            put(format!("f{source}.c"), text)?;
        }
        let objects: Vec<String> = (0..sources).map(|source| format!("$(OUT)/f{source}.o")).collect();
        let rule = "$(OUT)/%.o: %.c\n\tcc -O0 -c $< -o $@\n";
        put("Makefile".to_owned(), format!("all: {}\n{rule}", objects.join(" ")))
    }
}

fn create(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| Error::io("cannot make", path.display(), error))
}
