//! The API as programs see it, over real connections: the answers, and who gets them.
//!
//! Verified: every route is described and every described one answers, errors have one form, the security checks (host,
//! origin, token, paths, bodies), reads of papers, catalogue and runs, jobs with a program whose output the test
//! chooses. Not verified: the pages, and the verbs that jobs run; `tests/studio` covers both in a browser.

mod support;

use serde_json::{Value, json};
use std::net::SocketAddr;
use support::{Answer, Bench};

#[test]
fn what_is_described_is_what_there_is() {
    let bench = Bench::new();
    let described = bench.get("/api/openapi.json").json();
    let paths = described["paths"].as_object().expect("paths");
    assert!(paths.len() > 15);
    for (path, methods) in paths {
        let real = path.replace("{id}", "1").replace("{name}", "a0");
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            let answer = bench.ask(method, &real, &[bench.authorized()], b"{}");
            let is_described = methods.get(method.to_lowercase()).is_some();
            assert_eq!(answer.status != 405, is_described, "{method} {path}: {}", answer.status);
            assert_ne!(answer.status, 500, "{method} {path}: {}", answer.text);
            if answer.status >= 400 {
                answer.fault(answer.status);
            }
        }
        for (method, operation) in methods.as_object().expect("methods") {
            assert_eq!(operation.get("security").is_some(), method == "post", "{method} {path}");
        }
    }
    // What is there and not described would be found by these.
    for path in
        ["/api", "/api/", "/api/papers/", "/api/token", "/api/jobs/1/2", "/nothing", "/pages/", "/..", "//"]
    {
        bench.get(path).fault(404);
    }
}

#[test]
fn an_address_without_a_page_is_a_page_for_people_and_json_for_programs() {
    let bench = Bench::new();
    let browser = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    for path in ["/nothing", "/plan", "/pages/"] {
        let answer = bench.ask("GET", path, &browser, b"");
        assert_eq!(
            (answer.status, answer.header("content-type").as_str()),
            (404, "text/html; charset=utf-8")
        );
        assert!(answer.text.contains("There is no such page"), "{path}");
        assert!(answer.header("content-security-policy").contains("default-src 'none'"), "{path}");
        bench.get(path).fault(404);
    }
    bench.ask("GET", "/api/nothing", &browser, b"").fault(404);
}

#[test]
fn files_that_are_of_no_array_are_not_offered_for_serving() {
    let bench = Bench::new();
    for (name, bytes) in [("empty", 0), ("short", 512), ("zeros", 1 << 20)] {
        std::fs::write(bench.folder.path().join(name), vec![0; bytes]).unwrap();
    }
    assert_eq!(bench.get("/api/arrays/stored").json(), json!({ "schema": 1, "arrays": [] }));
}

