//! Parsing of JSON text directly to packed form, in one pass and without a tree in between.

use super::{JsonError, JsonProblem, number, string};
use crate::packed::{Builder, DEPTH_MAX};
use crate::{DuplicateRule, LimitError, VALUE_BYTES_MAX, Value};

/// The most bytes of the text of one value.
const SIZE_BYTES_MAX: usize = 1 << 30;

/// Parses one value, with optional white space around it, to a packed document.
///
/// # Errors
/// The first error in the text, with its offset.
pub fn parse_packed(text: &[u8], duplicates: DuplicateRule) -> Result<Vec<u8>, JsonError> {
    let mut parser = Parser::new(text, duplicates)?;
    parser.skip_space();
    parser.value()?;
    parser.skip_space();
    parser.expect_end()?;
    Ok(parser.into_document())
}

/// Parses one value as [`parse_packed`] does, and opens it as a [`Value`].
///
/// # Errors
/// The first error in the text, with its offset.
pub fn parse_value(text: &[u8], duplicates: DuplicateRule) -> Result<Value, JsonError> {
    let document = parse_packed(text, duplicates)?;
    let offset = text.len();
    Value::open(&document)
        .map_err(|_| JsonError { offset, problem: JsonProblem::Expected("a value") })
}

/// The bytes by which the packed form of a short text may be longer than the text.
const PACKED_EXTRA_BYTES: usize = 64;
/// The most bytes that are reserved before anything is parsed.
const RESERVED_BYTES: usize = 4 << 10;

/// A parser that reads several values from a longer text, such as the elements of an array of
/// documents. Its memory is reused from one value to the next.
#[derive(Debug)]
pub struct Parser<'a> {
    text: &'a str,
    at: usize,
    builder: Builder,
    document: Vec<u8>,
    /// The buffer for unescaped strings.
    scratch: String,
}

impl<'a> Parser<'a> {
    /// Makes a parser at the beginning of `text`.
    ///
    /// # Errors
    /// If the text is no UTF-8.
    pub fn new(text: &'a [u8], duplicates: DuplicateRule) -> Result<Self, JsonError> {
        let text = std::str::from_utf8(text).map_err(|error| JsonError {
            offset: error.valid_up_to(),
            problem: JsonProblem::Utf8,
        })?;
        Ok(Self::of_text(text, duplicates))
    }

    /// Makes a parser at the beginning of `text`.
    #[must_use]
    pub fn of_text(text: &'a str, duplicates: DuplicateRule) -> Self {
        let builder = Builder::idle(duplicates);
        let (document, scratch) = (Vec::new(), String::new());
        Self { text, at: 0, builder, document, scratch }
    }

    /// The next byte.
    #[must_use]
    pub fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space.
    pub fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Skips the next byte if it is `byte`. Returns true if so.
    pub fn take(&mut self, byte: u8) -> bool {
        let is_here = self.peek() == Some(byte);
        self.at += usize::from(is_here);
        is_here
    }

    /// Checks that the text ends here.
    ///
    /// # Errors
    /// If it does not.
    pub fn expect_end(&self) -> Result<(), JsonError> {
        if self.peek().is_none() { Ok(()) } else { Err(self.expected("the end of the text")) }
    }

    /// Parses the value that begins here, and moves behind it. Returns the packed document, which
    /// stays valid until the next call.
    ///
    /// # Errors
    /// The first error in the text, with its offset. The parser cannot continue after it.
    pub fn value(&mut self) -> Result<&[u8], JsonError> {
        let mut memory = std::mem::take(&mut self.document);
        if memory.capacity() == 0 {
            // The packed form takes about as many bytes as the text.
            memory.reserve((self.text.len() - self.at + PACKED_EXTRA_BYTES).min(RESERVED_BYTES));
        }
        self.builder.restart(memory);
        let begin = self.at;
        self.any(begin, 0)?;
        self.check_size(begin)?;
        self.document = self.builder.take().map_err(|over| self.over(over))?;
        Ok(&self.document)
    }

    /// Parses the next element of an array whose opening bracket was taken, as [`Self::value`]
    /// does. Returns `None` behind the closing bracket.
    ///
    /// # Errors
    /// The first error in the text, with its offset.
    pub fn element(&mut self, is_first: bool) -> Result<Option<&[u8]>, JsonError> {
        self.skip_space();
        if self.take(b']') {
            return Ok(None);
        }
        if !is_first && !self.take(b',') {
            return Err(self.expected("',' or ']'"));
        }
        self.skip_space();
        self.value().map(Some)
    }

    /// Parses another text, which has to be one value. The memory is reused.
    ///
    /// # Errors
    /// The first error in the text, with its offset.
    pub fn whole(&mut self, text: &'a str) -> Result<&[u8], JsonError> {
        (self.text, self.at) = (text, 0);
        self.skip_space();
        self.value()?;
        self.skip_space();
        self.expect_end()?;
        Ok(&self.document)
    }

