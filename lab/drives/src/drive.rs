//! A `.model` file: what is known of a drive's mechanics.

use super::block::{Node, Reader, Value, parse};
use super::error::ExtractedError;
use super::links::Links;
use super::seek_file::SeekFile;
use super::zones::Layout;
use foreseek_device::spec::limits::{CYLINDERS_LIMIT, HEADS_LIMIT, LONGEST_MS, ROTATION_RPM};

/// Most blocks that a drive may state to have.
const BLOCKS_LIMIT: u64 = 1 << 41;
/// Longest seek that a coefficient of a seek formula may stand for, times a thousand: coefficients are
/// multiplied by roots of distances.
const COEFFICIENT_LIMIT: f64 = LONGEST_MS;
/// Ratio of neighbouring distances at which a published formula is sampled: linear interpolation between them
/// is then wrong by less than a microsecond.
const SAMPLE_RATIO: f64 = 1.02;

/// A drive as a `.model` file describes it.
#[derive(Clone, Debug)]
pub struct Drive {
    pub(super) file: String,
    pub(super) name: String,
    pub(super) heads: u32,
    pub(super) blocks: Option<u64>,
    pub(super) layout: Layout,
    pub(super) mechanics: Mechanics,
    /// The time to settle on a track again, as a share of the shortest seek.
    pub(super) resettle_share: f64,
    pub(super) notes: Vec<String>,
}

/// The moving parts.
#[derive(Clone, Debug)]
pub(super) struct Mechanics {
    pub(super) rpm: f64,
    pub(super) head_switch_ms: f64,
    pub(super) write_settle_ms: f64,
    pub(super) seek: Seek,
}

/// Seek times.
#[derive(Clone, Debug)]
pub(super) enum Seek {
    Table(SeekFile),
    /// Lee's formula over one-cylinder, average and full seek.
    Lee {
        shortest_ms: f64,
        average_ms: f64,
        longest_ms: f64,
    },
}

