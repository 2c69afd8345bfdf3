//! Writes a profile as TOML.

use std::fmt::Write as _;

/// TOML text under construction: keys in the order of their addition.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    text: String,
    path: Vec<&'static str>,
}

impl Writer {
    pub(crate) fn text(&mut self, key: &str, text: &str) {
        self.line(key, &toml::Value::from(text).to_string());
    }

    pub(crate) fn number(&mut self, key: &str, number: f64) {
        self.line(key, &float(number));
    }

    pub(crate) fn whole(&mut self, key: &str, whole: u64) {
        self.line(key, &whole.to_string());
    }

    pub(crate) fn numbers(&mut self, key: &str, numbers: &[f64]) {
        let items: Vec<String> = numbers.iter().map(|number| float(*number)).collect();
        self.line(key, &format!("[{}]", items.join(", ")));
    }

    pub(crate) fn truth(&mut self, key: &str, truth: bool) {
        self.line(key, if truth { "true" } else { "false" });
    }

    pub(crate) fn wholes(&mut self, key: &str, wholes: &[u64]) {
        let items: Vec<String> = wholes.iter().map(u64::to_string).collect();
        self.line(key, &format!("[{}]", items.join(", ")));
    }

    pub(crate) fn table(&mut self, key: &'static str) {
        self.path.push(key);
        let path = self.path.join(".");
        self.text.push_str(&format!("\n[{path}]\n"));
    }

    pub(crate) fn list_item(&mut self, key: &'static str) {
        self.path.push(key);
        let path = self.path.join(".");
        self.text.push_str(&format!("\n[[{path}]]\n"));
    }

    pub(crate) fn end_table(&mut self) {
        self.path.pop();
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }

    fn line(&mut self, key: &str, value: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{key} = {value}");
    }
}

/// The shortest text that reads back as the same number.
fn float(number: f64) -> String {
    format!("{number:?}")
}
