"""The bootstrap configurations, by HPC's own right."""

import base64

from slurm_side import api, devices
from stock import Api

PATH = "/sites/sim1/slurm-bootstrap-configs"
ROLE = "tried-node"
PLAIN = "#cloud-config\nhostname: tried\n"
DATA = base64.b64encode(PLAIN.encode()).decode()
FULL = {"device_role": ROLE, "image": "debian-12", "flavor": "gpu.8x", "features": ["ib", "h100"], "gres": "gpu:8", "user_data": DATA}


def written(trial, hub):
    """created, changed on the item and on the collection"""
    hpc = api(hub, "user-hpc")
    answer = hpc("POST", f"{PATH}/", FULL)
    trial.answer("POST", answer, 201, device_role=ROLE, site_id="sim1", version=1, adoptable=True, not_adoptable=[])
    trial.check("... says where it is", answer.headers.get("location") == f"/api/v1{PATH}/{ROLE}/", answer.headers)
    trial.check("... gives no user-data back", "user_data" not in answer.json() and DATA not in answer.text, answer.text)
    trial.answer("a second of the same role", hpc("POST", f"{PATH}/", FULL), 409, "already-exists")
    trial.answer("the same without the slash, no redirect", hpc("POST", PATH, FULL), 409, "already-exists")
    answer = hpc("GET", f"{PATH}/")
    trial.answer("the list", answer, 200)
    trial.check("... shows it without user-data", ROLE in answer.text and '"user_data"' not in answer.text, answer.text)
    answer = hpc("GET", f"{PATH}/{ROLE}/")
    trial.answer("the single GET, with user-data", answer, 200, user_data=DATA, image="debian-12", features=["ib", "h100"])
    trial.check("... ETag v1", answer.headers.get("etag") == '"v1"', answer.headers)
    identity = answer.json()["id"]
    trial.answer("... by its id, without the slash", hpc("GET", f"{PATH}/{identity}"), 200, device_role=ROLE)
    answer = hpc("PATCH", f"{PATH}/{ROLE}/", {"flavor": "gpu.4x"})
    trial.answer("PATCH of the item leaves the rest", answer, 200, version=2, flavor="gpu.4x", image="debian-12", gres="gpu:8")
    answer = hpc("PATCH", f"{PATH}/", {"device_role": ROLE, "features": ["ib"]})
    trial.answer("PATCH of the collection, the body names the role", answer, 200, version=3, features=["ib"], flavor="gpu.4x")
    answer = hpc("PATCH", f"{PATH}/{ROLE}/", {"features": ["ib"]})
    trial.answer("what changes nothing is no version", answer, 200, version=3)
    answer = hpc("PATCH", f"{PATH}/{ROLE}/", {"image": None})
    trial.answer("null image (field report 18)", answer, 200, version=4, image=None, adoptable=False)
    says = answer.json()
    trial.check("... with a warning and the field", says.get("warnings") and says["not_adoptable"][0]["field"] == "image", says)
    answer = hpc("PATCH", f"{PATH}/{ROLE}/", {"flavor": None, "gres": None})
    trial.answer("null flavor, null gres", answer, 200, version=5, flavor=None, gres=None, adoptable=False)
    answer = hpc("GET", f"{PATH}/{ROLE}/?version=1")
    trial.answer("an older version", answer, 200, version=1, image="debian-12", flavor="gpu.8x", user_data=DATA)
    answer = hpc("PATCH", f"{PATH}/{ROLE}/", {"image": "debian-13"}, If_Match='"v4"')
    trial.answer("If-Match of another version", answer, 412, "version-conflict")
    answer = hpc("PATCH", f"{PATH}/{ROLE}/", {"image": "debian-13", "flavor": "gpu.8x"}, If_Match='"v5"')
    trial.answer("If-Match of this one", answer, 200, version=6, adoptable=True)
    answer = hpc("PATCH", f"{PATH}/{ROLE}/?dry_run=true", {"image": "debian-14"})
    trial.answer("a rehearsal", answer, 200, image="debian-14", dry_run=True)
    trial.answer("... changed nothing", hpc("GET", f"{PATH}/{ROLE}/"), 200, version=6, image="debian-13")
    for turn in ("a key", "the same key again"):
        answer = hpc("PATCH", f"{PATH}/{ROLE}/", {"image": "debian-15"}, Idempotency_Key="tried-1")
        trial.answer(turn, answer, 200, version=7)
    answer = hpc("PATCH", f"{PATH}/{ROLE}/", {"image": "debian-16"}, Idempotency_Key="tried-1")
    trial.answer("the key with another body", answer, 422, "idempotency-key-reused")


