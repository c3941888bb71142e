"""What the contract's trial stands on: Authlib as any user of it has it, requests as any program sends them, and checks that count.

Nothing here is ours but the URL: discovery is RFC 8414, the client proves itself by private_key_jwt (RFC 7523), keys are JWK files.
"""

import json
import os
import pathlib
import time

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"  # loopback alone, in the clear

import requests
from authlib.integrations.requests_client import OAuth2Session
from authlib.oauth2.rfc7523 import PrivateKeyJWT
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata, get_well_known_url
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class Trial:
    """Counts checks; one line each."""

    def __init__(self):
        self.passed, self.failed = 0, 0

    def check(self, what, holds, seen=""):
        self.passed, self.failed = self.passed + bool(holds), self.failed + (not holds)
        print(f"ok      {what}" if holds else f"FAILED  {what}\n        {str(seen)[:600]}", flush=True)
        return holds

    def answer(self, what, response, status, code=None, /, **fields):
        """The answer has this status, this `code`, and these fields."""
        try:
            body = response.json()
        except ValueError:
            body = {}
        body = body if isinstance(body, dict) else {}
        seen = (response.status_code, body.get("code", body.get("error")), {name: body.get(name) for name in fields})
        holds = seen == (status, code if code else seen[1], fields)
        if status >= 400 and "error" not in body:
            holds = holds and response.headers.get("content-type", "").startswith("application/problem+json")
        return self.check(f"{what}: {status}{' ' + code if code else ''}", holds, f"{seen} {response.text[:500]}")


class Hub:
    """A hub, and the keys of a dev folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.url = next(l.split('"')[1] for l in (self.folder / "fmctl.toml").read_text().splitlines() if l.startswith("url"))
        self.http = requests.Session()
        self.http.trust_env = False  # whatever proxy the environment names
        self.metadata = {}

    def discover(self, issuer):
        """RFC 8414: the metadata of an issuer, which must name itself as that issuer."""
        answer = self.http.get(get_well_known_url(issuer, external=True), timeout=30)
        self.metadata = AuthorizationServerMetadata(answer.json())
        return answer

    def key(self, client):
        return ECKey.import_key(json.loads((self.folder / "keys" / f"{client}.jwk.json").read_text()))

    def session(self, client, scope=None):
        """A stock session of this client. Authlib's own assertion would name the token endpoint and live an hour, so both are said."""
        key = self.key(client)
        session = OAuth2Session(client, key, scope=scope, token_endpoint_auth_method="private_key_jwt")
        session.trust_env = False
        session.register_client_auth_method(
            PrivateKeyJWT(
                token_endpoint=self.metadata["issuer"],
                claims={"exp": int(time.time()) + 60},
                headers={"kid": key.kid, "typ": "client-authentication+jwt"},
                alg="ES256",
            )
        )
        session.fetch_token(self.metadata["token_endpoint"], grant_type="client_credentials")
        return session

    def assertion(self, client, key=None, alg="ES256", header=None, **claims):
        """An assertion that is right but for what is said here; a claim of None is left out."""
        key = key or self.key(client)
        now = int(time.time())
        says = {"iss": client, "sub": client, "aud": self.metadata["issuer"], "iat": now, "exp": now + 60, "jti": os.urandom(12).hex()}
        says.update(claims)
        head = {"alg": alg, "kid": self.key(client).kid, "typ": "client-authentication+jwt", **(header or {})}
        drop = lambda d: {name: value for name, value in d.items() if value is not None}
        return jwt.encode(drop(head), drop(says), key, algorithms=[alg])

    def ask_token(self, assertion, **form):
        form = {"grant_type": "client_credentials", "client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion, **form}
        return self.http.post(self.metadata["token_endpoint"], data={k: v for k, v in form.items() if v is not None}, timeout=30)

    def verified(self, token):
        """The claims of an access token, verified with the published keys."""
        keys = KeySet.import_key_set(self.http.get(self.metadata["jwks_uri"], timeout=30).json())
        return jwt.decode(token, keys, algorithms=["ES256"])


class Api:
    """The API as one client of it."""

    def __init__(self, hub, session=None, token=None):
        self.hub, self.session, self.token = hub, session, token

    def __call__(self, method, path, body=None, data=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        url = path if path.startswith("http") else f"{self.hub.url}/api/v1{path}"
        if self.session is not None:
            return self.session.request(method, url, json=body, data=data, headers=headers, timeout=60)
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        return self.hub.http.request(method, url, json=body, data=data, headers=headers, timeout=60)

    def all(self, path):
        """Every item of a list, page by page."""
        items, cursor = [], None
        while True:
            sep = "&" if "?" in path else "?"
            page = self("GET", path + (f"{sep}cursor={cursor}" if cursor else "")).json()
            items += page["items"]
            cursor = page["next_cursor"]
            if not cursor:
                return items


def until(what, condition, seconds=60):
    """The first truth that a condition gives."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise SystemExit(f"waited {seconds} s for {what}")
        time.sleep(0.2)


__all__ = ["Api", "Hub", "OctKey", "Trial", "jwt", "until"]
