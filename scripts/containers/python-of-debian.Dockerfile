# python:3.12-slim-bookworm where this machine has no Python 3.12: Debian's 3.11
FROM localhost/debian:bookworm-slim
RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3 python3-pip \
 && rm -rf /var/lib/apt/lists/* /usr/lib/python3*/EXTERNALLY-MANAGED \
 && ln -s /usr/bin/python3 /usr/local/bin/python \
 && ln -s /usr/bin/pip3 /usr/local/bin/pip
