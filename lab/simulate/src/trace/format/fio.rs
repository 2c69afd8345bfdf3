//! fio's iologs, versions 2 and 3 (fio(1), "Trace file format").
//!
//! The first line gives the version. Version 2 has `file action [offset length]`, version 3 a time in
//! microseconds before that. Actions: `read`, `write`; `sync`, `datasync` (a flush); `add`, `open`, `close` and
//! `trim`, which are not requests; `wait`, in version 2 only, whose offset is a pause in microseconds. So
//! requests follow each other after their pauses in version 2, and have a time each in version 3.

use super::super::field::{field, number, shown};
use super::super::record::{Record, TARGETS_LIMIT, TraceTarget, When};
use super::parser::{LineParser, nothing, span};
use foreseek_device::Op;
use foreseek_units::{Instant, Nanos};

#[derive(Default)]
pub(super) struct Fio {
    /// Of the header, which is the first line.
    version: Option<u8>,
    files: Vec<String>,
    /// Pauses since the last request (version 2).
    pause: Nanos,
}

impl Fio {
    fn header(&mut self, line: &str) -> Result<(), String> {
        self.version = match line {
            "fio version 2 iolog" => Some(2),
            "fio version 3 iolog" => Some(3),
            other => {
                return Err(format!(
                    "is not a header 'fio version 2 iolog' or 'fio version 3 iolog': '{}'",
                    shown(other)
                ));
            }
        };
        Ok(())
    }

    fn file(&mut self, name: &str) -> Result<u32, String> {
        if let Some(at) = self.files.iter().position(|file| file == name) {
            return Ok(at as u32);
        }
        if self.files.len() == TARGETS_LIMIT {
            return Err(format!("names more than {TARGETS_LIMIT} files"));
        }
        self.files.push(name.to_owned());
        Ok(self.files.len() as u32 - 1)
    }
}

fn micros(text: &str, name: &str) -> Result<Nanos, String> {
    let micros: u64 = number(text, name)?;
    micros.checked_mul(1000).map(Nanos).ok_or_else(|| format!("its {name} '{micros}' is out of range"))
}

impl LineParser for Fio {
    fn parse(&mut self, line: &str) -> Result<Option<Record>, String> {
        let Some(version) = self.version else {
            self.header(line)?;
            return Ok(None);
        };
        let mut words = line.split_whitespace();
        let at = match version {
            2 => None,
            _ => Some(micros(field(&mut words, "timestamp")?, "timestamp")?),
        };
        let file = field(&mut words, "file name")?;
        let op = match field(&mut words, "action")? {
            "read" => Op::Read,
            "write" => Op::Write,
            "sync" | "datasync" => Op::Flush,
            "add" | "open" | "close" => {
                self.file(file)?;
                return Ok(None);
            }
            "wait" => {
                let pause = micros(field(&mut words, "pause")?, "pause")?;
                self.pause = Nanos(self.pause.get().saturating_add(pause.get()));
                return Ok(None);
            }
            "trim" => return Ok(None),
            other => return Err(format!("its action '{}' is unknown in fio", shown(other))),
        };
        let range = match op {
            Op::Flush => nothing(),
            _ => {
                let offset = number(field(&mut words, "offset")?, "offset")?;
                span(offset, number(field(&mut words, "length")?, "length")?)?
            }
        };
        let at = match at {
            Some(at) => When::At(Instant(at.get())),
            None => When::After(std::mem::take(&mut self.pause)),
        };
        let target = TraceTarget::File(self.file(file)?);
        Ok(Some(Record { at, op, target, range, pid: None, response: None }))
    }

    fn name(&self, number: u32) -> Option<&str> {
        self.files.get(number as usize).map(String::as_str)
    }
}
