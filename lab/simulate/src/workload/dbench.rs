//! Clients of a file server, as dbench plays them (ATC'08 section 3.3).
//!
//! What the paper says: dbench 3.04, up to 128 clients, ten minutes a run; "it does all the same read and write calls that the smbd
//! server in Samba would produce when confronted with a Netbench run".
//!
//! dbench replays a load file. This is a model of the one in Debian's dbench 4.0 (`client.txt`, 458,344
//! operations for each client, 129 rounds of the same work after a set-up), by its counts:
//!
//! | a round of a client | load file | here |
//! |---|---|---|
//! | bytes read, written | 11.4 MB, 7.7 MB | 11.4 MB, 7.7 MB |
//! | files opened and used | 284 | 245 |
//! | other opens, requests for attributes | 888 | 896 |
//! | listings, with those after a name that was not found | 568 | 560 |
//! | files removed | 124 | 57 |
//! | flushes | 43 | 43 |
//!
//! A round has seven *parts*, one for each kind of office program. A part reads the starts of some documents of
//! 260,096 bytes, writes new files after it has removed those of the round before, and ends with the client's
//! three *seed* files (320 KiB, 1 MiB, 1.8 MiB). In every second part, from the first on, the last page of each
//! of their first 2, 4 and 8 pieces of 64 KiB is read, then these pieces are overwritten. In the other parts
//! the files are read whole (644 KiB of the second one), 60 KiB and 4 KiB in turn. That is three quarters of
//! all reads.
//!
//! Assumptions: files were written before the run, client by client, with a directory for each part; caches are
//! empty. A file that is removed and made again keeps its place. A renamed file counts as two requests for
//! attributes. Clients have no think time and 256 KiB of memory each. They begin together and never end.
//!
//! Throughput is what clients read and write, as dbench counts it. `dbench` ignores flushes, as version 3 of
//! the program does (its `nb_flush`). `dbench-synced` writes the file to the device, as version 4 does.

use super::WorkloadError;
use super::parameters::Checked;
use super::script::{Reader, Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Workload};
use foreseek_units::{ByteOffset, Bytes, PAGE_SIZE};
use rand_core::Rng;

/// Clients for which there are files: the paper's maximum. Further clients share them.
const CLIENTS: u32 = 128;
/// Private memory of a client: an assumption.
const MEMORY: Bytes = Bytes::kib(256);
const PAGE: Bytes = Bytes(PAGE_SIZE);
/// The size of a write, and of two reads of a seed file.
const PIECE: Bytes = Bytes::kib(64);
/// A document.
const DOCUMENT: Bytes = Bytes(260_096);
/// Files of a client that a round does not read: five of 1 MiB and four documents.
const IDLE: [Bytes; 9] = [
    Bytes::mib(1),
    Bytes::mib(1),
    Bytes::mib(1),
    Bytes::mib(1),
    Bytes::mib(1),
    DOCUMENT,
    DOCUMENT,
    DOCUMENT,
    DOCUMENT,
];
/// The seed files: length, bytes that are read, pieces that are overwritten.
const SEEDS: [(Bytes, Bytes, u64); 3] = [
    (Bytes(327_680), Bytes(327_680), 2),
    (Bytes(1_048_576), Bytes(659_456), 4),
    (Bytes(1_867_776), Bytes(1_867_776), 8),
];
/// Requests for attributes and listings of a part.
const LOOKS: u32 = 128;
const LISTINGS: u32 = 80;

/// Documents that are used in the same way.
struct Documents {
    count: u32,
    /// Openings in a round.
    opens: u32,
    /// Pages that are read from the start.
    pages: u64,
    /// How often in each opening.
    passes: u32,
    /// Pages that are written then, each flushed if `flushed`.
    written: u64,
    flushed: u32,
}

const fn documents(count: u32, opens: u32, pages: u64) -> Documents {
    Documents { count, opens, pages, passes: 1, written: 0, flushed: 0 }
}

/// New files that are made in the same way.
struct NewFiles {
    count: u32,
    length: Bytes,
    /// How often its first page is read and written; flushed after the first time.
    heads: u32,
    flushed: u32,
    /// Whether it is read once, whole.
    read: bool,
}

const fn made(count: u32, length: u64) -> NewFiles {
    NewFiles { count, length: Bytes(length), heads: 0, flushed: 0, read: false }
}

/// The work of a kind of program in a round.
struct Part {
    documents: &'static [Documents],
    made: &'static [NewFiles],
}

