//! The Apache Web server with media clips of TR-840 section 5.1 and EuroSys'07 section 6.1.
//!
//! What the papers say: sizes and popularity are those of the audio and video clips of the 1998
//! World Cup site (Arlitt and Jin, HPL-1999-35). About 9 % are large video clips, the rest small
//! audio clips; a clip has from 24 KB to 1418 KB, 152 KB on average; all of them have 20.4 GB. Clips
//! are chosen by a Zipf distribution. Apache reads a clip in chunks of 8 KB to its end (TR-840
//! section 2.1). The memory of a handler is "relatively small" (section 5.3).
//!
//! What they do not say, and the assumptions: KB are binary. The border between large and small is 256 KB.
//! Within each class the distribution is the one with the largest entropy. Large clips are uniform from 256 to
//! 1418 KB, 837 KB on average. Small ones are a cut exponential from 24 to 256 KB, with the mean of
//! 84.2 KB that follows from the mean of all. Zipf's exponent is 1. Popularity is independent of size and
//! place. Clips lie in directories of 100. A process costs 256 KiB; a request costs 300 us of processor time to
//! accept, parse and log, and 40 us a chunk for sending it over TCP (5 ns a byte on a 2 GHz Xeon). Clients are
//! never slower than the disk.

use super::WorkloadError;
use super::draw::CutExponential;
use super::parameters::Checked;
use super::script::{Reader, Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Workload};
use foreseek_units::{Bytes, Nanos};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_core::Rng;
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64Mcg;

/// EuroSys'07 section 6.1.
const DATA: Bytes = Bytes(20_400_000_000);
const LEAST: f64 = 24.0 * 1024.0;
const MOST: f64 = 1418.0 * 1024.0;
const MEAN: f64 = 152.0 * 1024.0;
const LARGE_SHARE: f64 = 0.09;
const CHUNK: Bytes = Bytes::kib(8);

/// The assumptions; each is explained above.
const LARGE: f64 = 256.0 * 1024.0;
const EXPONENT: f64 = 1.0;
const A_DIRECTORY: u32 = 100;
const MEMORY: Bytes = Bytes::kib(256);
const COST_A_REQUEST: Nanos = Nanos::from_micros(300);
const COST_A_CHUNK: Nanos = Nanos::from_micros(40);
/// The seed of the data set; fixed, so that all runs have the same.
const DATA_SEED: u64 = 1998;

pub(super) fn media_server(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    let data = parameters.data_size(DATA, Bytes::mib(16))?;
    let memory = parameters.handler_memory(MEMORY);
    Ok(Box::new(MediaServer::new(data, memory)))
}

struct MediaServer {
    clips: Vec<Bytes>,
    /// The clip of each rank of popularity.
    popular: Vec<u32>,
    ranks: Option<Zipf<f64>>,
    memory: Bytes,
}

impl MediaServer {
    fn new(data: Bytes, memory: Bytes) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(DATA_SEED);
        let small_mean = (MEAN - LARGE_SHARE * (LARGE + MOST) / 2.0) / (1.0 - LARGE_SHARE);
        let small = CutExponential::of_mean(LEAST, LARGE, small_mean);
        let mut clips = Vec::new();
        let mut total = Bytes::ZERO;
        while total < data {
            let length = match random.random_bool(LARGE_SHARE) {
                true => random.random_range(LARGE..MOST),
                false => small.draw(&mut random),
            };
            clips.push(Bytes(length as u64));
            total += Bytes(length as u64);
        }
        let mut popular: Vec<u32> = (0..clips.len() as u32).collect();
        popular.shuffle(&mut random);
        let ranks = Zipf::new(clips.len() as f64, EXPONENT).ok();
        Self { clips, popular, ranks, memory }
    }
}

impl Workload for MediaServer {
    fn files(&self) -> Vec<FileSpec> {
        let file = |(n, length): (u32, &Bytes)| FileSpec { length: *length, directory: n / A_DIRECTORY };
        (0..).zip(&self.clips).map(file).collect()
    }

    fn drive(&self) -> Drive {
        Drive::Closed
    }

