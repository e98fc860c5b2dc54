"""An S3 server of this machine that refuses whoever has no key of it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import boto3
import moto.settings
import pytest
from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem

BUCKET = "night"
SECRET = "AWS_SECRET_ACCESS_KEY"
REGION = {"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}


@contextlib.contextmanager
def object_store() -> Iterator[None]:
    """Serve one bucket; who has the environment of this process may do anything with it, and make others."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as environment:
        at_first = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "any", SECRET: "any"}
        for name, value in (REGION | at_first).items():
            environment.setenv(name, value)
        boto3.Session().client("s3").create_bucket(Bucket=BUCKET)
        key = _key_of_somebody_who_may_do_anything()
        environment.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        environment.setenv(SECRET, key["SecretAccessKey"])
        environment.setattr(moto.settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0)  # from now on keys count
        with fresh_connections():
            yield
        server.stop()


def _key_of_somebody_who_may_do_anything() -> dict[str, str]:
    iam = boto3.Session().client("iam")
    iam.create_user(UserName="somebody")
    anything = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [anything]})
    iam.put_user_policy(UserName="somebody", PolicyName="anything", PolicyDocument=policy)
    key: dict[str, str] = iam.create_access_key(UserName="somebody")["AccessKey"]
    return key


@contextlib.contextmanager
def fresh_connections() -> Iterator[None]:
    """fsspec keeps connections, and with them the keys of the environment at the time."""
    S3FileSystem.clear_instance_cache()
    yield
    S3FileSystem.clear_instance_cache()


def buckets() -> list[str]:
    """Names of the buckets there are."""
    return [bucket["Name"] for bucket in boto3.Session().client("s3").list_buckets()["Buckets"]]


def objects() -> list[str]:
    """What lies in the bucket."""
    return [
        entry["Key"]
        for entry in boto3.Session().client("s3").list_objects_v2(Bucket=BUCKET).get("Contents", ())
    ]
