//! Conversion to lower and upper case.

use pellucid_value::{Value, beginning};

use super::function::Function;
use super::makers::{STEP_BYTES, TextMaker, pieces, text};
use crate::Result;
use crate::query_run::QueryRun;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("LOWER", 1, 1, |run, arguments| {
        let input = text(run, &arguments[0])?;
        lower(TextMaker::with_room(run, input.len())?, &input)?.finish()
    }),
    Function::pure("UPPER", 1, 1, upper),
];

/// The bytes around a sigma that are examined to see if it ends a word.
const CONTEXT_BYTES: usize = 128;

/// The text in lower case, to be compared regardless of case: a sigma at the end of a word is as
/// any other.
pub(crate) fn without_case(run: &mut QueryRun, input: &str) -> Result<String> {
    let mut made = TextMaker::with_room(run, input.len())?;
    for piece in pieces(input, STEP_BYTES) {
        made.push(&piece.to_lowercase().replace('ς', "σ"))?;
    }
    Ok(made.into_text())
}

fn lower<'r>(mut made: TextMaker<'r>, input: &str) -> Result<TextMaker<'r>> {
    let mut at = 0;
    for piece in pieces(input, STEP_BYTES) {
        if piece.is_ascii() {
            made.push(&piece.to_ascii_lowercase())?;
        } else if piece.contains('Σ') {
            for (offset, character) in piece.char_indices() {
                match character {
                    'Σ' => made.push_char(sigma(input, at + offset))?,
                    other => other.to_lowercase().try_for_each(|lower| made.push_char(lower))?,
                }
            }
        } else {
            made.push(&piece.to_lowercase())?;
        }
        at += piece.len();
    }
    Ok(made)
}

/// The lower case of the sigma at this offset: Unicode's final sigma at the end of a word. That
/// depends on the text around it, so the text is converted with it.
fn sigma(input: &str, at: usize) -> char {
    let begin = beginning(input, at.saturating_sub(CONTEXT_BYTES)).len();
    let around = &beginning(input, at + CONTEXT_BYTES)[begin..];
    let before = input[begin..at].chars().map(|before| before.to_lowercase().count()).sum();
    around.to_lowercase().chars().nth(before).unwrap_or('σ')
}

fn upper(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let input = text(run, &arguments[0])?;
    let mut made = TextMaker::with_room(run, input.len())?;
    pieces(&input, STEP_BYTES).try_for_each(|piece| made.push(&piece.to_uppercase()))?;
    made.finish()
}
