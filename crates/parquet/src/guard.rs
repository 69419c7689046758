//! Calls of the parquet library, with panics turned into errors.

use parquet::errors::ParquetError;
use pellucid_thread::contain;

/// Runs a call of the library. A panic becomes an error, so that no file can end the process.
pub(crate) fn guarded<T>(run: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    match contain(run) {
        Ok(outcome) => outcome.map_err(text_of),
        Err(panicked) => {
            let told = panicked.to_string();
            Err(format!("the file is damaged ({})", told.lines().next().unwrap_or_default()))
        }
    }
}

fn text_of(error: ParquetError) -> String {
    match error {
        ParquetError::General(text) | ParquetError::EOF(text) | ParquetError::NYI(text) => text,
        other => other.to_string(),
    }
}

/// Makes an error for code that the library calls.
pub(crate) fn failed(text: impl ToString) -> ParquetError {
    ParquetError::General(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let error = guarded::<()>(|| panic!("index out of bounds")).unwrap_err();
        assert_eq!(error, "the file is damaged (index out of bounds)");
        assert_eq!(guarded::<()>(|| Err(failed("no"))), Err("no".to_owned()));
        assert_eq!(guarded(|| Ok(7)), Ok(7));
    }
}