impl Drive {
    /// Reads a model file. `file` names the text in errors; `linked` returns the text of a file that it names,
    /// such as its seek file, or why it cannot be read.
    ///
    /// # Errors
    /// Text that does not follow the format; keys that are missing, of the wrong type or out of range
    /// (with file, line and key); layouts and seek types that cannot be modelled; a linked file that
    /// cannot be read.
    pub fn parse(
        file: &str,
        text: &str,
        linked: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Self, ExtractedError> {
        let blocks = parse(file, text)?;
        let Some(block) = blocks.iter().find(|block| block.kind.eq_ignore_ascii_case("dm_disk")) else {
            let reason = match blocks.first() {
                Some(other) => {
                    format!("a block 'dm_disk NAME {{ ... }}' was expected, found '{}'", other.kind)
                }
                None => "a block 'dm_disk NAME { ... }' was expected, the file holds none".to_owned(),
            };
            return Err(ExtractedError::Syntax { file: file.to_owned(), line: 1, reason });
        };
        let reader = Reader { file, block };
        let mut links = Links::new(linked);
        let heads = reader.whole("Number of data surfaces", HEADS_LIMIT)? as u32;
        if heads == 0 {
            return Err(reader.wrong("Number of data surfaces", "is 0, must be at least 1"));
        }
        let mut notes = Vec::new();
        let (layout_file, layout_block) = links.block(reader, "Layout Model")?;
        let within = Reader { file: &layout_file, block: &layout_block };
        let blocks = reader.whole_if("Block count", BLOCKS_LIMIT)?;
        let layout = Layout::read(within, heads, blocks, &mut links, &mut notes)?;
        let end = layout.end_cylinder();
        let stated = reader.whole_if("Number of cylinders", CYLINDERS_LIMIT)?.unwrap_or(0) as u32;
        if stated != 0 && stated < end {
            notes.push(format!(
                "{file}: Number of cylinders is {stated}, but the zones go up to {end}: {end} are taken"
            ));
        }
        let mechanics = match reader.get("Mechanical Model") {
            None => {
                return Err(
                    reader.wrong("Mechanical Model", "is missing: without it nothing is known of times")
                );
            }
            Some(_) => {
                let (file, block) = links.block(reader, "Mechanical Model")?;
                Mechanics::read(
                    Reader { file: &file, block: &block },
                    stated.max(end),
                    &mut links,
                    &mut notes,
                )?
            }
        };
        Ok(Self {
            file: file.to_owned(),
            name: block.name.clone(),
            heads,
            blocks,
            layout,
            mechanics,
            resettle_share: crate::profile::RESETTLE_SHARE,
            notes,
        })
    }

    /// The drive's name in the file, without what tools append to it.
    #[must_use]
    pub fn name(&self) -> &str {
        let name = self.name.trim_end_matches(".model");
        let name = name.strip_suffix("_model").unwrap_or(name);
        name.strip_suffix("_validate").unwrap_or(name)
    }
}

impl Mechanics {
    fn read(
        reader: Reader<'_>,
        cylinders: u32,
        links: &mut Links<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Self, ExtractedError> {
        let times = 0.0..=LONGEST_MS;
        match reader.text_if("Access time type")?.unwrap_or("trackSwitchPlusRotation") {
            "trackSwitchPlusRotation" => {}
            "averageRotation" => {
                notes.push(format!("{}: Access time type: rotation is modelled, not averaged", reader.file))
            }
            other => {
                let reason = format!("is '{other}': only trackSwitchPlusRotation models a disk's mechanics");
                return Err(reader.wrong("Access time type", reason));
            }
        }
        let rpm = reader.number("Rotation speed (in rpms)", ROTATION_RPM.0..=ROTATION_RPM.1)?;
        let seek = Seek::read(reader, cylinders, links)?;
        let settle = reader.number_if("Add. write settling delay", -LONGEST_MS..=LONGEST_MS)?.unwrap_or(0.0);
        let extra = match &seek {
            Seek::Table(table) if settle == 0.0 => table.write_extra_ms,
            _ => None,
        };
        Ok(Self {
            rpm,
            head_switch_ms: reader.number_if("Head switch time", times)?.unwrap_or(0.0),
            write_settle_ms: extra.unwrap_or(settle),
            seek,
        })
    }
}

impl Seek {
    fn read(reader: Reader<'_>, cylinders: u32, links: &mut Links<'_>) -> Result<Self, ExtractedError> {
        let times = 0.0..=LONGEST_MS;
        let file = reader.text_if("Full seek curve")?;
        let kind = match reader.text_if("Seek type")? {
            Some(kind) => kind,
            None if file.is_some() => "extracted",
            None => return Err(reader.wrong("Seek type", "is missing, and so is 'Full seek curve'")),
        };
        match kind {
            "extracted" => {
                let Some(name) = file else {
                    return Err(
                        reader.wrong("Full seek curve", "is missing: it names the file of seek times")
                    );
                };
                let text = links.text(reader, "Full seek curve", name)?;
                SeekFile::parse(name, &text).map(Self::Table)
            }
            "constant" => {
                let time = reader.number("Constant seek time", times)?;
                Ok(Self::Table(SeekFile { distances: vec![1], times_ms: vec![time], write_extra_ms: None }))
            }
            "curve" => Ok(Self::Lee {
                shortest_ms: reader.number("Single cylinder seek time", times.clone())?,
                average_ms: reader.number("Average seek time", times.clone())?,
                longest_ms: reader.number("Full strobe seek time", times)?,
            }),
            "linear" => {
                let key = |key: &str| reader.number(key, times.clone());
                let (one, average, full) = (
                    key("Single cylinder seek time")?,
                    key("Average seek time")?,
                    key("Full strobe seek time")?,
                );
                let (third, last) = ((cylinders / 3).max(2), cylinders.saturating_sub(1).max(3));
                Ok(Self::Table(SeekFile {
                    distances: vec![1, third.min(last - 1), last],
                    times_ms: vec![one, average, full],
                    write_extra_ms: None,
                }))
            }
            "hpl" | "hplplus10" => formula(reader, cylinders, kind == "hplplus10").map(Self::Table),
            other => {
                let known = "extracted, hpl, hplplus10, curve, linear or constant";
                Err(reader.wrong("Seek type", format!("is '{other}', must be {known}")))
            }
        }
    }
}

/// The formula of Ruemmler and Wilkes by its six values, the first ten distances apart, sampled.
fn formula(reader: Reader<'_>, cylinders: u32, ten: bool) -> Result<SeekFile, ExtractedError> {
    let numbers = |key: &str, length: usize, least: f64, most: f64| -> Result<Vec<f64>, ExtractedError> {
        let list = reader.list_if(key, length)?;
        if list.len() != length {
            return Err(reader.wrong(key, format!("must be a list of {length} numbers, has {}", list.len())));
        }
        let number = |node: &Node| match &node.value {
            Value::Text(text) => reader.number_of(node.line, key, text, least..=most),
            _ => Err(reader.wrong_at(node.line, key, "must hold numbers only")),
        };
        list.iter().map(number).collect()
    };
    let values = numbers("HPL seek equation values", 6, -1.0, CYLINDERS_LIMIT as f64)?;
    let [crossover, a, b, c, e, one] = values[..] else {
        return Err(reader.wrong("HPL seek equation values", "must be six numbers"));
    };
    if [a, b, c, e].iter().any(|value| !(0.0..=COEFFICIENT_LIMIT).contains(value)) {
        let reason = format!("the second to the fifth must be from 0 to {COEFFICIENT_LIMIT}");
        return Err(reader.wrong("HPL seek equation values", reason));
    }
    let first = if ten { numbers("First ten seek times", 10, 0.0, LONGEST_MS)? } else { Vec::new() };
    let time = |distance: u32| {
        let d = f64::from(distance);
        match (first.get(distance as usize - 1), distance) {
            (Some(time), _) => *time,
            // The sixth value is the single-cylinder time, unless it is -1.
            (None, 1) if one >= 0.0 => {
                reader.number_if("Single cylinder seek time", 0.0..=LONGEST_MS).ok().flatten().unwrap_or(one)
            }
            _ if d < crossover => a + b * d.sqrt(),
            _ => c + e * d,
        }
    };
    let mut table = SeekFile { distances: Vec::new(), times_ms: Vec::new(), write_extra_ms: None };
    let mut distance = 1;
    while distance < cylinders.max(2) {
        // Both sides of the crossover are points, since the formula may jump there.
        let ends = [distance, (distance + 1).max((f64::from(distance) * SAMPLE_RATIO) as u32)];
        table.distances.push(distance);
        table.times_ms.push(time(distance).min(LONGEST_MS));
        let crossing = (crossover as u32).max(1);
        distance = match () {
            () if ends[0] < crossing - 1 && ends[1] >= crossing => crossing - 1,
            () if ends[0] < crossing && ends[1] > crossing => crossing,
            () => ends[1],
        };
    }
    Ok(table)
}
