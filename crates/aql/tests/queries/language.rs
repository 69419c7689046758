//! Tests of statements and expressions.

use super::{fails, people, query, result, same};
use crate::memory::{run, run_with};
use pellucid_aql::{QueryOptions, number};

#[test]
fn rows_flow_through_statements() {
    for (text, expected) in [
        ("FOR i IN 1..3 RETURN i", "[1,2,3]"),
        ("FOR i IN 3..1 RETURN i", "[3,2,1]"),
        ("FOR i IN [] RETURN i", "[]"),
        ("FOR i IN RANGE(1, 20000000) LIMIT 3 RETURN i", "[1,2,3]"),
        ("FOR i IN RANGE(3, 1, null) RETURN i", "[3,2,1]"),
        ("FOR i IN 1..2 SORT i false RETURN i", "[2,1]"),
        ("FOR i IN 2..1 SORT i 1 RETURN i", "[1,2]"),
        ("FOR s IN [1..4] RETURN s", "[[1,2,3,4]]"),
        ("for i in 1..10 filter i % 2 == 0 sort i desc limit 1, 2 return i * 10", "[80,60]"),
        ("FOR i IN 1..4 LIMIT 2, null RETURN i", "[3,4]"),
        ("FOR i IN 1..4 LIMIT LENGTH(RANGE(1, 3)) RETURN i", "[1,2,3]"),
        ("FOR i IN 1..3 FOR j IN i..3 LET k = i * j FILTER k > 2 RETURN k", "[3,4,6,9]"),
        ("FOR x IN [1, 1.0, '1', 1] RETURN DISTINCT x", "[1,\"1\"]"),
        ("LET a = 1, b = a + 1 RETURN [a, b]", "[[1,2]]"),
        ("LET $NEW = [1] FOR $OLD IN $NEW COLLECT $CURRENT = $OLD RETURN $CURRENT", "[1]"),
        ("FOR i IN 1..3 FILTER 1 == 2 RETURN i", "[]"),
        ("RETURN (FOR i IN 1..2 RETURN i)", "[[1,2]]"),
        ("FOR i IN 1..2 LET s = (FOR j IN 1..i RETURN j) RETURN LENGTH(s)", "[1,2]"),
        ("RETURN LENGTH(FOR i IN 1..5 FILTER i > 1 RETURN i)", "[4]"),
        ("RETURN CONCAT_SEPARATOR('-', FOR i IN 1..2 RETURN i)", "[\"1-2\"]"),
        ("RETURN UNION(FOR i IN 1..2 RETURN i, FOR i IN 3..4 RETURN i)", "[[1,2,3,4]]"),
        ("FOR p IN people SORT p.age, p.name RETURN p.name", r#"["Dee","Bob","Cai","Ada","Eve"]"#),
        ("FOR p IN plain FILTER p.age < 26 RETURN p._key", r#"["b","c","d"]"#),
        ("FOR p IN plain FILTER p.age == null RETURN p._id", r#"["plain/d"]"#),
        ("RETURN LENGTH(people)", "[5]"),
        ("RETURN DOCUMENT(people, 'a').name", "[\"Ada\"]"),
        ("RETURN DOCUMENT('people/zz')", "[null]"),
        (
            "FOR p IN people FOR q IN plain FILTER p.age == q.age && p._key < q._key RETURN q.name",
            "[\"Cai\"]",
        ),
    ] {
        assert_eq!(result(text), expected, "{text}");
    }
}

/// Regression: a sort kept only the rows of the second limit if the first one had no count.
#[test]
fn a_sort_keeps_the_rows_of_the_first_limit() {
    for (limits, expected) in [
        ("LIMIT 5, null LIMIT 3", "[6,7,8]"),
        ("LIMIT 5, 10 LIMIT 3", "[6,7,8]"),
        ("LIMIT 3 LIMIT 1, null", "[2,3]"),
    ] {
        let text = format!("FOR i IN 1..20 SORT i {limits} RETURN i");
        assert_eq!(result(&text), expected, "{text}");
    }
}

/// Regression: whole numbers were converted to doubles, which are not exact for large ones.
#[test]
fn whole_numbers_are_rounded_to_themselves() {
    for function in ["FLOOR", "CEIL", "ROUND"] {
        for number in [
            "0", "-3", "4503599627370497", "9007199254740993", "-9223372036854775807",
            "9223372036854775807", "18446744073709551615", "1e300",
        ] {
            let same = format!("{function}({number}) == {number}");
            assert_eq!(result(&format!("RETURN {same}")), "[true]", "{same}");
        }
    }
    let halves =
        "RETURN [ROUND(2.5), ROUND(-2.5), FLOOR(-0.5), CEIL(0.2), ROUND('7.5'), CEIL('8')]";
    assert_eq!(result(halves), "[[3,-2,-1,1,8,8]]");
    assert_eq!(result("RETURN ROUND(4503599627370497)"), "[4503599627370497]");
}

#[test]
fn expressions_follow_the_rules_of_values() {
    for (text, expected) in [
        ("true < 0", "true"),
        ("9 < '1'", "true"),
        ("[] == [null]", "true"),
        ("{} == {a: null}", "true"),
        ("1 && 0", "0"),
        ("'' || 'x'", "\"x\""),
        ("!'0'", "false"),
        ("null ? 1 : 2", "2"),
        ("false ? REPLACE_NTH([], 3, 1) : 2", "2"),
        ("3 ? : 4", "3"),
        ("4 / 2", "2"),
        ("'3' + true", "4"),
        ("[5] * 2", "10"),
        ("-7 % 3", "-1"),
        ("9223372036854775807 + 1", "9223372036854775808"),
        ("2 IN [1, 2]", "true"),
        ("2 IN 2", "false"),
        ("2 NOT IN 2", "false"),
        ("'abc' LIKE 'a%'", "true"),
        ("'abc' NOT LIKE 'b%'", "true"),
        ("'abc' =~ 'b'", "true"),
        ("'abc' !~ '^b'", "true"),
        ("'abc' NOT =~ '^b'", "true"),
        ("'abc' NOT !~ 'b'", "true"),
        ("'a' !~ null", "false"),
        ("'5' =~ 5", "true"),
        ("'a' !~ 5", "true"),
        ("[1, 2, 3][-1]", "3"),
        ("[1, 2][5]", "null"),
        ("{a: {b: 1}}.a.b", "1"),
        ("{a: 1}['a']", "1"),
        ("{'1': 'a'}[1.5]", "\"a\""),
        ("(5).x.y", "null"),
        ("[1, 2, 3] ALL > 0", "true"),
        ("[1, 2, 3] ANY == 2", "true"),
        ("[1, 2, 3] NONE IN [4]", "true"),
        ("[1] NONE IN 5", "false"),
        ("[1] ALL NOT IN 5", "false"),
        ("[1, 2, 3] AT LEAST (2) > 1", "true"),
        ("[{a: 1}, {a: 2}, {b: 3}][*].a", "[1,2,null]"),
        ("[[1, 2], [3]][**]", "[1,2,3]"),
        ("[{b: [1, 2]}, {b: [3]}][*].b[**]", "[1,2,3]"),
        ("[[1], [2]][*][**]", "[1,2]"),
        ("[{f: [{n: 1}]}, {f: [{n: 2}]}][*].f[**].n", "[1,2]"),
        ("[1, 2, 3, 4][* FILTER CURRENT > 1 LIMIT 1, 2 RETURN CURRENT * 2]", "[6,8]"),
        ("[1, 2][* LIMIT 0, 1]", "[1]"),
        ("[1, 2][* LIMIT -1, 2]", "[]"),
        ("[1, 2][* LIMIT 1, -1]", "[]"),
        ("[1, 2][* FILTER $CURRENT > 1]", "[2]"),
        ("[1, 2, 3][? ANY FILTER CURRENT > 2]", "true"),
        ("[1, 2, 3][? 2 FILTER CURRENT > 1]", "true"),
        ("[1, 2, 3][? 2..99999999 FILTER CURRENT > 1]", "true"),
        ("[1, 2, 3][? RANGE(2, 99999999) FILTER CURRENT > 1]", "true"),
        ("[1][? -1 FILTER false]", "true"),
        ("[1][? -2..-1 FILTER false]", "true"),
        ("[[1, 2], [3]][?? FILTER CURRENT > 2]", "true"),
        ("[[1, 2], [3]][?? ALL FILTER CURRENT > 1]", "false"),
        ("[{t: [1, 2]}, {t: [3]}][*].t[?? FILTER CURRENT > 2]", "true"),
        ("[{t: [1]}][*].t[?? FILTER CURRENT > 2]", "false"),
        ("[{t: [1]}, {t: [3]}][*].t[? FILTER CURRENT > 2]", "[false,true]"),
        ("null[?? NONE FILTER CURRENT]", "false"),
        ("null[? NONE FILTER CURRENT]", "false"),
        ("null[? ALL FILTER CURRENT]", "false"),
        ("null[? 0 FILTER CURRENT]", "false"),
        ("[[{a: 1}], [{a: 2}]][*][* RETURN CURRENT.a]", "[[1],[2]]"),
        ("{a: 1, a: 2}", "{\"a\":1}"),
        ("{[CONCAT('a', 1)]: 2}", "{\"a1\":2}"),
        ("NOT 1 IN [false]", "true"),
        ("1..2.9", "[1,2]"),
    ] {
        assert_eq!(result(&format!("RETURN {text}")), format!("[{expected}]"), "{text}");
    }
}

/// Regression: what follows `[*]` was taken from a variable named `CURRENT`.
#[test]
fn an_expansion_reads_its_elements_beside_a_variable_named_current() {
    for (text, expected) in [
        ("LET CURRENT = {a: 9} RETURN [{a: 2}][*].a", "[[2]]"),
        ("LET $CURRENT = [9] RETURN [[{a: 2}]][*][0].a", "[[2]]"),
        ("LET CURRENT = {a: 9} RETURN [{a: [{b: 2}]}][*].a[*].b", "[[[2]]]"),
        ("LET CURRENT = 9 RETURN [2][* RETURN CURRENT]", "[[9]]"),
    ] {
        assert_eq!(result(text), expected, "{text}");
    }
}

#[test]
fn groups_are_collected() {
    same(
        &result("FOR p IN plain COLLECT c = p.address.city INTO g RETURN {c, n: COUNT(g[*].p)}"),
        r#"[{"c":"London","n":2},{"c":"Oslo","n":1},{"c":"Paris","n":2}]"#,
    );
    for (text, expected) in [
        ("FOR p IN plain COLLECT WITH COUNT INTO n RETURN n", "[5]"),
        ("FOR p IN empty COLLECT WITH COUNT INTO n RETURN n", "[0]"),
        ("FOR i IN [1] COLLECT k = i OPTIONS {method: 'hash'} RETURN k", "[1]"),
        (
            "FOR p IN plain COLLECT a = p.age WITH COUNT INTO n RETURN [a, n]",
            "[[null,1],[25,2],[36,1],[61.5,1]]",
        ),
        (
            "FOR p IN plain COLLECT AGGREGATE s = SUM(p.age), m = MAX(p.age), a = MIN(p.age), u = \
             COUNT_DISTINCT(p.age) RETURN [s, m, a, u]",
            "[[147.5,61.5,25,4]]",
        ),
        (
            "FOR p IN plain COLLECT c = p.address.city INTO n = p.name RETURN n",
            r#"[["Ada","Cai"],["Dee"],["Bob","Eve"]]"#,
        ),
        (
            "FOR i IN 1..4 COLLECT e = i % 2 AGGREGATE a = AVG(i), s = SUM(i) RETURN [e, a, s]",
            "[[0,3,6],[1,2,4]]",
        ),
        (
            "FOR i IN 1..2 LET j = i * 2 COLLECT k = i INTO g KEEP j RETURN g",
            r#"[[{"j":2}],[{"j":4}]]"#,
        ),
    ] {
        assert_eq!(result(text), expected, "{text}");
    }
    assert_eq!(
        fails("FOR p IN plain COLLECT c = 1 RETURN p").number(),
        number::COLLECTION_NOT_FOUND
    );
}

/// Regression: the rows of a group had the variables that are declared before the first loop, and
/// the sum of no rows was 0.
#[test]
fn groups_have_the_variables_of_loops() {
    for (text, expected) in [
        ("LET x = 5 FOR i IN 1..2 COLLECT k = i INTO g RETURN g", r#"[[{"i":1}],[{"i":2}]]"#),
        ("LET x = 5 FOR i IN [1] LET y = i COLLECT k = i INTO g RETURN g[0].y", "[1]"),
        ("LET x = 5 COLLECT k = 1 INTO g RETURN g", r#"[[{"x":5}]]"#),
        (
            "FOR i IN [1] RETURN FIRST(LET x = i FOR j IN [i] COLLECT k = j INTO g RETURN g)",
            r#"[[{"j":1}]]"#,
        ),
        ("LET x = 5 FOR i IN [1] COLLECT k = i INTO g KEEP x RETURN g", r#"[[{"x":5}]]"#),
        ("FOR i IN [1] COLLECT k = i LET y = 2 COLLECT z = k INTO g RETURN g[0].y", "[2]"),
        (
            "FOR i IN [] COLLECT AGGREGATE s = SUM(i), a = AVG(i), n = COUNT(i) RETURN [s, a, n]",
            "[[null,null,0]]",
        ),
        ("FOR i IN [null] COLLECT AGGREGATE s = SUM(i) RETURN s", "[0]"),
    ] {
        assert_eq!(result(text), expected, "{text}");
    }
}

#[test]
fn bind_variables_stand_for_values_names_and_collections() {
    let source = people();
    let text = "FOR d IN @@c FILTER d.@path == @value LIMIT @o, @n RETURN d.@name";
    let binds =
        r#"{"@c":"people","path":["address","city"],"value":"London","o":1,"n":5,"name":"name"}"#;
    let outcome = run_with(&source, text, binds, QueryOptions::default()).unwrap();
    assert_eq!(outcome.result.to_json(), "[\"Ada\"]");
    for (text, binds, expected) in [
        ("RETURN @x", "{}", number::BIND_PARAMETER_MISSING),
        ("RETURN 1", r#"{"x":1}"#, number::BIND_PARAMETER_UNDECLARED),
        ("FOR d IN @@c RETURN d", r#"{"@c":1}"#, number::BIND_PARAMETER_TYPE),
        ("FOR d IN @@c RETURN d", r#"{"@c":"no"}"#, number::COLLECTION_NOT_FOUND),
        ("RETURN 1", "[]", number::BIND_PARAMETERS_INVALID),
        ("FOR i IN 1..2 LIMIT @n RETURN i", r#"{"n":"x"}"#, number::NUMBER_OUT_OF_RANGE),
    ] {
        let error = run_with(&source, text, binds, QueryOptions::default()).err().unwrap();
        assert_eq!(error.number(), expected, "{text}");
    }
}

#[test]
fn errors_have_their_numbers() {
    for (text, expected) in [
        ("FOR i IN no RETURN i", number::COLLECTION_NOT_FOUND),
        ("RETURN no", number::COLLECTION_NOT_FOUND),
        ("RETURN people + 1", number::COLLECTION_USED_IN_EXPRESSION),
        ("RETURN NO_SUCH(1)", number::FUNCTION_NAME_UNKNOWN),
        ("RETURN FIRST()", number::FUNCTION_ARGUMENT_NUMBER),
        ("LET a = 1 LET a = 2 RETURN a", number::VARIABLE_REDECLARED),
        ("FOR i IN null RETURN i", number::ARRAY_EXPECTED),
        ("RETURN FAIL('why')", number::FAIL_CALLED),
        ("RETURN REPLACE_NTH([1, 2], null, 9)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN REPLACE_NTH([1], 4, 9)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN RANDOM_TOKEN(-1)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN COLLECTION_COUNT(5)", number::FUNCTION_ARGUMENT_TYPE),
        ("FOR i IN 1..2 LIMIT i RETURN i", number::PARSE),
        ("RETURN 1e400 +", number::PARSE),
        ("FOR i IN [1] COLLECT k = i OPTIONS {method: i} RETURN k", number::COMPILE_TIME_OPTIONS),
        ("FOR i IN 1..2 LIMIT -1 RETURN i", number::NUMBER_OUT_OF_RANGE),
        (
            "FOR i IN 1..2 COLLECT a = i AGGREGATE b = i RETURN b",
            number::INVALID_AGGREGATE_EXPRESSION,
        ),
    ] {
        assert_eq!(fails(text).number(), expected, "{text}");
    }
    // Filters stay behind expressions that may fail.
    for failing in [
        "LET ok = ASSERT(i < 2, 'bad')",
        "LET ok = (RETURN ASSERT(i < 2, 'bad'))",
        "FOR j IN [ASSERT(i < 2, 'bad')]",
        "LET j = i + 0 FILTER ASSERT(j < 2, 'bad')",
    ] {
        let text = format!("FOR i IN 1..3 {failing} FILTER i == 1 RETURN i");
        assert_eq!(fails(&text).number(), 1593, "{text}");
    }
    // A function that may fail stays behind the conditions before it.
    for text in [
        "FOR d IN [{list: [], a: [1]}] FOR n IN d.list \
         FILTER n < 2 && REPLACE_NTH(d.a, 5, 0) != null RETURN 1",
        "FOR p IN plain FOR n IN p.tags || [] \
         FILTER n == 'z' && REPLACE_NTH(p.tags, 5, 0) != null RETURN 1",
    ] {
        assert_eq!(result(text), "[]", "{text}");
    }
    let error = fails("FOR i IN null RETURN i");
    assert!(error.to_string().contains("you provided a value of type 'null'"), "{error}");
}

/// Regression: some functions of dates ignored a time zone, and gave a result in UTC.
#[test]
fn other_time_zones_than_utc_are_refused() {
    for call in [
        "DATE_ADD(0, 1, 'd', _)",
        "DATE_ADD(0, 'P1D', _)",
        "DATE_SUBTRACT(0, 1, 'd', _)",
        "DATE_DIFF(0, 1, 'd', _)",
        "DATE_DIFF(0, 1, 'd', true, _)",
        "DATE_DIFF(0, 1, 'd', 'UTC', _)",
        "DATE_COMPARE(0, 1, 'd', _)",
        "DATE_COMPARE(0, 1, 'y', 'd', _)",
        "DATE_COMPARE(0, 1, 'y', 'd', 'UTC', _)",
        "DATE_TRUNC(0, 'd', _)",
        "DATE_FORMAT(0, '%d', _)",
    ] {
        let text = format!("RETURN {}", call.replace("_)", "'Europe/Berlin')"));
        let outcome = query(&people(), &text);
        assert_eq!(outcome.result.to_json(), "[null]", "{text}");
        assert_eq!(outcome.warnings, [number::NOT_IMPLEMENTED], "{text}");
        let outcome = query(&people(), &format!("RETURN {}", call.replace("_)", "'UTC')")));
        assert_ne!(outcome.result.to_json(), "[null]", "{call}");
        assert!(outcome.warnings.is_empty(), "{call}");
    }
}

/// Regression: the next argument after an invalid one was called a time zone that is not supported.
#[test]
fn invalid_arguments_of_dates_are_told_before_time_zones() {
    for (text, expected) in [
        ("RETURN DATE_ADD(0, '1', 'd')", number::INVALID_DATE_VALUE),
        ("RETURN DATE_COMPARE(0, 1, 'y', 'nonsense')", number::FUNCTION_ARGUMENT_TYPE),
    ] {
        assert_eq!(query(&people(), text).warnings, [expected], "{text}");
    }
}

#[test]
fn invalid_operations_give_null_and_a_warning() {
    for (text, expected) in [
        ("RETURN 1e400", number::NUMBER_OUT_OF_RANGE),
        ("RETURN 1 / 0", number::DIVISION_BY_ZERO),
        ("FOR i IN [0] RETURN 1 % i", number::DIVISION_BY_ZERO),
        ("RETURN FIRST('x')", number::ARRAY_EXPECTED),
        ("RETURN REVERSE(1)", number::ARRAY_EXPECTED),
        ("RETURN INTERSECTION([], 1)", number::ARRAY_EXPECTED),
        ("RETURN SUM(1)", number::ARRAY_EXPECTED),
        ("RETURN AVERAGE(['x'])", number::ARRAY_EXPECTED),
        ("RETURN SLICE(1, 2)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN UNION([], 1)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN MEDIAN(['x'])", number::INVALID_ARITHMETIC_VALUE),
        ("RETURN PERCENTILE(['x'], 50)", number::INVALID_ARITHMETIC_VALUE),
        ("RETURN STDDEV(['x'])", number::INVALID_ARITHMETIC_VALUE),
        ("RETURN 'a' =~ '('", number::INVALID_REGEX),
        ("RETURN STARTS_WITH('abc', null)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN STARTS_WITH('abc', ['x', 1])", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN STARTS_WITH('abc', ['a'], -1)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN BIT_AND(5)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN BIT_OR(1, null)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN IN_RANGE(3, 1, 5, 1, 1)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN TO_CHAR('65')", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN TO_CHAR(-1)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN SUBSTITUTE('abc', 'b', null)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN SUBSTITUTE('abc', 'b', 5)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN SUBSTITUTE('abc', ['b', 5])", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN SUBSTITUTE('abc', {b: 5})", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN SPLIT('a,b', ',', null)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN SPLIT('a', {})", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN REGEX_SPLIT('a', 'b', false, '1')", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN DATE_YEAR('nonsense')", number::INVALID_DATE_VALUE),
        ("RETURN DATE_YEAR(null)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN DATE_YEAR(0, null)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN DATE_TRUNC(0, 'd', 5)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN DATE_FORMAT(0, '%d', null)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN DATE_DIFF(0, 1, 'd', 1)", number::FUNCTION_ARGUMENT_TYPE),
        ("RETURN DATE_DIFF(0, 1, 'x')", number::INVALID_DATE_VALUE),
        ("RETURN DATE_TRUNC(0, 'x')", number::INVALID_DATE_VALUE),
        ("RETURN DATE_ADD(0, 1, 'x')", number::INVALID_DATE_VALUE),
        ("RETURN DATE_ADD(0, 1, 2)", number::FUNCTION_ARGUMENT_TYPE),
    ] {
        let outcome = query(&people(), text);
        assert_eq!(outcome.result.to_json(), "[null]", "{text}");
        assert_eq!(outcome.warnings, [expected], "{text}");
        let options = QueryOptions { fail_on_warning: true, ..QueryOptions::default() };
        let error = run_with(&people(), text, "{}", options).err().unwrap();
        assert_eq!(error.number(), expected);
    }
    for text in [
        "RETURN SUM(['x'])",
        "RETURN PRODUCT(['x'])",
        "RETURN SPLIT('a', ',', -1)",
        "FOR i IN ['x'] COLLECT AGGREGATE a = STDDEV(i) RETURN a",
        "FOR i IN ['x'] COLLECT AGGREGATE a = BIT_OR(i) RETURN a",
    ] {
        let options = QueryOptions { fail_on_warning: true, ..QueryOptions::default() };
        let outcome = run_with(&people(), text, "{}", options).unwrap();
        assert_eq!(outcome.result.to_json(), "[null]", "{text}");
    }
    for (function, name) in [
        ("AVG", "AVERAGE"),
        ("VARIANCE", "VARIANCE_POPULATION"),
        ("VARIANCE_SAMPLE", "VARIANCE_SAMPLE"),
        ("STDDEV", "STDDEV_POPULATION"),
    ] {
        for argument in ["['x']", "1"] {
            let text = format!("RETURN {function}({argument})");
            let options = QueryOptions { fail_on_warning: true, ..QueryOptions::default() };
            let error = run_with(&people(), &text, "{}", options).err().unwrap();
            assert!(error.to_string().contains(&format!("'{name}()'")), "{text}: {error}");
        }
    }
    let outcome = run(&people(), "FOR i IN 1..100 RETURN i / 0").unwrap();
    assert_eq!(outcome.warnings.len(), 10, "no more are kept");
}
