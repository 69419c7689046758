//! The table of routes, tested over real sockets: each route lets exactly those accounts pass that
//! have the right that it needs, and no spelling of its path needs less.

use crate::common::{Answer, Client, TestServer, account_of, enter, start_with};
use pellucid_server::access::Right::{self, None as Nothing, Read, Write};
use pellucid_server::route_views::{RouteView, need_of, routes};

/// The rights of an account in each area, and the grants that give them.
struct Account {
    name: &'static str,
    entities: Right,
    server: Right,
    database: Right,
    collection: Right,
    grants: &'static [(&'static str, Right)],
}

const fn account(
    name: &'static str,
    [entities, server, database, collection]: [Right; 4],
    grants: &'static [(&'static str, Right)],
) -> Account {
    Account { name, entities, server, database, collection, grants }
}

/// The accounts: for each kind of right one that has only this right, and accounts whose right to
/// the collection `c` differs from that to its database `d`.
const ACCOUNTS: &[Account] = &[
    account("nothing", [Nothing; 4], &[]),
    account(
        "reader",
        [Read, Nothing, Read, Read],
        &[("table/entities", Read), ("database/d", Read)],
    ),
    account("writer", [Write, Nothing, Write, Write], &[("*", Write)]),
    account("watcher", [Nothing, Read, Nothing, Nothing], &[("admin", Read)]),
    account("administrator", [Nothing, Write, Nothing, Nothing], &[("admin", Write)]),
    account(
        "kept",
        [Nothing, Nothing, Write, Nothing],
        &[("database/d", Write), ("database/d/c", Nothing)],
    ),
    account(
        "shown",
        [Nothing, Nothing, Write, Read],
        &[("database/d", Write), ("database/d/c", Read)],
    ),
    account(
        "lent",
        [Nothing, Nothing, Nothing, Write],
        &[("database/d/c", Write), ("table/other", Write)],
    ),
    account("elsewhere", [Nothing; 4], &[("database/e", Write), ("database/e/c", Write)]),
];

/// The account that requests to routes of accounts name.
const ASKED_ABOUT: &str = "reader";

