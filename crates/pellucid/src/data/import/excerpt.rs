//! Excerpts of long texts, for messages.

/// The most characters of an error message that are shown: it may contain the whole document.
const ERROR_CHARACTERS_MAX: usize = 400;

/// Shortens a message, or a part of one, to [`ERROR_CHARACTERS_MAX`].
pub(super) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(ERROR_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_texts_are_cut() {
        assert_eq!(excerpt("ü"), "ü");
        let long = excerpt(&"ü".repeat(ERROR_CHARACTERS_MAX + 1));
        assert_eq!(long.chars().count(), ERROR_CHARACTERS_MAX + 1);
    }
}
