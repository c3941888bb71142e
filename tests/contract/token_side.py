"""Discovery, tokens, and every way in which an assertion or a token is none."""

import base64
import json
import time

from stock import Api, OctKey, jwt

AGENT = "slurm-agent-sim1"
SCOPES = "device:update device-condition:create"


def metadata(trial, hub):
    """the issuer's metadata (RFC 8414)"""
    answer = hub.discover(f"{hub.url}/dev")
    trial.answer("behind the well-known name and the issuer's path", answer, 200, issuer=f"{hub.url}/dev")
    try:
        hub.metadata.validate()
        why = ""
    except ValueError as e:
        why = e
    trial.check("Authlib's validation of it", not why, why)
    bare = hub.http.get(f"{hub.url}/.well-known/oauth-authorization-server", timeout=30)
    trial.check("the same without the path, for clients that forget it", bare.json() == dict(hub.metadata), bare.text)
    says = {name: hub.metadata.get(name) for name in ("grant_types_supported", "token_endpoint_auth_methods_supported")}
    trial.check("client_credentials with private_key_jwt", list(says.values()) == [["client_credentials"], ["private_key_jwt"]], says)
    keys = hub.http.get(hub.metadata["jwks_uri"], timeout=30).json()["keys"]
    trial.check("its keys are published, public halves alone", keys and not any("d" in k for k in keys), keys)


def tokens(trial, hub):
    """tokens for the contract's two scopes"""
    token = hub.session(AGENT).token
    trial.check("a token of at most 10 minutes with both scopes", token["scope"] == SCOPES and 0 < token["expires_in"] <= 600, token)
    found = hub.verified(token["access_token"])
    trial.check("RFC 9068: typ at+jwt", found.header["typ"] == "at+jwt", found.header)
    says = {name: found.claims.get(name) for name in ("iss", "aud", "sub", "client_id", "sites")}
    want = {"iss": f"{hub.url}/dev", "aud": f"{hub.url}/dev", "sub": AGENT, "client_id": AGENT, "sites": ["sim1"]}
    trial.check("issuer, audience, subject, client; the site is the roster's", says == want, says)
    one = hub.session(AGENT, scope="device:update").token
    trial.check("one scope alone where one is asked for", one["scope"] == "device:update", one)
    for kind in ("client-authentication+jwt", "JWT", None):
        answer = hub.ask_token(hub.assertion(AGENT, header={"typ": kind}))
        trial.answer(f"typ {kind}", answer, 200)
        trial.check("... not to be stored on the way", answer.headers.get("cache-control") == "no-store", answer.headers)
    third = ["device:read", "device-lifecycle:create", "admin", f"{SCOPES} slurm-bootstrap-config:read"]
    for scope in third:
        trial.answer(f"scope `{scope}`", hub.ask_token(hub.assertion(AGENT), scope=scope), 400, "invalid_scope")
    trial.answer("another grant", hub.ask_token(hub.assertion(AGENT), grant_type="password"), 400, "unsupported_grant_type")
    trial.answer("no assertion", hub.ask_token(None), 400, "invalid_request")
    trial.answer("a password", hub.ask_token(None, client_assertion_type=None, client_secret="x"), 400, "invalid_request")


def none_signed(head, claims):
    part = lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
    return f"{part(head)}.{part(claims)}."


def assertions(trial, hub):
    """assertions that are none: 401 invalid_client"""
    now, made = int(time.time()), hub.assertion(AGENT)
    trial.answer("an assertion", hub.ask_token(made), 200)
    public = json.dumps(hub.key(AGENT).as_dict(private=False)).encode()
    claims = {"iss": AGENT, "sub": AGENT, "aud": hub.metadata["issuer"], "iat": now, "exp": now + 60, "jti": "none"}
    rows = [
        ("the same again", made),
        ("aud is the token endpoint", hub.assertion(AGENT, aud=hub.metadata["token_endpoint"])),
        ("aud is somebody else", hub.assertion(AGENT, aud="https://elsewhere.example")),
        ("aud is a list with another", hub.assertion(AGENT, aud=[hub.metadata["issuer"], "https://elsewhere.example"])),
        ("it lives an hour", hub.assertion(AGENT, exp=now + 3600)),
        ("it is over", hub.assertion(AGENT, exp=now - 120)),
        ("nbf ahead", hub.assertion(AGENT, nbf=now + 600)),
        ("nbf is a text", hub.assertion(AGENT, nbf="soon")),
        ("nbf is a number as a text", hub.assertion(AGENT, nbf=str(now))),
        ("no jti", hub.assertion(AGENT, jti=None)),
        ("iss is another", hub.assertion(AGENT, iss="slurm-agent-sim2")),
        ("alg HS256 with the public key", hub.assertion(AGENT, key=OctKey.import_key(public), alg="HS256")),
        ("alg none", none_signed({"alg": "none", "typ": "JWT", "kid": hub.key(AGENT).kid}, claims)),
        ("typ of an access token", hub.assertion(AGENT, header={"typ": "at+jwt"})),
        ("kid unknown", hub.assertion(AGENT, header={"kid": "nobody"})),
        ("no kid", hub.assertion(AGENT, header={"kid": None})),
        ("another client's key", hub.assertion(AGENT, key=hub.key("slurm-agent-sim2"))),
        ("no such client", hub.assertion(AGENT, iss="slurm-agent-mars", sub="slurm-agent-mars")),
    ]
    for what, assertion in rows:
        trial.answer(what, hub.ask_token(assertion), 401, "invalid_client")


def access_tokens(trial, hub):
    """access tokens that are none: 401 (field report 16)"""
    issuer, now = hub.key("issuer"), int(time.time())
    own = hub.metadata["issuer"]
    claims = {"iss": own, "aud": own, "sub": AGENT, "client_id": AGENT, "scope": SCOPES, "sites": ["sim1"], "exp": now + 300}
    claims.update({"iat": now, "nbf": now, "jti": "x"})
    sign = lambda key=issuer, typ="at+jwt", **other: jwt.encode(
        {"alg": "ES256", "kid": issuer.kid, "typ": typ}, {**claims, **other}, key, algorithms=["ES256"]
    )
    trial.answer("signed with the issuer's key as it should be", Api(hub, token=sign())("GET", "/devices?limit=1"), 200)
    rows = [
        ("nbf is a text", sign(nbf="soon")),
        ("nbf is a number as a text", sign(nbf=str(now))),
        ("nbf ahead", sign(nbf=now + 600)),
        ("exp is a text", sign(exp="never")),
        ("over", sign(exp=now - 120)),
        ("for another", sign(aud="https://elsewhere.example")),
        ("of another issuer", sign(iss="https://elsewhere.example")),
        ("typ JWT", sign(typ="JWT")),
        ("signed with the client's own key", sign(key=hub.key(AGENT))),
        ("alg none", none_signed({"alg": "none", "typ": "at+jwt", "kid": issuer.kid}, claims)),
        ("no JWT at all", "nonsense"),
    ]
    for what, token in rows:
        answer = Api(hub, token=token)("GET", "/devices?limit=1")
        trial.answer(what, answer, 401, "unauthenticated")
    answer = Api(hub)("GET", "/devices?limit=1")
    trial.answer("no token", answer, 401, "unauthenticated")
    trial.check("... and says what is asked for", answer.headers.get("www-authenticate", "").startswith("Bearer"), answer.headers)
