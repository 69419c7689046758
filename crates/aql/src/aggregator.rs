//! Aggregate functions, such as `SUM`.

/// An aggregate function: it makes one value of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregator {
    Count,
    Sum,
    Min,
    Max,
    Average,
    StddevPopulation,
    StddevSample,
    VariancePopulation,
    VarianceSample,
    Unique,
    SortedUnique,
    CountDistinct,
    Push,
    BitAnd,
    BitOr,
    BitXor,
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
            "STDDEV" | "STDDEV_POPULATION" => Self::StddevPopulation,
            "STDDEV_SAMPLE" => Self::StddevSample,
            "VARIANCE" | "VARIANCE_POPULATION" => Self::VariancePopulation,
            "VARIANCE_SAMPLE" => Self::VarianceSample,
            "UNIQUE" => Self::Unique,
            "SORTED_UNIQUE" => Self::SortedUnique,
            "COUNT_DISTINCT" | "COUNT_UNIQUE" => Self::CountDistinct,
            "PUSH" => Self::Push,
            "BIT_AND" => Self::BitAnd,
            "BIT_OR" => Self::BitOr,
            "BIT_XOR" => Self::BitXor,
            _ => return None,
        })
    }
}
