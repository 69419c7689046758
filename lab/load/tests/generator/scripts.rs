//! Scripts of the kinds that exist for wrk and wrk2.

use std::path::PathBuf;
use std::time::Duration;

use crate::support::{Server, against, answer, load, ok};
use pellucid_load::simulation::Reply;
use pellucid_load::{Header, Limit, LoadError, LoadOptions, LoadResult, ScriptOptions, run};
use tempfile::TempDir;

/// A script in a temporary folder.
struct ScriptFile {
    folder: TempDir,
    path: PathBuf,
}

impl ScriptFile {
    fn new(code: &str) -> ScriptFile {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.lua");
        let out = folder.path().join("out.txt");
        // The scripts report through a file, because the test does not see what they print.
        let code = code.replace("OUT", &format!("[[{}]]", out.display()));
        std::fs::write(&path, code).unwrap();
        ScriptFile { folder, path }
    }

    fn option(&self) -> Option<ScriptOptions> {
        Some(ScriptOptions { path: self.path.clone(), arguments: Vec::new() })
    }

    fn options(&self, server: &Server) -> LoadOptions {
        let mut options = server.options();
        options.script = self.option();
        options.limit = Limit::Requests(20);
        options
    }

    fn output(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("out.txt")).unwrap()
    }
}

fn script_failure(server: &Server, code: &str) -> String {
    let script = ScriptFile::new(code);
    match run(&script.options(server), &mut |_| {}).and_then(LoadResult::whole) {
        Err(LoadError::Script(text)) => text,
        other => panic!("the script must fail: {:?}", other.map(|result| result.requests)),
    }
}

#[test]
fn a_script_that_only_sets_the_fields_of_wrk() {
    let server = Server::start(|_| ok());
    let script = ScriptFile::new(
        "wrk.method = 'POST'
        wrk.body = 'a=1'
        wrk.headers['Content-Type'] = 'text/plain'
        wrk.headers['X-Number'] = 7",
    );
    assert_eq!(load(&script.options(&server)).requests, 20);
    let requests = server.requests.lock().unwrap();
    assert!(requests.iter().all(|request| request.line() == "POST / HTTP/1.1"));
    assert!(requests.iter().all(|request| request.body == b"a=1"));
    assert!(requests.iter().all(|request| request.header("Content-Type") == Some("text/plain")));
    assert!(requests.iter().all(|request| request.header("X-Number") == Some("7")));
}

/// Regression: with `-H 'host: a'`, a request had two of them, so it was refused.
#[test]
fn a_script_has_the_host_of_the_flag() {
    let server = Server::start(|_| ok());
    let script = ScriptFile::new("wrk.method = 'GET'");
    let mut options = script.options(&server);
    options.headers = vec![Header::parse("host: a").unwrap()];
    assert_eq!(load(&options).requests, 20);
    let requests = server.requests.lock().unwrap();
    let heads = requests.iter().map(|request| request.head.to_ascii_lowercase());
    heads.for_each(|head| assert_eq!(head, "get / http/1.1\r\nhost: a\r\n\r\n"));
}

#[test]
fn setup_init_and_done_exchange_values_with_the_threads() {
    let server = Server::start(|_| ok());
    let script = ScriptFile::new(
        "local counter = 1
        local threads = {}
        function setup(thread)
            thread:set('id', counter)
            thread:set('nested', { list = { 1, 2 }, flag = true })
            table.insert(threads, thread)
            counter = counter + 1
        end
        function init(args)
            requests, responses = 0, 0
            arguments = table.concat(args, ',')
            url = args[0]
            sum = nested.list[1] + nested.list[2]
            -- The thread's own handle reaches the same globals.
            wrk.thread:set('own', wrk.thread:get('id') * 10)
        end
        function request()
            requests = requests + 1
            return wrk.request()
        end
        function response(status, headers, body)
            responses = responses + 1
        end
        function done(summary, latency, requests)
            local out = io.open(OUT, 'w')
            local total = 0
            for _, thread in ipairs(threads) do
                out:write(string.format('%d %s %s %d %d\\n', thread:get('id'),
                    thread:get('arguments'), thread:get('url'), thread:get('sum'),
                    thread:get('own')))
                total = total + thread:get('responses')
                assert(thread:get('requests') >= thread:get('responses'))
                assert(thread:get('missing') == nil)
                assert(thread.addr)
            end
            out:write(total, ' ', summary.requests, '\\n')
            out:close()
        end",
    );
    let mut options = script.options(&server);
    (options.threads, options.connections) = (2, 4);
    options.script.as_mut().unwrap().arguments = vec!["a".into(), "b".into()];
    let mut result = load(&options);
    result.call_done().unwrap();
    let url = options.target.url();
    assert_eq!(script.output(), format!("1 a,b {url} 3 10\n2 a,b {url} 3 20\n20 20\n"));
}