#[test]
fn pages_come_with_a_policy_that_allows_nothing_from_elsewhere() {
    let bench = Bench::new();
    for (path, kind) in [("/", "text/html"), ("/app.js", "text/javascript"), ("/style.css", "text/css")] {
        let answer = bench.get(path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.header("content-type").starts_with(kind), "{path}");
        let policy = answer.header("content-security-policy");
        for part in ["default-src 'none'", "frame-ancestors 'none'", "form-action 'none'"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin");
        assert!(answer.header("access-control-allow-origin").is_empty());
        // Nothing in the pages asks for anything else.
        assert!(!answer.text.contains("https://"), "{path} names another site");
    }
    bench.get("/api/nothing").header("content-security-policy");
}

#[test]
fn no_other_host_and_no_other_site_gets_an_answer() {
    let bench = Bench::new();
    let port = bench.address.port();
    let ours = bench.address.to_string();
    for host in [ours.clone(), format!("localhost:{port}"), format!("LOCALHOST:{port}")] {
        let answer =
            bench.raw(&format!("GET /api/papers HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        assert_eq!(answer.status, 200, "{host}");
    }
    for host in
        ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", &format!("127.0.0.1:{port}.evil.example")]
    {
        let request = format!("GET /api/papers HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        bench.raw(&request).fault(403);
    }
    // Two hosts, none, and another one in the request line.
    for head in [
        format!("GET / HTTP/1.1\r\nHost: {ours}\r\nHost: evil.example\r\n"),
        "GET / HTTP/1.0\r\n".to_owned(),
        format!("GET http://evil.example/ HTTP/1.1\r\nHost: {ours}\r\n"),
    ] {
        let answer = bench.raw(&format!("{head}Connection: close\r\n\r\n"));
        assert!(matches!(answer.status, 400 | 403), "{head}: {}", answer.status);
    }
    for origin in
        ["http://evil.example", "null", "https://localhost", &format!("http://evil.example:{port}"), ""]
    {
        bench.ask("GET", "/api/papers", &[("origin", origin)], b"").fault(403);
        let headers = [bench.authorized(), ("origin", origin)];
        bench.ask("POST", "/api/jobs/1/stop", &headers, b"").fault(403);
    }
    let own = format!("http://{ours}");
    assert_eq!(bench.ask("GET", "/api/papers", &[("origin", &own)], b"").status, 200);
    for site in ["cross-site", "same-site"] {
        let headers = [bench.authorized(), ("sec-fetch-site", site)];
        bench.ask("POST", "/api/jobs/1/stop", &headers, b"").fault(403);
    }
}

#[test]
fn a_change_needs_the_token() {
    let bench = Bench::new();
    let body = json!({ "target": "a.img", "passes": 1 }).to_string();
    let json_type = ("content-type", "application/json");
    let wrong = format!("Bearer {}", "0".repeat(64));
    let token = bench.studio.token();
    let short = format!("Bearer {}", &token[1..]);
    for value in [
        "",
        "Bearer",
        "Bearer ",
        &wrong,
        &short,
        token,
        &format!("Basic {token}"),
        &format!("bearer {token}"),
    ] {
        let answer = bench.ask("POST", "/api/soak", &[json_type, ("authorization", value)], body.as_bytes());
        answer.fault(401);
        assert_eq!(answer.header("www-authenticate"), "Bearer", "{value}");
    }
    // In an address it does not count.
    bench.ask("POST", &format!("/api/soak?token={token}"), &[json_type], body.as_bytes()).fault(401);
    assert_eq!(bench.jobs(), 0);
    assert_eq!(bench.post("/api/soak", &json!({ "target": "a.img", "passes": 1 })).status, 202);
    assert_eq!(bench.jobs(), 1);
}

#[test]
fn only_loopback_addresses_are_served() {
    let bench = Bench::new();
    for address in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0"] {
        let address: SocketAddr = address.parse().unwrap();
        let error = bench.start_at(address).expect_err("no address that others can reach").to_string();
        assert!(error.contains("loopback"), "{error}");
    }
    bench.start_at(bench.address).expect_err("the address is taken");
}

#[test]
fn names_lead_nowhere_but_into_the_folder() {
    let bench = Bench::new();
    for name in
        ["../x", "/etc/passwd", "/dev/sda", "nbd://h/x", "null:1GiB", "-v", "a\u{0}b", "", "a/../../b"]
    {
        for (path, order) in [
            ("/api/soak", json!({ "target": name })),
            ("/api/measure", json!({ "target": name, "workload": "storagebench-database" })),
            ("/api/arrays", json!({ "name": "a0", "level": "1", "members": [name, "b"] })),
            ("/api/arrays", json!({ "name": "a0", "level": "1", "members": ["a", "b"], "spares": [name] })),
            ("/api/arrays/serve", json!({ "devices": [name], "socket": "s" })),
            ("/api/arrays/serve", json!({ "devices": ["a"], "socket": name })),
            ("/api/arrays/a0/command", json!({ "command": "replace", "device": "0", "with": name })),
            ("/api/arrays/a0/command", json!({ "command": "add-spare", "path": name })),
            ("/api/emulate", json!({ "name": "e", "array": "", "socket": name })),
        ] {
            bench.post(path, &order).fault(422);
        }
    }
    for name in ["..", "a/b", ".hidden", "-x", "ä", ""] {
        bench.post("/api/arrays", &json!({ "name": name, "level": "1", "members": ["a", "b"] })).fault(422);
        bench.post("/api/emulate", &json!({ "name": name, "array": "", "socket": "s" })).fault(422);
    }
    for name in ["..%2F..%2Ftmp%2Fx", "%2e%2e", "a%2Fb", "-x", ".x"] {
        bench.post(&format!("/api/arrays/{name}/command"), &json!({ "command": "stop" })).fault(422);
    }
    assert_eq!(bench.jobs(), 0);
}

#[test]
fn what_may_be_destroyed_is_named_as_what_is_written_to() {
    let bench = Bench::new();
    for (path, order) in [
        ("/api/soak", json!({ "target": "a", "write": true, "destroy_data": "b" })),
        ("/api/measure", json!({ "target": "a", "workload": "storagebench-database", "destroy_data": "*" })),
        ("/api/arrays", json!({ "name": "a0", "level": "1", "members": ["a", "b"], "destroy_data": ["c"] })),
        (
            "/api/arrays/a0/command",
            json!({ "command": "replace", "device": "0", "with": "a", "destroy_data": "b" }),
        ),
        (
            "/api/emulate",
            json!({ "name": "e", "array": "", "socket": "s", "backing": "a", "destroy_data": "b" }),
        ),
    ] {
        assert_eq!(bench.post(path, &order).fault(422)["where"], "destroy_data", "{order}");
    }
    let order = json!({ "target": "a", "write": true, "destroy_data": "a", "dry_run": true });
    let command = bench.post("/api/soak", &order).json();
    assert_eq!(command["command"], "raidlab soak a --write --destroy-data=a --db=raidlab.sqlite");
}

#[test]
fn bodies_are_bounded_and_must_be_what_is_described() {
    let bench = Bench::new();
    let post = |kind: &str, body: &[u8]| {
        bench.ask("POST", "/api/soak", &[bench.authorized(), ("content-type", kind)], body)
    };
    post("text/plain", b"{}").fault(415);
    post("application/x-www-form-urlencoded", b"target=a").fault(415);
    post("", b"{}").fault(415);
    for broken in [&b""[..], b"{", b"\xff", b"{\"target\":\"a\"} x"] {
        post("application/json", broken).fault(400);
    }
    for wrong in [
        "[]",
        "null",
        "{}",
        r#"{"target":1}"#,
        r#"{"target":"a","unknown":1}"#,
        r#"{"target":"a","passes":-1}"#,
    ] {
        post("application/json", wrong.as_bytes()).fault(422);
    }
    for (field, value) in [("time", "soon"), ("size", "big"), ("rate", "1 kg")] {
        let fault = bench.post("/api/soak", &json!({ "target": "a", field: value })).fault(422);
        assert_eq!(fault["where"], field);
    }
    let long = format!(r#"{{"target":"{}"}}"#, "a".repeat(70 << 10));
    post("application/json", long.as_bytes()).fault(413);
    // Deep nesting is refused, not followed.
    post("application/json", format!("{{\"target\":{}", "[".repeat(60 << 10)).as_bytes()).fault(400);
    // serde takes a list for a struct.
    post("application/json", b"[\"a\",null,null,null,null,null,false,false,null,true]").fault(422);
    bench.get("/api/jobs/x").fault(400);
    bench.get("/api/jobs/99").fault(404);
    bench.get("/api/jobs/99999999999999999999999").fault(400);
    bench.get("/api/runs?limit=many").fault(400);
    bench.get("/api/runs.csv").fault(400);
    bench.get("/api/papers/%ff").fault(400);
    assert_eq!(bench.jobs(), 0);
}

#[test]
fn papers_and_catalogue_are_those_of_the_program() {
    let bench = Bench::new();
    let papers = bench.get("/api/papers").json();
    let ids: Vec<&str> =
        papers["papers"].as_array().unwrap().iter().filter_map(|it| it["id"].as_str()).collect();
    assert!(ids.contains(&"md1200-2011"), "{ids:?}");
    let paper = bench.get("/api/papers/md1200-2011").json();
    assert_eq!(paper["rows"].as_array().unwrap().len() as u64, paper["figures"]);
    assert!(paper["rows"][0]["published"].as_f64().unwrap() > 0.0);
    let csv = bench.get("/api/papers/md1200-2011/published.csv");
    assert_eq!(csv.header("content-type"), "text/csv; charset=utf-8");
    assert_eq!(csv.text.lines().count(), paper["rows"].as_array().unwrap().len() + 1);
    let fault = bench.get("/api/papers/md1200").fault(404);
    assert!(fault["what"].as_str().unwrap().contains("md1200-2011"), "{fault}");
    let order = json!({ "table": "Table 99" });
    bench.post("/api/papers/md1200-2011/predict", &order).fault(422);

    let entries = bench.get("/api/catalogue").json();
    let entries = entries["entries"].as_array().unwrap();
    let figures: usize = entries.iter().map(|it| it["figures"].as_array().unwrap().len()).sum();
    assert!(entries.iter().any(|it| it["id"] == "st3600057ss"));
    for figure in entries.iter().flat_map(|it| it["figures"].as_array().unwrap()) {
        assert!(!figure["source"].as_str().unwrap().is_empty(), "{figure}");
    }
    assert!(bench.get("/api/catalogue.csv").text.lines().count() > figures);
    assert!(bench.get("/api/workloads").json()["workloads"].as_array().unwrap().len() > 10);
}

#[test]
fn runs_are_read_and_looking_makes_no_file() {
    let bench = Bench::new();
    assert_eq!(bench.get("/api/runs").json()["runs"], json!([]));
    bench.get("/api/runs/1").fault(404);
    assert!(bench.names().is_empty(), "{:?}", bench.names());
    bench.store_runs(3);
    let runs = bench.get("/api/runs?limit=2").json();
    let ids: Vec<_> = runs["runs"].as_array().unwrap().iter().map(|run| run["id"].clone()).collect();
    assert_eq!(ids, [json!(3), json!(2)]);
    assert_eq!(bench.get("/api/runs/2").json()["result"]["workload"], "load 2");
    assert_eq!(bench.get("/api/runs.csv?ids=1%2C3").text.lines().count(), 3);
    bench.get("/api/runs.csv?ids=1,9").fault(404);
    bench.get("/api/runs.csv?ids=1,x").fault(400);
}

#[test]
fn a_job_is_watched_to_its_end() {
    let bench = Bench::with_program(
        r#"echo '{"progress":{"label":"half","share":0.5,"read_bytes":7}}' >&2; echo a note >&2; echo '{"schema":1}'"#,
    );
    let begun = bench.post("/api/soak", &json!({ "target": "it is.img", "passes": 2 }));
    assert_eq!(begun.status, 202);
    assert_eq!(begun.json()["command"], "raidlab soak 'it is.img' --passes=2 --db=raidlab.sqlite");
    let job = bench.await_end(1);
    assert_eq!((&job["state"], &job["exit_code"]), (&json!("done"), &json!(0)));
    assert_eq!(job["ticks"][0]["label"], "half");
    assert_eq!(job["ticks"][0]["read_bytes"], 7);
    assert_eq!(job["messages"], json!(["a note"]));
    assert_eq!(bench.get("/api/jobs/1?from=1").json()["ticks"], json!([]));
    assert_eq!(bench.get("/api/jobs/1/result").json(), json!({ "schema": 1 }));
    assert_eq!(bench.program_arguments(), "soak\nit is.img\n--passes=2\n--db=raidlab.sqlite\n--json\n");
}

#[test]
fn a_job_that_fails_says_why() {
    let bench =
        Bench::with_program(r#"printf '{\n"failure":[{"kind":"error","text":"no"}]\n}\n' >&2; exit 2"#);
    bench.post("/api/soak", &json!({ "target": "a" }));
    let job = bench.await_end(1);
    assert_eq!((&job["state"], &job["exit_code"]), (&json!("failed"), &json!(2)));
    assert_eq!(job["failure"], json!([{ "kind": "error", "text": "no" }]));
    bench.get("/api/jobs/1/result").fault(409);
}

#[test]
fn a_job_is_stopped_as_a_person_would_and_so_are_all_at_the_end() {
    let forever = "trap 'exit 130' INT; echo ready >&2; while :; do sleep 0.05; done";
    let bench = Bench::with_program(forever);
    for _ in 0..2 {
        bench.post("/api/soak", &json!({ "target": "a" }));
    }
    for id in 1..=2 {
        bench.await_job(id, |job| job["messages"] == json!(["ready"]));
    }
    bench.post("/api/jobs/1/stop", &Value::Null);
    assert_eq!(bench.await_end(1)["state"], "stopped");
    assert_eq!(bench.get("/api/jobs/2").json()["state"], "running");
    bench.studio.stop();
    assert_eq!(bench.get("/api/jobs/2").json()["state"], "stopped");
}

#[test]
fn there_are_only_so_many_jobs_and_the_same_prediction_is_made_once() {
    let bench = Bench::with_program("trap 'exit 130' INT; while :; do sleep 0.05; done");
    let predict = json!({ "table": "Table 4" });
    let first = bench.post("/api/papers/md1200-2011/predict", &predict).json();
    let again = bench.post("/api/papers/md1200-2011/predict", &predict).json();
    assert_eq!(first["id"], again["id"]);
    let statuses: Vec<u16> =
        (0..12).map(|_| bench.post("/api/soak", &json!({ "target": "a" })).status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 202).count(), 11, "{statuses:?}");
    assert_eq!(statuses.last(), Some(&429));
    bench.studio.stop();
}

#[test]
fn many_at_once_are_answered_or_told_to_come_back() {
    let bench = Bench::new();
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..80).map(|_| scope.spawn(|| bench.get("/api/catalogue"))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for answer in &answers {
        assert!(matches!(answer.status, 200 | 503), "{}", answer.status);
    }
    assert!(answers.iter().any(|answer| answer.status == 200));
    assert_eq!(bench.get("/api/catalogue").status, 200);
}

/// Issue 23, defect 3: connections that never end their request kept everybody else out.
#[test]
fn half_open_connections_keep_nobody_out() {
    let bench = Bench::new();
    let _half_open: Vec<_> = (0..200)
        .map(|_| {
            let mut stream = std::net::TcpStream::connect(bench.address).expect("the studio listens");
            let _ = std::io::Write::write_all(&mut stream, b"GET / HTTP/1.1\r\nx: ");
            stream
        })
        .collect();
    assert_eq!(bench.get("/api/jobs").status, 200);
}

#[test]
fn a_description_of_an_array_is_checked_and_never_written_over_a_file() {
    let bench = Bench::with_program("exit 0");
    let order = |array: &str| json!({ "name": "e0", "array": array, "socket": "e.nbd" });
    let array = "schema = 1\nlevel = \"5\"\nmembers = 4\ndrive = \"st3600057ss\"\ncontroller = \"perc-h800\"\n\
         write-policy = \"write-back\"\nregion = \"1 GiB\"\n";
    for wrong in
        ["", "x = 1", &array.replace("st3600057ss", "st36"), &array.replace("members = 4", "members = 1")]
    {
        bench.post("/api/emulate", &order(wrong)).fault(422);
    }
    assert!(bench.names().is_empty());
    assert_eq!(bench.post("/api/emulate", &order(array)).status, 202);
    assert_eq!(bench.names(), ["e0.toml"]);
    // The same once more is the same file; another is refused.
    assert_eq!(bench.post("/api/emulate", &order(array)).status, 202);
    bench.post("/api/emulate", &order(&array.replace("1 GiB", "2 GiB"))).fault(409);
}