/// Starts a server with these accounts and one that may do everything. Returns the server, the
/// accounts' credentials, and those of the last.
fn guarded() -> (TestServer, Vec<String>, String) {
    let (mut tokens, mut root) = (Vec::new(), String::new());
    let server = start_with(|options| {
        let add = |name: &str, grants: &[_]| {
            format!("Bearer {}", enter(&options.data, account_of(name, grants)))
        };
        tokens = ACCOUNTS.iter().map(|account| add(account.name, account.grants)).collect();
        root = add("root", &[("*", Write), ("admin", Write)]);
    });
    call(&mut server.client(), "POST", "/_api/database", &root, r#"{"name":"d"}"#).having(201);
    (server, tokens, root)
}

fn call(client: &mut Client, method: &str, target: &str, who: &str, body: &str) -> Answer {
    client.call(method, target, &[("Authorization", who)], body)
}

/// True if the account has the right that a route needs; `None` stands for no account.
fn has(account: Option<&Account>, need: &str) -> bool {
    let (kind, right) = need.split_once(':').unwrap_or((need, "none"));
    let right: Right = right.parse().unwrap();
    match (kind, account) {
        ("open" | "peer", _) => true,
        (_, None) => false,
        ("account", Some(_)) => true,
        ("entities", Some(account)) => account.entities >= right,
        ("server", Some(account)) => account.server >= right,
        ("own account", Some(account)) => account.name == ASKED_ABOUT || account.server >= right,
        ("database", Some(account)) => account.database >= right,
        ("collection", Some(account)) => account.collection >= right,
        (other, _) => panic!("{other} is no need"),
    }
}

/// The status of a refusal for lack of the right.
fn refusal(account: Option<&Account>, need: &str) -> u16 {
    // A missing right to a database is answered like unknown credentials.
    let is_unknown = account.is_none() || need.starts_with("database");
    if is_unknown { 401 } else { 403 }
}

/// True if the request was refused for lack of a right, and not for another reason.
fn is_refused(method: &str, answer: &Answer) -> bool {
    if answer.status != 401 && answer.status != 403 {
        return false;
    }
    let body = serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap_or_default();
    let (number, message) = (body["errorNum"].as_u64(), body["errorMessage"].as_str());
    // Another reason: tokens cannot set passwords, whatever the account's rights.
    let is_of_token = message.is_some_and(|message| message.starts_with("a token"));
    // The entity API has no numbers, and an answer to HEAD no body.
    method == "HEAD" || number.is_none_or(|number| number == 11) && !is_of_token
}

/// The path of a route, with this collection in it.
fn path_of(route: &RouteView, collection: &str) -> String {
    let own = if route.need.starts_with("own") { ASKED_ABOUT } else { "nobody" };
    let database = if route.is_of_documents { "/_db/d" } else { "" };
    let path = route.path.replace("{collection}", collection).replace("{profile}", "heap");
    let path = path.replace("{user}", own).replace("{key}", "k").replace("/*", "");
    let names = ["{cursor}", "{batch}", "{query}", "{index}", "{transaction}"];
    let path = names.iter().fold(path, |path, name| path.replace(name, "1"));
    let path = path.replace("{database}", "nothing").replace("{action}", "x");
    database.to_owned() + &path.replace("{scope}", "database")
}

fn query_of(route: &RouteView, collection: &str) -> String {
    let parameter = route.parameter.unwrap_or("nothing");
    match route.need.starts_with("collection") && !route.path.contains("{collection}") {
        true => format!("collection={collection}&{parameter}=true"),
        false => format!("{parameter}=true"),
    }
}

fn body_of(method: &str, route: &RouteView) -> &'static str {
    match (method, &*route.path) {
        ("GET" | "HEAD" | "OPTIONS", _) => "",
        (_, "/_api/cursor" | "/_api/explain" | "/_api/query") => r#"{"query":"RETURN 1"}"#,
        (_, path) if path.ends_with("/rename") => r#"{"name":"c"}"#,
        (_, path) if path.starts_with("/_api/document") && !path.contains("{key}") => "[]",
        (_, path) if path.starts_with("/_api") || path.starts_with("/_open") => "{}",
        _ => "",
    }
}

