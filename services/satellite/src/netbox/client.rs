//! Asking NetBox. A query is built from [`Param`]s alone, since NetBox ignores a parameter that it does not know and answers with
//! everything; and each row that comes back is held against the filter (rule 11).

use super::row::Row;
use crate::error::{ClientError, ErrorClass, short};
use crate::http::{Answer, Http, read_secret, secret_header};
use backon::{ExponentialBuilder, Retryable};
use fleet_schemas::{LookFault, SiteId, Timestamp};
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use std::{fmt, path::Path, time::Duration};

/// NetBox's own cap.
const PAGE: usize = 1000;
/// Ids in one query: the URL stays below 2 kB.
const IDS: usize = 100;
/// Everything that an inventory record needs, and no `config_context` (rule 16).
const DEVICE_FIELDS: &str = "id,name,display,site,role,device_type,serial,asset_tag,rack,position,face,status,tenant,tags,custom_fields";

/// The query parameters there are.
#[derive(Clone)]
pub(crate) enum Param {
    Id(i64),
    Site(SiteId),
    ChangedType(&'static str),
    TimeAfter(Timestamp),
    Ordering(&'static str),
    Fields(&'static str),
    Start(i64),
    Limit(usize),
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "id={id}"),
            Self::Site(slug) => write!(f, "site={slug}"),
            Self::ChangedType(name) => write!(f, "changed_object_type={name}"),
            Self::TimeAfter(at) => write!(f, "time_after={at}"),
            Self::Ordering(by) => write!(f, "ordering={by}"),
            Self::Fields(names) => write!(f, "fields={names}"),
            Self::Start(id) => write!(f, "start={id}"),
            Self::Limit(rows) => write!(f, "limit={rows}"),
        }
    }
}

/// A row of a list, by the key that the cursor follows.
pub(crate) trait Keyed {
    fn id(&self) -> i64;
}

#[derive(Deserialize)]
struct Page<'a> {
    next: Option<String>,
    #[serde(borrow)]
    results: Vec<&'a RawValue>,
}

/// What a list held. A row that cannot be read must not stop the others.
pub(crate) struct Rows<T> {
    pub(crate) read: Vec<T>,
    pub(crate) unreadable: Vec<Unreadable>,
}

/// A row of which only the id can be read.
#[derive(Deserialize)]
pub(crate) struct Unreadable {
    pub(crate) id: i64,
    #[serde(skip)]
    pub(crate) why: String,
}

/// All of them in one line.
pub(crate) fn in_words(unreadable: &[Unreadable]) -> String {
    let word = |row: &Unreadable| format!("{}: {}", row.id, row.why);
    unreadable.iter().map(word).collect::<Vec<_>>().join("; ")
}

/// One NetBox.
pub(crate) struct Client {
    http: Http,
}

/// One look's calls, under the token as it was at its beginning. Only GET is sent.
pub(crate) struct Session<'a> {
    http: &'a Http,
    token: SecretString,
    header: HeaderValue,
}

impl Client {
    pub(crate) fn new(url: &str, deadline: Duration) -> Result<Self, ClientError> {
        Ok(Self { http: Http::new(url, deadline)? })
    }

    /// Reads the token: a v2 one (`nbt_…`) goes out as Bearer, a v1 one (40 hex digits) as Token.
    pub(crate) fn session(&self, token_file: &Path) -> Result<Session<'_>, ClientError> {
        let token = read_secret(token_file)?;
        let kind = if token.expose_secret().starts_with("nbt_") { "Bearer" } else { "Token" };
        let header = secret_header(&format!("{kind} {}", token.expose_secret()))?;
        Ok(Session { http: &self.http, token, header })
    }
}

