//! What the parser takes, and how it refuses the rest.

use super::ast::{Binary, Expression, Statement, Unary};
use super::parse;
use crate::number;

/// The expression behind `RETURN`, with all its parentheses.
fn shape(text: &str) -> String {
    let parsed = parse(&format!("RETURN {text}")).unwrap();
    match &parsed.query.statements[0] {
        Statement::Return { value, .. } => show(value),
        other => panic!("{other:?}"),
    }
}

fn show(expression: &Expression) -> String {
    match expression {
        Expression::Constant(value) => value.to_json(),
        Expression::Name(name) => name.clone(),
        Expression::Unary(operator, operand) => {
            let sign = match operator {
                Unary::Not => "!",
                Unary::Plus => "+",
                Unary::Minus => "-",
            };
            format!("({sign}{})", show(operand))
        }
        Expression::Binary(operator, left, right) => {
            let sign = match operator {
                Binary::Or => "||",
                Binary::And => "&&",
                Binary::Equal => "==",
                Binary::In => "IN",
                Binary::NotIn => "NOT IN",
                Binary::Less => "<",
                Binary::Range => "..",
                Binary::Plus => "+",
                Binary::Times => "*",
                _ => "?",
            };
            format!("({} {sign} {})", show(left), show(right))
        }
        Expression::Ternary(parts) => {
            let middle = parts.1.as_ref().map(show).unwrap_or_default();
            format!("({} ? {middle} : {})", show(&parts.0), show(&parts.2))
        }
        Expression::Attribute(value, name) => format!("{}.{name}", show(value)),
        Expression::Quantified { operands, .. } => {
            format!("({} q {})", show(&operands.0), show(&operands.1))
        }
        Expression::Expansion(expansion) => {
            let projection = expansion.projection.as_ref().map(show).unwrap_or_default();
            format!("{}[*{projection}]", show(&expansion.list))
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn operators_bind_by_the_table() {
    for (text, expected) in [
        ("1 + 2 * 3", "(1 + (2 * 3))"),
        ("a == b IN c", "(a == (b IN c))"),
        ("NOT a IN b", "((!a) IN b)"),
        ("a NOT IN b && c", "((a NOT IN b) && c)"),
        ("1..2 + 3", "(1 .. (2 + 3))"),
        ("a < 1..2", "(a < (1 .. 2))"),
        ("a || b && c", "(a || (b && c))"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("a ? : b", "(a ?  : b)"),
        ("-a.b + 1", "((-a.b) + 1)"),
        ("a + b ALL == c && d", "(((a + b) q c) && d)"),
        ("a[*].b.c", "a[*CURRENT.b.c]"),
        ("a[*].b[*].c", "a[*CURRENT.b[*CURRENT.c]]"),
        ("(a[*].b)[*].c", "a[*CURRENT.b][*CURRENT.c]"),
    ] {
        assert_eq!(shape(text), expected);
    }
}

#[test]
fn literals_are_what_they_spell() {
    for (text, expected) in [
        (".5", "0.5"),
        ("4.87e3", "4870"),
        ("0xFf", "255"),
        ("0b101", "5"),
        ("18446744073709551615", "18446744073709551615"),
        (r#"'a\'b\n\u00fc'"#, "\"a'b\\nü\""),
        ("/* one */ 1 // two", "1"),
        ("null", "null"),
    ] {
        assert_eq!(shape(text), expected);
    }
}

#[test]
fn errors_say_where_and_what() {
    for (text, expected) in [
        (
            "FOR i IN 1..100 FILTER i = 1 LIMIT 2 RETURN i * 3",
            "syntax error, unexpected assignment near '= 1 LIMIT 2 RETURN i * 3' at position 1:26",
        ),
        (
            "INVALID QUERY",
            "syntax error, unexpected identifier near 'INVALID QUERY' at position 1:1",
        ),
        (
            "RETURN 1.",
            "syntax error, unexpected ., expecting digits after it near '.' at position 1:9",
        ),
        (
            "RETURN\n {a:1,,}",
            "syntax error, unexpected ,, expecting an attribute name or } near ',}' at position \
             2:7",
        ),
        (
            "RETURN 01",
            "syntax error, unexpected number with a leading zero near '01' at position 1:8",
        ),
        ("FOR i IN [1]", "syntax error, unexpected end of query string near '' at position 1:13"),
        (
            "RETURN 'abc",
            "syntax error, unexpected unterminated string literal near ''abc' at position 1:8",
        ),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!((error.number, error.message.as_str()), (number::PARSE, expected));
    }
    assert_eq!(parse(" // nothing\n").unwrap_err().number, number::EMPTY);
}

#[test]
fn what_is_not_there_yet_is_refused_by_name() {
    for (text, what) in [
        ("FOR v, e IN 1..2 OUTBOUND 'a/b' edges RETURN v", "a graph traversal"),
        ("FOR v IN ANY 'a/b' edges RETURN v", "a graph traversal"),
        ("FOR d IN v SEARCH d.x == 1 RETURN d", "SEARCH"),
        ("FOR d IN c WINDOW { preceding: 1 } AGGREGATE s = SUM(d.x) RETURN s", "WINDOW"),
        ("LET [a, b] = [1, 2] RETURN a", "destructuring"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.number, number::NOT_IMPLEMENTED, "{text}");
        assert!(error.message.starts_with(what), "{error}");
    }
}

#[test]
fn statements_of_all_kinds_are_taken() {
    for text in [
        "for d in c filter d.`a` == 1 and d.x.y == \"z\" limit 0, null sort d.k asc return d",
        "FOR doc IN @@value0 FILTER doc.EndToEndId == @value1 RETURN doc",
        "LET doc = DOCUMENT(@@c, @key) UPDATE doc WITH {data: doc.data+1} IN @@c",
        "UPDATE {_key: 'a', v: 1} IN c RETURN NEW",
        "FOR d IN c REMOVE d IN c OPTIONS { ignoreErrors: true } RETURN OLD",
        "FOR d IN c REPLACE d._key WITH {a: d.x IN [1]} INTO c",
        "UPSERT {a: 1} INSERT {a: 1, n: 0} UPDATE {n: OLD.n + 1} IN c RETURN NEW",
        "UPSERT FILTER CURRENT.a == 1 INSERT {a: 1} REPLACE {n: 1} INTO c",
        "FOR d IN c COLLECT g = d.g, h = d.h INTO rows KEEP d RETURN {g, n: LENGTH(rows)}",
        "FOR d IN c COLLECT AGGREGATE m = MAX(d.x), s = SUM(d.x) RETURN {m, s}",
        "FOR d IN c COLLECT WITH COUNT INTO n RETURN n",
        "WITH a, b FOR x IN a RETURN x",
        "RETURN LENGTH(FOR x IN [1] RETURN x)",
        "RETURN a[* FILTER CURRENT.x > 1 LIMIT 2 RETURN CURRENT.y]",
        "RETURN a[? ANY FILTER CURRENT > 1]",
        "RETURN { a: 1, 'b': 2, `c`: 3, [CONCAT('d', 1)]: 4, @e: 5, f, }",
        "RETURN doc.@attr",
        "RETURN ´a´.`b c`",
    ] {
        assert!(parse(text).is_ok(), "{text}: {:?}", parse(text).err());
    }
}

#[test]
fn depth_is_bounded() {
    for text in [
        format!("RETURN {}1{}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("RETURN {}1", "-".repeat(100_000)),
        format!("RETURN 1{}", "+1".repeat(100_000)),
        format!("RETURN a{}", ".b".repeat(100_000)),
        format!("RETURN {}", "[".repeat(100_000)),
        format!("RETURN {}", "(RETURN ".repeat(100_000)),
    ] {
        assert_eq!(parse(&text).unwrap_err().number, number::TOO_MUCH_NESTING);
    }
}
