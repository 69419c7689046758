//! Regular expressions. They come from queries and from documents, so that none may take long: the
//! library that is used needs time in proportion to the text.

use std::sync::Arc;

use pellucid_value::{Ref, Value};
use regex::{Regex, RegexBuilder};

use super::operators::like;
use crate::parse::ast::Binary;
use crate::run::Run;
use crate::{QueryError, number};

/// How large a compiled expression may get, in bytes.
const REGEX_BYTES_MAX: usize = 1 << 20;
/// How many compiled expressions are kept.
const KEPT_MAX: usize = 64;

/// Compiled expressions that were used lately.
#[derive(Debug, Default)]
pub(crate) struct Regexes(Vec<(String, bool, Option<Arc<Regex>>)>);

impl Regexes {
    /// The compiled expression; nothing if the text is none.
    pub(crate) fn get(&mut self, text: &str, ignores_case: bool) -> Option<Arc<Regex>> {
        let is_it = |kept: &&(String, bool, _)| kept.0 == text && kept.1 == ignores_case;
        if let Some((.., regex)) = self.0.iter().find(is_it) {
            return regex.clone();
        }
        let built = RegexBuilder::new(text)
            .case_insensitive(ignores_case)
            .size_limit(REGEX_BYTES_MAX)
            .dfa_size_limit(REGEX_BYTES_MAX)
            .build();
        let regex = built.ok().map(Arc::new);
        if self.0.len() == KEPT_MAX {
            self.0.remove(0);
        }
        self.0.push((text.to_owned(), ignores_case, regex.clone()));
        regex
    }
}

/// `LIKE` and `=~`, and their opposites.
pub(super) fn matches(
    operator: Binary,
    left: &Value,
    right: &Value,
    run: &mut Run,
) -> Result<Value, QueryError> {
    let is_negative = matches!(operator, Binary::NotLike | Binary::NotRegex);
    let text = pellucid_value::to_text(left.view());
    let pattern = pellucid_value::to_text(right.view());
    let holds = if matches!(operator, Binary::Like | Binary::NotLike) {
        like(&text, &pattern, false, &mut || run.tick())?
    } else {
        if !matches!(right.view(), Ref::String(_)) {
            return Ok(Value::Bool(is_negative));
        }
        let Some(regex) = run.regexes.get(&pattern, false) else {
            return run.warn_null(number::INVALID_REGEX, "invalid regex value");
        };
        regex.is_match(&text)
    };
    Ok(Value::Bool(holds != is_negative))
}
