"""Every byte of a web, in one number; as a program, for a process that shares nothing with the tests."""

import hashlib
import sys

from swath.testing.web import Request, Web


def digest_of(seed: int) -> str:
    web = Web(seed=seed, hosts=5, pages=60, size=(600, 3000))
    digest = hashlib.sha256()
    for host, site in web.sites.items():
        for target, expectation in site.expectations():
            digest.update(f"{host} {target} {expectation}\n".encode())
            if host != "large.demo.test":
                answer = web.respond(Request(host, target, accept_encoding="gzip"))
                for step in answer.steps[:10]:
                    digest.update(step if isinstance(step, bytes) else repr(step).encode())
    return digest.hexdigest()


if __name__ == "__main__":
    print(digest_of(int(sys.argv[1])))
