"""S3 from a server on this machine, found by whatever looks for it in the environment."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import s3fs
from moto.server import ThreadedMotoServer


@contextmanager
def s3_bucket() -> Iterator[Any]:
    """A file system whose one bucket is called `bucket`; it is emptied, since all servers of a process share theirs."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            patch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        filesystem = s3fs.S3FileSystem()
        filesystem.mkdir("bucket")
        yield filesystem
        filesystem.rm("bucket", recursive=True)
        s3fs.S3FileSystem.clear_instance_cache()
    server.stop()
