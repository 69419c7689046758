//! Tests of the parser: valid texts, and errors for others.

use super::ast::{Expression, Statement};
use super::{parse, parse_with_collections};
use crate::{QueryOptions, number};

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
        Expression::Current => "CURRENT".to_owned(),
        Expression::Unary(operator, operand) => {
            format!("({}{})", operator.sign(), show(operand))
        }
        Expression::Binary(operator, left, right) => {
            format!("({} {} {})", show(left), operator.sign(), show(right))
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
fn literals_have_their_values() {
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
fn errors_tell_the_position_and_the_cause() {
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
        (
            "RETURN 0b102",
            "syntax error, unexpected number, expecting digits of base 2 after 0b near '0b102' at \
             position 1:8",
        ),
        (
            "RETURN 0xfg",
            "syntax error, unexpected number, expecting digits of base 16 after 0x near '0xfg' at \
             position 1:8",
        ),
        (
            "RETURN 0x100000000",
            "syntax error, unexpected number, expecting at most 32 bits of digits near \
             '0x100000000' at position 1:8",
        ),
        ("FOR i IN [1]", "syntax error, unexpected end of query string near '' at position 1:13"),
        (
            "RETURN 'abc",
            "syntax error, unexpected unterminated string literal near ''abc' at position 1:8",
        ),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!((error.number(), error.to_string().as_str()), (number::PARSE, expected));
    }
    assert_eq!(parse(" // nothing\n").unwrap_err().number(), number::EMPTY);
}

/// Valid queries, with the unsupported feature for which they are refused.
const REFUSED: &[(&str, &str)] = &[
    ("FOR v, e IN 1..2 OUTBOUND 'a/b' edges RETURN v", "a graph traversal"),
    ("FOR v IN ANY 'a/b' edges RETURN v", "a graph traversal"),
    ("FOR v, e, p IN @n..5 INBOUND @start GRAPH 'g' RETURN p", "a graph traversal"),
    ("FOR v IN OUTBOUND d._id GRAPH @g PRUNE v.x > 1 OPTIONS {order: 'bfs'} RETURN v", "a graph"),
    ("FOR v IN 2 ANY s e1, INBOUND @@e2, ANY e3 PRUNE end = v.x FILTER end RETURN v", "a graph"),
    ("FOR v, e IN ANY SHORTEST_PATH 'a/b' TO @to GRAPH g RETURN v", "SHORTEST_PATH"),
    ("FOR p IN OUTBOUND ALL_SHORTEST_PATHS @a TO @b @@e RETURN p", "ALL_SHORTEST_PATHS"),
    ("FOR p IN 1..3 OUTBOUND K_PATHS 'a/b' TO 'a/c' e RETURN p", "K_PATHS"),
    ("FOR p IN INBOUND K_SHORTEST_PATHS a TO b GRAPH 'g' LIMIT 1 RETURN p", "K_SHORTEST_PATHS"),
    ("FOR d IN v SEARCH d.x == 1 RETURN d", "SEARCH"),
    ("FOR d IN @@v SEARCH d.x IN [1] AND d.y OPTIONS {parallelism: 2} RETURN d", "SEARCH"),
    ("FOR d IN c WINDOW { preceding: 1 } AGGREGATE s = SUM(d.x) RETURN s", "WINDOW"),
    ("FOR d IN c WINDOW d.t WITH {following: 1} AGGREGATE s = SUM(d.x), n = 1 RETURN s", "WINDOW"),
    ("LET [a, b] = [1, 2] RETURN a", "destructuring"),
    ("LET [, [a], {b: [c, ]},, d, ] = @x, {e, f: g} = @y RETURN a", "destructuring"),
    ("FOR {a, b: {c}} IN [] RETURN c", "destructuring"),
    ("RETURN (FOR d IN v SEARCH d.x == 1 RETURN d)", "SEARCH"),
    ("FOR d IN v SEARCH d.x FOR e IN OUTBOUND d e RETURN e", "SEARCH"),
];

#[test]
fn unsupported_features_are_refused_by_name() {
    for (text, what) in REFUSED {
        let error = parse(text).unwrap_err();
        assert_eq!(error.number(), number::NOT_IMPLEMENTED, "{text}: {error}");
        assert!(error.to_string().starts_with(what), "{error}");
    }
}

#[test]
fn a_syntax_error_is_reported_before_an_unsupported_feature() {
    for (text, _) in REFUSED {
        for broken in [format!("{text} FILTER"), format!("{text})"), text.replace("RETURN", "")] {
            let error = parse(&broken).unwrap_err();
            assert_eq!(error.number(), number::PARSE, "{broken}: {error}");
        }
    }
    for text in [
        "FOR v, e IN c RETURN v",
        "FOR v, e, p, q IN OUTBOUND 'a/b' e RETURN v",
        "FOR v IN OUTBOUND 'a/b' RETURN v",
        "FOR v IN OUTBOUND 'a/b' GRAPH RETURN v",
        "FOR v IN OUTBOUND SHORTEST_PATH 'a/b' e RETURN v",
        "FOR v IN SHORTEST_PATH 'a/b' TO 'a/c' e RETURN v",
        "FOR d IN v SEARCH RETURN d",
        "FOR d IN v SEARCH d.x = 1 RETURN d",
        "FOR d IN c WINDOW { preceding: 1 } RETURN d",
        "FOR d IN c WINDOW AGGREGATE s = SUM(d.x) RETURN s",
        "LET [a b] = [1, 2] RETURN a",
        "LET {a: 1} = {} RETURN a",
        "LET [a] RETURN a",
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.number(), number::PARSE, "{text}: {error}");
    }
    let deep = format!("LET {}a", "[".repeat(100_000));
    assert_eq!(parse(&deep).unwrap_err().number(), number::TOO_MUCH_NESTING);
}

#[test]
fn statements_of_all_kinds_are_parsed() {
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
        assert_eq!(parse(&text).unwrap_err().number(), number::TOO_MUCH_NESTING);
    }
}

#[test]
fn names_without_a_variable_are_collections() {
    for (text, expected) in [
        ("RETURN 1", ""),
        ("FOR d IN c RETURN d", "c"),
        ("FOR d IN @@c RETURN d", ""),
        ("LET c = [1] FOR d IN c RETURN d", ""),
        ("FOR d IN b FOR e IN a FILTER e.x == d.x RETURN [d, e]", "a b"),
        ("FOR d IN a LET n = LENGTH(b) RETURN (FOR e IN c RETURN e)", "a b c"),
        ("FOR d IN a UPDATE d WITH {x: OLD.x} IN b RETURN NEW", "a b"),
        ("FOR d IN a COLLECT x = d.x INTO g RETURN [x, g]", "a"),
        ("FOR d IN a RETURN d.list[* FILTER CURRENT.x == 1 RETURN CURRENT.y]", "a"),
        ("FOR d IN a RETURN d.list[* FILTER $CURRENT.x == 1]", "a"),
        ("FOR d IN a UPDATE d WITH {x: $OLD.x} IN b RETURN {$NEW}", "a b"),
        ("LET $NEW = [1] FOR $OLD IN $NEW RETURN $OLD", ""),
        ("LET x = (FOR inner IN a RETURN inner) RETURN inner", "a inner"),
        ("FOR d IN a LET x = (FOR d IN b RETURN d) RETURN {d, e}", "a b e"),
    ] {
        let (_, names) = parse_with_collections(text, &QueryOptions::default()).unwrap();
        assert_eq!(Vec::from_iter(names).join(" "), expected, "{text}");
    }
}