def wrong(trial, hub):
    """what is refused, by the field"""
    hpc = api(hub, "user-hpc")
    big = base64.b64encode(b"x" * 49_152).decode()
    rows = [
        ("user_data over 65,535 characters", {"user_data": big}, "user_data"),
        ("user_data that is not base64", {"user_data": "not base64!"}, "user_data"),
        ("user_data in the URL alphabet", {"user_data": "_-8="}, "user_data"),
        ("user_data that is empty", {"user_data": ""}, "user_data"),
        ("a feature with a comma", {"features": ["a,b"]}, "features"),
        ("a feature twice", {"features": ["a", "a"]}, "features"),
        ("an empty image", {"image": ""}, "image"),
        ("an unknown field", {"imgae": "x"}, None),
        ("a number for an image", {"image": 7}, "image"),
        ("another role than the path's", {"device_role": "other"}, "device_role"),
    ]
    for what, body, field in rows:
        answer = hpc("PATCH", f"{PATH}/{ROLE}/", body)
        trial.answer(what, answer, 400, "invalid", **({"field": field} if field else {}))
    answer = hpc("POST", f"{PATH}/", {"image": "x"})
    trial.answer("POST without a role", answer, 400, "invalid", field="device_role")
    trial.answer("PATCH of the collection without a role", hpc("PATCH", f"{PATH}/", {"image": "x"}), 400, "invalid", field="device_role")
    answer = hpc("POST", f"{PATH}/", {"device_role": "GPU_Node"})
    trial.answer("a role that is no slug", answer, 400, "invalid", field="device_role")
    trial.answer("an unknown parameter", hpc("GET", f"{PATH}/?colour=red"), 400, "invalid")
    trial.answer("a role that there is not", hpc("GET", f"{PATH}/nobody/"), 404)
    trial.answer("... to change", hpc("PATCH", f"{PATH}/nobody/", {"image": "x"}), 404)
    trial.answer("a version that there is not", hpc("GET", f"{PATH}/{ROLE}/?version=99"), 404)
    trial.answer("a site that there is not", hpc("GET", "/sites/mars/slurm-bootstrap-configs/"), 404)
    device = devices(hub)[0]["id"]
    answer = hpc("POST", f"/devices/{device}/commands", {"command": "drain", "reason": "x"})
    trial.answer("HPC drains no device", answer, 403, "scope-missing")


def retired(trial, hub):
    """retired, and created again"""
    hpc = api(hub, "user-hpc")
    trial.answer("DELETE", hpc("DELETE", f"{PATH}/{ROLE}/"), 200, version=8)
    trial.answer("it is gone", hpc("GET", f"{PATH}/{ROLE}/"), 404)
    trial.answer("... and cannot be changed", hpc("PATCH", f"{PATH}/{ROLE}/", {"image": "x"}), 404)
    answer = hpc("GET", f"{PATH}/")
    trial.check("... nor is it in the list", ROLE not in answer.text, answer.text)
    trial.answer("what came before is kept", hpc("GET", f"{PATH}/{ROLE}/?version=7"), 200, version=7)
    trial.answer("created again it counts on", hpc("POST", f"{PATH}/", FULL), 201, version=9)


def reads(trial, hub):
    """what a temporal-worker needs: the read scope alone"""
    worker = Api(hub, session=hub.session("user-hpc", scope="slurm-bootstrap-config:read"))
    trial.answer("the list", worker("GET", f"{PATH}/"), 200)
    trial.answer("one, with user-data", worker("GET", f"{PATH}/{ROLE}/"), 200, user_data=DATA)
    trial.answer("create", worker("POST", f"{PATH}/", FULL), 403, "scope-missing", scope="slurm-bootstrap-config:create")
    trial.answer("change", worker("PATCH", f"{PATH}/{ROLE}/", {}), 403, "scope-missing", scope="slurm-bootstrap-config:update")
    trial.answer("retire", worker("DELETE", f"{PATH}/{ROLE}/"), 403, "scope-missing", scope="slurm-bootstrap-config:update")
    trial.answer("devices", worker("GET", "/devices"), 403, "scope-missing", scope="device:read")
    operator = api(hub, "user-operator")
    trial.answer("an operator has no right to them", operator("GET", f"{PATH}/{ROLE}/"), 403, "scope-missing")
