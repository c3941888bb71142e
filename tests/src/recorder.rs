//! A reverse proxy on loopback that lets everything through and remembers it: what was asked of an outside system, when it answered,
//! and what. So a test can say what was asked and what never was, and from when on the product could have known something.

use axum::body::{Body, Bytes, to_bytes};
use axum::{Router, extract::Request, extract::State, http::HeaderMap, http::StatusCode, http::header, response::Response};
use reqwest::Client;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longer than any deadline of the product, so that it is the product's own that counts.
const PATIENCE: Duration = Duration::from_secs(120);
/// A body that is sent to an outside system; nothing of that size is expected.
const MOST_SENT: usize = 1 << 20;

/// One call of an outside system.
#[derive(Clone)]
pub struct Call {
    /// `GET`, one hopes.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The token it carried.
    pub token: String,
    /// The body that was sent, unpacked.
    pub sent: Vec<u8>,
    /// When it came in.
    pub asked_at: Instant,
    /// What came back; `None` while nothing has, and for ever where the caller hung up.
    pub answer: Option<Answered>,
}

/// What an outside system answered.
#[derive(Clone)]
pub struct Answered {
    /// When the whole answer was here; the product got it after that.
    pub at: Instant,
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Bytes,
}

impl Call {
    /// The body that was sent, as JSON; null where it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.sent).unwrap_or_default()
    }
}

impl Answered {
    /// Whether this text is in the body.
    pub fn has(&self, text: &str) -> bool {
        !text.is_empty() && self.body.windows(text.len()).any(|w| w == text.as_bytes())
    }
}

/// A running proxy; ends with the value.
pub struct Recorder {
    /// Where the product is to call.
    pub url: String,
    shared: Arc<Shared>,
    server: tokio::task::JoinHandle<()>,
}

struct Shared {
    upstream: String,
    client: Client,
    calls: Mutex<Vec<Call>>,
    cut: AtomicBool,
}

