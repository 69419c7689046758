//! Aggregate functions, such as `SUM`.

/// An aggregate function: it makes one value of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregator {
    Count,
    Sum,
    Min,
    Max,
    Average,
    Unique,
    SortedUnique,
    CountDistinct,
    Push,
    /// The function of this name, applied to the array of all values.
    Function(&'static str),
}

impl Aggregator {
    /// The aggregator of that name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "COUNT" | "LENGTH" => Self::Count,
            "SUM" => Self::Sum,
            "MIN" => Self::Min,
            "MAX" => Self::Max,
            "AVG" | "AVERAGE" => Self::Average,
            "STDDEV" | "STDDEV_POPULATION" => Self::Function("STDDEV_POPULATION"),
            "STDDEV_SAMPLE" => Self::Function("STDDEV_SAMPLE"),
            "VARIANCE" | "VARIANCE_POPULATION" => Self::Function("VARIANCE_POPULATION"),
            "VARIANCE_SAMPLE" => Self::Function("VARIANCE_SAMPLE"),
            "UNIQUE" => Self::Unique,
            "SORTED_UNIQUE" => Self::SortedUnique,
            "COUNT_DISTINCT" | "COUNT_UNIQUE" => Self::CountDistinct,
            "PUSH" => Self::Push,
            "BIT_AND" => Self::Function("BIT_AND"),
            "BIT_OR" => Self::Function("BIT_OR"),
            "BIT_XOR" => Self::Function("BIT_XOR"),
            _ => return None,
        })
    }

    /// The name that the plan shows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Count => "COUNT",
            Self::Sum => "SUM",
            Self::Min => "MIN",
            Self::Max => "MAX",
            Self::Average => "AVERAGE",
            Self::Unique => "UNIQUE",
            Self::SortedUnique => "SORTED_UNIQUE",
            Self::CountDistinct => "COUNT_DISTINCT",
            Self::Push => "PUSH",
            Self::Function(name) => name,
        }
    }
}
