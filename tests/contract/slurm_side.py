"""The SLURM side: section `scheduler`, conditions, batches, epochs; what it may not do; and what the auditor sees of that."""

import base64
import gzip
import json
import pathlib
import time
import uuid

import fastavro.schema
from stock import Api, until

AGENT = "slurm-agent-sim1"
BATCH = "/sites/sim1"
FOUR = ["SlurmMember", "SlurmSchedulable", "SlurmDrained", "SlurmDrainForeign"]


def api(hub, client=AGENT):
    if client not in hub.__dict__:
        hub.__dict__[client] = Api(hub, session=hub.session(client))
    return hub.__dict__[client]


def devices(hub, site="sim1", client=AGENT):
    """The devices of a site that are linked to a SLURM node."""
    return [d for d in api(hub, client).all(f"/devices?filter=site = {site} AND slurm_node:*") if d["slurm_node"]]


def elsewhere(hub):
    return devices(hub, "sim2", "slurm-agent-sim2")[0]


def section(device, **other):
    says = {"slurm_node": device["slurm_node"], "state": ["IDLE"], "cpus": 64, "alloc_cpus": 0, "partitions": ["gpu"], "features": ["ib"]}
    return {**says, "gres": "gpu:8", **other}


def condition(device, type="SlurmSchedulable", **other):
    says = {"type": type, "status": "False", "reason": "TriedFromOutside", "message": "by hand"}
    return {**({"device": device["id"]} if device else {}), **says, **other}


def single(trial, hub):
    """the SLURM side, device by device"""
    agent = api(hub)
    looked = lambda: len(agent.all("/conditions?filter=type = SlurmMember AND site = sim1")) >= len(devices(hub)) > 1
    until("the first look of the process's own agent", looked)
    sites = agent("GET", "/sites")
    trial.answer("sites", sites, 200)
    trial.check("... its own alone", [s.get("site_id", s.get("name")) for s in sites.json()["items"]] == ["sim1"], sites.text)
    answer = agent("GET", "/devices?limit=500&count=true&fields=id,name,site,slurm_node")
    found = answer.json()["items"]
    trial.check("the device list of its own site alone", found and {d["site"] for d in found} == {"sim1"}, answer.text)
    trial.check("... with how old it is", answer.json()["meta"]["as_of"] and "lag_seconds" in answer.json()["meta"], answer.text)
    device = devices(hub)[0]
    path = f"/devices/{device['id']}"
    since = "2026-01-02T03:04:05.000000Z"
    given = section(device, reason="psu", user="root", since=since, slurmd_start_time=since, reservation="maint")
    answer = agent("PATCH", path, {"scheduler": given})
    trial.answer("PATCH of section scheduler", answer, 200, id=device["id"])
    shown = answer.json().get("scheduler") or {}
    trial.check("... is shown as it was given", shown.get("state") == ["IDLE"] and shown.get("reservation") == "maint", answer.text)
    version = answer.json().get("version")
    answer = agent("PATCH", path, {"scheduler": given})
    trial.answer("the same again changes nothing", answer, 200, version=version)
    answer = agent("PATCH", f"/devices/{device['name']}", {"scheduler": section(device)})
    trial.answer("the device by its name", answer, 200, id=device["id"])
    for kind in FOUR:
        answer = agent("POST", f"{path}/conditions", condition(None, kind))
        trial.answer(f"POST of condition {kind}", answer, 200, type=kind, status="False", reason="TriedFromOutside")
        trial.check("... says how old the answer is", "fleet-as-of" in answer.headers, answer.headers)
    trial.answer("an unchanged one is answered at once", agent("POST", f"{path}/conditions", condition(None)), 200, status="False")
    listed = agent.all(f"/conditions?filter=device = {device['id']} AND type = SlurmSchedulable")
    trial.check("it stands in the list of conditions", [c["reason"] for c in listed] == ["TriedFromOutside"], listed)


