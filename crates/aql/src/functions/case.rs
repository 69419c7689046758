//! Conversion to lower and upper case.

use pellucid_value::Value;

use super::function::Function;
use super::make::{STEP_BYTES, TextMaker, pieces, text};
use crate::Result;
use crate::run::Run;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("LOWER", 1, 1, |run, arguments| {
        let own = text(run, &arguments[0])?;
        lower_into(TextMaker::with_room(run, own.len())?, &own)?.finish()
    }),
    Function::pure("UPPER", 1, 1, upper),
];

/// The bytes around a sigma that are examined to see if it ends a word.
const CONTEXT_BYTES: usize = 128;

/// The text in lower case.
pub(crate) fn lower(run: &mut Run, own: &str) -> Result<String> {
    Ok(lower_into(TextMaker::with_room(run, own.len())?, own)?.into_text())
}

fn lower_into<'r>(mut made: TextMaker<'r>, own: &str) -> Result<TextMaker<'r>> {
    let mut at = 0;
    for piece in pieces(own, STEP_BYTES) {
        if piece.is_ascii() {
            made.push(&piece.to_ascii_lowercase())?;
        } else if piece.contains('Σ') {
            for (offset, character) in piece.char_indices() {
                match character {
                    'Σ' => made.push_char(sigma(own, at + offset))?,
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

/// The lower case of the sigma at this offset, which has another form at the end of a word.
fn sigma(own: &str, at: usize) -> char {
    let around = |mut at: usize| {
        while !own.is_char_boundary(at) {
            at += 1;
        }
        at
    };
    let begin = around(at.saturating_sub(CONTEXT_BYTES));
    let end = around((at + CONTEXT_BYTES).min(own.len()));
    let before = own[begin..at].chars().map(|before| before.to_lowercase().count()).sum();
    own[begin..end].to_lowercase().chars().nth(before).unwrap_or('σ')
}

fn upper(run: &mut Run, arguments: &[Value]) -> Result<Value> {
    let own = text(run, &arguments[0])?;
    let mut made = TextMaker::with_room(run, own.len())?;
    pieces(&own, STEP_BYTES).try_for_each(|piece| made.push(&piece.to_uppercase()))?;
    made.finish()
}