/// The parts, by the counts of the load file.
const PARTS: [Part; 7] = [
    // Presentations.
    Part {
        documents: &[documents(2, 3, 1), documents(2, 1, 19), documents(1, 1, 7), documents(1, 1, 5)],
        made: &[
            NewFiles { heads: 6, flushed: 6, ..made(3, 84_578) },
            NewFiles { heads: 3, flushed: 2, ..made(3, 75_438) },
        ],
    },
    // Texts.
    Part {
        documents: &[documents(1, 1, 6), documents(1, 1, 4), documents(1, 2, 3)],
        made: &[NewFiles { heads: 1, read: true, ..made(6, 14_600) }, made(2, 54)],
    },
    // Databases: three tables and the files that belong to them.
    Part {
        documents: &[
            documents(11, 5, 1),
            Documents { written: 1, ..documents(3, 3, 1) },
            Documents { written: 1, ..documents(3, 5, 3) },
            documents(2, 2, 3),
            documents(1, 1, 2),
        ],
        made: &[NewFiles { heads: 1, flushed: 1, ..made(6, 4096) }, NewFiles { heads: 1, ..made(10, 2048) }],
    },
    // Tables.
    Part {
        documents: &[
            Documents { written: 2, ..documents(1, 1, 42) },
            Documents { written: 2, ..documents(1, 1, 15) },
        ],
        made: &[
            made(1, 505_484),
            NewFiles { flushed: 1, heads: 1, ..made(1, 92_000) },
            NewFiles { flushed: 1, heads: 1, ..made(1, 71_500) },
            NewFiles { flushed: 1, heads: 1, ..made(2, 58_400) },
            made(1, 65_586),
            made(1, 53_078),
            made(2, 42_500),
            made(1, 7_984),
        ],
    },
    // Typesetting.
    Part {
        documents: &[
            Documents { passes: 3, ..documents(1, 1, 20) },
            Documents { passes: 73, ..documents(1, 1, 2) },
            documents(1, 3, 1),
        ],
        made: &[
            made(1, 647_423),
            made(1, 625_082),
            made(1, 130_387),
            made(1, 81_587),
            NewFiles { flushed: 1, heads: 1, ..made(5, 13_000) },
        ],
    },
    // Forms.
    Part {
        documents: &[Documents { written: 9, flushed: 4, ..documents(1, 1, 5) }],
        made: &[made(1, 62_592), made(1, 30_119), made(1, 10_846)],
    },
    // Drawings and pages.
    Part {
        documents: &[
            documents(1, 1, 41),
            documents(1, 1, 20),
            documents(1, 2, 5),
            documents(1, 3, 2),
            documents(5, 2, 1),
            documents(1, 1, 3),
        ],
        made: &[made(1, 288_779), made(2, 29_700), made(2, 19_600)],
    },
];

pub(super) fn dbench(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    Ok(Box::new(Dbench { syncs: parameters.workload() == "dbench-synced", of_client: of_client() }))
}

/// The files of a client, each with its part: idle ones, seeds, then each part's documents and new files.
fn of_client() -> Vec<(Bytes, u32)> {
    let last = PARTS.len() as u32;
    let mut files: Vec<(Bytes, u32)> = IDLE.iter().map(|length| (*length, last)).collect();
    files.extend(SEEDS.iter().map(|(length, ..)| (*length, last)));
    for (part, number) in PARTS.iter().zip(0..) {
        for documents in part.documents {
            files.extend((0..documents.count).map(|_| (DOCUMENT, number)));
        }
        for made in part.made {
            files.extend((0..made.count).map(|_| (made.length, number)));
        }
    }
    files
}

struct Dbench {
    syncs: bool,
    of_client: Vec<(Bytes, u32)>,
}

/// Directories of a client: one for each part, and one for seeds and idle files.
const DIRECTORIES: u32 = PARTS.len() as u32 + 1;

impl Workload for Dbench {
    fn files(&self) -> Vec<FileSpec> {
        let spec = |client: u32, (length, part): (Bytes, u32)| FileSpec {
            length,
            directory: client * DIRECTORIES + part,
        };
        (0..CLIENTS).flat_map(|client| self.of_client.iter().map(move |file| spec(client, *file))).collect()
    }

    fn drive(&self) -> Drive {
        Drive::Closed
    }

    fn program(&mut self, number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        let client = (number % u64::from(CLIENTS)) as u32;
        let first = client * self.of_client.len() as u32;
        Script::boxed(Client { client, first, syncs: self.syncs, part: 0, file: 0 })
    }
}

/// A client has one file open at a time.
const FILE: Handle = Handle(0);

struct Client {
    client: u32,
    first: u32,
    syncs: bool,
    /// The next part.
    part: usize,
    /// The next file of the part, counted within the client.
    file: u32,
}

impl Client {
    /// The next file in the client's list.
    fn next_file(&mut self) -> FileNumber {
        self.file += 1;
        FileNumber(self.first + self.file - 1)
    }

    fn flush(&self, steps: &mut Steps) {
        if self.syncs {
            steps.sync(FILE);
        }
    }

    /// Requests for attributes and listings, around the use of a part's files.
    fn look_around(&self, file: FileNumber, steps: &mut Steps) {
        let directory = self.client * DIRECTORIES + self.part as u32;
        (0..LOOKS / 2).for_each(|_| steps.stat(file));
        (0..LISTINGS / 2).for_each(|_| steps.list(directory));
    }

    fn use_document(&mut self, documents: &Documents, steps: &mut Steps) {
        let file = self.next_file();
        for _ in 0..documents.opens {
            steps.open(FILE, file, Some(PAGE * documents.pages));
            for _ in 0..documents.passes {
                let mut reader = Reader::new(FILE, PAGE * documents.pages);
                while !reader.left().is_zero() {
                    reader.read(PAGE, steps);
                }
            }
            for page in 0..documents.written {
                steps.write(FILE, ByteOffset((page % documents.pages) * PAGE_SIZE), PAGE);
            }
            (0..documents.flushed).for_each(|_| self.flush(steps));
            steps.close(FILE);
        }
    }

