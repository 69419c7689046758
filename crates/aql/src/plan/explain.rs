//! Descriptions of plans, for `/_api/explain`.

use pellucid_value::{ObjectBuilder, Value};

use super::builder::Access;
use super::variables::Variables;
use crate::evaluate::text_of;
use crate::tree::{Aggregate, Code, Collect, IndexAccess, Match, Node, NodeKind, Slot};
use crate::{Collection, IndexKind};

/// The plan in ArangoDB's format: nodes with their estimates, rules, collections and variables.
pub(super) fn explain(
    nodes: &[Node],
    variables: &Variables,
    collections: &[(Collection, Access)],
    rules: &[&'static str],
) -> Value {
    let explainer = Explainer { variables };
    let mut before: Option<usize> = None;
    let mut shown = Vec::new();
    for node in nodes {
        shown.push(explainer.node(node, before));
        before = Some(node.id);
    }
    let last = nodes.last();
    let mut plan = ObjectBuilder::new();
    plan.insert("nodes", list(shown));
    let mut known: Vec<&str> = Vec::new();
    for rule in rules {
        if !known.contains(rule) {
            known.push(rule);
        }
    }
    plan.insert("rules", list(known.into_iter().map(Value::from)));
    plan.insert("collections", shown_collections(collections));
    let slots = 0..variables.len();
    plan.insert("variables", list(slots.map(|slot| explainer.variable(slot))));
    plan.insert("estimatedCost", Value::from(last.map_or(0.0, |node| node.cost)));
    plan.insert("estimatedNrItems", items(last.map_or(0.0, |node| node.items)));
    let writes = collections.iter().any(|(_, access)| *access == Access::Write);
    plan.insert("isModificationQuery", Value::Bool(writes));
    object(plan)
}

fn shown_collections(collections: &[(Collection, Access)]) -> Value {
    let show = |(collection, access): &(Collection, Access)| {
        let access = if *access == Access::Write { "write" } else { "read" };
        let name = Value::from(collection.name.as_str());
        object_of([("name", name), ("type", Value::from(access))])
    };
    list(collections.iter().map(show))
}

/// A writer of nodes and expressions with the names of their variables.
struct Explainer<'a> {
    variables: &'a Variables,
}

