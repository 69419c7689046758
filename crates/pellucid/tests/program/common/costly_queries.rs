//! Queries that earlier versions could not bound: they used all memory or time, or ended the
//! process.

/// Queries without bind values. Each ends by itself or by its limits.
const QUERIES: &[(&str, &str)] = &[
    ("a range of 10,000,000", "RETURN 1..10000000"),
    ("a range beyond all memory", "RETURN LENGTH(1..9223372036854775807)"),
    ("ranges in ranges", "RETURN (FOR i IN 1..1000000 RETURN 1..1000000)"),
    ("a loop without end", "FOR i IN 1..9223372036854775807 FILTER i < 0 RETURN i"),
    ("loops in loops", "FOR a IN 1..1000000 FOR b IN 1..1000000 FILTER a + b < 0 RETURN 1"),
    ("a product of a collection", "FOR a IN c FOR b IN c FOR d IN c FOR e IN c RETURN 1"),
    ("many texts of one letter", r#"RETURN REPEAT("a", 64000000)"#),
    ("a text beyond its bound", r#"RETURN REPEAT("a", 9223372036854775807)"#),
    ("nothing, often", r#"RETURN REPEAT("", 9223372036854775807)"#),
    ("a separator, often", r#"RETURN REPEAT("", 9000000000, REPEAT("s", 1000))"#),
    (
        "a text that doubles",
        r#"LET a = REPEAT("a", 30000000) LET b = CONCAT(a, a) RETURN CONCAT(b, b, b, b)"#,
    ),
    ("texts in a list", r#"RETURN (FOR i IN 1..100000 RETURN REPEAT("a", 100000))"#),
    ("hexadecimal of a long text", r#"RETURN TO_HEX(REPEAT("a", 40000000))"#),
    ("escapes of a long text", r#"RETURN ENCODE_URI_COMPONENT(REPEAT("€", 20000000))"#),
    ("JSON of a long text", r#"RETURN JSON_STRINGIFY(REPEAT("\u0001", 20000000))"#),
    ("JSON in JSON", r#"RETURN JSON_PARSE(CONCAT(REPEAT("[", 100000), REPEAT("]", 100000)))"#),
    ("base64 of a long text", r#"RETURN TO_BASE64(REPEAT("a", 60000000))"#),
    ("upper case that grows", r#"RETURN UPPER(REPEAT("ß", 30000000))"#),
    ("parts of a long text", r#"RETURN SUBSTRING(REPEAT("a", 60000000), 1, 59999999)"#),
    ("splitting by nothing", r#"RETURN SPLIT(REPEAT("a", 10000000), "")"#),
    (
        "splitting by much",
        r#"RETURN SPLIT(REPEAT("ab", 1000000), (FOR i IN 1..10000 RETURN TO_STRING(i)))"#,
    ),
    ("trimming by much", r#"RETURN TRIM(REPEAT("a", 1000000), CONCAT(REPEAT("b", 1000000), "a"))"#),
    (
        "substituting much",
        r#"LET n = (FOR i IN 1..500000 RETURN TO_STRING(i))
           RETURN SUBSTITUTE(REPEAT("abc", 100000), n, "x")"#,
    ),
    ("a date within a letter", r#"RETURN DATE_TIMESTAMP("2020-01-01T00:00+€a")"#),
    ("a question about a date within a letter", r#"RETURN IS_DATESTRING("2020-01-01T00:00+€a")"#),
    ("a date beyond all years", r#"RETURN DATE_ADD("2020-01-01", 9223372036854775807, "years")"#),
    ("a date of the largest number", "RETURN DATE_ISO8601(9223372036854775807)"),
    ("a date of the least number", "RETURN DATE_ISO8601(-9223372036854775808)"),
    ("a period beyond all numbers", r#"RETURN DATE_ADD("2020-01-01", "P99999999999999999999Y")"#),
    ("a date's format of 1 MB", r#"RETURN DATE_FORMAT("2020-01-01", REPEAT("%yyyy", 200000))"#),
    (
        "a difference of extremes",
        r#"RETURN DATE_DIFF(-9223372036854775808, 9223372036854775807, "f")"#,
    ),
    (
        "a replacement that grows",
        r#"RETURN REGEX_REPLACE(REPEAT("a", 10000), "a", REPEAT("$0", 1000000))"#,
    ),
    (
        "matches that look on to the end",
        r#"RETURN REGEX_SPLIT(REPEAT("a", 4000000), ".*[^A-Z]|[A-Z]")"#,
    ),
    ("a pattern of repetitions", r#"RETURN REGEX_TEST("a", "((a{0,1000}){0,1000}){0,1000}")"#),
    ("a pattern of 1 MB", r#"RETURN REGEX_TEST("a", REPEAT("(a|b)", 200000))"#),
    (
        "a pattern of nested groups",
        r#"RETURN REGEX_TEST("a", CONCAT(REPEAT("(", 10000), REPEAT(")", 10000)))"#,
    ),
    ("patterns by the thousand", r#"FOR i IN 1..100000 RETURN REGEX_TEST("a", CONCAT("a", i))"#),
    (
        "LIKE with many wildcards",
        r#"RETURN LIKE(REPEAT("a", 1000000), CONCAT(REPEAT("%a", 1000), "b"))"#,
    ),
    ("ALL IN of two long lists", "LET a = 1..300000 LET b = 300001..600000 RETURN a ALL IN b"),
    (
        "ANY == of two long lists",
        "LET a = (FOR i IN 1..300000 RETURN TO_STRING(i)) RETURN a ANY == 7 OR a ANY IN 1..300000",
    ),
    ("NONE IN of two long lists", "LET a = 1..300000 LET b = 300001..600000 RETURN a NONE IN b"),
    ("IN for each row", "LET a = 1..1000000 FOR i IN 1..1000000 FILTER -i IN a RETURN i"),
    ("a difference of long lists", "RETURN MINUS(1..1000000, 500000..1500000)"),
    ("an intersection of long lists", "RETURN INTERSECTION(1..1000000, 500000..1500000)"),
    ("an outersection of long lists", "RETURN OUTERSECTION(1..500000, 250000..750000)"),
    ("removals from a long list", "RETURN REMOVE_VALUES(1..500000, 250000..750000)"),
    (
        "lists that differ in objects",
        "RETURN MINUS((FOR i IN 1..200000 RETURN {a: i}), (FOR i IN 1..200000 RETURN {b: i}))",
    ),
    ("a union of one list 400 times", "LET a = 1..100000 RETURN UNION(A400)"),
    ("interleaving of one list 400 times", "LET a = 1..100000 RETURN INTERLEAVE(A400)"),
    ("flattening of much", "RETURN FLATTEN((FOR i IN 1..1000 RETURN 1..10000), 5)"),
    ("merging much", "RETURN MERGE((FOR i IN 1..1000000 RETURN {[TO_STRING(i)]: i}))"),
    (
        "merging deeply",
        "LET a = (FOR i IN 1..100000 RETURN {[TO_STRING(i)]: {x: i}})
         LET m = MERGE(a)
         RETURN MERGE_RECURSIVE(m, m, m, m, m)",
    ),
    (
        "names by the thousand",
        "LET n = (FOR i IN 1..300000 RETURN TO_STRING(i)) RETURN KEEP(ZIP(n, n), n)",
    ),
    (
        "names to leave out by the thousand",
        "LET n = (FOR i IN 1..300000 RETURN TO_STRING(i)) RETURN UNSET(ZIP(n, n), n)",
    ),
    ("sorting much", "FOR i IN 1..5000000 SORT RAND() RETURN i"),
    ("groups by the million", "FOR i IN 1..5000000 COLLECT x = i INTO g RETURN g"),
    ("one group of all", "FOR i IN 1..5000000 COLLECT x = 1 INTO g RETURN g"),
    ("warnings by the million", "FOR i IN 1..20000000 RETURN 1 / 0"),
    ("warnings with long texts", r#"FOR i IN 1..100000 RETURN DATE_ISO8601(REPEAT("x", 10000))"#),
    (
        "distances of long texts",
        r#"RETURN LEVENSHTEIN_DISTANCE(REPEAT("ab", 5000), REPEAT("ba", 5000))"#,
    ),
    ("factors of large numbers", "RETURN POW(10, 1000000)"),
    ("a wait", "RETURN SLEEP(1000000)"),
    ("waits", "FOR i IN 1..1000000 RETURN SLEEP(0.001)"),
    ("documents by the million", "FOR i IN 1..1000000 RETURN DOCUMENT(\"c/k1\")"),
    ("a write of too much", r#"FOR i IN 1..100000 INSERT {v: REPEAT("a", 100000)} INTO c"#),
    ("an upsert of all", "FOR a IN c UPSERT {n: -1} INSERT {n: a.n} UPDATE {} IN c RETURN NEW"),
    ("percentiles of much", "RETURN PERCENTILE((FOR i IN 1..3000000 RETURN RAND()), 50)"),
    ("uniqueness of much", "RETURN LENGTH(UNIQUE((FOR i IN 1..3000000 RETURN TO_STRING(i))))"),
    ("a list that is pushed to", "LET a = 1..1000000 FOR i IN 1..1000 RETURN PUSH(a, i)"),
    ("hashes of much", "RETURN SHA512(REPEAT(\"a\", 60000000))"),
    (
        "a question mark without end",
        "LET l = (FOR i IN 1..1000000 RETURN {v: 1..100})
         RETURN l[* FILTER CURRENT.v[? 50 FILTER CURRENT > 50]]",
    ),
];

/// Generated queries whose cost grows with their length.
fn made() -> Vec<(&'static str, String)> {
    let lets = |count: usize, of: &dyn Fn(usize) -> String| {
        (1..=count).map(|at| format!(" LET a{at} = {}", of(at - 1))).collect::<String>()
    };
    let wrap =
        |inner: &str, depth: usize| format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", "{a:".repeat(depth), "}".repeat(depth));
    vec![
        (
            "values that nest by variables",
            format!(
                "FOR i IN 1..1 LET a0 = i{} RETURN LENGTH(a100)",
                lets(100, &|at| wrap(&format!("a{at}"), 380))
            ),
        ),
        (
            "objects that nest by variables",
            format!(
                "FOR i IN 1..1 LET a0 = i{} RETURN a100",
                lets(100, &|at| format!("{{v: {{w: {{x: a{at}}}}}}}"))
            ),
        ),
        ("brackets by the thousand", format!("RETURN {}", wrap("1", 100_000))),
        ("braces by the thousand", format!("RETURN {}", objects(100_000))),
        (
            "parentheses by the thousand",
            format!("RETURN {}1{}", "(".repeat(50_000), ")".repeat(50_000)),
        ),
        ("a sum of 100,000", format!("RETURN 1{}", "+1".repeat(100_000))),
        ("a comparison of 100,000", format!("RETURN 1{}", " || 1".repeat(100_000))),
        ("signs by the thousand", format!("RETURN {}1", "-".repeat(100_000))),
        ("negations by the thousand", format!("RETURN {}1", "!".repeat(100_000))),
        (
            "questions by the thousand",
            format!("RETURN {}1{}", "1 ? ".repeat(20_000), " : 1".repeat(20_000)),
        ),
        ("a path of 100,000 names", format!("LET a = 1 RETURN a{}", ".b".repeat(100_000))),
        (
            "variables by the thousand",
            format!(
                "FOR i IN 1..1 LET a0 = i{} RETURN a10000",
                lets(10_000, &|at| format!("a{at} + 1"))
            ),
        ),
        (
            "loops by the thousand",
            format!(
                "{} RETURN 1",
                (0..5_000).map(|at| format!("FOR a{at} IN [1] ")).collect::<String>()
            ),
        ),
        (
            "queries in queries",
            format!("RETURN {}1{}", "(RETURN ".repeat(5_000), ")".repeat(5_000)),
        ),
        ("a comment without end", format!("/* {}", "x".repeat(1_000_000))),
        ("a text without end", format!("RETURN \"{}", "x".repeat(1_000_000))),
        ("a number of 1 MB", format!("RETURN {}", "9".repeat(1_000_000))),
        ("a name of 1 MB", format!("LET {} = 1 RETURN 1", "x".repeat(1_000_000))),
        (
            "an object of 100,000 names",
            format!(
                "RETURN {{{}}}",
                (0..100_000).map(|at| format!("a{at}:1")).collect::<Vec<_>>().join(",")
            ),
        ),
        ("a list of 300,000", format!("RETURN [{}1]", "1,".repeat(300_000))),
        ("noise", "RETURN \u{0}\u{1}´`´``¸˛ﬂ€".to_owned()),
        ("no query", String::new()),
    ]
}

/// Returns all costly queries with their names.
pub(crate) fn costly_queries() -> Vec<(&'static str, String)> {
    let copies = vec!["a"; 400].join(", ");
    let queries = QUERIES.iter().map(|(name, query)| (*name, query.replace("A400", &copies)));
    queries.chain(made()).collect()
}
