//! The text format: blocks of `key = value`.
//!
//! ```text
//! kind name {
//!    key with spaces = 12.5,
//!    list = [ 1, 2 ],
//!    inner = kind { key = value }   # a comment
//! }
//! ```
//!
//! A value is a number, words, `source FILE` (a block in another file), a list or a block. Nothing in
//! the text makes reading panic or allocate more than in proportion to its length.

use super::error::ExtractedError;
use foreseek_units::Bytes;
use std::ops::RangeInclusive;

/// Longest text. The longest that was published, every track of a disk described, has 2 MB.
const TEXT_LIMIT: usize = 8 << 20;
/// Deepest nesting. The format of the files needs four levels.
const DEPTH_LIMIT: usize = 16;

/// A block, its kind and name before the brace.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    pub(super) line: usize,
    pub(super) kind: String,
    pub(super) name: String,
    entries: Vec<(String, Node)>,
}

/// A value and the line where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    List(Vec<Node>),
    Block(Block),
}

/// The blocks of a file.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<Block>, ExtractedError> {
    if text.len() > TEXT_LIMIT {
        let (length, limit) = (Bytes(text.len() as u64), Bytes(TEXT_LIMIT as u64));
        return Err(ExtractedError::TooLong { file: file.to_owned(), length, limit });
    }
    // Some editors put a byte order mark there.
    let mut scanner = Scanner { file, rest: text.trim_start_matches('\u{feff}'), line: 1 };
    let mut blocks = Vec::new();
    while scanner.peek().is_some() {
        match scanner.value(0)?.value {
            Value::Block(block) => blocks.push(block),
            Value::Text(text) if text.is_empty() => {
                return Err(scanner.wrong("a block was expected: kind name { ... }"));
            }
            // Directives of whole simulations (`topology ...`) stand between blocks.
            Value::Text(_) | Value::List(_) => {}
        }
    }
    Ok(blocks)
}

struct Scanner<'a> {
    file: &'a str,
    rest: &'a str,
    line: usize,
}

impl Scanner<'_> {
    fn wrong(&self, reason: impl Into<String>) -> ExtractedError {
        ExtractedError::Syntax { file: self.file.to_owned(), line: self.line, reason: reason.into() }
    }

    /// The next character that is neither space, comment nor a separator.
    fn peek(&mut self) -> Option<char> {
        loop {
            let next = self.rest.chars().next()?;
            match next {
                '#' => {
                    let end = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.rest = &self.rest[end..];
                }
                _ if next.is_whitespace() || next == ',' => self.skip(next),
                _ => return Some(next),
            }
        }
    }

    fn skip(&mut self, next: char) {
        self.line += usize::from(next == '\n');
        self.rest = &self.rest[next.len_utf8()..];
    }

    /// What comes before one of the characters that end words.
    fn words(&mut self, ends: &[char]) -> String {
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let words = self.rest[..end].trim().to_owned();
        self.rest = &self.rest[end..];
        words
    }

    fn value(&mut self, depth: usize) -> Result<Node, ExtractedError> {
        if depth > DEPTH_LIMIT {
            return Err(self.wrong(format!("blocks and lists nest deeper than {DEPTH_LIMIT}")));
        }
        let next = self.peek();
        let line = self.line;
        let value = match next {
            None => return Err(self.wrong("the text ends where a value was expected")),
            Some('[') => Value::List(self.list(depth)?),
            Some(_) => {
                let words = self.words(&[',', '{', '}', '[', ']', '#', '\n', '=']);
                if self.rest.starts_with('{') || (self.next_is_brace() && words.contains(char::is_alphabetic))
                {
                    Value::Block(self.block(line, &words, depth)?)
                } else if words.is_empty() {
                    let found = self.rest.chars().next().map_or("the end".to_owned(), |c| format!("'{c}'"));
                    return Err(self.wrong(format!("found {found} where a value was expected")));
                } else {
                    Value::Text(words)
                }
            }
        };
        Ok(Node { line, value })
    }

    /// Whether only blanks come before an opening brace.
    fn next_is_brace(&self) -> bool {
        self.rest.trim_start().starts_with('{')
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, ExtractedError> {
        let opened = self.line;
        self.skip('[');
        let mut items = Vec::new();
        loop {
            match self.peek() {
                Some(']') => {
                    self.skip(']');
                    return Ok(items);
                }
                Some(_) => items.push(self.value(depth + 1)?),
                None => return Err(self.wrong(format!("the list of line {opened} is not closed by ']'"))),
            }
        }
    }

    fn block(&mut self, line: usize, words: &str, depth: usize) -> Result<Block, ExtractedError> {
        let (kind, name) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
        let mut block =
            Block { line, kind: kind.to_owned(), name: name.trim().to_owned(), entries: Vec::new() };
        while self.peek() != Some('{') {
            let Some(next) = self.rest.chars().next() else { break };
            self.skip(next);
        }
        self.skip('{');
        loop {
            match self.peek() {
                Some('}') => {
                    self.skip('}');
                    return Ok(block);
                }
                None => return Err(self.wrong(format!("the block of line {line} is not closed by '}}'"))),
                Some(_) => {
                    let key = self.words(&['=', '{', '}', '[', ']', '#', '\n']);
                    if !self.rest.starts_with('=') {
                        return Err(self.wrong(format!("'=' was expected after '{}'", shortened(&key))));
                    }
                    self.skip('=');
                    let node = self.value(depth + 1)?;
                    block.entries.push((key, node));
                }
            }
        }
    }
}

