//! `COLLECT`: rows become groups.

use super::NodeKind;
use super::build::{Binding, Builder};
use crate::evaluate::{Code, Slot};
use crate::parse::ast::{self, Expression};
use crate::{QueryError, number};

/// Groups of rows.
#[derive(Clone, Debug)]
pub(crate) struct Collect {
    /// The values that rows of a group have in common.
    pub(crate) groups: Vec<(Slot, Code)>,
    pub(crate) aggregates: Vec<Aggregate>,
    /// All rows of a group.
    pub(crate) into: Option<(Slot, Into)>,
    /// The number of rows that a group has.
    pub(crate) count: Option<Slot>,
}

/// The part of each row of a group that is kept.
#[derive(Clone, Debug)]
pub(crate) enum Into {
    Variables(Vec<(String, Code)>),
    Value(Code),
}

/// A value over all rows of a group.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) slot: Slot,
    pub(crate) aggregator: Aggregator,
    pub(crate) code: Code,
}

/// The number of values that become one.
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
    fn of(name: &str) -> Option<Self> {
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

impl Collect {
    pub(super) fn slots_set(&self) -> Vec<Slot> {
        let groups = self.groups.iter().map(|(slot, _)| *slot);
        let aggregates = self.aggregates.iter().map(|aggregate| aggregate.slot);
        let others = self.into.iter().map(|(slot, _)| *slot).chain(self.count);
        groups.chain(aggregates).chain(others).collect()
    }

    pub(super) fn for_each_code<'a>(&'a self, visit: &mut dyn FnMut(&'a Code)) {
        self.groups.iter().for_each(|(_, code)| visit(code));
        self.aggregates.iter().for_each(|aggregate| visit(&aggregate.code));
        match &self.into {
            Some((_, Into::Variables(variables))) => {
                variables.iter().for_each(|(_, code)| visit(code));
            }
            Some((_, Into::Value(code))) => visit(code),
            None => {}
        }
    }
}

impl Builder<'_> {
    pub(super) fn collect(&mut self, collect: &ast::Collect) -> Result<(), QueryError> {
        let mut planned =
            Collect { groups: Vec::new(), aggregates: Vec::new(), into: None, count: None };
        let mut visible: Vec<Binding> = Vec::new();
        let mut show = |name: &str, slot: Slot| {
            let code = Code::Path(slot, Vec::new());
            visible.push(Binding { name: name.to_owned(), code });
        };
        for (name, value) in &collect.groups {
            let code = self.expression(value)?;
            let slot = self.slot(Some(name));
            show(name, slot);
            planned.groups.push((slot, code));
        }
        for (name, value) in &collect.aggregates {
            let aggregate = self.aggregate(name, value)?;
            show(name, aggregate.slot);
            planned.aggregates.push(aggregate);
        }
        if let Some((name, value)) = &collect.into {
            let kept = match value {
                Some(value) => Into::Value(self.expression(value)?),
                None => Into::Variables(self.kept(collect.keep.as_deref())?),
            };
            let slot = self.slot(Some(name));
            show(name, slot);
            planned.into = Some((slot, kept));
        }
        if let Some(name) = &collect.count {
            let slot = self.slot(Some(name));
            show(name, slot);
            planned.count = Some(slot);
        }
        // What was visible before is no more, but for what lies around a subquery.
        self.scope.truncate(self.outer_visible());
        for binding in visible {
            self.declare(&binding.name, binding.code)?;
        }
        self.push(NodeKind::Collect(Box::new(planned)))
    }

    /// The number of names that come from around the subquery: those that none of its nodes has
    /// set, and that stood there before the others.
    fn outer_visible(&self) -> usize {
        self.outer_scope.last().copied().unwrap_or(0)
    }

    fn kept(&self, keep: Option<&[String]>) -> Result<Vec<(String, Code)>, QueryError> {
        let Some(names) = keep else {
            let own = &self.scope[self.outer_visible()..];
            return Ok(own.iter().map(|own| (own.name.clone(), own.code.clone())).collect());
        };
        let find = |name: &String| match self.find(name) {
            Some(binding) => Ok((name.clone(), binding.code.clone())),
            None => {
                let message = format!("unknown variable '{name}'");
                Err(QueryError::new(number::VARIABLE_NAME_UNKNOWN, message))
            }
        };
        names.iter().map(find).collect()
    }

    fn aggregate(&mut self, name: &str, value: &Expression) -> Result<Aggregate, QueryError> {
        let wrong = || {
            let message = "invalid aggregate expression: an aggregate function of one argument is \
                           expected";
            QueryError::new(number::INVALID_AGGREGATE_EXPRESSION, message)
        };
        let Expression::Call { name: function, arguments } = value else { return Err(wrong()) };
        let aggregator = Aggregator::of(function).ok_or_else(wrong)?;
        let code = match arguments.as_slice() {
            [argument] => self.expression(argument)?,
            [] if aggregator == Aggregator::Count => Code::Constant(true.into()),
            _ => return Err(wrong()),
        };
        Ok(Aggregate { slot: self.slot(Some(name)), aggregator, code })
    }
}