def refused(trial, hub):
    """what the SLURM side may not do (field report 17)"""
    agent, device, other = api(hub), devices(hub)[0], elsewhere(hub)
    path, far = f"/devices/{device['id']}", f"/devices/{other['id']}"
    ask = {"command": "drain", "reason": "tried from outside"}
    trial.answer("a lifecycle command", agent("POST", f"{path}/commands", ask), 403, "scope-missing", scope="device-lifecycle:create")
    for field in ("phase", "lifecycle", "annotations", "inventory", "name"):
        answer = agent("PATCH", path, {field: {"phase": "Ready"} if field != "phase" else "Ready"})
        trial.answer(f"PATCH of `{field}`", answer, 403, "field-forbidden", field=field)
    answer = agent("PATCH", path, {"scheduler": section(device), "phase": "Ready"})
    trial.answer("PATCH of both scheduler and phase", answer, 403, "field-forbidden", field="phase")
    for kind in ("InventoryMatched", "IdentityConflict", "NoSuchType"):
        trial.answer(f"condition {kind}", agent("POST", f"{path}/conditions", condition(None, kind)), 403, "type-not-granted")
    answer = agent("PATCH", path, {"scheduler": section(device, slurm_node="another")})
    trial.answer("a node that the device is not linked to", answer, 409, "identity-mismatch")
    answer = agent("PATCH", path, {"scheduler": section(device, mood="fine")})
    trial.answer("an unknown field of the section", answer, 400, "invalid")
    answer = agent("POST", f"{path}/conditions", condition(None, status="Maybe"))
    trial.answer("a status that there is not", answer, 400, "invalid")
    answer = agent("POST", f"{path}/conditions", condition(None, reason="not camel case"))
    trial.answer("a reason that is not CamelCase", answer, 400, "invalid")
    for what, answer in [
        ("GET of another site's device", agent("GET", far)),
        ("PATCH of another site's device", agent("PATCH", far, {"scheduler": section(other)})),
        ("condition of another site's device", agent("POST", f"{far}/conditions", condition(None))),
    ]:
        trial.answer(what, answer, 404, "not-found")
    for path in ("/sites/sim2/conditions:batch", "/sites/sim2/devices:batch"):
        method = "PATCH" if path.endswith("devices:batch") else "POST"
        trial.answer(f"{method} {path}", agent(method, path, {}), 403, "out-of-reach")
    rows = [
        ("POST", "/sites/sim1/observations:batch", "observation:create"),
        ("GET", "/sites/sim1/slurm-bootstrap-configs/", "slurm-bootstrap-config:read"),
        ("POST", "/sites/sim1/slurm-bootstrap-configs/", "slurm-bootstrap-config:create"),
        ("PATCH", "/sites/sim1", "site:update"),
        ("GET", "/audit/denials", "audit:read"),
        ("GET", "/admin/projections", "admin"),
    ]
    for method, path, scope in rows:
        trial.answer(f"{method} {path}", agent(method, path, {} if method != "GET" else None), 403, "scope-missing", scope=scope)


def results(answer):
    return [r.get("code") or r["result"] for r in answer.json().get("results", [])]


def batches(trial, hub):
    """batches of writers that keep no order"""
    agent, own, other = api(hub), devices(hub), elsewhere(hub)
    a, b = own[0], own[1]
    items = [{"device": d["id"], "slurm_node": d["slurm_node"], "scheduler": section(d, cpus=32)} for d in (a, b)]
    answer = agent("PATCH", f"{BATCH}/devices:batch", {"devices": items})
    trial.check("PATCH devices:batch, a result an item", results(answer) == ["stored", "stored"], answer.text)
    mixed = [condition(a), condition(other), condition(a, "InventoryMatched"), condition(a, reason="not camel"), condition(b)]
    answer = agent("POST", f"{BATCH}/conditions:batch", {"conditions": mixed})
    want = ["stored", "unknown-device", "type-not-granted", "invalid", "stored"]
    trial.check("POST conditions:batch: each by itself, another site's device is none", results(answer) == want, answer.text)
    plain = json.dumps({"conditions": [condition(a)]}).encode()
    headers = {"Content_Type": "application/json", "Content_Encoding": "gzip"}
    answer = agent("POST", f"{BATCH}/conditions:batch", data=gzip.compress(plain), **headers)
    trial.check("gzip", results(answer) == ["stored"], answer.text)
    nobodys = {"native_id": "stray-node-7", "present": True, "detail": "64 CPUs, gpu:8"}
    answer = agent("POST", f"{BATCH}/conditions:batch", {"unclaimed": [nobodys]})
    trial.check("a node that no device claims", results(answer) == ["stored"], answer.text)
    shown = lambda: [o for o in agent.all("/orphans?source=slurm") if o["native_id"] == "stray-node-7"]
    trial.check("... is shown as an orphan", until("the orphan", shown), "")
    agent("POST", f"{BATCH}/conditions:batch", {"unclaimed": [{**nobodys, "present": False}]})
    trial.check("... until it is said to be gone", until("its end", lambda: not shown()), "")
    answer = agent("POST", f"{BATCH}/conditions:batch", {"conditions": [condition(a)] * 501})
    trial.answer("501 items", answer, 413, "too-many-items")
    answer = agent("POST", f"{BATCH}/conditions:batch", {"conditions": [condition(a, message="x" * (1 << 20))]})
    trial.answer("over 1 MiB", answer, 413, "body-too-large")
    answer = agent("POST", f"{BATCH}/conditions:batch", data=b"[]", Content_Type="application/json")
    trial.answer("a list for a body", answer, 400, "invalid")
    answer = agent("POST", f"{BATCH}/conditions:batch", {"condition": []})
    trial.answer("an unknown field", answer, 400, "invalid")