impl Recorder {
    /// Starts one before the system at `upstream`, a URL without a path.
    pub async fn before(upstream: &str) -> anyhow::Result<Self> {
        crate::crypto();
        let client = Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(PATIENCE).build()?;
        let shared = Arc::new(Shared {
            upstream: upstream.trim_end_matches('/').to_owned(),
            client,
            calls: Mutex::default(),
            cut: AtomicBool::new(false),
        });
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let router = Router::new().fallback(pass).with_state(shared.clone());
        let server = tokio::spawn(async move {
            // It only ends with the value, which aborts it.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, shared, server })
    }

    /// Lets nothing through any more, or everything again: whoever calls finds nobody there.
    pub fn cut(&self, cut: bool) {
        self.shared.cut.store(cut, Ordering::SeqCst);
    }

    /// Every call so far, in the order in which they came in.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.calls().clone()
    }

    /// The calls whose path begins with `path`.
    pub fn calls_of(&self, path: &str) -> Vec<Call> {
        self.shared.calls().iter().filter(|c| c.path.starts_with(path)).cloned().collect()
    }

    /// The calls that were under way between two instants, one a line, for people.
    pub fn log(&self, from: Instant, to: Instant) -> String {
        let at = |t: Instant| t.saturating_duration_since(from).as_secs_f64() - from.saturating_duration_since(t).as_secs_f64();
        let calls = self.shared.calls();
        let under_way = calls.iter().filter(|c| c.asked_at <= to && c.answer.as_ref().is_none_or(|a| a.at >= from));
        let line = |c: &Call| {
            let came = c.answer.as_ref().map_or_else(|| "nothing yet".to_owned(), |a| format!("{} at {:+.3} s", a.status, at(a.at)));
            format!("      {:+.3} s  {} {}  {came}", at(c.asked_at), c.method, c.path.chars().take(120).collect::<String>())
        };
        under_way.map(line).collect::<Vec<_>>().join("\n")
    }

    /// The first answer after `since` that shows something.
    pub fn first(&self, since: Instant, shows: impl Fn(&Call, &Answered) -> bool) -> Option<Answered> {
        let calls = self.shared.calls();
        let answers = calls.iter().filter_map(|c| Some((c, c.answer.as_ref()?)));
        answers.filter(|(c, a)| a.at >= since && shows(c, a)).map(|(_, a)| a).min_by_key(|a| a.at).cloned()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Shared {
    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        // Each change is one push or one assignment: a panic elsewhere leaves it whole.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what is asked before it is passed on: also a call that nobody waits for was made.
    fn asked(&self, request: &Request) -> usize {
        let header = |name: &str| request.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        let token = [header("x-slurm-user-token"), header("authorization")].concat();
        let path = request.uri().path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        let mut calls = self.calls();
        calls.push(Call { method: request.method().to_string(), path, token, asked_at: Instant::now(), sent: Vec::new(), answer: None });
        calls.len() - 1
    }

    async fn ask(&self, call: usize, request: Request) -> anyhow::Result<(StatusCode, HeaderMap, Bytes)> {
        if self.cut.load(Ordering::SeqCst) {
            anyhow::bail!("the way is cut");
        }
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |p| p.as_str());
        let mut headers = parts.headers;
        // The client writes these itself.
        for name in [header::HOST, header::CONTENT_LENGTH, header::CONNECTION, header::TRANSFER_ENCODING] {
            headers.remove(name);
        }
        let body = to_bytes(body, MOST_SENT).await?;
        if let Some(call) = self.calls().get_mut(call) {
            call.sent = unpacked(&headers, &body);
        }
        let sent = self.client.request(parts.method, format!("{}{path}", self.upstream)).headers(headers).body(body).send().await?;
        let (status, mut headers) = (sent.status(), sent.headers().clone());
        for name in [header::CONTENT_LENGTH, header::CONNECTION, header::TRANSFER_ENCODING] {
            headers.remove(name);
        }
        Ok((status, headers, sent.bytes().await?))
    }
}

fn unpacked(headers: &HeaderMap, body: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let packed = headers.get(header::CONTENT_ENCODING).is_some_and(|v| v == "gzip");
    match packed.then(|| flate2::read::GzDecoder::new(body).read_to_end(&mut plain)) {
        Some(Ok(_)) => plain,
        Some(Err(_)) | None => body.to_vec(),
    }
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let call = shared.asked(&request);
    let (status, headers, body) = shared.ask(call, request).await.unwrap_or_else(|error| {
        // The product would have seen a broken connection; of the statuses this one says the least.
        (StatusCode::SERVICE_UNAVAILABLE, HeaderMap::new(), format!("the recorder cannot reach the system: {error:#}").into())
    });
    let answer = Answered { at: Instant::now(), status: status.as_u16(), body: body.clone() };
    if let Some(call) = shared.calls().get_mut(call) {
        call.answer = Some(answer);
    }
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_passes_is_passed_on_whole_and_remembered() {
        let upstream = Recorder::before("http://127.0.0.1:9").await.unwrap();
        let recorder = Recorder::before(&upstream.url).await.unwrap();
        let before = Instant::now();
        let client = Client::builder().no_proxy().build().unwrap();
        let asked = client.post(format!("{}/a/b?c=d%20e", recorder.url)).header("x-slurm-user-token", "t1").body("x");
        let answer = asked.send().await.unwrap();
        assert_eq!(answer.status(), 503);
        let said = answer.text().await.unwrap();
        assert!(said.starts_with("the recorder cannot reach the system"), "{said}");
        for seen in [&recorder, &upstream] {
            let calls = seen.calls();
            let found: Vec<_> = calls.iter().map(|c| (c.method.as_str(), c.path.as_str(), c.token.as_str())).collect();
            assert_eq!(found, [("POST", "/a/b?c=d%20e", "t1")]);
        }
        assert_eq!((recorder.calls_of("/a").len(), recorder.calls_of("/b").len()), (1, 0));
        assert!(recorder.first(before, |_, a| a.has("cannot reach")).is_some());
        assert!(recorder.first(before, |_, a| a.has("no such words")).is_none());
        assert!(recorder.first(Instant::now(), |_, _| true).is_none());
    }
}