    fn make(&mut self, made: &NewFiles, steps: &mut Steps) {
        let file = self.next_file();
        steps.unlink(file);
        steps.open(FILE, file, None);
        write(Bytes::ZERO, made.length, steps);
        steps.close(FILE);
        let head = PAGE.min(made.length);
        if made.heads > 0 {
            steps.open(FILE, file, Some(head));
            for time in 0..made.heads {
                steps.read(FILE, ByteOffset(0), head);
                write(Bytes::ZERO, head, steps);
                if time < made.flushed {
                    self.flush(steps);
                }
            }
            steps.close(FILE);
        }
        if made.read {
            steps.open(FILE, file, Some(made.length));
            let mut reader = Reader::new(FILE, made.length);
            while !reader.left().is_zero() {
                reader.read(PAGE, steps);
            }
            steps.close(FILE);
        }
    }

    fn write_seeds(&self, steps: &mut Steps) {
        for (file, (_, _, pieces)) in self.seeds() {
            steps.open(FILE, file, None);
            (1..=pieces).for_each(|piece| steps.read(FILE, ByteOffset((PIECE * piece - PAGE).get()), PAGE));
            write(Bytes::ZERO, PIECE * pieces, steps);
            steps.close(FILE);
        }
    }

    fn read_seeds(&self, steps: &mut Steps) {
        for (file, (_, read, _)) in self.seeds() {
            steps.open(FILE, file, Some(read));
            let mut reader = Reader::new(FILE, read);
            while !reader.left().is_zero() {
                reader.read(PIECE - PAGE, steps);
                reader.read(PAGE, steps);
            }
            steps.close(FILE);
        }
    }

    fn seeds(&self) -> impl Iterator<Item = (FileNumber, (Bytes, Bytes, u64))> {
        (self.first + IDLE.len() as u32..).map(FileNumber).zip(SEEDS)
    }
}

fn write(from: Bytes, length: Bytes, steps: &mut Steps) {
    let mut done = Bytes::ZERO;
    while done < length {
        let piece = PIECE.min(length - done);
        steps.write(FILE, ByteOffset((from + done).get()), piece);
        done += piece;
    }
}

impl Source for Client {
    fn more(&mut self, _random: &mut dyn Rng, steps: &mut Steps) {
        if self.part == 0 {
            self.file = (IDLE.len() + SEEDS.len()) as u32;
            steps.begun();
        }
        let part = &PARTS[self.part];
        let any = FileNumber(self.first + self.file);
        self.look_around(any, steps);
        for documents in part.documents {
            (0..documents.count).for_each(|_| self.use_document(documents, steps));
        }
        for made in part.made {
            (0..made.count).for_each(|_| self.make(made, steps));
        }
        self.look_around(any, steps);
        if self.part.is_multiple_of(2) {
            self.write_seeds(steps)
        } else {
            self.read_seeds(steps)
        }
        self.part = (self.part + 1) % PARTS.len();
        if self.part == 0 {
            steps.finished();
        }
    }

    fn memory(&self) -> Bytes {
        MEMORY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Step;
    use foreseek_units::Instant;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    /// The counts of a round are those of the load file, to 5 %, where the table above says so.
    #[test]
    fn a_round_moves_what_a_round_of_the_load_file_does() {
        let mut workload = Dbench { syncs: true, of_client: of_client() };
        let files = workload.files();
        assert_eq!(files.len() % CLIENTS as usize, 0);
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut client = workload.program(1, &mut random);
        let (mut read, mut written, mut rounds) = (0.0, 0.0, 0);
        let mut counts = [0; 5];
        let mut open = FileNumber(0);
        while rounds < 2 {
            match client.next(Instant::ZERO, &mut random) {
                Step::Read { range, .. } => {
                    assert!(range.end.get() <= files[open.0 as usize].length.get());
                    read += range.len().get() as f64;
                }
                Step::Write { range, .. } => {
                    assert!(range.end.get() <= files[open.0 as usize].length.get());
                    written += range.len().get() as f64;
                }
                Step::Open { file, .. } => {
                    assert_eq!(file.0 as usize / workload.of_client.len(), 1, "its own");
                    open = file;
                    counts[0] += 1;
                }
                Step::Stat { .. } => counts[1] += 1,
                Step::List { .. } => counts[2] += 1,
                Step::Unlink { .. } => counts[3] += 1,
                Step::Sync { .. } => counts[4] += 1,
                Step::Finished => rounds += 1,
                Step::Exit => panic!("it never ends"),
                _ => {}
            }
        }
        let near = |ours: f64, theirs: f64| (ours / 2.0 / theirs - 1.0).abs() < 0.05;
        assert!(near(read, 11.4e6) && near(written, 7.7e6), "{read} {written}");
        assert_eq!(counts.map(|count| count / 2), [245, 896, 560, 57, 43], "{counts:?}");
    }
}
