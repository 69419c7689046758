//! Strings in JSON text.

use super::JsonProblem;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = ONES << 7;

/// Sets the high bit of each byte of `word` that equals `byte`. Only the lowest set bit is certain.
fn marks(word: u64, byte: u8) -> u64 {
    let zeroed = word ^ (ONES * u64::from(byte));
    zeroed.wrapping_sub(ONES) & !zeroed & HIGHS
}

/// The number of bytes at the front of `text` that need no escape: no quote, backslash or control
/// character. It looks at eight bytes at a time.
pub(super) fn plain_bytes(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = text[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let found = marks(word, b'"') | marks(word, b'\\') | controls;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let plain = |byte: &&u8| **byte >= 0x20 && **byte != b'"' && **byte != b'\\';
    at + text[at..].iter().take_while(plain).count()
}

/// True if all of a text is ASCII that needs no escape.
pub(crate) fn is_plain(text: &[u8]) -> bool {
    let are_plain = |word: u64| {
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        (marks(word, b'"') | marks(word, b'\\') | controls | word & HIGHS) == 0
    };
    // The last, incomplete word is checked together with bytes before it.
    if let Some(last) = text.last_chunk::<8>() {
        let (words, _) = text.as_chunks::<8>();
        return words.iter().chain([last]).all(|word| are_plain(u64::from_le_bytes(*word)));
    }
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        let [first, last] = [first, last].map(|half| u64::from(u32::from_le_bytes(*half)));
        return are_plain(first << 32 | last);
    }
    text.iter().all(|byte| matches!(byte, b' '..=b'~' | 0x7f if *byte != b'"' && *byte != b'\\'))
}

/// Appends the character of the escape behind a backslash to `out`. Returns the escape's length in
/// bytes, or an error with its offset.
pub(super) fn unescape(text: &[u8], out: &mut String) -> Result<usize, (JsonProblem, usize)> {
    let plain = match text.first() {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => {
            let (character, length) = unicode(&text[1..])?;
            out.push(character);
            return Ok(1 + length);
        }
        _ => return Err((JsonProblem::Expected("an escape"), 0)),
    };
    out.push(plain);
    Ok(1)
}

fn unicode(text: &[u8]) -> Result<(char, usize), (JsonProblem, usize)> {
    let first = hexadecimal(text).ok_or((JsonProblem::Expected("four hexadecimal digits"), 0))?;
    if let Some(character) = char::from_u32(first) {
        return Ok((character, 4));
    }
    let lone = (JsonProblem::LoneSurrogate, 0);
    if !(0xd800..0xdc00).contains(&first) || !text[4..].starts_with(b"\\u") {
        return Err(lone);
    }
    let second = hexadecimal(&text[6..]).filter(|second| (0xdc00..0xe000).contains(second));
    let second = second.ok_or(lone.clone())?;
    let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    Ok((char::from_u32(code).ok_or(lone)?, 10))
}

fn hexadecimal(text: &[u8]) -> Option<u32> {
    let digits = text.first_chunk::<4>()?;
    digits.iter().try_fold(0, |value, digit| Some(value * 16 + char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn plain_text_is_detected_at_any_length(text in prop::collection::vec(any::<u8>(), 0..30)) {
            // Mostly letters, because otherwise hardly any text would be plain.
            let some = |byte: &u8| if *byte < 200 { b'a' + byte % 26 } else { byte - 200 };
            for text in [text.iter().map(some).collect::<Vec<_>>(), text] {
                let is_it = |byte: &u8| {
                    byte.is_ascii() && *byte >= 0x20 && *byte != b'"' && *byte != b'\\'
                };
                prop_assert_eq!(is_plain(&text), text.iter().all(is_it), "{:?}", text);
            }
        }
    }
}