    fn program(&mut self, _number: u64, random: &mut dyn Rng) -> Box<dyn Program> {
        let rank = self.ranks.map_or(1.0, |ranks| ranks.sample(random)) as usize;
        let clip = self.popular[rank.clamp(1, self.popular.len()) - 1];
        let length = self.clips[clip as usize];
        Script::boxed(Send {
            file: FileNumber(clip),
            reader: Reader::new(Handle(0), length),
            begun: false,
            memory: self.memory,
        })
    }
}

/// Sends one clip.
struct Send {
    file: FileNumber,
    reader: Reader,
    begun: bool,
    memory: Bytes,
}

impl Source for Send {
    fn more(&mut self, _random: &mut dyn Rng, steps: &mut Steps) {
        if !self.begun {
            self.begun = true;
            steps.compute(COST_A_REQUEST);
            steps.open(self.reader.handle, self.file, Some(self.reader.left()));
        }
        if self.reader.left().is_zero() {
            return;
        }
        self.reader.read(CHUNK, steps);
        steps.compute(COST_A_CHUNK);
        if self.reader.left().is_zero() {
            steps.close(self.reader.handle);
            steps.finished();
        }
    }

    fn memory(&self) -> Bytes {
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::trail;
    use super::*;

    #[test]
    fn the_clips_are_the_papers() {
        let server = MediaServer::new(DATA, MEMORY);
        let total = server.clips.iter().copied().sum::<Bytes>();
        assert!((total.get() as f64 / 20.4e9 - 1.0).abs() < 0.001);
        let mean = total.get() as f64 / server.clips.len() as f64 / 1024.0;
        assert!((mean - 152.0).abs() < 2.0, "{mean} KB");
        let kib: Vec<u64> = server.clips.iter().map(|clip| clip.get() / 1024).collect();
        assert!(kib.iter().all(|clip| (24..=1418).contains(clip)));
        assert!(*kib.iter().min().expect("some") < 25 && *kib.iter().max().expect("some") > 1410);
        let large = kib.iter().filter(|clip| **clip >= 256).count() as f64 / kib.len() as f64;
        // 130,000 clips: the share is known to 0.2 %.
        assert!((large - 0.09).abs() < 0.003, "{large}");
    }

    #[test]
    fn clips_are_chosen_by_zipfs_law() {
        let mut server = MediaServer::new(Bytes::gib(1), MEMORY);
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut counts = vec![0.0; server.clips.len()];
        for number in 0..3000 {
            let opened = trail(&mut server, number, &mut random).opens[0].0;
            counts[opened.0 as usize] += 1.0;
        }
        let harmonic: f64 = (1..=counts.len()).map(|rank| 1.0 / rank as f64).sum();
        let by_rank: Vec<f64> = server.popular.iter().map(|clip| counts[*clip as usize]).collect();
        // Ranks 1, 2, 3-4, 5-8 and so on: each class has almost the same share.
        let (mut chi, mut classes, mut first) = (0.0, 0, 1);
        while first * 2 <= counts.len() {
            let seen: f64 = by_rank[first - 1..first * 2 - 1].iter().sum();
            let expected: f64 = (first..first * 2).map(|rank| 3000.0 / rank as f64 / harmonic).sum();
            chi += (seen - expected).powi(2) / expected;
            classes += 1;
            first *= 2;
        }
        // 12 classes, the rest a further one: 12 degrees of freedom at 1 %.
        assert!(classes == 12 && chi < 26.2, "{classes} classes, {chi}");
    }

    #[test]
    fn a_clip_is_sent_whole_in_chunks() {
        let mut server = MediaServer::new(Bytes::mib(64), MEMORY);
        let trail = trail(&mut server, 0, &mut Pcg64Mcg::seed_from_u64(2));
        let (file, announced) = trail.opens[0];
        assert_eq!(announced, Some(server.clips[file.0 as usize]));
        assert_eq!(
            trail.reads.iter().map(|(_, range)| range.len()).sum::<Bytes>(),
            announced.expect("announced")
        );
        assert!(trail.reads.iter().all(|(_, range)| range.len() <= CHUNK));
    }
}