    /// The document that was parsed last.
    #[must_use]
    pub fn into_document(self) -> Vec<u8> {
        self.document
    }

    fn error(&self, problem: JsonProblem) -> JsonError {
        JsonError { offset: self.at, problem }
    }

    fn expected(&self, what: &'static str) -> JsonError {
        self.error(JsonProblem::Expected(what))
    }

    fn check_size(&self, begin: usize) -> Result<(), JsonError> {
        let is_too_long = self.at - begin > SIZE_BYTES_MAX;
        if is_too_long { Err(self.error(JsonProblem::Size(SIZE_BYTES_MAX))) } else { Ok(()) }
    }

    fn any(&mut self, begin: usize, depth: usize) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'"') => {
                let (text, scratch) = self.string()?;
                match text {
                    Some(text) => self.builder.string(text),
                    None => self.builder.string(&scratch),
                }
                self.scratch = scratch;
                Ok(())
            }
            Some(b'{') => self.object(begin, depth),
            Some(b'[') => self.array(begin, depth),
            Some(b'-' | b'0'..=b'9') => {
                let (number, length) = number::parse(&self.text.as_bytes()[self.at..])
                    .map_err(|(problem, place)| self.error_at(place, problem))?;
                self.at += length;
                self.builder.number(number);
                Ok(())
            }
            Some(b't') => self.word("true").map(|()| self.builder.bool(true)),
            Some(b'f') => self.word("false").map(|()| self.builder.bool(false)),
            Some(b'n') => self.word("null").map(|()| self.builder.null()),
            _ => Err(self.expected("a value")),
        }
    }

    fn over(&self, over: LimitError) -> JsonError {
        self.error(match over {
            LimitError::Depth => JsonProblem::Depth(DEPTH_MAX),
            LimitError::Size => JsonProblem::Size(VALUE_BYTES_MAX),
        })
    }

    fn error_at(&self, place: usize, problem: JsonProblem) -> JsonError {
        JsonError { offset: self.at + place, problem }
    }

    fn word(&mut self, word: &'static str) -> Result<(), JsonError> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.expected("a value"));
        }
        self.at += word.len();
        Ok(())
    }

    /// Parses a string. Returns it as a part of the text, or, if it has escapes, `None` and the
    /// string in the buffer. The caller puts the buffer back to `scratch`.
    fn string(&mut self) -> Result<(Option<&'a str>, String), JsonError> {
        self.at += 1;
        let start = self.at;
        self.at += string::plain_bytes(&self.text.as_bytes()[start..]);
        if self.take(b'"') {
            return Ok((Some(&self.text[start..self.at - 1]), std::mem::take(&mut self.scratch)));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.push_str(&self.text[start..self.at]);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok((None, scratch));
                }
                Some(b'\\') => {
                    let escape = &self.text.as_bytes()[self.at + 1..];
                    let length = string::unescape(escape, &mut scratch)
                        .map_err(|(problem, place)| self.error_at(1 + place, problem))?;
                    self.at += 1 + length;
                }
                Some(_) => return Err(self.error(JsonProblem::ControlCharacter)),
                None => return Err(self.expected("a closing quote")),
            }
            let start = self.at;
            self.at += string::plain_bytes(&self.text.as_bytes()[start..]);
            scratch.push_str(&self.text[start..self.at]);
        }
    }

    fn descend(&self, begin: usize, depth: usize) -> Result<(), JsonError> {
        self.check_size(begin)?;
        if depth >= DEPTH_MAX { Err(self.error(JsonProblem::Depth(DEPTH_MAX))) } else { Ok(()) }
    }

    fn array(&mut self, begin: usize, depth: usize) -> Result<(), JsonError> {
        self.descend(begin, depth)?;
        self.at += 1;
        self.builder.begin_array();
        self.skip_space();
        if !self.take(b']') {
            loop {
                self.skip_space();
                self.any(begin, depth + 1)?;
                self.skip_space();
                if self.take(b']') {
                    break;
                }
                if !self.take(b',') {
                    return Err(self.expected("',' or ']'"));
                }
            }
        }
        self.builder.end();
        Ok(())
    }

    fn object(&mut self, begin: usize, depth: usize) -> Result<(), JsonError> {
        self.descend(begin, depth)?;
        self.at += 1;
        self.builder.begin_object();
        self.skip_space();
        if !self.take(b'}') {
            loop {
                self.skip_space();
                self.member(begin, depth)?;
                self.skip_space();
                if self.take(b'}') {
                    break;
                }
                if !self.take(b',') {
                    return Err(self.expected("',' or '}'"));
                }
            }
        }
        let ended = self.builder.try_end();
        ended.map_err(|name| self.error(JsonProblem::DuplicateName(name)))
    }

    fn member(&mut self, begin: usize, depth: usize) -> Result<(), JsonError> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("an attribute name"));
        }
        let (name, scratch) = self.string()?;
        match name {
            Some(name) => self.builder.name(name),
            None => self.builder.name(&scratch),
        }
        self.scratch = scratch;
        self.skip_space();
        if !self.take(b':') {
            return Err(self.expected("':'"));
        }
        self.skip_space();
        self.any(begin, depth + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::check;
    use crate::samples::values;
    use proptest::prelude::*;

    fn written(text: &str) -> Result<String, String> {
        let value = parse_value(text.as_bytes(), DuplicateRule::Refuse);
        value.map(|value| value.to_json()).map_err(|error| error.to_string())
    }

    #[test]
    fn parsed_values_are_written_in_normal_form() {
        for (text, expected) in [
            (" {\"b\" : 1 , \"a\":[ ] } ", "{\"b\":1,\"a\":[]}"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551616", "18446744073709552000"),
            ("1.0", "1"),
            ("-0.5e1", "-5"),
            ("9007199254740992.0", "9007199254740992.0"),
            ("1e300", "1e+300"),
            (r#""\ud83e\udd51\u0000\/\"""#, "\"🥑\\u0000/\\\"\""),
            ("[null,true,false]", "[null,true,false]"),
        ] {
            assert_eq!(written(text).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn errors_tell_their_offset() {
        for (text, expected) in [
            ("", "Expecting a value at byte 0"),
            ("{\"a\":1,}", "Expecting an attribute name at byte 7"),
            ("[1 2]", "Expecting ',' or ']' at byte 3"),
            ("01", "Expecting no digit after a leading zero at byte 1"),
            ("1.", "Expecting a digit at byte 2"),
            ("1e999", "Number out of range at byte 0"),
            ("\"\\ud800x\"", "Unpaired surrogate in \\u escape at byte 2"),
            ("\"\\udc00\"", "Unpaired surrogate in \\u escape at byte 2"),
            ("\"\\q\"", "Expecting an escape at byte 2"),
            ("\"a\nb\"", "Unescaped control character at byte 2"),
            ("\"a", "Expecting a closing quote at byte 2"),
            ("{\"a\":1,\"a\":2}", "Duplicate attribute name 'a' at byte 13"),
            ("1 x", "Expecting the end of the text at byte 2"),
            ("nul", "Expecting a value at byte 0"),
        ] {
            assert_eq!(written(text), Err(expected.to_owned()), "{text}");
        }
        let error = parse_packed(b"\"a\xff\"", DuplicateRule::Refuse).unwrap_err();
        assert_eq!(error, JsonError { offset: 2, problem: JsonProblem::Utf8 });
    }

    #[test]
    fn limits_hold() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(written(&nested(DEPTH_MAX)).is_ok());
        let error = written(&nested(DEPTH_MAX + 1)).unwrap_err();
        assert_eq!(error, "Nested deeper than 200 levels at byte 200");
        let parser = Parser::of_text("", DuplicateRule::Refuse);
        let parser = Parser { at: SIZE_BYTES_MAX + 1, ..parser };
        assert!(parser.check_size(1).is_ok());
        assert!(parser.check_size(0).is_err());
    }

    #[test]
    fn duplicate_names_follow_the_rule() {
        let text = br#"{"a":1,"b":2,"a":{"c":3},"d":4}"#;
        for (duplicates, expected) in [
            (DuplicateRule::First, r#"{"a":1,"b":2,"d":4}"#),
            (DuplicateRule::Last, r#"{"a":{"c":3},"b":2,"d":4}"#),
        ] {
            let document = parse_packed(text, duplicates).unwrap();
            assert!(check(&document));
            assert_eq!(Value::open(&document).unwrap().to_json(), expected);
        }
    }

    #[test]
    fn several_values_of_one_text_are_parsed() {
        let mut parser = Parser::new(b"{\"a\":\"x\"}\n[2]", DuplicateRule::Refuse).unwrap();
        let first = parser.value().unwrap().to_vec();
        assert_eq!(Value::open(&first).unwrap().attribute("a").to_json(), "\"x\"");
        assert!(parser.take(b'\n'));
        assert_eq!(Value::open(parser.value().unwrap()).unwrap().to_json(), "[2]");
        assert!(parser.expect_end().is_ok());
    }

    proptest! {
        #[test]
        fn json_round_trips(value in values()) {
            let text = value.to_json();
            let document = parse_packed(text.as_bytes(), DuplicateRule::Refuse).unwrap();
            prop_assert!(check(&document));
            let again = Value::open(&document).unwrap();
            prop_assert_eq!(again.to_json(), text.clone());
            prop_assert_eq!(&again, &value);
            let other: serde_json::Value = serde_json::from_str(&text).unwrap();
            drop(other);
        }

        #[test]
        fn text_is_refused_where_another_parser_refuses_it(
            text in "[\\[\\]{}\",:0-9eE.a\\\\+ -]{0,12}",
        ) {
            let ours = parse_packed(text.as_bytes(), DuplicateRule::Refuse).is_ok();
            // The other parser keeps the last of two members of one name.
            let ours = ours || parse_packed(text.as_bytes(), DuplicateRule::Last).is_ok();
            prop_assert_eq!(ours, serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }
}
