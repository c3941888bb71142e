//! `fmctl apply` and `fmctl get configs`.

use super::*;
use std::fs;

const TWO: &str = "site_id: sim1
device_role: gpu-node
image: ubuntu-22.04
flavor: bm.h100
features: [h100, ib]
gres: gpu:h100:8
user_data_file: cloud-init.yaml
---
site_id: sim2
device_role: cpu-node
image: null
";

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_rehearsed_compared_applied_and_applied_again() {
    let bed = bed().await;
    let file = bed.folder.path().join("configs.yaml");
    fs::write(&file, TWO).unwrap();
    fs::write(bed.folder.path().join("cloud-init.yaml"), "#cloud-config\nsecret-of-hpc\n").unwrap();
    let path = file.to_str().unwrap();
    let apply = async |more: &[&str]| fmctl(&bed, &[&["apply", "-f", path], more].concat()).await;

    let (code, out, err) = apply(&["--dry-run", "--no-headers"]).await;
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "sim1/gpu-node  would be created  v1  true\nsim2/cpu-node  would be created  v1  false\n"),
        "{err}"
    );
    assert!(err.contains("sim2/cpu-node: image: no image"), "{err}");
    assert_eq!(fmctl(&bed, &["get", "configs", "-o", "name"]).await.1, "", "nothing was changed");
    let (code, out, _) = apply(&["--no-headers"]).await;
    assert_eq!((code, out.as_str()), (Some(0), "sim1/gpu-node  created  v1  true\nsim2/cpu-node  created  v1  false\n"));
    let (code, out, _) = apply(&["--no-headers"]).await;
    assert_eq!((code, out.as_str()), (Some(0), "sim1/gpu-node  unchanged  v1  true\nsim2/cpu-node  unchanged  v1  false\n"));
    assert_eq!(apply(&["--diff", "--dry-run"]).await.1, "", "no difference");

    fs::write(&file, TWO.replace("ubuntu-22.04", "ubuntu-24.04").replace("[h100, ib]", "[h100]")).unwrap();
    fs::write(bed.folder.path().join("cloud-init.yaml"), "#cloud-config\nanother-secret\n").unwrap();
    let (code, out, _) = apply(&["--diff", "--dry-run"]).await;
    assert_eq!(code, Some(0));
    for line in [
        "--- sim1/gpu-node v1",
        "+++ sim1/gpu-node as applied",
        "-image: \"ubuntu-22.04\"",
        "+image: \"ubuntu-24.04\"",
        "-- \"ib\"",
        "-user_data_sha256: ",
        "+user_data_sha256: ",
    ] {
        assert!(out.lines().any(|l| l.starts_with(line)), "{line} is not in\n{out}");
    }
    assert!(!out.contains("secret") && !out.contains("flavor: null"), "{out}");
    let shown = get(&bed.hpc, LIST).await.body["items"][0].clone();
    assert_eq!((&shown["version"], &shown["image"]), (&json!(1), &json!("ubuntu-22.04")), "compared, not applied");
    let (code, out, _) = apply(&["--diff", "--no-headers"]).await;
    assert!(code == Some(0) && out.contains("+image: \"ubuntu-24.04\"") && out.contains("sim1/gpu-node  changed    v2  true"), "{out}");
    let one = get(&bed.hpc, &format!("{LIST}gpu-node/")).await.body;
    assert_eq!((&one["user_data"], &one["gres"]), (&json!("I2Nsb3VkLWNvbmZpZwphbm90aGVyLXNlY3JldAo="), &json!("gpu:h100:8")));

    let (_, out, _) = fmctl(&bed, &["get", "configs", "--site", "sim1", "--no-headers"]).await;
    assert_eq!(
        out.split_whitespace().collect::<Vec<_>>(),
        ["sim1", "gpu-node", "2", "true", "ubuntu-24.04", "bm.h100", "h100", "gpu:h100:8"]
    );
    assert_eq!(fmctl(&bed, &["get", "configs", "-o", "name"]).await.1, "sim1/gpu-node\nsim2/cpu-node\n");
    let (_, out, _) = fmctl(&bed, &["get", "configs", "-o", "json"]).await;
    assert!(out.contains("user_data_sha256") && !out.contains("\"user_data\""), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_file_is_said_before_anything_is_done() {
    let bed = bed().await;
    let file = bed.folder.path().join("configs.yaml");
    let apply = async |text: &str| {
        fs::write(&file, text).unwrap();
        fmctl(&bed, &["apply", "-f", file.to_str().unwrap()]).await
    };
    let good = "site_id: sim1\ndevice_role: gpu-node\n";
    let rows = [
        ("", 2, "holds no document"),
        ("site_id: sim1\n", 2, "document 1: missing field `device_role`"),
        (&format!("{good}---\n{good}colour: red\n"), 2, "document 2: unknown field `colour`"),
        (&format!("{good}user_data: Zm9v\nuser_data_file: x\n"), 2, "give one of them"),
        (&format!("{good}user_data_file: not-there\n"), 2, "user_data_file: "),
        (&format!("{good}image: 7\n"), 2, "image: "),
        (&format!("{good}user_data: \"no base64\"\n"), 2, "user_data: not base64"),
        ("site_id: mars\ndevice_role: gpu-node\n", 3, "there is no site mars"),
        ("site_id: sim1\ndevice_role: GPU\n", 2, "device_role: `GPU` is not a role name"),
        ("{\"site_id\": \"sim1\",", 2, "document 1"),
    ];
    for (text, code, told) in rows {
        let (found, out, err) = apply(text).await;
        assert_eq!((found, out.as_str()), (Some(code), ""), "{text}: {err}");
        assert!(err.contains(told), "{text}: {err}");
    }
    assert_eq!(get(&bed.hpc, LIST).await.body["items"], json!([]), "nothing was done");
    assert_eq!(fmctl(&bed, &["apply", "-f", "/nowhere.yaml"]).await.0, Some(2));
    let json = apply("{\"site_id\": \"sim1\", \"device_role\": \"gpu-node\", \"gres\": \"gpu:8\"}").await;
    assert_eq!(json.0, Some(0), "JSON is taken as well: {}", json.2);
    let (code, out, err) = apply(&format!("{good}gres: null\n---\nsite_id: mars\ndevice_role: x\n")).await;
    assert_eq!((code, out.contains("sim1/gpu-node  changed")), (Some(3), true), "what was done before a failure is shown: {err}");
}
