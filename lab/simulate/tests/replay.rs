//! Replaying the events of an engine over the modelled kernel gives the same commands.

mod common;

use common::{Setup, access, page, random_pages, reads};
use foreseek_hints::{AccessListEngine, CallbackRequest, Settings};
use foreseek_seam::HintMode;
use foreseek_seam::record::{ReplayError, Text};
use foreseek_seam::{Recording, replay};
use foreseek_simulate::directed::Hint;
use foreseek_units::{ByteSpan, Bytes, Pages};

/// A recorded run with questions, unlisted reads, several rounds and little memory.
fn recorded(limit: u64) -> String {
    let file = Bytes::mib(32);
    let pages = random_pages(3, 4000, file);
    let ranges: Vec<ByteSpan> = pages.iter().map(|at| page(*at)).collect();
    let list: Vec<_> = pages.iter().map(|at| access(*at)).collect();
    let text = Text::default();
    let recorder = text.recorder().with_limit(limit);
    let settings = Settings { first_round: Some(Pages(64)), ..Settings::default() };
    let mut announced = 0;
    let application = move |hint: &mut Hint<'_>, nth: usize, _: CallbackRequest| {
        announced = announced.max(nth);
        let more = (announced + 500).min(list.len());
        announced += hint(HintMode::Append, &list[announced..more], more == list.len());
    };
    let setup = Setup::new(file, Bytes::mib(8).pages_floor());
    let (_, stats) = setup.prefetched(settings, Some(recorder), reads(&ranges), application);
    assert!(stats.rounds > 3 && stats.callbacks > 3 && !stats.forgotten.is_zero(), "{stats:?}");
    text.so_far()
}

#[test]
fn a_recorded_run_replays_identically() {
    let text = recorded(u64::MAX);
    let recording = Recording::<Settings>::open(&text).expect("it was just written");
    let replayed =
        replay(&mut AccessListEngine::new(recording.settings().clone()), &recording).expect("identical");
    assert!(replayed.events > 8000 && replayed.commands > 8000, "{replayed:?}");
    assert!(!replayed.cut);
}

#[test]
fn a_tampered_recording_is_found_out() {
    let text = recorded(u64::MAX);
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("> fetch")).expect("it fetched");
    // A changed command, a missing one, one too many, and a residency that changes what follows.
    let resident = lines.iter().position(|line| line.contains(" resident ")).expect("it asked");
    let announced = lines[resident].split(' ').take(3).collect::<Vec<_>>().join(" ");
    for (line, instead) in [
        (at, lines[at].replace(" prefetch", " demand")),
        (at, String::new()),
        (at, format!("{0}\n{0}", lines[at])),
        (resident, format!("{announced} 0..100000")),
    ] {
        let mut changed: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        changed[line] = instead;
        changed.retain(|line| !line.is_empty());
        let changed = changed.join("\n");
        let recording = Recording::<Settings>::open(&changed).expect("the head is untouched");
        let error = replay(&mut AccessListEngine::new(recording.settings().clone()), &recording)
            .expect_err("it differs");
        let ReplayError::Mismatch { line: found, .. } = error else { panic!("{error}") };
        assert!(found.abs_diff(line + 1) <= 1, "{error}: line {}", line + 1);
    }
}

#[test]
fn other_settings_are_found_out() {
    let text = recorded(u64::MAX).replacen("first_round=64", "first_round=65", 1);
    let recording = Recording::<Settings>::open(&text).expect("the head is right");
    assert!(matches!(
        replay(&mut AccessListEngine::new(recording.settings().clone()), &recording),
        Err(ReplayError::Mismatch { .. })
    ));
}

#[test]
fn a_recording_that_was_cut_replays_as_far_as_it_goes() {
    let text = recorded(100_000);
    assert!(text.len() < 101_000);
    let recording = Recording::<Settings>::open(&text).expect("the head is right");
    let replayed =
        replay(&mut AccessListEngine::new(recording.settings().clone()), &recording).expect("identical");
    assert!(replayed.cut && replayed.events > 100);
}