def runs(trial, hub):
    """runs: the first batch names a boot, the others the epoch; only the newest counts"""
    agent, device = api(hub), devices(hub)[0]
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    boots = [str(uuid.uuid4()) for _ in range(2)]
    answer = agent("POST", f"{BATCH}/conditions:batch", {"run": {"boot": boots[0], "sent_at": now}})
    first = answer.json().get("epoch")
    trial.check("the first batch of a boot is granted an epoch", answer.status_code == 200 and first, answer.text)
    answer = agent("POST", f"{BATCH}/conditions:batch", {"run": {"boot": boots[0]}})
    trial.check("the same again is granted the same", answer.json().get("epoch") == first, answer.text)
    seq = lambda counter, epoch=None: {"epoch": epoch or first, "counter": counter}
    node = {"device": device["id"], "slurm_node": device["slurm_node"]}
    items = [{**node, "scheduler": section(device, cpus=16), "observed_at": now, "source_seq": seq(1)}]
    answer = agent("PATCH", f"{BATCH}/devices:batch", {"run": {"epoch": first}, "devices": items})
    trial.check("devices:batch of this epoch", results(answer) == ["stored"], answer.text)
    look = [condition(device, kind, reason=f"Second{kind}", source_seq=seq(2), native_id=device["slurm_node"]) for kind in FOUR]
    sweep = {"source": "slurm", "complete": True, "count": 16, "interval_seconds": 3600, "source_seq": seq(3)}
    answer = agent("POST", f"{BATCH}/conditions:batch", {"run": {"epoch": first}, "conditions": look, "sweep": sweep})
    trial.check("conditions:batch with the end of a look", results(answer) == ["stored"] * 5, answer.text)
    trial.check("... which gives the digest of the device list", len(answer.json().get("device_list") or "") == 16, answer.text)
    late = [condition(device, reason="Late", source_seq=seq(1))]
    answer = agent("POST", f"{BATCH}/conditions:batch", {"run": {"epoch": first}, "conditions": late})
    trial.check("an older one is stored", results(answer) == ["stored"], answer.text)
    reason = lambda: [c["reason"] for c in agent.all(f"/conditions?filter=device = {device['id']} AND type = SlurmSchedulable")]
    trial.check("... without effect", until("the newer one", lambda: reason() == ["SecondSlurmSchedulable"]), reason())
    wrong = [condition(device, source_seq=seq(9, first + 7))]
    answer = agent("POST", f"{BATCH}/conditions:batch", {"run": {"epoch": first}, "conditions": wrong})
    trial.check("an item of another epoch", results(answer) == ["wrong-epoch"], answer.text)
    answer = agent("POST", f"{BATCH}/conditions:batch", {"run": {"epoch": first, "boot": boots[0]}})
    trial.answer("boot and epoch together", answer, 400, "invalid")
    answer = agent("POST", f"{BATCH}/conditions:batch", {"run": {"epoch": first}, "sweep": {**sweep, "source": "netbox"}})
    trial.answer("the end of a look at another source", answer, 400, "invalid")
    second = agent("POST", f"{BATCH}/conditions:batch", {"run": {"boot": boots[1]}}).json().get("epoch")
    trial.check("a second boot gets a newer epoch", second and second > first, second)
    rows = [("POST", "conditions:batch", {}), ("PATCH", "devices:batch", {})]
    for method, route, body in rows:
        answer = agent(method, f"{BATCH}/{route}", {"run": {"epoch": first}, **body})
        trial.answer(f"the old epoch at {route}", answer, 409, "superseded")
    answer = agent("POST", f"/devices/{device['id']}/conditions", condition(None, source_seq=seq(4)))
    trial.answer("the old epoch in a single condition", answer, 409, "superseded")
    answer = agent("PATCH", f"/devices/{device['id']}", {"scheduler": section(device, source_seq=seq(4))})
    trial.answer("the old epoch in a single PATCH", answer, 409, "superseded")
    answer = agent("PATCH", f"/devices/{device['id']}", {"scheduler": section(device, source_seq=seq(1, second), cpus=8)})
    trial.answer("the new one", answer, 200)


