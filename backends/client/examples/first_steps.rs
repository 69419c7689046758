//! First steps: an entry put, read, timed, put on a condition, two at once, a range, a query.
#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pellucid_client::Client;
use pellucid_client::http::{HttpRequest, Target, TlsOptions};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const KEY: &str = "/v0/entity?id=greeting";

/// A server, for single requests.
struct Server(Target);

impl Server {
    fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Outcome<(u16, String)> {
        let request = HttpRequest { method, headers, body, ..HttpRequest::get(path) };
        let (status, answer) = request.ask(&self.0, &TlsOptions::default())?;
        let head = if headers.contains("timing") { answer.head } else { answer.body };
        Ok((status, String::from_utf8(head)?))
    }
}

fn text(field: &Value) -> Outcome<String> {
    Ok(String::from_utf8(STANDARD.decode(field.as_str().unwrap_or_default())?)?)
}

fn main() -> Outcome<()> {
    let url = std::env::var("PELLUCID_URL").unwrap_or("http://127.0.0.1:8080".to_owned());
    let server = Server(Target::parse(&url)?);
    let mut client = Client::connect(&url)?;

    // A refusal would be an error, so the status was 201.
    client.put(b"greeting", b"hello")?;
    println!("put 201");
    let value = client.get(b"greeting")?.unwrap_or_default();
    println!("get {}", String::from_utf8(value)?);
    let (_, head) = server.ask("GET", KEY, "Prefer: timing\r\n", b"")?;
    println!("timing {}", head.matches("execute").next().unwrap_or("not there"));
    let (status, _) = server.ask("PUT", KEY, "If-None-Match: *\r\n", b"hi")?;
    println!("again {status}");

    let base64 = |plain: &str| STANDARD.encode(plain);
    let line = |(key, value)| json!({ "op": "put", "key": base64(key), "value": base64(value) });
    let lines = [("fruit/apple", "red"), ("fruit/pear", "yellow")].map(line);
    let body = format!("{}\n{}", lines[0], lines[1]);
    let (_, answer) = server.ask("POST", "/v0/batch", "", body.as_bytes())?;
    println!("batch {}", serde_json::from_str::<Value>(&answer)?["entries"]);

    let range = "/v0/entities?start=fruit/&end=fruit0";
    let (_, answer) = server.ask("GET", range, "Accept: application/x-ndjson\r\n", b"")?;
    print!("range");
    for line in answer.lines() {
        let entry: Value = serde_json::from_str(line)?;
        print!(" {}={}", text(&entry["key"])?, text(&entry["value"])?);
    }
    println!();

    let query = json!({ "query": "FOR i IN 1..@last RETURN i * i", "bindVars": { "last": 3 } });
    let (_, answer) = server.ask("POST", "/_api/cursor", "", query.to_string().as_bytes())?;
    let answer: Value = serde_json::from_str(&answer)?;
    let squares = answer["result"].as_array().into_iter().flatten().map(Value::to_string);
    println!("query {}", squares.collect::<Vec<_>>().join(" "));
    client.delete(b"greeting")?;
    println!("delete 202");
    Ok(())
}
