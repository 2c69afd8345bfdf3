//! The description of an array: its layout, and the disk that all members are.

use super::builtin::builtin;
use super::disk::{DiskModel, DiskSpec, check_rate};
use super::error::ProfileError;
use super::figures::Figures;
use super::keys::{Keys, bounds, table_of};
use super::limits::{LONGEST_MS, RATE_MB_PER_S};
use super::write::Writer;
use crate::array::MEMBERS_LIMIT;
use foreseek_units::{Bytes, Level, Nanos, Rate, Stripes};

/// Largest strip in KiB: 64 MiB, more than any array offers.
const STRIP_KIB_LIMIT: u64 = 1 << 16;

/// The profile of an array.
#[derive(Clone, Debug)]
pub(crate) struct ArraySpec {
    level: Level,
    members: u64,
    strip_kib: u64,
    pub(crate) link_rate_mb_per_s: f64,
    pub(crate) command_overhead_ms: f64,
    sequential_rate_mb_per_s: Option<f64>,
    /// The built-in profile of the members, if they are given by name.
    member: Option<String>,
    pub(crate) disk: DiskSpec,
    pub(crate) model: DiskModel,
}

impl ArraySpec {
    pub(crate) fn read(keys: &mut Keys<'_>) -> Result<Self, ProfileError> {
        let (level, least) = match keys.text("level")? {
            "raid0" => (Level::Raid0, 2),
            "raid5" => (Level::Raid5, 3),
            other => return Err(keys.wrong("level", format!("is '{other}', must be 'raid0' or 'raid5'"))),
        };
        let rates = bounds(RATE_MB_PER_S.0, RATE_MB_PER_S.1);
        let members = keys.whole("members", bounds(least, MEMBERS_LIMIT))?;
        let strip_kib = keys.whole("strip_kib", bounds(1, STRIP_KIB_LIMIT))?;
        let link_rate_mb_per_s = keys.number("link_rate_mb_per_s", rates)?;
        let command_overhead_ms = keys.number("command_overhead_ms", bounds(0.0, LONGEST_MS))?;
        let sequential_rate_mb_per_s = keys.number_if("sequential_rate_mb_per_s", rates)?;
        let (member, disk, model) = Self::read_member(keys)?;
        let spec = Self {
            level,
            members,
            strip_kib,
            link_rate_mb_per_s,
            command_overhead_ms,
            sequential_rate_mb_per_s,
            member,
            disk,
            model,
        };
        if spec.member_rows() == 0 {
            return Err(keys.wrong("strip_kib", "is more than a member holds"));
        }
        if let Some(stated) = sequential_rate_mb_per_s {
            check_rate(stated, spec.modelled_rate(), keys)?;
        }
        Ok(spec)
    }

    fn read_member(keys: &mut Keys<'_>) -> Result<(Option<String>, DiskSpec, DiskModel), ProfileError> {
        if keys.has("disk") {
            if keys.has("member") {
                return Err(keys.wrong("member", "give either this or the table 'disk'"));
            }
            let mut disk = keys.table("disk")?;
            let spec = DiskSpec::read(&mut disk)?;
            let model = spec.model(&disk)?;
            disk.finish()?;
            return Ok((None, spec, model));
        }
        let name = keys.text("member")?;
        match builtin_disk(name) {
            Some((spec, model)) => Ok((Some(name.to_owned()), spec, model)),
            None => {
                Err(keys.wrong("member", format!("'{name}' is no built-in disk; or give a table 'disk'")))
            }
        }
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        to.text("level", self.level.name());
        to.whole("members", self.members);
        to.whole("strip_kib", self.strip_kib);
        to.number("link_rate_mb_per_s", self.link_rate_mb_per_s);
        to.number("command_overhead_ms", self.command_overhead_ms);
        if let Some(rate) = self.sequential_rate_mb_per_s {
            to.number("sequential_rate_mb_per_s", rate);
        }
        if let Some(member) = &self.member {
            to.text("member", member);
        } else {
            to.table("disk");
            self.disk.write(to);
            to.end_table();
        }
    }

    pub(crate) fn figures(&self) -> Figures {
        let member = self.disk.figures(&self.model);
        let stated = self.sequential_rate_mb_per_s.map(Rate::mb_per_second);
        Figures {
            capacity: self.stripes().row_sectors().bytes() * self.member_rows(),
            sequential_rate: stated.unwrap_or(self.modelled_rate()),
            command_overhead: member.command_overhead + self.overhead(),
            ..member
        }
    }

    /// The layout.
    pub(crate) fn stripes(&self) -> Stripes {
        let strip = Bytes::kib(self.strip_kib).sectors_floor();
        Stripes { level: self.level, members: self.members, strip }
    }

    /// Time in the controller.
    pub(crate) fn overhead(&self) -> Nanos {
        Nanos::from_millis_f64(self.command_overhead_ms)
    }

    fn member_rows(&self) -> u64 {
        self.disk.sectors() / self.stripes().strip
    }

    /// The members' total rate for data, limited by the link.
    fn modelled_rate(&self) -> Rate {
        let members = self.model.sequential.as_bytes_per_second() * self.stripes().data_strips() as f64;
        Rate::bytes_per_second(members.min(self.link_rate_mb_per_s * 1e6))
    }
}

/// The built-in disk of this name.
fn builtin_disk(name: &str) -> Option<(DiskSpec, DiskModel)> {
    // A test reads each of them.
    let table = table_of(name, builtin(name)?).ok()?;
    let mut keys = Keys::new(name, &table);
    if keys.text("kind").ok()? != "disk" {
        return None;
    }
    let spec = DiskSpec::read(&mut keys).ok()?;
    let model = spec.model(&keys).ok()?;
    Some((spec, model))
}
