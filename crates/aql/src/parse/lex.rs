//! The lexer: from text to tokens.

use std::num::IntErrorKind;

use pellucid_budget::Share;

use super::ast::{Expression, Member, Statement};
use super::position;
use super::token::{Keyword, Sign, Token};
use crate::{QueryError, Result};

/// The most copies of a query's text in memory while it is parsed: in tokens and in the tree, in
/// the names of bind variables, and in strings that grow.
const TEXT_COPIES: usize = 4;
/// The least capacity of the list of tokens.
const TOKENS_MIN: usize = 16;

/// A token with its offset in bytes.
#[derive(Clone, Debug)]
pub(crate) struct PositionedToken {
    pub(crate) token: Token,
    pub(crate) at: usize,
}

/// All tokens of `text`, including the end, and the most bytes of the tree that they can make. The
/// memory of both is taken from `share` before it is allocated.
pub(crate) fn tokens(text: &str, share: &mut Share) -> Result<(Vec<PositionedToken>, usize)> {
    let mut lexer = Lexer { text, at: 0 };
    let (mut tokens, mut tree_bytes) = (Vec::new(), 0);
    share.take(text.len().saturating_mul(TEXT_COPIES))?;
    loop {
        lexer.skip_blank()?;
        let at = lexer.at;
        let token = lexer.next()?;
        let is_end = token == Token::End;
        share.take(tree_bytes_of(&token))?;
        tree_bytes += tree_bytes_of(&token);
        if tokens.len() == tokens.capacity() {
            let (old, new) = (tokens.capacity(), TOKENS_MIN.max(2 * tokens.capacity()));
            // The old and the new list both exist while the tokens are moved.
            share.take(new * size_of::<PositionedToken>())?;
            tokens.reserve_exact(new - old);
            share.give_back(old * size_of::<PositionedToken>());
        }
        tokens.push(PositionedToken { token, at });
        if is_end {
            return Ok((tokens, tree_bytes));
        }
    }
}

