//! Who may not in, and what is not taken.

use fleet_log::kafka::{KafkaLog, MAX_RECORD, Options, Tls};
use fleet_log::{AppendError, Cleanup, Durability, EventLog, Item, Record, TopicPartition, TopicSpec};
use fleet_tests::{Brokers, PASSWORD};
use std::collections::BTreeMap;
use std::process::Command;
use tempfile::TempDir;

pub fn spec(name: &str) -> TopicSpec {
    let (cleanup, durability) = (Cleanup::Delete, Durability::Full);
    TopicSpec { name: name.into(), partitions: 2, cleanup, durability, retention: None, settings: BTreeMap::new() }
}

async fn why(options: Options) -> String {
    KafkaLog::open(options).await.err().expect("it must be refused").to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_a_wrong_certificate_are_said_to_be_that() {
    let folder = TempDir::new().unwrap();
    let brokers = Brokers::start_with_users(folder.path()).unwrap();
    let log = KafkaLog::open(brokers.options_of_user(PASSWORD)).await.unwrap();
    log.ensure(&[spec("t")]).await.unwrap();
    log.append(TopicPartition::new("t", 0), vec![Record { key: "k".into(), value: "v".into() }]).await.unwrap();
    let text = why(brokers.options_of_user("wrong")).await;
    assert!(text.contains("refuse the user, the password or the mechanism") && !text.contains("wrong"), "{text}");
    let text = why(Options { sasl: None, ..brokers.options_of_user(PASSWORD) }).await;
    assert!(text.contains("127.0.0.1"), "{text}");
    // A CA that did not sign it: of another lab.
    let other = folder.path().join("other.pem");
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=other", "-keyout", "/dev/null", "-out"])
        .arg(&other)
        .output()
        .unwrap();
    assert!(made.status.success());
    let tls = Some(Tls { ca_file: Some(other), client: None });
    let text = why(Options { tls, ..brokers.options_of_user(PASSWORD) }).await;
    assert!(text.contains("certificate is not one that the CA file vouches for, or it has expired"), "{text}");
}

/// The broker's certificate expires while it serves: who is connected stays, who comes is told.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_certificate_is_said_to_be_one() {
    let folder = TempDir::new().unwrap();
    let brokers = Brokers::start_with_users(folder.path()).unwrap();
    expire(&brokers);
    brokers.signal(0, "KILL").unwrap();
    brokers.mend().unwrap();
    let text = why(brokers.options_of_user(PASSWORD)).await;
    assert!(text.contains("it has expired"), "{text}");
}

/// Makes the server's certificate anew, of yesterday.
fn expire(brokers: &Brokers) {
    let script = "set -e; cd \"$0\"; openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout s.key -out s.csr; \
        printf 'subjectAltName=IP:127.0.0.1,DNS:localhost' >ext; : >index.txt; echo 01 >serial; \
        printf '[ca]\\ndefault_ca=d\\n[d]\\ndatabase=index.txt\\nnew_certs_dir=.\\nserial=serial\\ndefault_md=sha256\\npolicy=p\\n[p]\\ncommonName=supplied\\n' >ca.conf; \
        openssl ca -batch -config ca.conf -cert ca.pem -keyfile ca.key -in s.csr -out s.pem -extfile ext -startdate 20200101000000Z -enddate 20200102000000Z; \
        openssl pkcs8 -topk8 -nocrypt -in s.key -out s8.key; cat s8.key s.pem ca.pem >server.pem";
    let done = Command::new("bash").args(["-c", script]).arg(brokers.certificates()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Too large a record would take those that are sent with it down: it is refused before it is sent, and they are stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_over_the_limit_is_refused_and_takes_nobody_down() {
    let folder = TempDir::new().unwrap();
    let brokers = Brokers::start(folder.path(), 1, "").unwrap();
    let log = KafkaLog::open(brokers.options()).await.unwrap();
    log.ensure(&[spec("t")]).await.unwrap();
    let at = TopicPartition::new("t", 0);
    let record = |size: usize| Record { key: "k".into(), value: vec![7; size].into() };
    let small = log.append(at.clone(), vec![record(10)]);
    let large = log.append(at.clone(), vec![record(10), record(MAX_RECORD + 1)]);
    let after = log.append(at.clone(), vec![record(MAX_RECORD - 10)]);
    let refused = large.await;
    assert!(matches!(&refused, Err(AppendError::NotStored(why)) if why.contains("more than")), "{refused:?}");
    small.await.unwrap();
    after.await.unwrap();
    let (mut reader, mut sizes) = (log.read(&[(at, 0)]), Vec::new());
    while let Ok(Item::Record(r)) = reader.next().await {
        sizes.push(r.record.value.len());
    }
    assert_eq!(sizes, [10, MAX_RECORD - 10], "nothing of the refused append");
}
