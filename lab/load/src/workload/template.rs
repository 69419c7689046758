//! Text with places for the key: `/v0/entity?id={key}`, or `{key:10}` for at least ten digits.

/// The largest number of digits that can be required of a key.
const WIDTH_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    /// The key, padded with zeros to at least this many digits.
    Key(usize),
}

/// Text with places for the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

impl Template {
    /// Parses a text; `{{` and `}}` stand for braces.
    pub(crate) fn parse(text: &str) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let mut literal = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.extend_from_slice(&rest.as_bytes()[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("{{") {
                literal.push(b'{');
                rest = after;
            } else if let Some(after) = rest.strip_prefix("}}") {
                literal.push(b'}');
                rest = after;
            } else {
                let (width, after) = placeholder(rest)?;
                if !literal.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut literal)));
                }
                pieces.push(Piece::Key(width));
                rest = after;
            }
        }
        literal.extend_from_slice(rest.as_bytes());
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(Template { pieces })
    }

    /// True if the key has a place in it.
    pub(crate) fn has_key(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Key(_)))
    }

    /// Appends another template.
    pub(crate) fn append(&mut self, other: Template) {
        for piece in other.pieces {
            match piece {
                Piece::Text(text) => self.push(&text),
                Piece::Key(_) => self.pieces.push(piece),
            }
        }
    }

    /// Appends text without parsing it.
    pub(crate) fn push(&mut self, text: &[u8]) {
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.extend_from_slice(text),
            _ => self.pieces.push(Piece::Text(text.to_vec())),
        }
    }

    /// Appends the text to `out`, with the key in its places.
    #[inline]
    pub(crate) fn write(&self, key: u64, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Key(width) => write_number(key, *width, out),
            }
        }
    }
}

fn placeholder(rest: &str) -> Result<(usize, &str), String> {
    const ALLOWED: &str =
        "allowed are {key}, {key:10} for at least ten digits, and {{ and }} for braces";
    let wrong = || {
        let shown: String = rest.chars().take(20).collect();
        format!("'{shown}' is no place for a key: {ALLOWED}")
    };
    let (inside, after) =
        rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).ok_or_else(wrong)?;
    let width = match inside.split_once(':') {
        None if inside == "key" => 0,
        Some(("key", digits)) => {
            digits.parse().ok().filter(|width| *width <= WIDTH_MAX).ok_or_else(wrong)?
        }
        _ => return Err(wrong()),
    };
    Ok((width, after))
}

/// Appends a number, padded with zeros to `width`. It avoids `format!`, because it runs for every
/// request.
#[inline]
pub(crate) fn write_number(number: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let shown = &digits[at..];
    out.extend(std::iter::repeat_n(b'0', width.saturating_sub(shown.len())));
    out.extend_from_slice(shown);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, key: u64) -> String {
        let mut out = Vec::new();
        Template::parse(text).unwrap().write(key, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_stand_where_they_are_asked_for() {
        assert_eq!(written("/a?id={key}", 7), "/a?id=7");
        assert_eq!(written("{key:4}-{key}", 42), "0042-42");
        assert_eq!(written("{{{key}}}", 0), "{0}");
        assert_eq!(written("plain", u64::MAX), "plain");
        assert_eq!(written("{key}", u64::MAX), u64::MAX.to_string());
    }

    #[test]
    fn other_places_are_refused_with_what_is_allowed() {
        for text in ["{id}", "{key", "}", "{key:x}", "{key:99}", "{"] {
            let error = Template::parse(text).unwrap_err();
            assert!(error.contains("{key:10}"), "{text}: {error}");
        }
    }
}
