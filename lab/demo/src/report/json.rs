//! The outcome as one JSON object. The main run's figures stand at the top, all runs in `runs`.

use crate::outcome::{Outcome, QueryRun};
use serde_json::{Map, Value, json};

impl Outcome {
    /// The object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
        put("simulated", json!(self.simulated));
        put("why_simulated", json!(self.why_simulated));
        put("database_bytes", json!(self.database.get()));
        put("rows", json!(self.rows));
        put("seed", json!(self.seed));
        put("profile", json!(self.profile));
        put("disk_bytes", json!(self.disk.get()));
        put("time_scale", json!(self.time_scale));
        put("elapsed_seconds", json!(self.elapsed.as_secs_f64()));
        put("identical", json!(self.runs.iter().all(QueryRun::identical)));
        put("versions", self.versions.iter().map(|(name, version)| (name.clone(), json!(version))).collect());
        put("notes", json!(self.notes));
        put("runs", self.runs.iter().map(|run| Value::Object(self.run(run))).collect());
        if let Some(main) = self.runs.first() {
            for name in ["memory_bytes", "stock_seconds", "foreseek_seconds", "speed_up", "limit_seconds"] {
                put(name, self.run(main)[name].clone());
            }
            for name in ["limit_ratio", "buffer_bytes", "limit_ratio_at_buffer"] {
                put(name, self.run(main)[name].clone());
            }
        }
        Value::Object(object)
    }

    fn run(&self, run: &QueryRun) -> Map<String, Value> {
        let scaled = |time: foreseek_units::Nanos| time.scale(self.time_scale).as_secs_f64();
        let value = json!({
            "name": run.name,
            "memory_bytes": run.memory.get(),
            "stock_seconds": run.stock.time.as_secs_f64(),
            "foreseek_seconds": run.foreseek.time.as_secs_f64(),
            "speed_up": run.speed_up(),
            "limit_seconds": scaled(run.limit.time),
            "limit_passes": run.limit.passes,
            "limit_ratio": run.limit_ratio(self.time_scale),
            "buffer_bytes": run.at_buffer.map(|(buffer, _)| buffer.get()),
            "limit_seconds_at_buffer": run.at_buffer.map(|(_, limit)| scaled(limit.time)),
            "limit_ratio_at_buffer": run.buffer_ratio(self.time_scale),
            "stock": run.stock,
            "foreseek": run.foreseek,
        });
        match value {
            Value::Object(object) => object,
            // `json!` with braces makes an object and nothing else.
            _ => Map::new(),
        }
    }
}
