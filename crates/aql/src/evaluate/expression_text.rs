//! Expressions as AQL text, for descriptions of plans.

use pellucid_value::json;

use crate::parse::ast::Quantifier;
use crate::tree::{Code, Name, Slot};

/// The most characters of a constant that are shown.
const SHOWN_CHARACTERS_MAX: usize = 200;
/// The bytes that contain at least one more character than that.
const SHOWN_BYTES_MAX: usize = 4 * SHOWN_CHARACTERS_MAX + 4;

/// The expression as AQL text. `name_of` returns the name of a variable.
pub(crate) fn text_of(code: &Code, name_of: &dyn Fn(Slot) -> String) -> String {
    let show = |code: &Code| text_of(code, name_of);
    let list = |codes: &[Code]| codes.iter().map(show).collect::<Vec<_>>().join(", ");
    match code {
        Code::Constant(value) => {
            let text = json::to_string_up_to(value.view(), SHOWN_BYTES_MAX);
            match text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        }
        Code::Path(slot, names) => {
            names.iter().fold(name_of(*slot), |text, name| format!("{text}.{name}"))
        }
        Code::Local(_) => "CURRENT".to_owned(),
        Code::Attribute(value, names) => {
            names.iter().fold(show(value), |text, name| format!("{text}.{name}"))
        }
        Code::Element(value, place) => format!("{}[{}]", show(value), show(place)),
        Code::Expansion(expansion) => {
            let mut text = format!("{}[{}", show(&expansion.list), "*".repeat(expansion.levels));
            if let Some(filter) = &expansion.filter {
                text.push_str(&format!(" FILTER {}", show(filter)));
            }
            if let Some(projection) = &expansion.projection {
                text.push_str(&format!(" RETURN {}", show(projection)));
            }
            text + "]"
        }
        Code::Question(question) => {
            format!("{}[{} …]", show(&question.list), "?".repeat(question.levels))
        }
        Code::Call(function, arguments) => format!("{}({})", function.name, list(arguments)),
        Code::Unary(operator, operand) => format!("{}{}", operator.sign(), show(operand)),
        Code::Binary(operator, operands) => {
            format!("({} {} {})", show(&operands.0), operator.sign(), show(&operands.1))
        }
        Code::Quantified { quantifier, operator, operands } => {
            let quantifier = match quantifier {
                Quantifier::All => "ALL".to_owned(),
                Quantifier::Any => "ANY".to_owned(),
                Quantifier::None => "NONE".to_owned(),
                Quantifier::AtLeast(count) => format!("AT LEAST ({})", show(count)),
            };
            let (left, right) = (show(&operands.0), show(&operands.1));
            format!("({left} {quantifier} {} {right})", operator.sign())
        }
        Code::Ternary(parts) => {
            let middle = parts.1.as_ref().map(show).unwrap_or_default();
            format!("({} ? {middle} : {})", show(&parts.0), show(&parts.2))
        }
        Code::Array(elements) => format!("[{}]", list(elements)),
        Code::Object(members) => {
            let member = |(name, value): &(Name, Code)| match name {
                Name::Fixed(name) => format!("{name}: {}", show(value)),
                Name::Computed(name) => format!("[{}]: {}", show(name), show(value)),
            };
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        Code::Subquery(pipeline) => {
            let nodes: Vec<_> = pipeline.nodes.iter().map(|node| node.kind.name()).collect();
            format!("({})", nodes.join(" → "))
        }
        Code::CollectionCount(_, name) => format!("LENGTH({name})"),
        Code::CollectionContents(_, name) => name.to_string(),
    }
}