/// The most bytes that a token adds to the tree besides its text, including the spare capacity of
/// lists.
fn tree_bytes_of(token: &Token) -> usize {
    let expression = 2 * size_of::<Expression>();
    match token {
        Token::Keyword(_) => expression + 2 * size_of::<Statement>(),
        // The first capacity of a list is four elements.
        Token::Sign(Sign::Open | Sign::OpenBrace | Sign::OpenBracket) => {
            expression + 4 * size_of::<Member>()
        }
        Token::Sign(Sign::Comma | Sign::Colon | Sign::Close)
        | Token::Sign(Sign::CloseBrace | Sign::CloseBracket)
        | Token::End => 0,
        // The name is also in the list of bind variables.
        Token::Bind(_) | Token::CollectionBind(_) => 2 * expression,
        _ => expression,
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, at: usize, what: &str) -> QueryError {
        position::error(self.text, at, &format!("syntax error, {what}"))
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) -> Result<()> {
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start().len();
            let rest = self.rest();
            if rest.starts_with("//") {
                self.at += rest.find(['\n', '\r']).unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let Some(end) = rest.find("*/") else {
                    return Err(self.error(self.at, "unexpected unterminated multi-line comment"));
                };
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Token> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        match first {
            '"' | '\'' => self.quoted(first).map(Token::String),
            '`' | '´' => self.quoted(first).map(|name| Token::Name(name, true)),
            '0'..='9' => self.number(),
            '.' if rest[1..].starts_with(|next: char| next.is_ascii_digit()) => self.number(),
            '@' => self.bind(),
            '_' | '$' | 'a'..='z' | 'A'..='Z' => Ok(self.word()),
            _ => match Sign::at(rest) {
                Some((sign, length)) => {
                    self.at += length;
                    Ok(Token::Sign(sign))
                }
                None => Err(self.error(self.at, &format!("unexpected character '{first}'"))),
            },
        }
    }

    fn word(&mut self) -> Token {
        let word = self.take_while(|next| next.is_ascii_alphanumeric() || "_$".contains(next));
        match Keyword::of(word) {
            Some(keyword) => Token::Keyword(keyword),
            None => Token::Name(word.to_owned(), false),
        }
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|next| !fits(next)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn bind(&mut self) -> Result<Token> {
        let begin = self.at;
        self.at += 1;
        let is_collection = self.rest().starts_with('@');
        self.at += usize::from(is_collection);
        let name = self.take_while(|next| next.is_ascii_alphanumeric() || next == '_').to_owned();
        if name.is_empty() {
            return Err(self.error(begin, "unexpected character '@', expecting a name after it"));
        }
        Ok(if is_collection {
            Token::CollectionBind(format!("@{name}"))
        } else {
            Token::Bind(name)
        })
    }

    /// Reads a string or a quoted name, and its escapes.
    fn quoted(&mut self, quote: char) -> Result<String> {
        let begin = self.at;
        self.at += quote.len_utf8();
        let mut text = String::new();
        loop {
            let plain = self.take_while(|next| next != quote && next != '\\');
            text.push_str(plain);
            let mut rest = self.rest().chars();
            match rest.next() {
                Some('\\') => {
                    self.at += 1;
                    let Some(escaped) = rest.next() else { continue };
                    self.at += escaped.len_utf8();
                    self.escape(escaped, &mut text);
                }
                Some(_) => {
                    self.at += quote.len_utf8();
                    return Ok(text);
                }
                None => return Err(self.error(begin, "unexpected unterminated string literal")),
            }
        }
    }

    fn escape(&mut self, escaped: char, text: &mut String) {
        match escaped {
            'n' => text.push('\n'),
            'r' => text.push('\r'),
            't' => text.push('\t'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'u' => match self.hexadecimal() {
                Some(unit) => self.unicode(unit, text),
                None => text.push('u'),
            },
            other => text.push(other),
        }
    }

    fn hexadecimal(&mut self) -> Option<u32> {
        let digits = self.rest().get(..4)?;
        let unit = u32::from_str_radix(digits, 16).ok()?;
        self.at += 4;
        Some(unit)
    }

    /// Appends the character of a UTF-16 code unit; reads the second unit of a surrogate pair. A
    /// lone surrogate becomes the replacement character.
    fn unicode(&mut self, unit: u32, text: &mut String) {
        let before = self.at;
        let mut code = unit;
        if (0xd800..0xdc00).contains(&unit) && self.rest().starts_with("\\u") {
            self.at += 2;
            match self.hexadecimal().filter(|second| (0xdc00..0xe000).contains(second)) {
                Some(second) => code = 0x1_0000 + ((unit - 0xd800) << 10) + (second - 0xdc00),
                None => self.at = before,
            }
        }
        text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
    }

    fn number(&mut self) -> Result<Token> {
        let begin = self.at;
        let rest = self.rest();
        let radix = match rest.get(..2) {
            Some("0x" | "0X") => 16,
            Some("0b" | "0B") => 2,
            _ => return self.decimal(),
        };
        self.at += 2;
        let digits = self.take_while(|next| next.is_ascii_alphanumeric());
        let expected = match u32::from_str_radix(digits, radix) {
            Ok(value) => return Ok(Token::Integer(u64::from(value))),
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => {
                "at most 32 bits of digits".to_owned()
            }
            Err(_) => format!("digits of base {radix} after {}", &rest[..2]),
        };
        Err(self.error(begin, &format!("unexpected number, expecting {expected}")))
    }

    fn decimal(&mut self) -> Result<Token> {
        let begin = self.at;
        let whole = self.take_while(|next| next.is_ascii_digit());
        if whole.len() > 1 && whole.starts_with('0') {
            return Err(self.error(begin, "unexpected number with a leading zero"));
        }
        let mut is_whole = true;
        let rest = self.rest();
        if rest.starts_with('.') && !rest.starts_with("..") {
            self.at += 1;
            is_whole = false;
            if self.take_while(|next| next.is_ascii_digit()).is_empty() {
                return Err(self.error(self.at - 1, "unexpected ., expecting digits after it"));
            }
        }
        if self.rest().starts_with(['e', 'E']) {
            let sign = usize::from(self.rest()[1..].starts_with(['+', '-']));
            if self.rest()[1 + sign..].starts_with(|next: char| next.is_ascii_digit()) {
                self.at += 1 + sign;
                self.take_while(|next| next.is_ascii_digit());
                is_whole = false;
            }
        }
        if self.rest().starts_with(|next: char| next.is_ascii_alphabetic() || next == '_') {
            return Err(self.error(begin, "unexpected number with letters behind it"));
        }
        let text = &self.text[begin..self.at];
        if is_whole && let Ok(value) = text.parse() {
            return Ok(Token::Integer(value));
        }
        Ok(Token::Double(text.parse().unwrap_or(f64::INFINITY)))
    }
}