/// Regression: rights were checked by the name in the path, so a collection's number evaded them.
#[test]
fn every_route_lets_exactly_accounts_with_its_right_pass() {
    let (server, tokens, root) = guarded();
    let mut client = server.client();
    let strangers = ["", "nonsense", "Bearer v1.nobody"].map(|who| (None, who));
    let known = ACCOUNTS.iter().map(Some).zip(tokens.iter().map(String::as_str));
    let everybody: Vec<_> = known.chain(strangers).collect();
    let mut checked = 0;
    for route in routes() {
        for (account, who) in &everybody {
            for spelling in ["c", "{number}", "%3{number}"] {
                if spelling != "c" && !route.need.starts_with("collection") {
                    continue;
                }
                for method in &route.methods {
                    let body = r#"{"name":"c"}"#;
                    call(&mut client, "POST", "/_db/d/_api/collection", &root, body);
                    let facts = call(&mut client, "GET", "/_db/d/_api/collection/c", &root, "");
                    let number = facts.json()["id"].as_str().unwrap().to_owned();
                    let named = spelling.replace("{number}", &number);
                    let target =
                        format!("{}?{}", path_of(&route, &named), query_of(&route, &named));
                    let answer = call(&mut client, method, &target, who, body_of(method, &route));
                    let passes = !is_refused(method, &answer);
                    let name = account.map_or(*who, |account| account.name);
                    let what = format!(
                        "{name}: {method} {target} needs {}: {} {}",
                        route.need,
                        answer.status,
                        String::from_utf8_lossy(&answer.body)
                    );
                    assert_eq!(passes, has(*account, &route.need), "{what}");
                    assert!(passes || answer.status == refusal(*account, &route.need), "{what}");
                    assert!(answer.status != 404 || !what.contains("unknown path"), "{what}");
                    assert!(answer.status != 405, "{what}");
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 1_000, "{checked}");
}

/// Spellings of a path that code might confuse with another path.
fn spellings(path: &str) -> Vec<String> {
    const FOR_SLASH: [&str; 12] = [
        "%2F", "%2f", "//", "/./", "/../", "/%2e/", "/%2E%2E/", "\\", "%5C", ";/", "/%00/",
        "%C0%AF",
    ];
    const BEHIND: [&str; 14] = [
        "/", "//", "/.", "/..", "/../..", "%00", "%20", ".", ";x=y", "%3F", "%23", "/%C0%AE",
        "%E0%80%AF", "/_open",
    ];
    const BEFORE: [&str; 23] = [
        "/_db/d",
        "/_db/d/_db/d",
        "/_db/_open",
        "/_db/x%2F_open%2Fy",
        "/_db/x%2f_open%2f..",
        "/_db/x%2F_admin%2Fserver%2Favailability",
        "/_db/%2F_open%2F",
        "/_db/%C0%AF_open",
        "/_db/x%00",
        "/_db/",
        "/_db",
        "/_db/%00",
        "/_open",
        "/_open/..",
        "//_open/auth/../..",
        "/_api/%2e%2e",
        "/_open%2F..",
        "/_open%00",
        "/_admin/server/availability/..",
        "/_admin/server/availability%2F..",
        "/v0/status/..",
        "/.",
        "/",
    ];
    let mut all = vec![path.to_owned()];
    let slashes: Vec<usize> = path.match_indices('/').map(|(at, _)| at).collect();
    for at in slashes {
        let (before, after) = (&path[..at], &path[at + 1..]);
        // The first byte of a target has to be a slash.
        let others = FOR_SLASH.iter().filter(|other| at > 0 || other.starts_with('/'));
        all.extend(others.map(|other| format!("{before}{other}{after}")));
        if let Some(first) = after.bytes().next().filter(u8::is_ascii_graphic) {
            let (rest, upper) = (&after[1..], first.to_ascii_uppercase() as char);
            all.push(format!("{before}/%{first:02x}{rest}"));
            all.push(format!("{before}/%{first:02X}{rest}"));
            all.push(format!("{before}/%25{first:02X}{rest}"));
            all.push(format!("{before}/{upper}{rest}"));
        }
    }
    all.extend(BEHIND.iter().map(|behind| format!("{path}{behind}")));
    all.extend(BEFORE.iter().map(|before| format!("{before}{path}")));
    if let Some(bare) = path.strip_prefix("/_db/d") {
        all.extend(BEFORE.iter().map(|before| format!("{before}{bare}")));
    }
    all
}

/// Regression: the gate decoded a path and then split it, and the handler did the reverse, so they
/// saw different paths.
#[test]
fn no_spelling_of_a_path_needs_less_than_its_route() {
    let (server, _, _) = guarded();
    let mut client = server.client();
    let is_open = |need: &str| matches!(need, "open" | "peer");
    let mut checked = 0;
    for route in routes() {
        let path = path_of(&route, "c");
        for spelling in spellings(&path) {
            for method in &route.methods {
                let answer = client.call(method, &spelling, &[], "");
                let (path, query) = match spelling.split_once('?') {
                    Some((path, query)) => (path, Some(query)),
                    None => (&*spelling, None),
                };
                // The path that is dispatched must be the path that the gate checked.
                let passes = is_open(&need_of(method, path, query));
                assert!(is_open(&route.need) || !passes, "{method} {spelling} is open");
                let what = || format!("{method} {spelling}: {} {:?}", answer.status, answer.body);
                assert_eq!(answer.status != 401, passes, "{}", what());
                checked += 1;
            }
        }
    }
    assert!(checked > 5_000, "{checked}");
}
