//! Calls of the library beneath, from which nothing but an error comes out.

use parquet::errors::ParquetError;
use pellucid_thread::contain;

/// Runs a call. A panic is an error as well: what a file says must not end the process.
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

/// An error of ours, where the library calls us.
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
