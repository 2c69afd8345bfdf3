//! The policy in a program is the policy in virtual time. A real run is recorded and replayed; the commands
//! must be the same, one by one.
#![allow(clippy::print_stdout)]

mod common;

use common::*;
use foreseek_hints::AccessListEngine;
use foreseek_libprefetch::{CallbackRequest, Client, Entry, HintMode, Settings};
use foreseek_seam::lba_of;
use foreseek_seam::record::{Recording, ReplayError, replay};
use foreseek_storage::{DeviceNumber, Layout};
use foreseek_units::{ByteOffset, Lba, PageIndex, Sectors};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

const PAGES: u64 = 600;

fn recorded(path: &Path, pages: u64) -> Settings {
    let mut settings = memory(pages);
    settings.record = Some(path.to_owned());
    settings
}

/// An eventful run: two files, marks, rounds, evictions, strays, a file that shrinks.
fn eventful_run(folder: &Path, path: &Path) {
    let files = [write_file(&folder.join("a"), 0, PAGES), write_file(&folder.join("b"), 1, PAGES)];
    let client = Client::new(recorded(path, 300));
    for file in &files {
        client.watch(file.as_raw_fd(), bytes(0, PAGES)).unwrap();
    }
    let order = shuffled(2 * PAGES, 9);
    let entry = |number: u64, mark| Entry {
        fd: files[(number / PAGES) as usize].as_raw_fd(),
        offset: ByteOffset(number % PAGES * PAGE),
        mark,
    };
    let mut ask = |client: &Client, want: CallbackRequest| {
        let file = u64::from(want.requested.0 == files[1].as_raw_fd());
        let number = file * PAGES + want.requested.1.get() / PAGE;
        let at = order.iter().position(|known| *known == number).unwrap();
        let rest: Vec<Entry> =
            order[at..].iter().take(400).map(|number| entry(*number, number % 7 == 0)).collect();
        client.hint(HintMode::Set, &rest, false).unwrap();
    };
    let mut shrunk = false;
    for (done, number) in order.iter().enumerate() {
        match done {
            300 => chill(&files[0]),
            500 => client.ignore(),
            510 => assert!(client.unignore()),
            900 => {
                files[1].set_len(PAGES / 2 * PAGE).unwrap();
                shrunk = true;
            }
            _ => {}
        }
        let (file, page) = ((number / PAGES) as u32, number % PAGES);
        if !(shrunk && file == 1 && page >= PAGES / 2) {
            read_page(&client, &files[file as usize], file, page, &mut ask);
        }
    }
    client.closed(files[0].as_raw_fd());
    let stats = client.stats().engine;
    assert!(stats.rounds > 5 && stats.callbacks > 1, "{stats:?}");
}

#[test]
fn a_real_run_is_replayed_command_by_command() {
    let folder = folder();
    let path = folder.path().join("recording");
    eventful_run(folder.path(), &path);
    let text = std::fs::read_to_string(&path).unwrap();
    let recording = Recording::<foreseek_hints::Settings>::open(&text).unwrap();
    let replayed = replay(&mut AccessListEngine::new(recording.settings().clone()), &recording).unwrap();
    assert!(replayed.events > 1000 && replayed.commands > 1000, "{replayed:?}");
    assert!(!replayed.cut);

    // The comparison can fail: it does if a fetch is removed.
    let fetch = text.lines().position(|line| line.starts_with("> fetch")).unwrap();
    let altered: Vec<&str> =
        text.lines().enumerate().filter(|(line, _)| *line != fetch).map(|(_, line)| line).collect();
    let altered = altered.join("\n");
    let recording = Recording::<foreseek_hints::Settings>::open(&altered).unwrap();
    let error = replay(&mut AccessListEngine::new(recording.settings().clone()), &recording).unwrap_err();
    assert!(matches!(error, ReplayError::Mismatch { .. }), "{error}");
}

/// The address of a page of a file.
fn place(file: &File, page: u64) -> Option<Lba> {
    let (identity, _) = host(file).identify().unwrap();
    let layout = Layout::of(host(file), &identity, Sectors::ZERO).ok()?;
    lba_of(&layout.extents, PageIndex(page))
}

/// A round is one pass over the disk, across files; the paper could sort only within a file.
#[test]
fn a_round_over_two_files_is_one_pass_over_the_disk() {
    let folder = folder();
    let path = folder.path().join("recording");
    let files: Vec<File> = (0..4).map(|id| write_file(&folder.path().join(id.to_string()), id, 50)).collect();
    if place(&files[0], 0).is_none() {
        println!("SKIPPED: the build folder's file system has no FIEMAP");
        return;
    }
    assert_ne!(host(&files[0]).identify().unwrap().0.device, DeviceNumber::default());
    let client = Client::new(recorded(&path, 4000));
    // Watched and announced in an order other than that of the disk.
    for at in [2, 0, 3, 1] {
        client.watch(files[at].as_raw_fd(), bytes(0, 50)).unwrap();
    }
    let order = shuffled(200, 5);
    let list: Vec<Entry> = order
        .iter()
        .flat_map(|number| entries(files[(number / 50) as usize].as_raw_fd(), &[number % 50]))
        .collect();
    client.hint(HintMode::Set, &list, true).unwrap();
    let first = order[0];
    read_page(&client, &files[(first / 50) as usize], (first / 50) as u32, first % 50, &mut |_, _| ());
    assert_eq!(client.stats().engine.rounds, 1);
    drop(client);

    // Objects are numbered as they were watched; a command is `> fetch ID OBJECT FROM..TO ...`.
    let watched = [2usize, 0, 3, 1];
    let text = std::fs::read_to_string(&path).unwrap();
    let places: Vec<Lba> = text
        .lines()
        .filter_map(|line| line.strip_prefix("> fetch "))
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let object: usize = words[1].parse().unwrap();
            let from: u64 = words[2].split("..").next().unwrap().parse().unwrap();
            place(&files[watched[object]], from).unwrap()
        })
        .collect();
    assert!(places.len() >= 2, "{places:?}");
    let descents = places.windows(2).filter(|two| two[1] < two[0]).count();
    assert!(descents <= 1, "one pass, from wherever the head was: {places:?}");
}
