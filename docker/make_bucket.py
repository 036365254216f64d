"""Make a bucket in the store of docker-compose.yaml; waits until the store is up."""

from __future__ import annotations

import os
import sys
import time

import boto3
from botocore.exceptions import BotoCoreError, ClientError

PATIENCE_SECONDS = 60


def main() -> None:
    """Create the bucket named on the command line; there already is fine."""
    store = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name=os.environ["AWS_REGION"])
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            store.create_bucket(Bucket=sys.argv[1])
        except store.exceptions.BucketAlreadyOwnedByYou:
            return
        except (BotoCoreError, ClientError):
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
        else:
            return


if __name__ == "__main__":
    main()
