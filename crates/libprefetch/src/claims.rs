//! The regions that each client of the process watches: the regions of two clients must not overlap (section
//! 4.1).

use crate::aside::lock_briefly;
use foreseek_storage::Identity;
use foreseek_units::ByteSpan;
use std::sync::Mutex;

/// The most regions in one process. Each read searches those of its client, therefore more would make every
/// read slow; a database of a thousand files watches each of them whole.
pub(crate) const REGIONS_LIMIT: usize = 4096;

struct Claim {
    /// Another process number means that the claim is from before a fork.
    process: u32,
    client: u64,
    region: u64,
    identity: Identity,
    range: ByteSpan,
}

static CLAIMS: Mutex<Vec<Claim>> = Mutex::new(Vec::new());

/// Why a claim was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Overlap,
    TooMany,
}

/// Claims a range of a file for a client. `None` if the library has stepped aside.
pub(crate) fn claim(
    client: u64,
    region: u64,
    identity: Identity,
    range: ByteSpan,
) -> Option<Result<(), Refused>> {
    let mut claims = lock_briefly(&CLAIMS)?;
    let process = std::process::id();
    claims.retain(|claim| claim.process == process);
    let overlaps =
        |claim: &Claim| claim.client != client && claim.identity == identity && claim.range.overlaps(range);
    Some(if claims.iter().any(overlaps) {
        Err(Refused::Overlap)
    } else if claims.len() >= REGIONS_LIMIT {
        Err(Refused::TooMany)
    } else {
        claims.push(Claim { process, client, region, identity, range });
        Ok(())
    })
}

/// Releases one region of a client, or all of them.
pub(crate) fn release(client: u64, region: Option<u64>) {
    if let Some(mut claims) = lock_briefly(&CLAIMS) {
        claims.retain(|claim| claim.client != client || region.is_some_and(|region| claim.region != region));
    }
}