impl Session<'_> {
    /// What NetBox says of itself.
    pub(crate) async fn status(&self) -> Result<Value, ClientError> {
        read(&self.get("/api/status/").await?)
    }

    /// Whether the change feed may be read.
    pub(crate) async fn feed_is_there(&self, since: Timestamp) -> Result<(), ClientError> {
        let params = [Param::TimeAfter(since), Param::Limit(1)];
        self.page("/api/core/object-changes/", &params).await.and_then(|answer| read::<Page<'_>>(&answer).map(|_| ()))
    }

    /// Every device of these sites.
    pub(crate) async fn sweep(&self, sites: &[SiteId]) -> Result<Rows<Row>, ClientError> {
        let mut params: Vec<Param> = sites.iter().cloned().map(Param::Site).collect();
        params.push(Param::Fields(DEVICE_FIELDS));
        self.walk("/api/dcim/devices/", &params, |row: &Row| sites.iter().any(|s| row.is_at(s))).await
    }

    /// These devices, as far as NetBox lists them, wherever they are.
    pub(crate) async fn devices(&self, ids: &[i64]) -> Result<Rows<Row>, ClientError> {
        self.by_ids("/api/dcim/devices/", DEVICE_FIELDS, ids).await
    }

    /// One device; `None` = NetBox itself (not some proxy before it) says that there is none.
    pub(crate) async fn device(&self, id: i64) -> Result<Option<Row>, ClientError> {
        let answer = self.get(&format!("/api/dcim/devices/{id}/?fields={DEVICE_FIELDS}")).await?;
        if answer.code == 404 && detail(&answer).is_some_and(|d| d.contains("matches the given query")) {
            return Ok(None);
        }
        let row: Row = read(&answer)?;
        if row.id() != id {
            return Err(ClientError::malformed(&answer.asked, format!("200, and device {} instead", row.id())));
        }
        Ok(Some(row))
    }

    /// The rows of a list with these ids, in as many calls as it takes.
    pub(crate) async fn by_ids<T: Keyed + DeserializeOwned>(
        &self,
        path: &str,
        fields: &'static str,
        ids: &[i64],
    ) -> Result<Rows<T>, ClientError> {
        let mut rows = Rows { read: Vec::new(), unreadable: Vec::new() };
        for ids in ids.chunks(IDS) {
            let mut params: Vec<Param> = ids.iter().copied().map(Param::Id).collect();
            params.push(Param::Fields(fields));
            let more = self.walk(path, &params, |row: &T| ids.contains(&row.id())).await?;
            rows.read.extend(more.read);
            rows.unreadable.extend(more.unreadable);
        }
        Ok(rows)
    }

    /// A whole list by the cursor `start=`, which loses nothing while rows come and go. A row that does not pass `filter` fails the walk.
    pub(crate) async fn walk<T: Keyed + DeserializeOwned>(
        &self,
        path: &str,
        params: &[Param],
        filter: impl Fn(&T) -> bool,
    ) -> Result<Rows<T>, ClientError> {
        let (mut rows, mut start) = (Rows { read: Vec::new(), unreadable: Vec::new() }, Some(0));
        while let Some(from) = start {
            let mut params = params.to_vec();
            params.extend([Param::Start(from), Param::Limit(PAGE)]);
            let answer = self.page(path, &params).await?;
            let page: Page<'_> = read(&answer)?;
            for raw in page.results {
                match serde_json::from_str::<T>(raw.get()) {
                    Ok(row) if filter(&row) => rows.read.push(row),
                    Ok(odd) => {
                        let came = format!("200, and row {} outside the filter: a filter that NetBox ignores looks like this", odd.id());
                        return Err(ClientError::malformed(&answer.asked, came));
                    }
                    Err(error) => {
                        let row: Unreadable = serde_json::from_str(raw.get()).map_err(|e| unreadable(&answer, &e))?;
                        rows.unreadable.push(Unreadable { why: error.to_string(), ..row });
                    }
                }
            }
            start = page.next.as_deref().map(|next| next_start(next, from, &answer)).transpose()?;
        }
        Ok(rows)
    }

    /// The first row of a list.
    pub(crate) async fn first<T: DeserializeOwned>(&self, path: &str, params: &[Param]) -> Result<Option<T>, ClientError> {
        let answer = self.page(path, params).await?;
        let page: Page<'_> = read(&answer)?;
        page.results.first().map(|raw| serde_json::from_str(raw.get()).map_err(|e| unreadable(&answer, &e))).transpose()
    }

    async fn page(&self, path: &str, params: &[Param]) -> Result<Answer, ClientError> {
        let query: Vec<String> = params.iter().map(Param::to_string).collect();
        self.get(&format!("{path}?{}", query.join("&"))).await
    }

    /// GET, again after a transient failure: a page of a walk keeps its place (rule 12).
    async fn get(&self, path: &str) -> Result<Answer, ClientError> {
        let call = || async {
            let answer = self.http.get(path, &[("Authorization", self.header.clone())], &self.token).await?;
            if answer.code == 429 || answer.code >= 500 { Err(refusal(&answer)) } else { Ok(answer) }
        };
        let again = ExponentialBuilder::default().with_min_delay(Duration::from_millis(250)).with_max_times(2).with_jitter();
        call.retry(again).when(|error| error.class == ErrorClass::Transient).await
    }
}

/// `start` of a `next` link. Only the number is taken over: the link's host is what NetBox believes to be called.
fn next_start(next: &str, from: i64, answer: &Answer) -> Result<i64, ClientError> {
    let query = next.split_once('?').map_or("", |(_, q)| q);
    let start = query.split('&').find_map(|p| p.strip_prefix("start=")?.parse::<i64>().ok());
    start
        .filter(|s| *s > from)
        .ok_or_else(|| ClientError::malformed(&answer.asked, format!("200, and a next link that leads nowhere: {next}")))
}

fn read<'a, T: Deserialize<'a>>(answer: &'a Answer) -> Result<T, ClientError> {
    if answer.code != 200 {
        return Err(refusal(answer));
    }
    serde_json::from_str(&answer.body).map_err(|e| unreadable(answer, &e))
}

fn unreadable(answer: &Answer, error: &serde_json::Error) -> ClientError {
    ClientError::malformed(&answer.asked, format!("200, and a body that cannot be read: {error}"))
}

/// DRF's `{"detail": …}`.
fn detail(answer: &Answer) -> Option<String> {
    serde_json::from_str::<Value>(&answer.body).ok()?.get("detail")?.as_str().map(str::to_owned)
}

/// What an answer without data means. A bad token is 403 as a missing permission is; `detail` tells them apart (section 1).
pub(crate) fn refusal(answer: &Answer) -> ClientError {
    let (class, fault) = match answer.code {
        401 | 403 => (ErrorClass::Permanent, LookFault::PermissionDenied),
        429 | 500.. => (ErrorClass::Transient, LookFault::NoData),
        _ => (ErrorClass::Permanent, LookFault::NoData),
    };
    let said = detail(answer).unwrap_or_else(|| short(&answer.body));
    ClientError::new(class, answer.asked.as_str(), format!("{} {said}", answer.code), fault)
}