/// A word of a text as a message quotes it.
fn shortened(word: &str) -> String {
    /// Letters by which a word is recognised.
    const LETTERS: usize = 40;
    if word.chars().count() <= LETTERS {
        return word.to_owned();
    }
    word.chars().take(LETTERS).chain("...".chars()).collect()
}

/// Reads a block key by key.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) file: &'a str,
    pub(super) block: &'a Block,
}

impl<'a> Reader<'a> {
    /// The error about a key.
    pub(super) fn wrong(&self, key: &str, reason: impl Into<String>) -> ExtractedError {
        let line = self.get(key).map_or(self.block.line, |node| node.line);
        self.wrong_at(line, key, reason)
    }

    pub(super) fn wrong_at(&self, line: usize, key: &str, reason: impl Into<String>) -> ExtractedError {
        ExtractedError::Key { file: self.file.to_owned(), line, key: key.to_owned(), reason: reason.into() }
    }

    /// The value of a key; the last where it is given several times.
    pub(super) fn get(&self, key: &str) -> Option<&'a Node> {
        let words = |text: &'_ str| text.split_whitespace().map(str::to_ascii_lowercase).collect::<Vec<_>>();
        let wanted = words(key);
        let same = |known: &str| words(known) == wanted;
        self.block.entries.iter().rev().find(|(known, _)| same(known)).map(|(_, node)| node)
    }

    fn missing(&self, key: &str) -> ExtractedError {
        let kind = &self.block.kind;
        self.wrong(key, format!("is missing in the block '{kind}' that begins here"))
    }

    pub(super) fn text_if(&self, key: &str) -> Result<Option<&'a str>, ExtractedError> {
        match self.get(key).map(|node| &node.value) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "must be a word, not a list or block")),
        }
    }

    pub(super) fn number_if(
        &self,
        key: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, ExtractedError> {
        let Some(text) = self.text_if(key)? else { return Ok(None) };
        let line = self.get(key).map_or(self.block.line, |node| node.line);
        self.number_of(line, key, text, range).map(Some)
    }

    pub(super) fn number_of(
        &self,
        line: usize,
        key: &str,
        text: &str,
        range: RangeInclusive<f64>,
    ) -> Result<f64, ExtractedError> {
        let number: f64 = text
            .parse()
            .map_err(|_| self.wrong_at(line, key, format!("is '{}', must be a number", shortened(text))))?;
        if !range.contains(&number) {
            let reason = format!("is {text}, must be from {} to {}", range.start(), range.end());
            return Err(self.wrong_at(line, key, reason));
        }
        Ok(number)
    }

    pub(super) fn number(&self, key: &str, range: RangeInclusive<f64>) -> Result<f64, ExtractedError> {
        self.number_if(key, range)?.ok_or_else(|| self.missing(key))
    }

    pub(super) fn whole_if(&self, key: &str, most: u64) -> Result<Option<u64>, ExtractedError> {
        let Some(number) = self.number_if(key, 0.0..=most as f64)? else { return Ok(None) };
        if number.fract() != 0.0 {
            return Err(self.wrong(key, format!("is {number}, must be a whole number")));
        }
        Ok(Some(number as u64))
    }

    pub(super) fn whole(&self, key: &str, most: u64) -> Result<u64, ExtractedError> {
        self.whole_if(key, most)?.ok_or_else(|| self.missing(key))
    }

    pub(super) fn list_if(&self, key: &str, most: usize) -> Result<&'a [Node], ExtractedError> {
        match self.get(key).map(|node| &node.value) {
            None => Ok(&[]),
            Some(Value::List(list)) if list.len() <= most => Ok(list),
            Some(Value::List(list)) => {
                Err(self.wrong(key, format!("has {} entries, may have {most}", list.len())))
            }
            Some(_) => Err(self.wrong(key, "must be a list: [ ..., ... ]")),
        }
    }

    /// The whole numbers of a list.
    pub(super) fn wholes_if(&self, key: &str, length: usize, most: u64) -> Result<Vec<u64>, ExtractedError> {
        let number = |node: &'a Node| match &node.value {
            Value::Text(text) => {
                let number = self.number_of(node.line, key, text, 0.0..=most as f64)?;
                if number.fract() != 0.0 {
                    return Err(self.wrong_at(node.line, key, format!("{text} is not a whole number")));
                }
                Ok(number as u64)
            }
            _ => Err(self.wrong_at(node.line, key, "must hold numbers only")),
        };
        self.list_if(key, length)?.iter().map(number).collect()
    }

    /// A block within this one.
    pub(super) fn inner(&self, key: &str) -> Result<Reader<'a>, ExtractedError> {
        let node = self.get(key).ok_or_else(|| self.missing(key))?;
        match &node.value {
            Value::Block(block) => Ok(Reader { file: self.file, block }),
            _ => Err(self.wrong(key, "must be a block: kind { ... }")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_lists_comments_and_words() {
        let text = "a b {\n one = 1.5, # two = 2,\n list = [ 1,\n 2 ],\n in = kind\n {\n x = some words\n }\n } # end";
        let blocks = parse("f", text).expect("well-formed");
        let [block] = &blocks[..] else { panic!("one block: {blocks:?}") };
        assert_eq!((block.kind.as_str(), block.name.as_str()), ("a", "b"));
        let reader = Reader { file: "f", block };
        assert_eq!(reader.number("one", 0.0..=9.0), Ok(1.5));
        assert_eq!(reader.text_if("two"), Ok(None));
        assert_eq!(reader.wholes_if("list", 2, 9), Ok(vec![1, 2]));
        assert_eq!(reader.inner("in").and_then(|inner| inner.text_if("x")), Ok(Some("some words")));
    }

    #[test]
    fn complaints_name_file_line_and_key() {
        let complaint = |text: &str| match parse("f.model", text) {
            Err(error) => error.to_string(),
            Ok(blocks) => {
                let reader = Reader { file: "f.model", block: &blocks[0] };
                reader.whole("n", 10).expect_err("wrong").to_string()
            }
        };
        for (text, expected) in [
            ("a {\n n = x\n}", "f.model: line 2: n: is 'x', must be a number"),
            ("a {\n\n n = 11\n}", "f.model: line 3: n: is 11, must be from 0 to 10"),
            ("a {\n n = 1.5\n}", "f.model: line 2: n: is 1.5, must be a whole number"),
            ("a {\n}", "f.model: line 1: n: is missing in the block 'a' that begins here"),
            ("a {\n n = [1]\n}", "f.model: line 2: n: must be a word, not a list or block"),
            ("a {\n n = 1", "f.model: line 2: the block of line 1 is not closed by '}'"),
            ("a {\n n\n}", "f.model: line 2: '=' was expected after 'n'"),
            ("a {\n n = [ 1\n", "f.model: line 3: the list of line 2 is not closed by ']'"),
            ("a {\n n = }", "f.model: line 2: found '}' where a value was expected"),
        ] {
            assert_eq!(complaint(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_read_or_refused(text in "[a-z0-9 ={}\\[\\],#\n.]{0,200}") {
            let _ = parse("f", &text);
        }

        #[test]
        fn deep_nesting_is_refused(depth in 17..4000usize) {
            let text = format!("a {{ b = {}", "[".repeat(depth));
            prop_assert!(parse("f", &text).is_err());
        }
    }
}