def fact(name, **says):
    """A fact in the log's own form: the schema that the repository publishes, and Avro as fastavro writes it."""
    folder = pathlib.Path(__file__).resolve().parents[2] / "schemas/avro"
    for file in sorted((folder / "published").glob("*.avsc")):
        schema = json.loads(file.read_text())
        if schema.get("name", "").rsplit(".")[-1] == name:
            import io

            out = io.BytesIO()
            fastavro.schemaless_writer(out, fastavro.parse_schema(schema), says)
            return {"type": name, "schema": file.stem, "bytes": base64.b64encode(out.getvalue()).decode()}
    raise SystemExit(f"no schema of {name} is published")


def netbox(trial, hub):
    """what agents of other sources hand over"""
    agent, path = api(hub, "netbox-agent-sim"), f"{BATCH}/observations:batch"
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    trial.answer("an empty batch", agent("POST", path, {"items": []}), 200, results=[])
    sweep = fact("SweepCompleted", source="netbox", interval_seconds=60, count=24)
    item = {"id": str(uuid.uuid4()), "stream": "site/sim1", "native_id": "sim1", "observed_at": now, "fact": sweep}
    without = {**item, "source_seq": {"epoch": 10**6, "counter": 1}}
    answer = agent("POST", path, {"items": [without]})
    trial.check("an item of an epoch that nobody was granted", results(answer) == ["wrong-epoch"], answer.text)
    garbled = {**without, "fact": {**sweep, "bytes": "AAAA"}}
    broken = {**without, "fact": {**sweep, "schema": "0" * 16}}
    foreign = {**without, "fact": fact("SweepCompleted", source="slurm", interval_seconds=60, count=24)}
    answer = agent("POST", path, {"items": [garbled, broken, foreign]})
    trial.check("what is no fact, or not its own", set(results(answer)) <= {"undecodable", "not-yours"}, answer.text)
    trial.answer("conditions", agent("POST", f"{BATCH}/conditions:batch", {}), 403, "scope-missing")
    trial.answer("devices to read", agent("GET", "/devices"), 403, "scope-missing", scope="device:read")


def denials(trial, hub):
    """what the auditor sees of all this"""
    auditor = api(hub, "user-auditor")
    trial.answer("lifecycle commands of an auditor", auditor("POST", "/devices/x/commands", {}), 403, "scope-missing")
    own, far = devices(hub)[0]["id"], elsewhere(hub)["id"]
    base = ""  # paths count from /api/v1, as in docs/API.md
    want = [
        (AGENT, "scope", "POST", f"{base}/devices/{own}/commands"),
        (AGENT, "field", "PATCH", f"{base}/devices/{own}"),
        (AGENT, "type", "POST", f"{base}/devices/{own}/conditions"),
        (AGENT, "type", "POST", f"{base}/sites/sim1/conditions:batch"),
        (AGENT, "reach", "PATCH", f"{base}/devices/{far}"),
        (AGENT, "reach", "POST", f"{base}/devices/{far}/conditions"),
        (AGENT, "reach", "POST", f"{base}/sites/sim2/conditions:batch"),
        (AGENT, "reach", "PATCH", f"{base}/sites/sim2/devices:batch"),
        (AGENT, "scope", "POST", "/oauth/token"),
        (AGENT, "epoch", "POST", f"{base}/sites/sim1/conditions:batch"),
        (AGENT, "epoch", "PATCH", f"{base}/sites/sim1/devices:batch"),
        ("", "assertion", "POST", "/oauth/token"),
        ("", "bad-token", "GET", f"{base}/devices"),
        ("", "no-token", "GET", f"{base}/devices"),
        ("user-auditor", "scope", "POST", f"{base}/devices/x/commands"),
        ("user-hpc", "scope", "POST", f"{base}/devices/{own}/commands"),
    ]

    def missing():
        seen = {(d["client"], d["reason"], d["method"], d["path"]) for d in auditor.all("/audit/denials?limit=500")}
        return [w for w in want if w not in seen]

    end = time.monotonic() + 10
    while missing() and time.monotonic() < end:
        time.sleep(0.2)
    left = missing()
    for row in want:
        trial.check(f"denial of {row[0] or 'nobody proven'}: {row[1]}, {row[2]} {row[3]}", row not in left, left)
    details = [d["detail"] for d in auditor.all("/audit/denials?limit=500") if d["reason"] == "field"]
    trial.check("... the field is named", any("`phase`" in d for d in details), details)
