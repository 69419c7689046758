//! The functions of the language, by family.
//!
//! A wrong argument is no error, but for a few functions, as in ArangoDB: the function returns null
//! with a warning, so that a few unexpected documents do not end a query.

mod arrays;
mod case;
mod dates;
mod digests;
mod documents;
mod encodings;
mod function;
mod makers;
mod member_selection;
mod numbers;
mod objects;
mod regular_expressions;
mod search;
mod sets;
mod statistics;
mod strings;
mod substitute;
mod time;
mod types;
mod value_set;

use std::collections::HashMap;
use std::sync::LazyLock;

pub(crate) use arrays::whole_range;
pub(crate) use case::without_case;
pub(crate) use function::Function;
pub(crate) use makers::{STEP_BYTES, room_for, text};
pub use time::parse as parse_date;
pub use types::is_document_key;
pub(crate) use value_set::{Set, compare, equal};

static ALL: LazyLock<HashMap<&'static str, &'static Function>> = LazyLock::new(|| {
    let families = [
        arrays::FUNCTIONS,
        case::FUNCTIONS,
        dates::FUNCTIONS,
        digests::FUNCTIONS,
        documents::FUNCTIONS,
        encodings::FUNCTIONS,
        numbers::FUNCTIONS,
        objects::FUNCTIONS,
        member_selection::FUNCTIONS,
        regular_expressions::FUNCTIONS,
        sets::FUNCTIONS,
        statistics::FUNCTIONS,
        strings::FUNCTIONS,
        substitute::FUNCTIONS,
        types::FUNCTIONS,
    ];
    families.into_iter().flatten().map(|function| (function.name, function)).collect()
});

/// The function of this name, which must be in upper case.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    ALL.get(name).copied()
}

/// The name of each function, with the least and the greatest number of its arguments.
pub fn functions() -> impl Iterator<Item = (&'static str, usize, usize)> {
    ALL.values().map(|function| (function.name, function.arguments_min, function.arguments_max))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use crate::query_run::QueryRun;
    use crate::{
        Collection, CollectionId, Index, IndexRequest, KillSwitch, QueryError, QueryOptions, Scan,
        Source, WriteBatch,
    };

    /// A source without collections.
    struct EmptySource;

    impl Source for EmptySource {
        fn collection(&self, _: &str) -> Option<Collection> {
            None
        }

        fn count(&self, _: CollectionId) -> Result<u64, QueryError> {
            unreachable!("there is no collection")
        }

        fn scan(&self, _: CollectionId) -> Result<Box<dyn Scan>, QueryError> {
            unreachable!("there is no collection")
        }

        fn indexes(&self, _: CollectionId) -> Vec<Index> {
            Vec::new()
        }

        fn index_scan(
            &self,
            _: CollectionId,
            _: &IndexRequest,
        ) -> Result<Box<dyn Scan>, QueryError> {
            unreachable!("there is no collection")
        }

        fn document(
            &self,
            _: CollectionId,
            _: &str,
        ) -> Result<Option<pellucid_value::Value>, QueryError> {
            unreachable!("there is no collection")
        }

        fn begin_writes(&self) -> Result<Box<dyn WriteBatch>, QueryError> {
            unreachable!("there is no collection")
        }
    }

    /// A run without limits of time and memory.
    pub(crate) fn run() -> QueryRun {
        QueryRun::new(Arc::new(EmptySource), QueryOptions::default(), KillSwitch::default())
    }
}