#[test]
fn done_receives_the_statistics() {
    let server = Server::start(|request| match request.number % 2 {
        0 => ok(),
        _ => answer(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
    });
    let script = ScriptFile::new(
        "done = function(summary, latency, requests)
            local count = 0
            for i = 1, #latency do
                local value, times = latency(i)
                count = count + times
                assert(latency[i] == value and value > 0)
            end
            assert(latency(#latency + 1) == nil)
            assert(latency.min <= latency.mean and latency.mean <= latency.max)
            assert(latency.stdev >= 0)
            assert(latency:percentile(50) <= latency:percentile(99.9))
            assert(requests.max >= 0)
            local errors = summary.errors
            local out = io.open(OUT, 'w')
            out:write(string.format('%d %d %d %d', count, summary.requests, errors.status,
                errors.connect + errors.read + errors.write + errors.timeout))
            assert(summary.duration > 0 and summary.bytes > 0)
            out:close()
        end",
    );
    load(&script.options(&server)).call_done().unwrap();
    assert_eq!(script.output(), "20 20 10 0");
}

#[test]
fn requests_that_are_returned_together_are_pipelined() {
    let server = Server::start(|_| ok());
    let script = ScriptFile::new(
        "init = function(args)
            wrk.init(args)
            local r = { wrk.format(nil, '/?1'), wrk.format(nil, '/?2'), wrk.format(nil, '/?3') }
            req = table.concat(r)
        end
        request = function() return req end",
    );
    let mut options = script.options(&server);
    options.limit = Limit::Requests(30);
    let result = load(&options);
    assert_eq!((result.requests, result.times.response.len()), (30, 30));
    let expected: Vec<String> = (0..30).map(|n| format!("GET /?{} HTTP/1.1", n % 3 + 1)).collect();
    assert_eq!(server.lines(), expected);
    // With `-B`, three that went out at once are one measurement.
    options.measures_batches = true;
    let result = load(&options);
    assert_eq!((result.requests, result.times.response.len()), (30, 10));
    // Under a rate, three requests take the time of three.
    options.rate_per_second = Some(300);
    options.limit = Limit::Duration(Duration::from_millis(200));
    let result = load(&options);
    assert_eq!(result.requests + result.unanswered, 60);
}

#[test]
fn delay_puts_a_pause_before_every_request() {
    let script = ScriptFile::new("delay = function() return 20 end");
    let options = LoadOptions {
        connections: 2,
        script: script.option(),
        ..against(|_| Reply::ok().after(Duration::from_millis(5)))
    };
    let result = load(&options);
    assert_eq!(result.requests, 2 * 12, "of 25 ms each in 300 ms");
    assert!(result.times.response.max() < 6_000_000, "the pause is not part of the latency");
}

#[test]
fn setup_can_choose_an_address_of_the_host() {
    let server = Server::start(|_| ok());
    let script = ScriptFile::new(
        "function setup(thread)
            local addresses = wrk.lookup(wrk.host, wrk.port or 'http')
            for i = #addresses, 1, -1 do
                if not wrk.connect(addresses[i]) then table.remove(addresses, i) end
            end
            assert(tostring(wrk.addrs[1]) == wrk.host .. ':' .. wrk.port)
            thread.addr = addresses[math.random(#addresses)]
        end
        function init(args)
            local out = io.open(OUT, 'w')
            out:write(tostring(wrk.thread.addr))
            out:close()
        end",
    );
    assert_eq!(load(&script.options(&server)).requests, 20);
    assert_eq!(script.output(), server.address.to_string());
}

#[test]
fn errors_name_the_file_and_the_line() {
    let server = Server::start(|_| ok());
    let cases = [
        ("x = = 1", "test.lua:1:"),
        ("\nerror('broken')", "test.lua:2: broken"),
        ("function setup()\n local a = nil + 1\nend", "test.lua:2:"),
        ("function init()\n nothing()\nend", "test.lua:2:"),
        (
            "local n = 0\nfunction request()\n n = n + 1\n if n > 5 then error('five') end\n \
             return wrk.format()\nend",
            "test.lua:4: five",
        ),
        ("function response()\n error({})\nend", "table: 0x"),
        ("function response(status)\n return status.x.y\nend", "test.lua:2:"),
        ("function delay()\n error('no')\nend", "test.lua:2: no"),
        ("function request()\nend", "must return a string"),
        ("function request() return 'GET' end", "incomplete request"),
        ("function setup(t) t:set('f', print) end", "cannot transfer a function"),
        ("function setup(t) local a = {} a.a = a t:set('a', a) end", "nested too deeply"),
        ("function setup(t) local a = {} a[a] = a t:set('a', a) end", "nested too deeply"),
        ("function setup(t) t.addr = 1 end", "an address from wrk.lookup is expected"),
        ("wrk.lookup('localhost', 'nonsense')", "unknown service"),
    ];
    for (code, part) in cases {
        let text = script_failure(&server, code);
        assert!(text.contains(part), "{code}\n{text}");
        assert!(!text.contains("stack traceback"), "{text}");
    }
}

/// Regression: finalizers of the binding's own userdata crashed LuaJIT when objects of scripts were
/// collected, during the run or at its end.
#[test]
fn objects_of_scripts_are_collected_without_harm() {
    let server = Server::start(|_| ok());
    let script = ScriptFile::new(
        "local threads = {}
        function setup(thread)
            for i = 1, 100 do
              thread:set('n', i)
              thread.addr = wrk.lookup('127.0.0.1', wrk.port)[1]
            end
            collectgarbage()
            threads[1] = thread
        end
        function request()
            for i = 1, 10 do local a = wrk.thread.addr wrk.thread:set('m', wrk.thread:get('n')) end
            collectgarbage()
            return wrk.format()
        end
        function done(summary, latency, requests)
            assert(threads[1]:get('m') == 100)
            threads, latency, requests = nil, nil, nil
            collectgarbage()
        end",
    );
    load(&script.options(&server)).call_done().unwrap();
}

/// Regression: an error of the script threw away what was measured before it.
#[test]
fn an_error_in_the_middle_keeps_what_was_measured() {
    let server = Server::start(|_| ok());
    let script = ScriptFile::new(
        "local answers = 0
        function response()
            answers = answers + 1
            if answers == 7 then error('seven') end
        end
        function done(summary)
            local out = io.open(OUT, 'w')
            out:write(summary.requests)
            out:close()
        end",
    );
    let mut options = script.options(&server);
    (options.threads, options.connections) = (2, 2);
    options.limit = Limit::Duration(Duration::from_secs(600));
    let mut result = load(&options);
    let failure = result.failure.as_ref().unwrap().to_string();
    assert!(failure.contains("test.lua:4: seven"), "{failure}");
    assert!(result.stopped_early && result.requests >= 7, "{}", result.requests);
    assert_eq!(result.times.response.len(), result.requests);
    result.call_done().unwrap();
    assert_eq!(script.output(), result.requests.to_string());
}

/// A script whose pool of requests is empty returns nothing, often after it has stopped its thread.
#[test]
fn a_script_that_has_no_more_requests_ends_its_thread() {
    for ending in ["return nil", "wrk.thread:stop()"] {
        let server = Server::start(|_| ok());
        let script = ScriptFile::new(&format!(
            "local left = 11
            function request()
                left = left - 1
                if left > 0 then return wrk.format() else {ending} end
            end"
        ));
        let mut options = script.options(&server);
        options.limit = Limit::Duration(Duration::from_secs(600));
        let result = load(&options);
        // The first request is made before the run, to count the requests in it, and is not sent.
        assert_eq!((result.requests, result.errors.all()), (9, 0), "{ending}");
        assert!(result.stopped_early && result.failure.is_none(), "{:?}", result.failure);
    }
}

#[test]
fn an_error_in_done_is_reported() {
    let server = Server::start(|_| ok());
    let script = ScriptFile::new("function done()\n error('at the end')\nend");
    let text = load(&script.options(&server)).call_done().unwrap_err().to_string();
    assert!(text.contains("test.lua:2: at the end"), "{text}");
}

#[test]
fn a_missing_script_is_named() {
    let server = Server::start(|_| ok());
    let mut options = server.options();
    let path = PathBuf::from("no/such/script.lua");
    options.script = Some(ScriptOptions { path, arguments: Vec::new() });
    let text = run(&options, &mut |_| {}).unwrap_err().to_string();
    assert!(text.contains("no/such/script.lua"), "{text}");
}
