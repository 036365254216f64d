# python:3.12-slim-bookworm, of a Python 3.12 of this machine
FROM localhost/debian:bookworm-slim
RUN apt-get update \
 && apt-get install --yes --no-install-recommends \
    libbz2-1.0 libffi8 liblzma5 libncursesw6 libnsl2 libreadline8 libsqlite3-0 libssl3 libtirpc3 libuuid1 netbase tzdata \
 && rm -rf /var/lib/apt/lists/*
COPY python /usr/local
RUN ldconfig \
 && ln -sf python3.12 /usr/local/bin/python \
 && python -m ensurepip --upgrade \
 && ln -sf pip3.12 /usr/local/bin/pip \
 && pip --version
