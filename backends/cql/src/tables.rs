//! The tables in the ring. The statements that create a table and insert rows, and the check of an
//! existing table, are all made from one list of its columns, so that they cannot differ.

/// The end of the type of a static column, which a partition has once.
const ONCE: &str = " static";

/// A table in the ring.
pub(crate) struct RingTable {
    pub(crate) name: &'static str,
    /// The names and types of the columns.
    columns: &'static [(&'static str, &'static str)],
    key: &'static str,
}

pub(crate) const SPACES: RingTable =
    RingTable { name: "spaces", columns: &[("space", "text"), ("buckets", "int")], key: "space" };
pub(crate) const PARTS: RingTable = RingTable {
    name: "parts",
    columns: &[("space", "text"), ("part", "blob")],
    key: "space, part",
};
pub(crate) const CONTENTS: RingTable = RingTable {
    name: "contents",
    columns: &[
        ("space", "text"),
        ("part", "blob"),
        ("key", "blob"),
        ("version", "bigint"),
        ("expires", "bigint"),
        ("length", "bigint"),
        ("value", "blob"),
        ("done", "map<bigint, bigint> static"),
    ],
    key: "(space, part), key",
};

impl RingTable {
    pub(crate) const ALL: [RingTable; 3] = [SPACES, PARTS, CONTENTS];

    /// The statement that creates the table if it does not exist.
    pub(crate) fn creation(&self, keyspace: &str) -> String {
        let columns: Vec<_> =
            self.columns.iter().map(|(name, kind)| format!("{name} {kind}, ")).collect();
        let (name, key, columns) = (self.name, self.key, columns.concat());
        format!("CREATE TABLE IF NOT EXISTS {keyspace}.{name} ({columns}PRIMARY KEY ({key}))")
    }

    /// The columns for which `has` is false.
    pub(crate) fn missing(&self, has: impl Fn(&str) -> bool) -> Vec<&'static str> {
        self.columns.iter().map(|(name, _)| *name).filter(|name| !has(name)).collect()
    }

    /// The statement that inserts a row; its values are bound in the order of the columns.
    pub(crate) fn insertion(&self, keyspace: &str) -> String {
        let of_rows = self.columns.iter().filter(|(_, kind)| !kind.ends_with(ONCE));
        let names: Vec<_> = of_rows.map(|(name, _)| *name).collect();
        let (name, values) = (self.name, vec!["?"; names.len()].join(", "));
        format!("INSERT INTO {keyspace}.{name} ({}) VALUES ({values})", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_all_columns() {
        assert_eq!(
            SPACES.creation("k"),
            "CREATE TABLE IF NOT EXISTS k.spaces (space text, buckets int, PRIMARY KEY (space))"
        );
        assert!(CONTENTS.creation("k").ends_with("static, PRIMARY KEY ((space, part), key))"));
        assert_eq!(PARTS.insertion("k"), "INSERT INTO k.parts (space, part) VALUES (?, ?)");
        assert_eq!(
            CONTENTS.insertion("k"),
            "INSERT INTO k.contents (space, part, key, version, expires, length, value) \
             VALUES (?, ?, ?, ?, ?, ?, ?)",
            "the notes are the partition's"
        );
    }

    #[test]
    fn missing_columns_are_named() {
        assert_eq!(CONTENTS.missing(|name| name != "done"), ["done"]);
        assert_eq!(PARTS.missing(|_| false), ["space", "part"]);
    }
}
