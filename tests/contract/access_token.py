"""An access token for the client of a context file: client_credentials with private_key_jwt (RFC 7523)."""

import json
import pathlib
import sys
import time
import tomllib
import urllib.parse
import urllib.request
import uuid

import jwt

file = pathlib.Path(sys.argv[1])
context = tomllib.loads(file.read_text())
url, client = context["url"], context["client"]
# Loopback alone, whatever proxy the environment names.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
metadata = json.load(opener.open(f"{url}/.well-known/oauth-authorization-server"))
now = int(time.time())
claims = {"iss": client, "sub": client, "aud": metadata["issuer"], "iat": now, "exp": now + 60, "jti": str(uuid.uuid4())}
headers = {"kid": context["kid"], "typ": "client-authentication+jwt"}
assertion = jwt.encode(claims, (file.parent / context["key"]).read_text(), algorithm="ES256", headers=headers)
form = {
    "grant_type": "client_credentials",
    "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    "client_assertion": assertion,
}
answer = opener.open(metadata["token_endpoint"], urllib.parse.urlencode(form).encode())
print(json.load(answer)["access_token"])
