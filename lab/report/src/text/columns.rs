//! Rows of text cells in aligned columns.

/// Aligns rows: the first column to the left, the others to the right, each as wide as its widest
/// cell, with `gap` spaces between them. Every row ends with a line break and without trailing
/// spaces.
pub(crate) fn aligned(rows: &[Vec<String>], gap: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width_of = |column: usize| {
        let words = rows.iter().filter_map(|row| row.get(column));
        words.map(|word| word.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width_of).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (word, width)) in row.iter().zip(&widths).enumerate() {
            if column == 0 {
                line.push_str(&format!("{word:<width$}"));
            } else {
                line.push_str(&format!("{:gap$}{word:>width$}", ""));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_counted_in_characters() {
        let row = |words: [&str; 3]| words.map(str::to_owned).to_vec();
        let rows = [row(["µ", "1", "22"]), row(["name", "333", "4"]), row(["x", "", ""])];
        assert_eq!(aligned(&rows, 2), "µ       1  22\nname  333   4\nx\n");
        assert_eq!(aligned(&[], 2), "");
    }
}