impl Explainer<'_> {
    fn variable(&self, slot: Slot) -> Value {
        let name = Value::from(self.variables.name_of(slot));
        object_of([("id", Value::count(slot)), ("name", name)])
    }

    fn show(&self, code: &Code) -> Value {
        Value::from(text_of(code, &|slot| self.variables.name_of(slot)))
    }

    fn show_all(&self, codes: &[Code]) -> Value {
        list(codes.iter().map(|code| self.show(code)))
    }

    fn node(&self, node: &Node, before: Option<usize>) -> Value {
        let mut shown = ObjectBuilder::new();
        shown.insert("type", Value::from(node.kind.name()));
        let before = before.map(Value::count);
        shown.insert("dependencies", list(before));
        shown.insert("id", Value::count(node.id));
        shown.insert("estimatedCost", Value::from(node.cost));
        shown.insert("estimatedNrItems", items(node.items));
        self.details(&node.kind, &mut shown);
        object(shown)
    }

    fn details(&self, kind: &NodeKind, shown: &mut ObjectBuilder) {
        match kind {
            NodeKind::Singleton | NodeKind::NoResults => {}
            NodeKind::EnumerateCollection { collection, slot, filter } => {
                shown.insert("collection", Value::from(collection.name.as_str()));
                shown.insert("outVariable", self.variable(*slot));
                shown.insert("filter", self.show_all(filter));
            }
            NodeKind::Index(access) => self.index_details(access, shown),
            NodeKind::EnumerateList { list, slot } => {
                shown.insert("expression", self.show(list));
                shown.insert("outVariable", self.variable(*slot));
            }
            NodeKind::Calculation { slot, code } => {
                shown.insert("expression", self.show(code));
                shown.insert("outVariable", self.variable(*slot));
                shown.insert("expressionType", Value::from("simple"));
                if let Code::Subquery(pipeline) = code {
                    let plan = pipeline.nodes.iter().map(|node| self.node(node, None));
                    shown.insert("subquery", list(plan));
                }
            }
            NodeKind::Filter { code } => shown.insert("expression", self.show(code)),
            NodeKind::Sort { keys, limit } => {
                let element = |(code, is_descending): &(Code, bool)| {
                    let ascending = Value::Bool(!is_descending);
                    object_of([("expression", self.show(code)), ("ascending", ascending)])
                };
                shown.insert("elements", list(keys.iter().map(element)));
                shown.insert("limit", Value::count(limit.unwrap_or(0)));
                let strategy = if limit.is_some() { "constrained-heap" } else { "standard" };
                shown.insert("strategy", Value::from(strategy));
            }
            NodeKind::Limit { offset, count, is_last } => {
                shown.insert("offset", Value::Int(i64::try_from(*offset).unwrap_or(i64::MAX)));
                let count = count.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
                shown.insert("limit", count.map_or(Value::Null, Value::Int));
                shown.insert("fullCount", Value::Bool(*is_last));
            }
            NodeKind::Collect(collect) => self.collect_details(collect, shown),
            NodeKind::Return { code, is_distinct } => {
                shown.insert("expression", self.show(code));
                shown.insert("distinct", Value::Bool(*is_distinct));
            }
            NodeKind::Write(write) => {
                shown.insert("collection", Value::from(write.collection.name.as_str()));
                shown.insert("expression", self.show(&write.document));
                if let Some(with) = &write.with {
                    shown.insert("with", self.show(with));
                }
                shown.insert("outVariableOld", self.variable(write.old));
                shown.insert("outVariableNew", self.variable(write.new));
            }
            NodeKind::Upsert(upsert) => {
                shown.insert("collection", Value::from(upsert.collection.name.as_str()));
                shown.insert("filter", self.show(&upsert.condition.1));
                shown.insert("insert", self.show(&upsert.insert));
                shown.insert("update", self.show(&upsert.update));
                shown.insert("isReplace", Value::Bool(upsert.is_replace));
            }
        }
    }

    fn collect_details(&self, collect: &Collect, shown: &mut ObjectBuilder) {
        let group = |(slot, code): &(Slot, Code)| {
            object_of([("outVariable", self.variable(*slot)), ("expression", self.show(code))])
        };
        shown.insert("groups", list(collect.groups.iter().map(group)));
        let aggregate = |aggregate: &Aggregate| {
            object_of([
                ("outVariable", self.variable(aggregate.slot)),
                ("type", Value::from(aggregate.aggregator.name())),
                ("expression", self.show(&aggregate.code)),
            ])
        };
        let aggregates = collect.aggregates.iter().map(aggregate);
        shown.insert("aggregates", list(aggregates));
    }

    fn index_details(&self, access: &IndexAccess, shown: &mut ObjectBuilder) {
        shown.insert("collection", Value::from(access.collection.name.as_str()));
        shown.insert("outVariable", self.variable(access.slot));
        let mut index = ObjectBuilder::new();
        index.insert("id", Value::from(access.index.id.to_string()));
        let kind = match access.index.kind {
            IndexKind::Primary => "primary",
            IndexKind::Edge => "edge",
            IndexKind::Persistent => "persistent",
        };
        index.insert("type", Value::from(kind));
        index.insert("name", Value::from(access.index.name.as_str()));
        let fields = access.index.fields.iter().map(|field| {
            Value::from(field.path.join(".") + if field.expands { "[*]" } else { "" })
        });
        index.insert("fields", list(fields));
        index.insert("unique", Value::Bool(access.index.unique));
        index.insert("sparse", Value::Bool(access.index.sparse));
        index.insert("selectivityEstimate", Value::from(access.index.selectivity));
        shown.insert("indexes", list([object(index)]));
        shown.insert("condition", Value::from(self.index_condition(access)));
        shown.insert("indexCoversProjections", Value::Bool(access.is_covering));
        shown.insert("ascending", Value::Bool(!access.is_reverse));
        shown.insert("filter", self.show_all(&access.filter));
    }

    fn index_condition(&self, access: &IndexAccess) -> String {
        let own = self.variables.name_of(access.slot);
        let show = |code: &Code| text_of(code, &|slot| self.variables.name_of(slot));
        let field = |place: usize| match access.index.fields.get(place) {
            Some(_) if access.is_by_id => format!("{own}._id"),
            Some(field) => format!("{own}.{}", field.path.join(".")),
            None => own.clone(),
        };
        let mut parts = Vec::new();
        for (place, found) in access.matches.iter().enumerate() {
            let operator = if matches!(found, Match::Equal(_)) { "==" } else { "IN" };
            parts.push(format!("{} {operator} {}", field(place), show(found.code())));
        }
        let next = access.matches.len();
        if let Some((code, is_inside)) = &access.low {
            let operator = if *is_inside { ">=" } else { ">" };
            parts.push(format!("{} {operator} {}", field(next), show(code)));
        }
        if let Some((code, is_inside)) = &access.high {
            let operator = if *is_inside { "<=" } else { "<" };
            parts.push(format!("{} {operator} {}", field(next), show(code)));
        }
        parts.join(" && ")
    }
}

/// An array of values. No plan is as deep as values may be, since subqueries are not.
fn list(elements: impl IntoIterator<Item = Value>) -> Value {
    Value::array(elements.into_iter().collect()).unwrap_or_default()
}

/// As [`list`], of members.
fn object(members: ObjectBuilder) -> Value {
    members.finish().unwrap_or_default()
}

/// As [`object`], of these members.
fn object_of<const COUNT: usize>(members: [(&str, Value); COUNT]) -> Value {
    let mut object = ObjectBuilder::new();
    members.into_iter().for_each(|(name, value)| object.insert(name, value));
    self::object(object)
}

/// A number of rows, whole.
fn items(items: f64) -> Value {
    Value::Int(items.round() as i64)
}
